# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Cache, File and Hold: what `import lodic` gives.

A forked child cannot use what its parent has attached. So a Cache and a File remember for which
process they hold something of the extension, and get it anew in another.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import threading
from typing import Any

from lodic import _lodic

_caches: dict[str | None, Cache] = {}
_caches_lock = threading.Lock()


def _forked() -> None:
    """Another thread of the parent may have had the lock."""
    global _caches_lock  # pylint: disable=global-statement
    _caches_lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)

if sys.version_info < (3, 14): # since then a thread that comes too late waits for ever
    atexit.register(_lodic.settle)


def _service() -> str | None:
    """The program to start as the service. None: the one beside the extension, which liblodic
    finds by itself."""
    beside = os.path.join(os.path.dirname(__file__), "lodic")
    return None if os.access(beside, os.X_OK) else shutil.which("lodic")


def shared(socket: str | None = None) -> Cache:
    """The Cache that all callers in this process share which name the same socket.

    >>> lodic.shared() is lodic.shared()
    True
    """
    place = socket or os.environ.get("LODIC_SOCKET")
    with _caches_lock:
        if place not in _caches:
            _caches[place] = Cache(socket)
        return _caches[place]


class Cache:
    """A way to the cache of this machine's user, or to the one at `socket`.

    If no service listens there, the call starts one. Then `memory` says how many bytes it has, and
    `idle_exit` after how many seconds without a program it ends. A running service keeps its own
    settings. `service` is the program to start; "" starts none.

    Any thread may use a Cache, and so may a forked child. It pickles as its socket.

    >>> cache = lodic.Cache()
    >>> cache.stat()["clients"] >= 1
    True
    """

    def __init__(self, socket: str | os.PathLike[str] | None = None, *, memory: int = 0,
                 idle_exit: float = 0, service: str | None = None):
        self.socket = None if socket is None else os.fspath(socket)
        self._start = (service if service is not None else _service(), memory,
                       round(idle_exit * 1000))
        self._closed = False
        self._attached: tuple[int, _lodic.Attachment] | None = None
        self._attachment()

    def _attachment(self) -> _lodic.Attachment:
        attached = self._attached
        if attached is None or attached[0] != os.getpid():
            attached = (os.getpid(), _lodic.Attachment(self.socket, *self._start))
            self._attached = attached
        return attached[1]

    def open(self, path: str | os.PathLike[str] | int) -> File:
        """A File: `path` is a path, or a descriptor that is open for reading only.

        The caller keeps the descriptor. A file that cannot be cached opens as well.
        """
        if self._closed:
            raise ValueError("the cache is closed")
        return File(path, cache=self)

    def stat(self) -> dict[str, int]:
        """What the cache holds, and what it and its readers have done: a dict of numbers."""
        if self._closed:
            raise ValueError("the cache is closed")
        return self._attachment().stat()

    def close(self) -> None:
        """Ends this way to the cache. Files and holds that it has given stay usable."""
        self._closed = True

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return shared, (self.socket,)

    def __repr__(self) -> str:
        return f"<lodic.Cache {self.socket or 'default'}{' closed' * self._closed}>"


class File:
    """A file that is read through a cache: `lodic.File(path)`, or `cache.open(path)`.

    It stays the file that was opened, whatever comes to its path. Any thread may use it, and so
    may a forked child. It pickles as its path.

    >>> with lodic.File(path) as file:
    ...     first, last = file.read(4), file.read(4, file.size - 4)
    >>> len(first + last)
    8
    """

    def __init__(self, path: str | os.PathLike[str] | int, *, cache: Cache | None = None):
        self._cache = shared() if cache is None else cache
        self._opened: tuple[int, _lodic.OpenFile] | None = None
        self.path: str | None = None
        self._name: str | int
        if isinstance(path, int):
            self._name = path
            self._open(path)
            return
        self.path = self._name = os.path.abspath(os.fsdecode(path))
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            self._open(fd)
        finally:
            os.close(fd)

    def _open(self, fd: int) -> tuple[int, _lodic.OpenFile]:
        attachment = self._cache._attachment()  # pylint: disable=protected-access
        opened = (os.getpid(), _lodic.OpenFile(attachment, fd, self._name))
        self._opened = opened
        return opened

    def _file(self) -> _lodic.OpenFile:
        opened = self._opened
        if opened is None:
            raise ValueError("the file is closed")
        if opened[0] != os.getpid():
            opened = self._open(opened[1].fileno())
        return opened[1]

    @property
    def size(self) -> int:
        """How many bytes the file has now."""
        return os.fstat(self._file().fileno()).st_size

    @property
    def closed(self) -> bool:
        """Was the file closed?"""
        return self._opened is None

    def read_into(self, buffer: Any, offset: int = 0) -> int:
        """Copies bytes from `offset` on into a writable buffer, and returns how many.

        They are fewer than the buffer has only at the end of the file.

        >>> with lodic.File(path) as file:
        ...     file.read_into(bytearray(8), 4)
        8
        """
        return self._file().read_into(buffer, _offset(offset))

    def read(self, n: int | None = -1, offset: int = 0) -> bytes:
        """Up to `n` bytes from `offset` on; without `n`, to the end of the file."""
        file = self._file()
        left = max(os.fstat(file.fileno()).st_size - _offset(offset), 0)
        return file.read(left if n is None or n < 0 else min(n, left), offset)

    def hold(self, offset: int = 0, length: int | None = None) -> Hold:
        """A Hold of `length` bytes from `offset` on; without `length`, to the end of the file.

        The call waits until the bytes are there. OSError says why they cannot be held: nothing
        proves that the file does not change, it is being written, or there is no room.
        """
        if length is not None and length <= 0:
            raise ValueError("the length must be above 0")
        hold = Hold(self._file(), _offset(offset), length or 0)
        hold.origin = (self._cache.socket, self.path, offset)
        return hold

    def prefetch(self, offset: int = 0, length: int = 0, *, wait: bool = True) -> None:
        """Asks the service to bring in `length` bytes from `offset` on; 0: to the end.

        With `wait` the call returns when the service has done what it could.
        """
        self._file().prefetch(_offset(offset), length, wait)

    @property
    def cached(self) -> bool:
        """Is the file cached? If not, reads go to the kernel, and `why_not` says the reason."""
        return self._file().cached() == 0

    @property
    def why_not(self) -> str | None:
        """Why the file is not cached; None if it is."""
        error = self._file().cached()
        return _lodic.strerror(error) if error else None

    def close(self) -> None:
        """Closes the file. What it has held stays."""
        self._opened = None

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        if self.path is None:
            raise TypeError("a file that was opened by a descriptor cannot be pickled")
        return _open_anew, (self._cache.socket, self.path)

    def __repr__(self) -> str:
        return f"<lodic.File {self._name}{' closed' * self.closed}>"


class Hold(_lodic.Hold):
    """A range of a file in memory, which all programs that hold it share.

    It is a read-only buffer for memoryview, numpy.frombuffer() and all that take a buffer. Its
    bytes stay as they are, whatever becomes of the file and of the service. Any thread may use and
    drop it. It ends with its last buffer, or when close() is called.

    A library that writes to read-only buffers crashes the process, as torch.frombuffer() would.
    Give it `hold.private()`. Tensors by DLPack are of such a private buffer, and marked read-only.

    A forked child has what its parent holds. A hold pickles as its socket, path, offset and
    length, so the process that unpickles it must find the file.

    >>> hold = lodic.File(path).hold(0, 8)
    >>> view = memoryview(hold)
    >>> hold.close()                               # doctest: +ELLIPSIS
    Traceback (most recent call last):
    BufferError: 1 buffers still use this hold: ...

    >>> view.release()
    >>> hold.close()
    """

    origin: tuple[str | None, str | None, int] = (None, None, 0)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU's memory

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        if max_version is None or max_version[0] < 1:
            raise BufferError("a hold is read-only, which DLPack says since version 1.0, and this "
                              "consumer is older: use numpy.frombuffer(hold, numpy.uint8)")
        if dl_device not in (None, (1, 0)) or stream is not None:
            raise BufferError("a hold is in the CPU's memory")
        if copy:
            raise BufferError("a hold makes no copies: copy what you have made of it")
        try:
            return self._dlpack()
        except OSError as error:
            raise BufferError(f"this hold can give no tensor: {error.strerror}") from error

    def __reduce__(self) -> Any:
        socket, path, offset = self.origin
        if path is None:
            raise TypeError("a hold of a file without a path cannot be pickled")
        return _hold_anew, (socket, path, offset, len(self))

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        _, path, offset = self.origin
        size = "closed" if self.closed else f"{len(self)} bytes"
        return f"<lodic.Hold {path} from {offset}, {size}>"


def _offset(offset: int) -> int:
    if offset < 0:
        raise ValueError("the offset is negative")
    return offset


def _open_anew(socket: str | None, path: str) -> File:
    """A File that comes from another process."""
    return File(path, cache=shared(socket))


def _hold_anew(socket: str | None, path: str, offset: int, length: int) -> Hold:
    """A Hold that comes from another process."""
    with File(path, cache=shared(socket)) as file:
        hold = file.hold(offset, length)
    if len(hold) != length:
        raise OSError(f"{path}: the hold had {length} bytes from {offset} on, and the file now "
                      f"has {len(hold)} there")
    return hold
