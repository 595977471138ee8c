# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Weights of a model in memory that all processes share: load_file() and safe_open().

>>> import lodic.safetensors
>>> weights = lodic.safetensors.load_file(model)
>>> float(weights["ones"].sum())
6.0
>>> weights["ones"][0, 0] = 7       # this process alone has a copy of that page now
>>> float(lodic.safetensors.load_file(model)["ones"].sum())
6.0
"""

from __future__ import annotations

import importlib
import math
import os
from typing import Any

import lodic
from lodic import _header
from lodic._header import FormatError, SafetensorError
from lodic._shared import Shared

__all__ = ["FormatError", "SafetensorError", "Slice", "load", "load_file", "safe_open"]

_FRAMEWORKS = {"np": "numpy", "numpy": "numpy", "pt": "torch", "torch": "torch",
               "pytorch": "torch"}
# The names of the format's types in numpy and ml_dtypes, and in torch.
_TYPES = {"BOOL": "bool", "BF16": "bfloat16", "F4": "float4_e2m1fn_x2",
          "F8_E4M3": "float8_e4m3fn", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2": "float8_e5m2",
          "F8_E5M2FNUZ": "float8_e5m2fnuz", "F8_E8M0": "float8_e8m0fnu"}
for _letter, _word in (("U", "uint"), ("I", "int"), ("F", "float"), ("C", "complex")):
    _TYPES |= {f"{_letter}{n}": f"{_word}{n}" for n in (8, 16, 32, 64)
               if f"{_letter}{n}" in _header.BITS}
# The original makes none of these for numpy, and ml_dtypes has them.
_NOT_OFFICIAL = {kind for kind in _TYPES if kind.startswith("F8_")}
# A slice from here on is a view of shared memory, and a smaller one is a copy. Our choice: copies
# are cheaper than mappings there.
_LEAST_SHARED_BYTES = 1 << 20


def load_file(filename: str | os.PathLike[str], *, framework: str = "numpy", device: str = "cpu",
              writable: bool = True, fallback: bool = True,
              cache: lodic.Cache | None = None) -> dict[str, Any]:
    """The tensors of a file: what safetensors' own load_file() gives, in shared memory.

    `filename` may also be the index of a sharded model, `*.index.json`. `framework` is "numpy",
    or "torch" where that is installed; `device` is for torch. The tensors are writable. A page
    that this process writes to becomes its own, and all others stay shared. With
    `writable=False`, which is for numpy, a write is an error.

    The memory is shared for as long as any process has a tensor. Nothing that comes to the file
    changes a tensor. If the file cannot be held, the warning lodic.NotShared says why, and
    safetensors' own function loads it. Where that is not installed, the file is mapped, and then
    its tensors change with it. With `fallback=False` the OSError comes instead.

    Errors: see safe_open.
    """
    with safe_open(filename, framework, device, writable=writable, fallback=fallback,
                   cache=cache) as opened:
        return opened.get_tensors()


def load(data: bytes, *, framework: str = "numpy") -> dict[str, Any]:
    """The tensors of a file whose bytes the program has: what safetensors' own load() gives.

    They are copies in memory of this process.
    """
    framework = _framework(framework)
    if _header.official is not None:
        return importlib.import_module(f"safetensors.{framework}").load(data)
    n = _header.length(data[:_header.LENGTH_BYTES], len(data))
    header, memory = _header.own(data[:_header.LENGTH_BYTES + n], len(data)), bytearray(data)
    return {name: _MAKE[framework](memory, header.begin, name, tensor)
            for name, tensor in header.tensors.items()}


class safe_open:
    """A safetensors file, read lazily: what the class of that name in safetensors gives.

    Opening it reads the header alone. The first tensor or slice holds the whole file, in memory
    that all processes share. Arguments are those of load_file().

    Tensors outlive the file. The same tensor asked for twice is two, as with the original: what a
    program writes to one does not show in the other. Tensors of torch on the CPU are the
    exception, with the original too.

    FormatError, which is a SafetensorError and a ValueError: the file is not in this format.
    TypeError: the framework lacks a tensor's type. ValueError: the file has changed since it was
    opened. OSError: it cannot be opened.

    >>> with lodic.safetensors.safe_open(model, "np") as file:
    ...     file.keys(), file.get_slice("ones").get_shape(), file.get_slice("ones")[1, :2]
    (['ones'], [2, 3], array([1., 1.], dtype=float32))
    """

    def __init__(self, filename: str | os.PathLike[str], framework: str = "numpy",
                 device: str = "cpu", *, backend: str = "mmap", writable: bool = True,
                 fallback: bool = True, cache: lodic.Cache | None = None):
        self._framework = _framework(framework)
        if backend not in ("mmap", "pread"): # the same here: neither is used
            raise ValueError(f"backend is 'mmap' or 'pread', not {backend!r}")
        if self._framework == "torch" and not writable:
            raise ValueError("torch has no read-only tensors: use writable=True")
        if self._framework == "numpy" and device not in (None, "cpu"):
            raise ValueError(f"numpy has no device {device!r}")
        self._device = device
        self._options: dict[str, Any] = {"writable": writable, "fallback": fallback,
                                         "cache": cache}
        self._parts: dict[str, _Part] = {}
        path = os.fsdecode(filename)
        if path.endswith(".index.json"):
            with open(path, "rb") as file:
                files = _said_of(path, _header.index, file.read())
            self._files = {name: os.path.join(os.path.dirname(path), shard)
                           for name, shard in files.items()}
        else:
            self._files = dict.fromkeys(self._part(path).header.tensors, path)

    def _part(self, path: str) -> _Part:
        if path not in self._parts:
            self._parts[path] = _said_of(path, _Part, path, self._framework, self._options)
        return self._parts[path]

    def _of(self, name: str) -> tuple[_Part, _header.Tensor]:
        files = self._open_files()
        if name not in files:
            raise SafetensorError(f"File does not contain tensor {name}")
        part = self._part(files[name])
        if name not in part.header.tensors:
            raise FormatError(f"{files[name]}: there is no tensor {name!r}, which the index names")
        return part, part.header.tensors[name]

    def _open_files(self) -> dict[str, str]:
        if self._files is None:
            raise SafetensorError("File is closed")
        return self._files

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._open_files())

    def offset_keys(self) -> list[str]:
        """The names of the tensors, by their places; of a sharded model, file by file."""
        files = self._open_files()
        names = [name for path in dict.fromkeys(files.values())
                 for name in self._part(path).header.tensors if files.get(name) == path]
        if len(names) < len(files):
            for name in files:
                self._of(name) # raises, for the one that is missing
        return names

    def metadata(self) -> dict[str, str] | None:
        """The strings that the header has beside the tensors; of a sharded model, of one file."""
        for path in self._open_files().values():
            return self._part(path).header.metadata
        return next((part.header.metadata for part in self._parts.values()), None)

    def get_tensor(self, name: str) -> Any:
        """A tensor, in shared memory. It is writable, unless writable=False was said."""
        part, tensor = self._of(name)
        return self._placed(part.tensor(name, tensor))

    def get_tensors(self) -> dict[str, Any]:
        """All tensors by their names."""
        return {name: self.get_tensor(name) for name in self.offset_keys()}

    def get_slice(self, name: str) -> Slice:
        """What a part of a tensor is taken from, by an index: get_slice(name)[:, 5:7]."""
        return Slice(self, *self._of(name), name)

    def _placed(self, tensor: Any) -> Any:
        return tensor if self._device in (None, "cpu") else tensor.to(self._device)

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *_: Any) -> None:
        # The last slice that still needs a file closes it.
        self._files = self._parts = None # type: ignore[assignment]


class Slice:
    """A tensor of which an index takes a part. numpy's are those of safetensors: whole numbers,
    and ranges without a step. From 1 MiB on a part that lies in one piece is shared memory; others
    are copies."""

    def __init__(self, opened: safe_open, part: _Part, tensor: _header.Tensor, name: str):
        self._opened, self._part, self._tensor, self._name = opened, part, tensor, name

    def get_shape(self) -> list[int]:
        """The shape of the whole tensor."""
        return list(self._tensor.shape)

    def get_dtype(self) -> str:
        """The type of the tensor, as the format calls it: "BF16"."""
        return self._tensor.kind

    def __getitem__(self, index: Any) -> Any:
        part = self._part.slice(self._name, self._tensor, index)
        return self._opened._placed(part)  # pylint: disable=protected-access


class _Part:
    """One file: its header, and its tensors in the memory of a hold, or of the original."""

    def __init__(self, path: str, framework: str, options: dict[str, Any]):
        self.shared = Shared(path, **options)
        self.framework, self._writable = framework, options["writable"]
        self._given: dict[str, object] = {}
        self._original: Any = None
        start = self.shared.read(_header.LENGTH_BYTES, 0)
        n = _header.length(start, self.shared.size)
        self.shared.head = start + self.shared.read(n, len(start))
        if len(self.shared.head) != len(start) + n:
            raise FormatError("the file becomes shorter while it is read")
        self.header = _header.read(self.shared.head, self.shared.size, framework)

    def tensor(self, name: str, tensor: _header.Tensor) -> Any:
        """The tensor. Each that numpy gets is another one; torch's are of one storage."""
        if self.framework == "numpy":
            _numpy_type(name, tensor.kind)
        token = object()
        again = self._given.setdefault(name, token) is not token and self.framework == "numpy"
        memory = self._memory(tensor.kind, again)
        if memory is None:
            return self._as_asked(self._fallen_back().get_tensor(name))
        return _MAKE[self.framework](memory, self.header.begin, name, tensor)

    def slice(self, name: str, tensor: _header.Tensor, index: Any) -> Any:
        """The part of the tensor."""
        if self.framework == "torch":
            return self.tensor(name, tensor)[index]
        plain = _plain(index, tensor.shape)
        if plain is None and _header.official is None:
            raise IndexError(f"no such part of a tensor of shape {list(tensor.shape)}")
        memory = None if plain is None else self._memory(tensor.kind)
        if memory is None: # an odd index: the original has rules and errors of its own
            return self._as_asked(self._fallen_back().get_slice(name)[index])
        part = _numpy(memory, self.header.begin, name, tensor)[plain]
        if part.nbytes < _LEAST_SHARED_BYTES or not part.flags.c_contiguous:
            return self._as_asked(part.copy("C"))
        return self.tensor(name, tensor)[plain]

    def _memory(self, kind: str, again: bool = False) -> Any:
        """The file's bytes. None: the original has to read them."""
        memory = self.shared.memory(again)
        if memory is None and (_header.official is None or
                               self.framework == "numpy" and kind in _NOT_OFFICIAL):
            memory = self.shared.mapped(again)
        return memory

    def _fallen_back(self) -> Any:
        if self._original is None:
            self._original = _header.official(self.shared.name(),
                                              {"numpy": "np", "torch": "pt"}[self.framework])
        return self._original

    def _as_asked(self, array: Any) -> Any:
        if self.framework == "numpy" and not self._writable:
            array.flags.writeable = False
        return array


def _framework(name: str) -> str:
    if name not in _FRAMEWORKS:
        raise ValueError(f"framework is 'numpy' or 'torch', not {name!r}")
    return _FRAMEWORKS[name]


def _said_of(path: str, function: Any, *words: Any) -> Any:
    """What the function returns. An error says of which file."""
    try:
        return function(*words)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def _plain(index: Any, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
    """The index, for numpy, where safetensors and Python mean the same by it."""
    parts = index if isinstance(index, tuple) else (index,)
    if len(parts) > len(shape):
        return None
    for part, n in zip(parts, shape):
        if isinstance(part, slice):
            start, stop = part.start or 0, n if part.stop is None else part.stop
            if part.step not in (None, 1) or type(start) is not int or type(stop) is not int or \
                    not 0 <= start <= stop <= n or start >= n:
                return None
        elif type(part) is not int or not -n <= part < n:
            return None
    return (*parts, ...)


def _numpy(memory: Any, begin: int, name: str, tensor: _header.Tensor) -> Any:
    import numpy  # pylint: disable=import-outside-toplevel

    dtype, n = _numpy_type(name, tensor.kind), math.prod(tensor.shape)
    flat = numpy.frombuffer(memory, dtype, n, begin + tensor.first) if n else \
        numpy.empty(0, dtype)
    return flat.reshape(tensor.shape)


def _numpy_type(name: str, kind: str) -> Any:
    """numpy's type, or that of ml_dtypes, which has what numpy lacks."""
    import numpy  # pylint: disable=import-outside-toplevel

    known = _TYPES.get(kind, "none")
    if kind in _NOT_OFFICIAL or kind == "BF16":
        try:
            known = getattr(importlib.import_module("ml_dtypes"), known)
        except (ImportError, AttributeError):
            pass
    try:
        return numpy.dtype(known)
    except TypeError:
        raise TypeError(f"{name!r} is of the type {kind}, which numpy lacks: install ml_dtypes, "
                        "or use framework='torch'") from None


def _torch(memory: Any, begin: int, name: str, tensor: _header.Tensor) -> Any:
    import torch  # pylint: disable=import-outside-toplevel

    dtype, shape = getattr(torch, _TYPES.get(tensor.kind, "none"), None), list(tensor.shape)
    if dtype is None:
        raise TypeError(f"{name!r} is of the type {tensor.kind}, which this torch lacks")
    if tensor.kind == "F4": # torch counts pairs
        if not shape or shape[-1] % 2:
            raise TypeError(f"{name!r} has an odd last dimension, and torch counts pairs of F4")
        shape[-1] //= 2
    n = tensor.end - tensor.first
    if n == 0:
        return torch.empty(shape, dtype=dtype)
    flat = torch.frombuffer(memory, dtype=torch.uint8, count=n, offset=begin + tensor.first)
    if (begin + tensor.first) % dtype.itemsize: # torch refuses a place that is not its type's own
        flat = flat.clone()
    return flat.view(dtype).reshape(shape)


_MAKE = {"numpy": _numpy, "torch": _torch}
