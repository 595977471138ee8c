# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Cache, File and Hold: what `import lodic` gives.

A forked child cannot use what its parent has attached. So a Cache and a File remember for which
process they hold something of the extension, and get it anew in another.
"""

from __future__ import annotations

import atexit
import errno
import io
import operator
import os
import shutil
import sys
import threading
import time
import warnings
from typing import Any

from lodic import _lodic
from lodic._lodic import CacheError

_caches: dict[str | None, Cache] = {}
_caches_lock = threading.RLock() # a signal's handler may come while its thread has it

# Where no cache could be had: until when nobody tries again, and why.
_missing: dict[str | None, tuple[float, CacheError]] = {}
# Our choice. An attempt that took long comes rarely: it takes 5 % of a process's time at most.
_MISSING_S = 10.0
_MISSING_TIMES = 20
_told: set[str] = set() # reasons that this process was warned of

_SMALL_BYTES = 1 << 18 # a read that makes room for so many asks for no size
_PART_BYTES = 1 << 12 # first read behind the end that the kernel names; each next is twice as long


def _forked() -> None:
    """Another thread of the parent may have had the lock."""
    global _caches_lock  # pylint: disable=global-statement
    _caches_lock = threading.RLock()


class NotShared(UserWarning):
    """A file was read without the cache, or into memory of this process alone: it says why."""


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


def _shared_if_there(socket: str | None) -> Cache | CacheError:
    """The same, or why there is none. A File that has to go without costs no attempt each time."""
    place = socket or os.environ.get("LODIC_SOCKET")
    begun = time.monotonic()
    until, why = _missing.get(place, (begun, None))
    if why is not None and begun < until:
        return why
    try:
        return shared(socket)
    except CacheError as error:
        error.__traceback__ = None # it would keep the callers' variables
        now = time.monotonic()
        _missing[place] = (now + max(_MISSING_S, (now - begun) * _MISSING_TIMES), error)
        return error


class Cache:
    """A way to the cache of this machine's user, or to the one at `socket`.

    If no service listens there, the call starts one. Then `memory` says how many bytes blocks and
    holds may have together, and `holds` what holds may have of it at most. 0 says nothing: the
    memory is half of the machine's, and of the control group's. `idle_exit` says after how many
    seconds without a program it ends. A running service keeps its own settings. `service` is the
    program to start; "" starts none. CacheError says why there is no cache.

    Any thread may use a Cache, and so may a forked child. It pickles as its socket.

    >>> cache = lodic.Cache()
    >>> cache.stat()["clients"] >= 1
    True
    """

    def __init__(self, socket: str | os.PathLike[str] | None = None, *, memory: int = 0,
                 holds: int = 0, idle_exit: float = 0, service: str | None = None):
        self.socket = None if socket is None else os.fspath(socket)
        self._start = (service if service is not None else _service(), memory,
                       round(idle_exit * 1000), holds)
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


class File(io.RawIOBase):
    """A file that is read through a cache: `lodic.File(path)`, or `cache.open(path)`.

    It stays the file that was opened, whatever comes to its path. It does what io.FileIO does for
    reading, except for fileno(): a read by the descriptor would go past the cache, and begin at
    another place. io.BufferedReader takes a File, and so do numpy.load() and pandas.

    Without a `cache`, it is the shared one at `socket`. If that cannot be had, the kernel reads the
    file. The warning NotShared says so at the first read, once for each reason in a process.

    Any thread may use a File, and so may a forked child. Reads of several threads at the file's
    place come one after the other, and reads at an offset do not meet. It pickles as its path and
    its place.

    >>> with lodic.File(path) as file:
    ...     first, last = file.read(4), file.read(4, file.size - 4)
    ...     file.tell()
    4
    >>> len(first + last)
    8
    """

    mode = "rb"
    # For which process, the file as the extension has it, and who reads at its place.
    _opened: tuple[int, _lodic.OpenFile, threading.RLock] | None = None  # type: ignore[valid-type]

    def __init__(self, path: str | os.PathLike[str] | int, *, cache: Cache | None = None,
                 socket: str | None = None):
        super().__init__()
        if cache is not None and socket is not None:
            raise ValueError("a cache has a socket already")
        self._at = 0
        self._socket = socket if cache is None else cache.socket
        self._cache = _shared_if_there(socket) if cache is None else cache
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

    def _open(self, fd: int) -> None:
        attachment = None
        if isinstance(self._cache, Cache):
            try:
                attachment = self._cache._attachment()  # pylint: disable=protected-access
            except CacheError as error: # in a forked child
                error.__traceback__ = None
                self._cache = error
        self._opened = os.getpid(), _lodic.OpenFile(attachment, fd, self._name), threading.RLock()

    def _state(self) -> tuple[int, _lodic.OpenFile, Any]:
        opened = self._opened
        if opened is not None and opened[0] != os.getpid():
            with _caches_lock: # two threads must not get two places
                opened = self._opened
                if opened is not None and opened[0] != os.getpid():
                    self._open(opened[1].fileno())
                    opened = self._opened
        if opened is None:
            raise ValueError("the file is closed")
        return opened

    def _file(self) -> _lodic.OpenFile:
        return self._state()[1]

    def _needs_cache(self) -> _lodic.OpenFile:
        """The same for what the kernel cannot do."""
        file = self._file()
        if isinstance(self._cache, CacheError):
            why = self._cache
            _told.add(why.reason)
            error = CacheError(why.errno, why.strerror, self._name)
            error.reason = why.reason
            raise error
        return file

    def _to_read(self) -> tuple[_lodic.OpenFile, Any]:
        """The same for a read, and the lock of the place."""
        _, file, lock = self._state()
        if isinstance(self._cache, CacheError) and self._cache.reason not in _told:
            _told.add(self._cache.reason)
            warnings.warn(f"{self._name}: read without the cache: {self._cache.strerror}",
                          NotShared, stacklevel=3)
        return file, lock

    @property
    def name(self) -> str | int:
        """What the file was opened by: its path, or a descriptor's number."""
        return self._name

    @property
    def size(self) -> int:
        """How many bytes the file has now. Files of /proc say 0."""
        return os.fstat(self._file().fileno()).st_size

    @property
    def closed(self) -> bool:
        """Was the file closed?"""
        return self._opened is None

    def readable(self) -> bool:
        """Yes. A closed file raises ValueError, here and elsewhere."""
        return self._file() is not None

    def seekable(self) -> bool:
        """Yes."""
        return self._file() is not None

    def tell(self) -> int:
        """The file's place: where the next read() without an offset begins."""
        self._file()
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the place, also behind the end, and returns it."""
        _, file, lock = self._state()
        offset = operator.index(offset)
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        with lock:
            base = (0, self._at, self.size if whence == io.SEEK_END else 0)[whence]
            if base + offset < 0:
                raise OSError(errno.EINVAL, "a place before the file's first byte", self._name)
            self._at = base + offset
            return self._at

    def readinto(self, buffer: Any) -> int:
        """Copies bytes from the place on into a writable buffer, moves the place behind them, and
        returns how many. They are fewer than the buffer has only at the end of the file."""
        file, lock = self._to_read()
        with lock:
            n = file.read_into(buffer, self._at)
            self._at += n
            return n

    def read_into(self, buffer: Any, offset: int = 0) -> int:
        """The same from `offset` on, which does not move the place.

        >>> with lodic.File(path) as file:
        ...     file.read_into(bytearray(8), 4)
        8
        """
        return self._to_read()[0].read_into(buffer, _offset(offset))

    def read(self, n: int | None = -1, offset: int | None = None) -> bytes:
        """Up to `n` bytes, or all to the end of the file: from the place on, which moves behind
        them. With `offset` they are those from there on, and the place stays."""
        file, lock = self._to_read()
        n = -1 if n is None or n < 0 else n
        if offset is not None:
            return self._read(file, n, _offset(offset))
        with lock:
            data = self._read(file, n, self._at)
            self._at += len(data)
            return data

    def _read(self, file: _lodic.OpenFile, n: int, offset: int) -> bytes:
        """The same from offset on; n below 0: to the end."""
        if 0 <= n <= _SMALL_BYTES:
            return file.read(n, offset)
        left = max(os.fstat(file.fileno()).st_size - offset, 0)
        wanted = left if n < 0 else min(n, left)
        data = file.read(wanted, offset)
        got = len(data)
        if got == n or got < wanted:
            return data
        # The kernel may have more than it says: 0 bytes is what it says of files in /proc.
        parts, most = [data], _PART_BYTES
        while n < 0 or got < n:
            data = file.read(most if n < 0 else min(most, n - got), offset + got)
            if not data:
                break
            parts.append(data)
            got += len(data)
            most *= 2
        return b"".join(parts)

    def readall(self) -> bytes:
        """The same as read()."""
        return self.read()

    def write(self, _data: Any) -> int:
        """Raises UnsupportedOperation: a File is only for reading."""
        raise io.UnsupportedOperation("not writable")

    def hold(self, offset: int = 0, length: int | None = None) -> Hold:
        """A Hold of `length` bytes from `offset` on; without `length`, to the end of the file.

        The call waits until the bytes are there. CacheError says why they cannot be held: nothing
        proves that the file does not change, it is being written, or there is no room.
        """
        if length is not None and length <= 0:
            raise ValueError("the length must be above 0")
        hold = Hold(self._needs_cache(), _offset(offset), length or 0)
        hold.origin = (self._socket, self.path, offset)
        return hold

    def prefetch(self, offset: int = 0, length: int = 0, *, wait: bool = True) -> None:
        """Asks the service to bring in `length` bytes from `offset` on; 0: to the end.

        With `wait` the call returns when the service has done what it could.
        """
        self._needs_cache().prefetch(_offset(offset), length, wait)

    @property
    def cached(self) -> bool:
        """Is the file cached? If not, reads go to the kernel, and `why_not` says the reason."""
        return self._why_not() is None

    @property
    def why_not(self) -> str | None:
        """Why the file is not cached, in a sentence; None if it is."""
        why = self._why_not()
        return why[1] if why else None

    @property
    def reason(self) -> str | None:
        """The same as a word for programs, as CacheError.reason."""
        why = self._why_not()
        return why[0] if why else None

    def _why_not(self) -> tuple[str, str] | None:
        file = self._file()
        if isinstance(self._cache, CacheError):
            return self._cache.reason, str(self._cache.strerror)
        return file.why_not()

    def close(self) -> None:
        """Closes the file. What it has held stays."""
        self._opened = None
        super().close()

    def __reduce__(self) -> Any:
        if self.path is None:
            raise TypeError("a file that was opened by a descriptor cannot be pickled")
        return _open_anew, (self._socket, self.path, self._at)

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


def _open_anew(socket: str | None, path: str, place: int = 0) -> File:
    """A File that comes from another process."""
    file = File(path, socket=socket)
    file.seek(place)
    return file


def _hold_anew(socket: str | None, path: str, offset: int, length: int) -> Hold:
    """A Hold that comes from another process."""
    with File(path, cache=shared(socket)) as file:
        hold = file.hold(offset, length)
    if len(hold) != length:
        raise OSError(f"{path}: the hold had {length} bytes from {offset} on, and the file now "
                      f"has {len(hold)} there")
    return hold
