# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The bytes of an opened file for arrays: a hold, or the reason why there is none."""

from __future__ import annotations

import mmap
import os
import sys
import warnings
import weakref
from typing import Any

import lodic

_PACKAGE = os.path.dirname(__file__) + os.sep


def warn(text: str, kind: type[Warning]) -> None:
    """A warning at the line of the program that called this package."""
    level, frame = 1, sys._getframe()  # pylint: disable=protected-access
    while frame.f_back and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


class Shared:
    """A file, open for reading. It stays the file that was opened, whatever comes to its path.

    Its user sets `head` to the bytes that it has read at the start. memory() compares them.
    """

    def __init__(self, filename: str | os.PathLike[str], *, writable: bool = True,
                 fallback: bool = True, cache: lodic.Cache | None = None):
        self.path, self.head = os.fsdecode(filename), b""
        self._writable, self._fallback, self._cache = writable, fallback, cache
        self._hold: lodic.Hold | None = None
        self._common: Any = None
        self._refused = False
        self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        weakref.finalize(self, os.close, self._fd)
        self.size = os.fstat(self._fd).st_size

    def read(self, n: int, offset: int) -> bytes:
        """Up to n bytes from offset on, copied, by the kernel."""
        return os.pread(self._fd, n, offset)

    def memory(self, again: bool = False) -> Any:
        """All bytes of the file, shared; writable ones become this process's own when written to.

        The same memory each time; with `again`, another one of the same bytes. None: they cannot
        be shared. A warning has said why.
        """
        if self._refused:
            return None
        if self._common is not None and not (again and self._writable):
            return self._common
        try:
            memory = self._held()
        except OSError as error:
            if not self._fallback:
                raise
            self._refused = True
            warn(f"{self.path}: not shared: {error.strerror or error}", lodic.NotShared)
            return None
        if bytes(memoryview(memory)[:len(self.head)]) != self.head or len(memory) != self.size:
            raise ValueError("the file has changed since it was opened")
        if self._common is None:
            self._common = memory
        return memory

    def mapped(self, again: bool = False) -> Any:
        """The same, mapped by the kernel. They may change with the file, and end with it."""
        if self._common is not None and not (again and self._writable):
            return self._common
        access = mmap.ACCESS_COPY if self._writable else mmap.ACCESS_READ
        memory = mmap.mmap(self._fd, 0, access=access)
        if self._common is None:
            self._common = memory
        return memory

    def name(self) -> str:
        """What another library opens this very file by."""
        name = f"/proc/self/fd/{self._fd}"
        return name if os.path.exists(name) else self.path

    def _held(self) -> Any:
        if self._hold is not None:
            try:
                return self._hold.private() if self._writable else self._hold
            except OSError:
                pass # its service has ended since; another one makes the hold anew
        for last in (False, True):
            self._hold = lodic.File(self._fd, cache=self._cache).hold()
            try:
                return self._hold.private() if self._writable else self._hold
            except OSError:
                if last:
                    raise
