# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""lodic: files in memory that all programs of a machine share.

A service keeps the bytes. The first program starts it, and it ends when nobody has used it for a
while. What a program reads is never stale, and a killed program leaves nothing behind.

>>> import lodic
>>> cache = lodic.Cache()
>>> with cache.open(path) as file:
...     start = file.read(16)              # a copy of these bytes
...     weights = file.hold()              # the whole file, in shared memory
>>> len(weights) == os.path.getsize(path)
True
>>> bytes(memoryview(weights)[:16]) == start
True
>>> memoryview(weights).readonly
True
>>> weights.close()

`lodic.safetensors.load_file()` loads the weights of a model. `lodic.fs` is a file system for
fsspec: pandas and Dask find it by addresses that begin with `lodic://`, and pyarrow by
`fsspec+lodic://`.

`lodic.CacheError` is an OSError that says why there is no cache, or what it refuses. A File needs
no cache: without one, the kernel reads it, and the warning `lodic.NotShared` says why, once.
"""

from lodic._cache import Cache, File, Hold, NotShared, shared
from lodic._lodic import CacheError, strerror, version as __version__

__all__ = ["Cache", "CacheError", "File", "Hold", "NotShared", "shared", "strerror"]
