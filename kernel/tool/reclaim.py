# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What it costs to take a page back, by the number of processes that map it (LODIC Fig. 10)."""

import csv
import re

from tool import guest, kbuild, measure
from tool.work import KERNEL, Failed, say

FILE = KERNEL / "results/reclaim.csv"
# column -> kernel, its command line
COLUMNS = {
    "vanilla": ("vanilla", []),
    "off": ("release", []),
    "lodic": ("release", ["folioref=lodic"]),
    "lodic, no exit": ("release", ["folioref=lodic", "sysctl.vm.lodic_early_exit=0"]),
    "paygo": ("release", ["folioref=paygo"]),
    "hybrid": ("release", ["folioref=hybrid"]),
    # Each page that was read has an entry of the CPU's table, as long as there is room.
    "paygo, entries": ("release", ["folioref=paygo", "paygo_at_once"]),
    "hybrid, entries": ("release", ["folioref=hybrid", "paygo_at_once"]),
}
FIELDS = ["kernel", "case", "sharers", "asked", "gone", "entries", "instructions"]
ROW = re.compile(r"^\s*([a-z][a-z-]*),(\d+),(\d+),(\d+),(\d+),(\d+\.\d)$")
LIMIT_S = 500


def count(work, column):
    """(case, sharers) -> the row, from one boot."""
    flavour, words = COLUMNS[column]
    image = kbuild.build(work, flavour)
    say(f"reclaim: {column}")
    name = f"reclaim-{re.sub('[^a-z]+', '-', column)}"
    lines, _, ended = guest.boot(work, image, "icount",
                                 guest.kernel_line(["bench_reclaim"], words), name,
                                 lambda _: LIMIT_S)
    rows = [dict(zip(FIELDS, [column, *m.groups()])) for m in map(ROW.match, lines) if m]
    if ended != "done" or not rows:
        raise Failed(f"the guest did not measure: see {work.logs}/{name}.ktap")
    return rows


def kept(columns):
    """The rows of columns that are not measured now."""
    if not FILE.exists():
        return []
    with open(FILE, newline="", encoding="utf-8") as f:
        return [row for row in csv.DictReader(f)
                if row["kernel"] in COLUMNS and row["kernel"] not in columns]


def table(rows):
    """A line for each case and number of sharers. After a stroke: the entries that are left to
    pages that a reader holds, where the kernel keeps the pages in any case."""
    by = {(r["kernel"], r["case"], r["sharers"]): r for r in rows}
    names = [name for name in COLUMNS if any(r["kernel"] == name for r in rows)]
    yield f"| case | sharers | taken | {' | '.join(names)} |"
    yield f"|{'---|' * (len(names) + 3)}"
    for case, sharers in dict.fromkeys((r["case"], r["sharers"]) for r in rows):
        found = [by.get((name, case, sharers)) for name in names]
        one = next(r for r in found if r)
        cells = []
        for r in found:
            # Where reclaim waits, the time would be taken off a held page as if it were work.
            if r and "held" in case and "entries" in r["kernel"]:
                r = None
            cell = f"{round(float(r['instructions'])):,}" if r else ""
            if r and "held" in case:
                cell += f" / {r['entries']}"
            cells.append(cell)
        taken = "all" if one["gone"] == one["asked"] else "none"
        yield f"| {case} | {sharers} | {taken} | {' | '.join(cells)} |"


def reclaim(work, columns):
    """Measures, and keeps: kernel/results/reclaim.csv and the table in kernel/README.md."""
    unknown = set(columns) - set(COLUMNS)
    if unknown:
        raise Failed(f"no such column: {', '.join(sorted(unknown))}; there are "
                     f"{', '.join(COLUMNS)}")
    columns = columns or list(COLUMNS)
    rows = kept(columns)
    for column in columns:
        rows += count(work, column)
    order = list(COLUMNS)
    rows.sort(key=lambda r: order.index(r["kernel"]))
    with open(FILE, "w", newline="", encoding="utf-8") as f:
        writer = csv.DictWriter(f, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    measure.put_table("reclaim", table(rows))
