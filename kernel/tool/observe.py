# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the papers take for granted, looked at in the guest: tests/observe.sh, doc/observed.md."""

import csv
import re

from tool import guest, kbuild
from tool.work import KERNEL, ROOT, Failed, read_lines, say

FILE = KERNEL / "results/observed.csv"
PAGE = ROOT / "doc/observed.md"
# what is asked -> the machine, the kernel
BOOTS = {"sites": ("two-node", "normal"), "highest": ("two-node", "normal"),
         "mapped": ("two-node", "normal"), "times": ("icount", "normal"),
         "kinds": ("icount", "normal"), "dst": ("icount", "observe")}
LINE = re.compile(r"^\s*(site|refs|most|most-entry|vmas|plain|lodic|obs|dsts|hits|held|dst|pages"
                  r"|alive|lived)"
                  r"\|(.*)$")
LIMIT_S = 500
# object -> the call of tests/observe_ops.c that gets and puts one, the probes that are on
PAIRS = {"page": ("read", "lodic"), "file": ("read", "obs"), "dentry": ("stat", "obs"),
         "inode": ("stat", "obs"), "dst": ("send", "dsts")}


def ask(work, what):
    """The lines of one boot, as lists of words."""
    machine, flavour = BOOTS[what]
    image = kbuild.build(work, flavour)
    say(f"observe: {what}")
    lines, _, ended = guest.boot(work, image, machine,
                                 guest.kernel_line(["observe"],
                                                   ["folioref=lodic", f"observe={what}"]),
                                 f"observe-{what}", lambda _: LIMIT_S)
    rows = [[m[1], *m[2].split("|")] for m in map(LINE.match, lines) if m]
    if ended != "done" or not rows:
        raise Failed(f"the guest did not answer: see {work.logs}/observe-{what}.ktap")
    return rows


def sites(rows):
    """A line for each function, a column for each program."""
    calls = {(r[2], r[1]): r[3] for r in rows if r[0] == "site"}
    programs = list(dict.fromkeys(r[1] for r in rows if r[0] == "site"))
    yield f"| function | counted by | what for | {' | '.join(programs)} |"
    yield f"|{'---|' * (len(programs) + 3)}"
    for line in read_lines(guest.TESTS / "observe.sites"):
        name, scheme, what = line.split("|")
        cells = [calls.get((name, p), "") for p in programs]
        yield f"| `{name}` | {scheme} | {what} | {' | '.join(cells)} |"


def highest(rows):
    yield "| program | references | pages | most at a time in a page | in an entry |"
    yield "|---|---|---|---|---|"
    for _, who, refs in (r for r in rows if r[0] == "refs"):
        pages = [(int(r[2]), int(r[3])) for r in rows if r[:2] == ["most", who]]
        entry = next((r[2] for r in rows if r[:2] == ["most-entry", who]), "")
        spread = ", ".join(f"{m} ({n} pages)" for m, n in sorted(pages))
        yield f"| {who} | {refs} | {sum(n for _, n in pages)} | {spread} | {entry} |"


def mapped(rows):
    yield "| program | VMAs | of its files | place from the top |"
    yield "|---|---|---|---|"
    for line in dict.fromkeys(tuple(r[1:]) for r in rows if r[0] == "vmas" and r[3] != "0"):
        who, all_vmas, files, first, last = line
        place = first if first == last else f"{first} to {last}"
        yield f"| {who} | {all_vmas} | {files} | {place} |"


def times(rows):
    """Less what one probe costs: the end of the first, the beginning of the second."""
    cost = {tuple(r[:1] + r[1].split()[:1]): int(r[1].split()[1]) for r in rows
            if r[0] in ("plain", "lodic", "obs", "dsts")}
    hits = {r[1]: int(r[2]) for r in rows if r[0] == "hits"}
    yield "| program | object | pairs | median | 99 of 100 below | longest |"
    yield "|---|---|---|---|---|---|"
    for _, who, kind, nr, *values in (r for r in rows if r[0] == "held"):
        call, probes = PAIRS[kind]
        own = (cost[probes, call] - cost["plain", call]) // hits.get(call, 2)
        cells = " | ".join(f"{max(int(v) - own, 0):,}" for v in values)
        yield f"| {who} | {kind} | {nr} | {cells} |"


def dst(rows):
    """The times, and then who takes and drops."""
    yield from times(rows)
    programs = list(dict.fromkeys(r[1] for r in rows if r[0] == "dst"))
    calls = {(r[2], r[3], r[1]): r[4] for r in rows if r[0] == "dst"}
    yield ""
    yield f"| what happens | where | {' | '.join(programs)} |"
    yield f"|{'---|' * (len(programs) + 2)}"
    for kind in ("takes", "takes none", "drops"):
        for where in sorted({w for k, w, _ in calls if k == kind}):
            cells = " | ".join(calls.get((kind, where, p), "0") for p in programs)
            yield f"| {kind} | `{where}` | {cells} |"


def kinds(rows):
    """Pages that were made, by kind; then how long what has gone lived, and what is left."""
    programs = list(dict.fromkeys(r[1] for r in rows if r[0] == "pages"))
    made = {(r[1], r[2]): int(r[3]) for r in rows if r[0] == "pages"}
    yield f"| pages made for | {' | '.join(programs)} |"
    yield f"|{'---|' * (len(programs) + 1)}"
    for kind in ("page cache", "slab", "other kernel", "anonymous"):
        cells = []
        for who in programs:
            whole = sum(n for (w, _), n in made.items() if w == who)
            part = made.get((who, kind), 0)
            cells.append(f"{part:,} ({100 * part / max(whole, 1):.0f} %)")
        yield f"| {kind} | {' | '.join(cells)} |"
    alive = {(r[1], r[2]): r[3] for r in rows if r[0] == "alive"}
    yield ""
    yield "| program | kind | gone | median | 90 of 100 below | longest | left at the end |"
    yield "|---|---|---|---|---|---|---|"
    for _, who, kind, nr, *values in sorted(r for r in rows if r[0] == "lived"):
        cells = " | ".join(f"{int(v) / 1e6:,.2f}" for v in values)
        yield f"| {who} | {kind} | {nr} | {cells} | {alive.get((who, kind), 0)} |"


TABLES = {"sites": sites, "highest": highest, "mapped": mapped, "times": times, "kinds": kinds,
          "dst": dst}


def kept():
    """question -> the rows that were kept."""
    found = {}
    with open(FILE, newline="", encoding="utf-8") as f:
        for what, *row in csv.reader(f):
            found.setdefault(what, []).append(row)
    return found


def observe(work, questions=()):
    """Boots once for each question, and keeps kernel/results/observed.csv and doc/observed.md."""
    if unknown := set(questions) - set(BOOTS):
        raise Failed(f"nobody can ask for {', '.join(sorted(unknown))}")
    text = PAGE.read_text(encoding="utf-8")
    answers = kept() if questions else {}
    answers |= {what: ask(work, what) for what in questions or BOOTS}
    with open(FILE, "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f, lineterminator="\n")
        for what in BOOTS:
            rows = answers.get(what, [])
            writer.writerows([what, *row] for row in rows)
            table = "\n".join(TABLES[what](rows))
            text = re.sub(rf"<!-- {what} -->.*<!-- /{what} -->",
                          f"<!-- {what} -->\n{table}\n<!-- /{what} -->", text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")
