# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Linux's own selftests: those that kernel/tests/selftests.list names, from the work tree, by their
own makefiles, linked statically for the guest. A name has the folder before it, unless that is mm.
"""

from tool.kbuild import make_env
from tool.work import KERNEL, digest, read_lines, say

LIST = KERNEL / "tests/selftests.list"
SOURCE = "tools/testing/selftests"
# What they are compiled from: folders of the tree.
FROM = ["tools/testing/selftests", "tools/include", "include/uapi", "arch/x86/include/uapi"]
# khugepaged.c of 6.12.117 says KSFT_SKIP without its header. Their warnings are not ours.
CFLAGS = "-static -s -w -DKSFT_SKIP=4"


def programs():
    """The programs that run: all that are not skipped."""
    rows = [line.split() for line in read_lines(LIST)]
    return sorted({row[0] for row in rows if row[1] != "skip"})


def folders(names):
    """folder of Linux's -> (where its programs are built, their names there)."""
    found = {}
    for name in names:
        folder, _, program = name.rpartition("/")
        found.setdefault(folder or "mm", (folder, []))[1].append(program)
    return found


def build(work):
    """Returns the folder where they are."""
    folder = work.folder / "selftests"
    names = programs()
    key = digest(CFLAGS, *names, *(work.git("rev-parse", f"HEAD:{name}") for name in FROM))
    if work.stamped("selftests", key) and all((folder / "bin" / n).exists() for n in names):
        return folder
    say(f"selftests: {len(names)} programs and the kernel's headers, under a minute")
    (folder / "headers").mkdir(parents=True, exist_ok=True)
    make = ["make", "ARCH=x86_64", f"-j{work.jobs}"]
    work.run([*make, "-C", work.tree, f"O={folder}/headers", "headers_install",
              f"INSTALL_HDR_PATH={folder}/headers/usr"], "selftests.log", env=make_env(work))
    for source, (place, wanted) in folders(names).items():
        output = folder / "bin" / place
        output.mkdir(parents=True, exist_ok=True)
        work.run([*make, "-C", work.tree / SOURCE / source, f"OUTPUT={output}",
                  f"KHDR_INCLUDES=-isystem {folder}/headers/usr/include",
                  f"USERCFLAGS={CFLAGS}", *(output / name for name in wanted)],
                 "selftests.log", env=make_env(work))
    work.stamp("selftests", key)
    return folder


def copy(work, place):
    """Into a folder of the guest's root."""
    folder = build(work)
    place.mkdir(parents=True)
    for name in programs():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes((folder / "bin" / name).read_bytes())
        (place / name).chmod(0o755)
