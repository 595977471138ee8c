# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""TCG can count instructions. A big machine can also run the scaling program, drbh."""

import csv
import re
import subprocess

from tool import guest, kbuild
from tool.work import KERNEL, Failed, say

RESULTS = KERNEL / "results"
README = KERNEL / "README.md"
# column, kernel, its command line. With paygo_at_once the CPU's table has an entry.
KERNELS = [("vanilla", "vanilla", []), ("off", "release", []),
           ("lodic", "release", ["folioref=lodic"]),
           ("lodic, off again", "release", ["folioref=lodic", "lodic.off_again"]),
           ("paygo", "release", ["folioref=paygo"]),
           ("paygo, entry", "release", ["folioref=paygo", "paygo_at_once"]),
           ("hybrid", "release", ["folioref=hybrid"]),
           ("hybrid, entry", "release", ["folioref=hybrid", "paygo_at_once"])]
ROW = re.compile(r"^\s*([a-z][a-z0-9-]*),(\d+),(\d+(?:\.\d+)?)$")
LIMIT_S = 400


def count(work, name, flavour, words, program="bench_instructions", machine="icount"):
    """(case, bytes) -> instructions, in one boot."""
    image = kbuild.build(work, flavour)
    say(f"icount: {name}")
    lines, _, ended = guest.boot(work, image, machine, guest.kernel_line([program], words),
                                 f"icount-{name}", lambda _: LIMIT_S)
    rows = {(m[1], int(m[2])): float(m[3]) for m in map(ROW.match, lines) if m}
    if ended != "done" or not rows:
        raise Failed(f"the guest did not measure: see {work.logs}/icount-{name}.ktap")
    return rows


def table(columns):
    """The first column, and how much more each of the others needs."""
    names = list(columns)
    yield f"| {' | '.join(['case', 'bytes', *names])} |"
    yield f"|{'---|' * (2 + len(names))}"
    for case, size in columns[names[0]]:
        values = [columns[name].get((case, size)) for name in names]
        if None in values:
            continue
        cells = [case, str(size), f"{values[0]:g}",
                 *(f"{value - values[0]:+.4g}" for value in values[1:])]
        yield f"| {' | '.join(cells)} |"


def keep(columns, name):
    """The columns, into kernel/results/."""
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / name, "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(["kernel", "case", "bytes", "instructions"])
        for column, rows in columns.items():
            writer.writerows([column, case, size, f"{n:g}"] for (case, size), n in rows.items())


def put_table(mark, lines):
    """Between the marks of kernel/README.md, and to standard output."""
    text = "\n".join(lines)
    README.write_text(re.sub(rf"<!-- {mark} -->.*<!-- /{mark} -->",
                             lambda _: f"<!-- {mark} -->\n{text}\n<!-- /{mark} -->",
                             README.read_text(encoding="utf-8"), flags=re.DOTALL),
                      encoding="utf-8")
    print(text)


def icount(work):
    """Counts, and keeps: kernel/results/instructions.csv and the table in kernel/README.md."""
    columns = {name: count(work, name, flavour, words) for name, flavour, words in KERNELS}
    keep(columns, "instructions.csv")
    put_table("instructions", table(columns))


def bench(work, rest):
    """Runs tests/drbh on this machine's own kernel; its CSV goes to standard output."""
    folder = work.folder / "guest/programs"
    folder.mkdir(parents=True, exist_ok=True)
    guest.compile_tests(work, folder)
    if subprocess.run([folder / "drbh", *rest], check=False).returncode:
        raise Failed("drbh failed; `kernel/run bench -- -h` lists its options")
