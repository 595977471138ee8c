# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A file system for fsspec: local files, read through the cache of the machine that reads.

The wheel makes it known as `lodic`, so that pandas, Dask and others find it. pyarrow asks fsspec
only for addresses that say so, because its own list of file systems is fixed:

    pandas.read_parquet("lodic:///srv/data/a.parquet")
    dask.dataframe.read_parquet("lodic:///srv/data/*.parquet")
    pyarrow.parquet.read_table("fsspec+lodic:///srv/data/a.parquet")
    pyarrow.parquet.read_table("/srv/data/a.parquet", filesystem=lodic.fs.LodicFileSystem())

A task that runs on another machine reads that machine's file, through its cache. The file system
is only for reading: it raises OSError (EROFS) for what would change a file.

>>> import fsspec
>>> with fsspec.open("lodic://" + path) as file:
...     start = file.read(8)
>>> len(start)
8
"""

from __future__ import annotations

import errno
import io
import os
from typing import Any

from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

import lodic

_PREFIXES = ("lodic://", "lodic::", "lodic:")
_BUFFER_BYTES = 1 << 18
_WRITES = ("cp_file", "makedir", "makedirs", "mkdir", "mv", "mv_file", "pipe_file", "put_file",
           "rm", "rm_file", "rmdir", "touch", "_rm")


def _read_only(*_args: Any, **_words: Any) -> Any:
    raise OSError(errno.EROFS, "lodic:// is only for reading")


class LodicFileSystem(AbstractFileSystem):
    """Local files through the cache.

    `socket` is as in lodic.Cache. With `prefetch` the service brings in a whole file as soon as it
    is opened; without, it brings in what programs read.
    """

    protocol = "lodic"
    root_marker = "/"

    def __init__(self, socket: str | None = None, prefetch: bool = False, **options: Any):
        super().__init__(socket=socket, prefetch=prefetch, **options)
        self._socket, self._prefetch = socket, prefetch
        self._local = LocalFileSystem()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, (list, tuple)):
            return [cls._strip_protocol(one) for one in path]
        path = os.fspath(path)
        for prefix in _PREFIXES:
            if path.startswith(prefix):
                path = path[len(prefix):]
                break
        return LocalFileSystem._strip_protocol(path)

    def ls(self, path: str, detail: bool = False, **options: Any) -> list[Any]:
        return self._local.ls(self._strip_protocol(path), detail=detail, **options)

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        return self._local.info(self._strip_protocol(path), **options)

    def created(self, path: str) -> Any:
        return self._local.created(self._strip_protocol(path))

    def modified(self, path: str) -> Any:
        return self._local.modified(self._strip_protocol(path))

    def _open(self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True,
              cache_options: Any = None, **options: Any) -> Reader:
        if mode != "rb":
            _read_only()
        reader = Reader(self._strip_protocol(path), self._socket)
        if self._prefetch:
            reader.prefetch()
        return reader

    def cat_file(self, path: str, start: int | None = None, end: int | None = None,
                 **options: Any) -> bytes:
        with lodic.File(self._strip_protocol(path), socket=self._socket) as file:
            first, last = start or 0, end
            if first < 0 or (last or 0) < 0: # else no size matters, which files of /proc lack
                first, last, _ = slice(start, end).indices(file.size)
            return file.read(-1 if last is None else max(last - first, 0), first)


for _name in _WRITES:
    setattr(LodicFileSystem, _name, _read_only)


class Reader(io.BufferedReader):
    """What the file system opens. It pickles as its path and its place."""

    def __init__(self, path: str, socket: str | None = None):
        self._of = (path, socket)
        super().__init__(lodic.File(path, socket=socket), _BUFFER_BYTES)

    @property
    def path(self) -> str:
        """The path of the file, without lodic://."""
        return self._of[0]

    @property
    def size(self) -> int:
        """How many bytes the file has now."""
        return self.raw.size  # type: ignore[attr-defined]

    @property
    def name(self) -> str:
        """The same as path: what io's own files call it."""
        return self._of[0]

    def prefetch(self) -> None:
        """Asks the service to bring the file in, and does not wait for that."""
        if self.raw.cached:  # type: ignore[attr-defined]
            self.raw.prefetch(wait=False)  # type: ignore[attr-defined]

    def __reduce__(self) -> Any:
        return _reader_anew, (*self._of, self.tell())

    def __reduce_ex__(self, _protocol: Any) -> Any: # since 3.12 io's own one refuses
        return self.__reduce__()


def _reader_anew(path: str, socket: str | None, at: int) -> Reader:
    """A Reader that comes from another process."""
    reader = Reader(path, socket)
    reader.seek(at)
    return reader
