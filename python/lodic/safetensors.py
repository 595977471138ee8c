# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Weights of a model in memory that all processes share: load_file().

>>> import lodic.safetensors
>>> weights = lodic.safetensors.load_file(model)
>>> float(weights["ones"].sum())
6.0
>>> weights["ones"][0, 0] = 7       # this process alone has a copy of that page now
>>> float(lodic.safetensors.load_file(model)["ones"].sum())
6.0
"""

from __future__ import annotations

import json
import math
import os
import warnings
from typing import Any

import lodic

_Tensor = tuple[str, str, tuple[int, ...], int]

# The format: a number of 8 bytes, so many bytes of JSON, and the tensors.
_MOST_HEADER_BYTES = 100_000_000
# Its names of types, with those of numpy and torch, and their bytes. numpy lacks some.
_TYPES: dict[str, tuple[str | None, str, int]] = {
    "BOOL": ("bool", "bool", 1), "BF16": (None, "bfloat16", 2),
    "F8_E4M3": (None, "float8_e4m3fn", 1), "F8_E5M2": (None, "float8_e5m2", 1),
    "F8_E8M0": (None, "float8_e8m0fnu", 1)}
for _letter, _word, _bits in (("U", "uint", (8, 16, 32, 64)), ("I", "int", (8, 16, 32, 64)),
                              ("F", "float", (16, 32, 64)), ("C", "complex", (64,))):
    _TYPES |= {f"{_letter}{n}": (f"{_word}{n}", f"{_word}{n}", n // 8) for n in _bits}


def load_file(filename: str | os.PathLike[str], *, framework: str = "numpy",
              writable: bool = True, fallback: bool = True,
              cache: lodic.Cache | None = None) -> dict[str, Any]:
    """The tensors of a file: what safetensors' own load_file() gives, in shared memory.

    `framework` is "numpy", or "torch" where that is installed. The tensors are writable. A page
    that this process writes to becomes its own, and all others stay shared. With
    `writable=False`, which is for numpy, a write is an error.

    The memory is shared for as long as any process has a tensor. Nothing that comes to the file
    changes a tensor. If the file cannot be held, its bytes are read into memory of this process,
    and the warning lodic.NotShared says why. With `fallback=False` the OSError comes instead.

    ValueError: the file is not in this format. TypeError: the framework lacks a tensor's type.
    """
    make = {"numpy": _numpy, "torch": _torch}.get(framework)
    if make is None:
        raise ValueError(f"framework is 'numpy' or 'torch', not {framework!r}")
    if framework == "torch" and not writable:
        raise ValueError("torch has no read-only tensors: use writable=True")
    with lodic.File(filename, cache=cache) as file:
        try:
            memory = _held(file, writable)
        except OSError as error:
            if not fallback:
                raise
            warnings.warn(f"{file.path}: not shared: {error.strerror}", lodic.NotShared,
                          stacklevel=2)
            memory = _read(file, writable)
    try:
        header, begin = _header(memory)
        return make(memory, _checked(header, len(memory) - begin), begin)
    except ValueError as error:
        raise ValueError(f"{os.fspath(filename)}: {error}") from None


def _held(file: lodic.File, writable: bool) -> Any:
    """The file's bytes: the hold, or a buffer that shares its memory until it is written to."""
    hold = file.hold()
    if not writable:
        return hold
    try:
        return hold.private()
    except OSError:
        # The service has ended since. Another one makes the hold anew.
        return file.hold().private()


def _read(file: lodic.File, writable: bool) -> Any:
    """The file's bytes, in memory of this process."""
    memory = bytearray(file.size)
    n = file.read_into(memory)
    if n < len(memory):
        raise ValueError("the file becomes shorter while it is read")
    return memory if writable else memoryview(memory).toreadonly()


def _header(memory: Any) -> tuple[dict[str, Any], int]:
    """The header's entries, and where the tensors begin."""
    view = memoryview(memory)
    if len(view) < 8:
        raise ValueError("too short for safetensors")
    n = int.from_bytes(view[:8], "little")
    if n > _MOST_HEADER_BYTES or n > len(view) - 8:
        raise ValueError(f"no safetensors: a header of {n} bytes")
    try:
        header = json.loads(bytes(view[8:8 + n]))
    except ValueError:
        raise ValueError("no safetensors: the header is no JSON") from None
    if not isinstance(header, dict):
        raise ValueError("no safetensors: the header is no object")
    header.pop("__metadata__", None)
    return header, 8 + n


def _checked(header: dict[str, Any], size: int) -> list[_Tensor]:
    """(name, type, shape, first byte, elements) of each tensor. They must fill the rest of the
    file, with neither gaps nor overlaps."""
    tensors = []
    for name, entry in header.items():
        try:
            kind, shape = entry["dtype"], tuple(entry["shape"])
            first, end = entry["data_offsets"]
            numbers = [*shape, first, end]
        except (TypeError, KeyError, ValueError):
            raise ValueError(f"the entry of {name!r} is not complete") from None
        if not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(f"the entry of {name!r} has something else than numbers")
        if kind not in _TYPES:
            raise TypeError(f"{name!r} is of the type {kind}, which lodic does not know")
        if end - first != math.prod(shape) * _TYPES[kind][2]:
            raise ValueError(f"{name!r} has another number of bytes than its shape")
        tensors.append((first, end, name, kind, shape))
    at = 0
    for first, end, name, _, _ in sorted(tensors, key=lambda t: t[:2]):
        if first != at:
            raise ValueError(f"{name!r} begins at {first}, not at {at}")
        at = end
    if at != size:
        raise ValueError(f"the tensors have {at} bytes, and the file has {size} for them")
    return [(name, kind, shape, first) for first, _, name, kind, shape in tensors]


def _numpy(memory: Any, tensors: list[_Tensor], begin: int) -> dict[str, Any]:
    import numpy  # pylint: disable=import-outside-toplevel

    arrays = {}
    for name, kind, shape, first in tensors:
        if _TYPES[kind][0] is None:
            raise TypeError(f"{name!r} is of the type {kind}, which numpy lacks: use "
                            "framework='torch'")
        dtype, n = numpy.dtype(_TYPES[kind][0]), math.prod(shape)
        flat = numpy.frombuffer(memory, dtype, n, begin + first) if n else numpy.empty(0, dtype)
        arrays[name] = flat.reshape(shape)
    return arrays


def _torch(memory: Any, tensors: list[_Tensor], begin: int) -> dict[str, Any]:
    import torch  # pylint: disable=import-outside-toplevel

    made = {}
    for name, kind, shape, first in tensors:
        dtype, n = getattr(torch, _TYPES[kind][1], None), math.prod(shape)
        if dtype is None:
            raise TypeError(f"{name!r} is of the type {kind}, which this torch lacks")
        flat = torch.frombuffer(memory, dtype=dtype, count=n, offset=begin + first) if n else \
            torch.empty(0, dtype=dtype)
        made[name] = flat.reshape(shape)
    return made
