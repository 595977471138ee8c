# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Shares what others load, with no line changed: `import lodic.auto`, or LODIC_AUTO=1.

The import stands before those of numpy and safetensors. The variable does the same at the start of
each Python program that finds the installed wheel: `lodic_auto.pth`, beside the package, looks
at it. "0" and the empty string are the same as no variable.

Put in the place of the original, for files from 1 MiB on:

  - safetensors.safe_open() for numpy, and so safetensors.numpy.load_file(). The original copies
    each tensor into memory of its own.
  - numpy.load() of the path of a .npy file. The original copies the array.

Arrays are writable as the original's are, and a page that a process writes to becomes its own. An
array of numpy.load() does not own its memory, so its resize() raises ValueError.

All else goes to the original, and so does a file that cannot be held (the warning lodic.NotShared
says why). For torch on the CPU, and where numpy maps a file, the original shares the kernel's
pages already. lodic leaves these alone, and the warning StepsAside says so once in a process.
"""

from __future__ import annotations

import functools
import io
import os
import sys
from typing import Any

import _lodic_auto

_LEAST_BYTES = 1 << 20 # from here on a hold is shared
_HEAD_BYTES = 1 << 16 # of a .npy file: read_array_header() refuses far shorter ones
_NUMPY, _TORCH = ("np", "numpy"), ("pt", "torch", "pytorch")
_said: set[str] = set()


class StepsAside(UserWarning):
    """lodic.auto leaves a file to the library that reads it, because that shares it already."""


def _steps_aside(whose: str) -> None:
    if whose not in _said:
        _said.add(whose)
        from lodic import _shared  # pylint: disable=import-outside-toplevel
        _shared.warn(f"{whose} maps files, and all processes share the kernel's pages of them: "
                     "lodic.auto leaves them alone", StepsAside)


def _large(path: Any) -> bool:
    try:
        return os.path.getsize(path) >= _LEAST_BYTES
    except (OSError, TypeError, ValueError):
        return False # the original says what is wrong


def _under_safetensors(module: Any) -> None:
    original = module.safe_open
    if hasattr(original, "lodic_original"):
        return

    class Either(type):
        """Both are files of safetensors."""

        def __instancecheck__(cls, one: Any) -> bool:
            from lodic import safetensors  # pylint: disable=import-outside-toplevel
            return isinstance(one, (original, safetensors.safe_open))

    class safe_open(metaclass=Either):
        __doc__ = original.__doc__
        lodic_original = original

        def __new__(cls, *words: Any, **more: Any) -> Any:
            asked = {"filename": None, "framework": None, "device": "cpu", "backend": "mmap",
                     **dict(zip(("filename", "framework", "device"), words)), **more}
            on_cpu = len(asked) == 4 and asked["device"] in (None, "cpu")
            if on_cpu and asked["framework"] in _NUMPY and _large(asked["filename"]):
                from lodic import safetensors  # pylint: disable=import-outside-toplevel
                try:
                    return safetensors.safe_open(asked["filename"], backend=asked["backend"])
                except (OSError, TypeError, ValueError):
                    pass # the original says what is wrong, or knows more types
            elif on_cpu and asked["framework"] in _TORCH and asked["backend"] == "mmap":
                _steps_aside("safetensors for torch on the CPU")
            return original(*words, **more)

    # Its modules have the name already where they were imported before.
    for name in list(sys.modules):
        if name.partition(".")[0] == "safetensors":
            found = sys.modules[name]
            if getattr(found, "safe_open", None) is original:
                found.safe_open = safe_open # type: ignore[attr-defined]


def _under_numpy(module: Any) -> None:
    original = module.load
    if hasattr(original, "lodic_original"):
        return

    @functools.wraps(original)
    def load(file: Any, mmap_mode: Any = None, *words: Any, **more: Any) -> Any:
        if isinstance(file, (str, os.PathLike)):
            if mmap_mode is None and not words and set(more) <= {"allow_pickle"} and _large(file):
                array = _array(module, file)
                if array is not None:
                    return array
            elif mmap_mode is not None:
                _steps_aside("numpy.load() with mmap_mode")
        return original(file, mmap_mode, *words, **more)

    load.lodic_original = original # type: ignore[attr-defined]
    module.load = load


def _array(numpy: Any, path: Any) -> Any:
    """The array of a .npy file, in shared memory. None: the original has to read it."""
    from lodic import _shared  # pylint: disable=import-outside-toplevel
    read = {(1, 0): numpy.lib.format.read_array_header_1_0,
            (2, 0): numpy.lib.format.read_array_header_2_0}
    try:
        # All by one descriptor: another file may come to the path meanwhile.
        shared = _shared.Shared(path)
        head = io.BytesIO(shared.read(_HEAD_BYTES, 0))
        shape, fortran, dtype = read[numpy.lib.format.read_magic(head)](head)
        begin = head.tell()
        shared.head = head.getvalue()[:begin]
        n = functools.reduce(lambda a, b: a * b, shape, 1)
        if dtype.hasobject or not n or shared.size < begin + n * dtype.itemsize:
            return None
        memory = shared.memory()
        if memory is None:
            return None
        flat = numpy.frombuffer(memory, dtype, n, begin)
        return flat.reshape(shape[::-1]).transpose() if fortran else flat.reshape(shape)
    except (KeyError, OSError, ValueError):
        return None # no .npy file, or one that changes: the original says what is wrong


def put_under(module: Any) -> None:
    """Puts lodic in the place of what numpy or safetensors has."""
    {"numpy": _under_numpy, "safetensors": _under_safetensors}[module.__name__](module)


for _name in _lodic_auto.NAMES:
    if _name in sys.modules:
        put_under(sys.modules[_name])
_lodic_auto.install()
