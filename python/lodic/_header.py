# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The header of a safetensors file: what tensors it has, and where.

The format's own package judges a header where it is installed. So lodic accepts what that package
accepts, and refuses what it refuses. own() is for programs without the package. It follows the
package's reader, serde_json with these rules:

  - The text is UTF-8, without a byte order mark. A string has no half of a surrogate pair.
  - Objects and arrays are nested 127 deep at most, also where nobody looks at them.
  - A whole number is one of 64 bits; a longer one, -0 and all with a fraction are floats. A number
    that is no finite float is refused.
  - An entry is an object, or an array of dtype, shape and data_offsets. In an object each of them
    stands once, and other keys are ignored. A dtype is a string, or an object {dtype: null}.
  - Of two entries with the same name the last one counts, and both must be right.
  - __metadata__ stands once at most. It is null, or strings by their names.
"""

from __future__ import annotations

import json
import math
import os
import re
from typing import Any, NamedTuple

try:
    import safetensors
    from safetensors import SafetensorError
    # lodic.auto puts itself in the place of this class.
    official: Any = getattr(safetensors.safe_open, "lodic_original", safetensors.safe_open)
except ImportError:
    official = None

    class SafetensorError(Exception): # type: ignore[no-redef]
        """What the package safetensors raises. This one stands for it where it is missing."""


class FormatError(SafetensorError, ValueError):
    """The file is no safetensors file. It is a SafetensorError and a ValueError."""


class Tensor(NamedTuple):
    """A tensor of a file: its bytes are those from first to end, counted from the header's end."""

    kind: str
    shape: tuple[int, ...]
    first: int
    end: int


class Header(NamedTuple):
    """What a header says. The tensors stand in the order of their places."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str] | None
    begin: int # where the tensors begin in the file


class _Object(list[tuple[str, Any]]):
    """A JSON object: its pairs, with those that have the same name."""


LENGTH_BYTES = 8
_MOST_BYTES = 100_000_000 # of a header: the format's own limit
_DEEPEST = 127
_WORD = 1 << 64 # what a number of 64 bits does not reach
_FIELDS = ("dtype", "shape", "data_offsets")
# The format's names of types, and their bits.
BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E4M3FNUZ": 8,
        "F8_E5M2": 8, "F8_E5M2FNUZ": 8, "F8_E8M0": 8, "BF16": 16}
BITS |= {f"{letter}{n}": n for letter, bits in (("U", (8, 16, 32, 64)), ("I", (8, 16, 32, 64)),
                                                ("F", (16, 32, 64)), ("C", (64,))) for n in bits}


def length(start: bytes, size: int) -> int:
    """How many bytes the header has, of a file that begins so and has size bytes."""
    if len(start) < LENGTH_BYTES:
        raise FormatError("too short for safetensors")
    n = int.from_bytes(start[:LENGTH_BYTES], "little")
    if n > _MOST_BYTES or n > size - LENGTH_BYTES:
        raise FormatError(f"no safetensors: a header of {n} bytes")
    return n


def read(head: bytes, size: int, framework: str) -> Header:
    """What the header says. head: the file's bytes up to the header's end."""
    header = None
    if official is not None:
        header = _judged(head, size, {"numpy": "np", "torch": "pt"}[framework])
    return header or own(head, size)


def _judged(head: bytes, size: int, framework: str) -> Header | None:
    """What the format's own package reads. It opens files by name, and so gets one in memory: it
    has this header, and a hole for the tensors. None: the package cannot open that here."""
    try:
        fd = os.memfd_create("lodic header")
    except OSError:
        return None
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(head)
            file.truncate(size)
        with official(f"/proc/self/fd/{fd}", framework) as opened:
            said = [(name, opened.get_slice(name)) for name in opened.offset_keys()]
            found = [(name, part.get_dtype(), part.get_shape()) for name, part in said]
            metadata = opened.metadata()
    except SafetensorError as error:
        raise FormatError(str(error)) from None
    except Exception: # pylint: disable=broad-except
        return None # no /proc, no framework, no room, or no such method: no verdict
    finally:
        os.close(fd)
    # They lie one behind the other, without a gap: so its verdict says.
    tensors, at = {}, 0
    for name, kind, shape in found:
        if kind not in BITS:
            raise TypeError(f"{name!r} is of the type {kind}, which lodic does not know")
        end = at + math.prod(shape) * BITS[kind] // 8
        tensors[name] = Tensor(kind, tuple(shape), at, end)
        at = end
    return Header(tensors, metadata, len(head))


def own(head: bytes, size: int) -> Header:
    """The same by this module alone."""
    try:
        return _checked(_parsed(head[LENGTH_BYTES:]), size, len(head))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"no safetensors: {error}") from None


def _parsed(text: bytes) -> _Object:
    parsed = json.loads(text.decode("utf-8"), object_pairs_hook=_Object, parse_int=_number,
                        parse_float=_float, parse_constant=_constant)
    if not isinstance(parsed, _Object):
        raise ValueError("the header is no object")
    _walk(parsed, 0)
    return parsed


def _number(text: str) -> int | float:
    if text != "-0" and len(text) <= 20 and -_WORD // 2 <= int(text) < _WORD:
        return int(text)
    return _float(text)


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number is out of range")
    return number


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


def _walk(value: Any, depth: int) -> None:
    """Refuses what Python's reader lets pass."""
    if isinstance(value, str):
        value.encode() # UnicodeEncodeError: half of a pair
    elif isinstance(value, (list, tuple)):
        depth += isinstance(value, list) # a pair is no level of its own
        if depth > _DEEPEST:
            raise ValueError("the header is nested too deep")
        for part in value:
            _walk(part, depth)


def _checked(header: _Object, size: int, begin: int) -> Header:
    metadata, seen, infos = None, False, {}
    for name, value in header:
        if name != "__metadata__":
            infos[name] = _info(name, value)
        elif seen:
            raise ValueError("__metadata__ stands twice")
        else:
            metadata, seen = _metadata(value), True
    tensors, at = {}, 0
    for name, info in sorted(infos.items(), key=lambda item: item[1][2:]):
        if info.first != at:
            raise ValueError(f"{name!r} begins at {info.first}, not at {at}")
        if info.end - info.first != _bytes(name, info):
            raise ValueError(f"{name!r} has another number of bytes than its shape")
        tensors[name] = info
        at = info.end
    if begin + at != size:
        raise ValueError(f"the tensors have {at} bytes, and the file has {size - begin} for them")
    return Header(tensors, metadata, begin)


def _info(name: str, value: Any) -> Tensor:
    if isinstance(value, _Object):
        if sorted(key for key, _ in value if key in _FIELDS) != sorted(_FIELDS):
            raise ValueError(f"the entry of {name!r} does not have each field once")
        fields = dict(value)
        value = [fields[key] for key in _FIELDS]
    if not isinstance(value, list) or len(value) != len(_FIELDS):
        raise ValueError(f"the entry of {name!r} is not complete")
    kind, shape, offsets = value
    if isinstance(kind, _Object) and len(kind) == 1 and kind[0][1] is None:
        kind = kind[0][0]
    if not isinstance(kind, str) or kind not in BITS:
        raise ValueError(f"{name!r} is of a type that is none of the format's")
    for numbers in (shape, offsets):
        if isinstance(numbers, _Object) or not isinstance(numbers, list) or \
                not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(f"the entry of {name!r} has something else than numbers")
    if len(offsets) != 2:
        raise ValueError(f"the entry of {name!r} has not two offsets")
    return Tensor(kind, tuple(shape), *offsets)


def _bytes(name: str, info: Tensor) -> int:
    bits = 1
    for n in (*info.shape, BITS[info.kind]):
        bits *= n
        if bits >= _WORD: # also where a 0 follows
            raise ValueError(f"{name!r} is larger than any file")
    if bits % 8:
        raise ValueError(f"{name!r} ends within a byte")
    return bits // 8


def _metadata(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, _Object) or not all(isinstance(part, str) for _, part in value):
        raise ValueError("__metadata__ has something else than strings")
    return dict(value)


def index(text: bytes) -> dict[str, str]:
    """The file of each tensor, by the index of a sharded model.

    The files lie beside the index: a name that leads elsewhere is refused.
    """
    try:
        files = json.loads(text)["weight_map"]
        fine = all(isinstance(file, str) and re.fullmatch(r"[^/\0]+", file) and
                   file not in (".", "..") for file in files.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FormatError("no index of a sharded model: there is no weight_map") from None
    if not fine:
        raise FormatError("the weight_map names a file that is not beside the index")
    return files
