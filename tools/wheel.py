#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Makes the wheel of the Python package from the tree and a build folder, without a network.

    tools/wheel.py --build build [--output build/python]
    tools/wheel.py --platform manylinux_2_28_x86_64 ...     called by tools/manylinux.sh

The wheel has python/lodic, the extension, and the programs that belong to it: `lodic`, which is
the service, and the shim of `lodic run`. So `pip install` of this one file is enough. The wheel
has no lodic-bench. The same
input makes the same bytes. It prints the wheel's path.
"""

import argparse
import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ("lodic", "liblodic-preload.so")
LICENCES = ("GPL-2.0-only.txt", "MIT.txt")
WHEN = (2000, 1, 1, 0, 0, 0) # the same for each file
METADATA = """\
Metadata-Version: 2.1
Name: lodic
Version: {version}
Summary: Files in memory that all programs of a machine share
License: GPL-2.0-only OR MIT
Requires-Python: >=3.11
Provides-Extra: numpy
Requires-Dist: numpy>=2.1; extra == "numpy"
Provides-Extra: fsspec
Requires-Dist: fsspec; extra == "fsspec"
Classifier: Operating System :: POSIX :: Linux
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

"""
ENTRY_POINTS = """\
[console_scripts]
lodic = lodic.__main__:main

[fsspec.specs]
lodic = lodic.fs:LodicFileSystem
"""


def version_of(source):
    return re.search(r"version: '([\d.]+)'", (source / "meson.build").read_text())[1]


def stripped(path):
    """The file without what only a debugger wants, where strip(1) is there."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, path.name)
        shutil.copy(path, copy)
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", copy], check=True)
        return copy.read_bytes()


def contents(build, strip, platform, notices):
    """(name in the wheel, bytes, may it be executed?) of each file but RECORD."""
    version = version_of(ROOT)
    extension = build / "python" / "_lodic.abi3.so"
    if not extension.exists():
        sys.exit(f"wheel: {extension} is not there: it needs Python.h (Debian: python3-dev)")
    read = stripped if strip else pathlib.Path.read_bytes
    for path in sorted((ROOT / "python" / "lodic").iterdir()):
        if path.suffix in (".py", ".pyi", ".typed"):
            yield f"lodic/{path.name}", path.read_bytes(), False
    for path in sorted((ROOT / "python").glob("*lodic_auto.*")):
        yield path.name, path.read_bytes(), False
    yield f"lodic/{extension.name}", read(extension), True
    for name in PROGRAMS:
        yield f"lodic/{name}", read(build / name), True
    info = f"lodic-{version}.dist-info"
    wheel = ("Wheel-Version: 1.0\nGenerator: tools/wheel.py\nRoot-Is-Purelib: false\n"
             f"Tag: cp311-abi3-{platform}\n")
    page = (ROOT / "doc" / "use" / "python.md").read_text().split("-->\n", 1)[1]
    yield f"{info}/METADATA", (METADATA.format(version=version) + page).encode(), False
    yield f"{info}/WHEEL", wheel.encode(), False
    yield f"{info}/entry_points.txt", ENTRY_POINTS.encode(), False
    for name in LICENCES:
        yield f"{info}/licenses/{name}", (ROOT / "LICENSES" / name).read_bytes(), False
    for name, path in notices:
        yield f"{info}/licenses/{name}.txt", pathlib.Path(path).read_bytes(), False


def make(build, output, strip, platform, notices):
    """Writes the wheel; returns its path."""
    record, version = [], version_of(ROOT)
    output.mkdir(parents=True, exist_ok=True)
    path = output / f"lodic-{version}-cp311-abi3-{platform}.whl"
    new = path.with_name(path.name + ".new")

    def put(archive, name, data, executable):
        entry = zipfile.ZipInfo(name, WHEN)
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data)

    with zipfile.ZipFile(new, "w") as archive:
        for name, data, executable in contents(build, strip, platform, notices):
            put(archive, name, data, executable)
            hashed = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={hashed},{len(data)}\n")
        name = f"lodic-{version}.dist-info/RECORD"
        put(archive, name, "".join([*record, f"{name},,\n"]).encode(), False)
    new.rename(path)
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"),
                        help="the build folder")
    parser.add_argument("--output", type=pathlib.Path, help="where the wheel goes")
    parser.add_argument("--keep-symbols", action="store_true",
                        help="leave in what a debugger wants")
    parser.add_argument("--platform", metavar="TAG", help="where the programs run",
                        default=sysconfig.get_platform().replace("-", "_").replace(".", "_"))
    parser.add_argument("--notice", metavar="NAME=FILE", action="append", default=[],
                        help="the licence of a library that the programs have within them")
    options = parser.parse_args()
    print(make(options.build.resolve(), (options.output or options.build / "python").resolve(),
               not options.keep_symbols, options.platform,
               [notice.split("=", 1) for notice in options.notice]))


if __name__ == "__main__":
    main()
