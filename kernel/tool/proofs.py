# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Which paths of the kernel change a file under a lease: tests/proofs.c on all its file systems."""

import re
import shutil

from tool import guest, kbuild, report
from tool.work import KERNEL, Failed, say

PAGE = KERNEL / "README.md"
TEST = "proofs_all"
CELL = re.compile(r"^\s*proof\|([^|]+)\|([^|]+)\|(.*)$")
TABLE = re.compile(r"(<!-- proofs -->\n).*?(<!-- /proofs -->)", re.DOTALL)
# command -> the package that has it: no goal of the Makefile installs these.
NEEDED = {"mkfs.btrfs": "btrfs-progs", "mkfs.f2fs": "f2fs-tools"}


def verdict(cell):
    """A cell of the table in a word or two: what lodic must know of it."""
    lease, effect, *heard = cell.split()
    if lease == "none" or effect.isupper():
        return effect
    if lease.startswith("refused"):
        return "refused" if lease == "refused-EAGAIN" else lease.partition("-")[2]
    if lease != "kept":
        return lease
    if not effect.endswith("changed"):
        return f"same, {heard[0]}" if heard else "same"
    return f"**{heard[0]}**" if heard else "**deaf**"


def table(cells):
    """cells: (path, column, cell), in the order in which the guest found them."""
    columns = list(dict.fromkeys(column for _, column, _ in cells))
    found = {(path, column): verdict(cell) for path, column, cell in cells}
    yield f"| path | {' | '.join(columns)} |"
    yield f"|{'---|' * (len(columns) + 1)}"
    for path in dict.fromkeys(path for path, _, _ in cells):
        row = (found.get((path, column), "") for column in columns)
        yield f"| {path} | {' | '.join(row)} |"


def proofs(work):
    """Boots the kernel that has them all, and keeps the table in kernel/README.md. Returns
    (passed, failed)."""
    for command, package in NEEDED.items():
        if not shutil.which(command, path=f"{work.env()['PATH']}:/usr/sbin"):
            raise Failed(f"{command} is not there: install {package}")
    image = kbuild.build(work, "proofs")
    tests = [test for test in report.all_tests() if test.name == TEST]
    result = report.run_tests(work, image, "proofs", tests)
    cells = [m.groups() for m in map(CELL.match, tests[0].lines) if m]
    if not cells:
        raise Failed(f"the guest has no table: see {work.logs}/proofs-1.ktap")
    text = "\n".join(table(cells))
    say(text)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda m: f"{m[1]}{text}\n{m[2]}", page), encoding="utf-8")
    return result
