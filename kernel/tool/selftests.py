# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Linux's own selftests of mm: those that kernel/tests/selftests.list names, from the work
tree, by their own makefile, linked statically for the guest."""

from tool.kbuild import make_env
from tool.work import KERNEL, digest, read_lines, say

LIST = KERNEL / "tests/selftests.list"
SOURCE = "tools/testing/selftests/mm"
# What they are compiled from: folders of the tree.
FROM = ["tools/testing/selftests", "tools/include", "include/uapi", "arch/x86/include/uapi"]
# khugepaged.c of 6.12.117 says KSFT_SKIP without its header. Their warnings are not ours.
CFLAGS = "-static -s -w -DKSFT_SKIP=4"


def programs():
    """The programs that run: all that are not skipped."""
    rows = [line.split() for line in read_lines(LIST)]
    return sorted({row[0] for row in rows if row[1] != "skip"})


def build(work):
    """Returns the folder where they are."""
    folder = work.folder / "selftests"
    names = programs()
    key = digest(CFLAGS, *names, *(work.git("rev-parse", f"HEAD:{name}") for name in FROM))
    if work.stamped("selftests", key) and all((folder / "bin" / n).exists() for n in names):
        return folder
    say(f"selftests: {len(names)} programs and the kernel's headers, under a minute")
    for sub in ("headers", "bin"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    make = ["make", "ARCH=x86_64", f"-j{work.jobs}"]
    work.run([*make, "-C", work.tree, f"O={folder}/headers", "headers_install",
              f"INSTALL_HDR_PATH={folder}/headers/usr"], "selftests.log", env=make_env(work))
    work.run([*make, "-C", work.tree / SOURCE, f"OUTPUT={folder}/bin",
              f"KHDR_INCLUDES=-isystem {folder}/headers/usr/include",
              f"EXTRA_CFLAGS={CFLAGS}", *(f"{folder}/bin/{name}" for name in names)],
             "selftests.log", env=make_env(work))
    work.stamp("selftests", key)
    return folder


def copy(work, place):
    """Into a folder of the guest's root."""
    folder = build(work)
    place.mkdir(parents=True)
    for name in programs():
        (place / name).write_bytes((folder / "bin" / name).read_bytes())
        (place / name).chmod(0o755)
