# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Where this machine has its Debian packages from, for mmdebstrap."""

import pathlib
import re

APT = pathlib.Path("/etc/apt")


def files():
    """The files that name sources, of both kinds."""
    found = [APT / "sources.list", *sorted((APT / "sources.list.d").glob("*"))]
    return [path for path in found if path.suffix in (".list", ".sources") and path.is_file()
            and re.search(r"(?m)^(deb |Types:)", path.read_text(encoding="utf-8"))]


def release():
    """Debian's name of this machine's release; "": it is no Debian."""
    text = pathlib.Path("/etc/os-release").read_text(encoding="utf-8")
    name = re.search(r"(?m)^VERSION_CODENAME=(\w+)", text)
    return name[1] if name and "ID=debian" in text.split("\n") else ""
