#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Compares the timing model with what is known, and writes doc/validation.md.

1. This machine: the steps of bench_micro, native against simulated.
2. The papers: every number in their texts that a figure has a row for.
3. The papers: statements about order that have no number.
4. What the kernel series asks of its own schemes.

The numbers come from bench_micro, from `lodic-sim micro` and from the CSV files of
sim/figures/figures.py. No number is typed here, and nothing is tuned.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import textwrap

PAGE_COLUMNS = 96
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "sim" / "figures"))
from figure_data import Figure, paper_anywhere  # noqa: E402

STEPS = {
    "fetch_add": "fetch-add on one word",
    "cas": "load and compare-and-swap on one word, until done",
    "ping_pong": "a word handed over by load and store, one way",
    "ping_pong_cas": "a word handed over by compare-and-swap, one way",
    "pin": "a ref and an unref of lodic"}


def run_json(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"validate: `{' '.join(command)}` failed: "
                 f"{done.stderr.decode().strip()}")
    return json.loads(done.stdout)


def number(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def factor_words(factor):
    if 0.8 <= factor <= 1.25:
        return "agrees within a quarter"
    how = factor if factor > 1 else 1 / factor
    return f"the model is {how:.1f} times too {'slow' if factor > 1 else 'fast'}"


# ---- this machine ----

def native_rows(native, simulated):
    theirs = {(row["name"], row["cpus"]): row for row in native["results"]}
    for row in simulated["results"]:
        real = theirs.get((row["name"], row["cpus"]))
        if real and real["ns"]:
            yield row, real, row["ns"] / real["ns"]


def measured_here(topology):
    """Names of the parameters whose source is a measurement on this machine."""
    folder = ROOT / "sim"
    text = (folder / "topologies" / topology).read_text()
    name = re.search(r"^parameters *= *(\S+)", text, re.MULTILINE)[1]
    lines = (folder / "parameters" / name).read_text().splitlines()
    return [line.split("=")[0].strip() for line in lines
            if "# measured" in line and "=" in line.split("#")[0]]


def native_section(native, simulated):
    machine = native.get("machine", {})
    yield "## 1. This machine, native and simulated"
    yield ""
    yield (f"Native: {machine.get('cpu', 'this machine')}, "
           f"{machine.get('cpus', '?')} CPUs, a virtual machine with neighbours; "
           "`bench_micro --json`. Simulated: `lodic-sim micro`, topology "
           f"{simulated['topology']}, parameters {simulated['parameters']}. The numbers are "
           "ns of one step on one CPU. For ping-pong they are ns of one way.")
    yield ""
    yield "| step | CPUs | native | spread | simulated | band | simulated / native | |"
    yield "|---|---|---|---|---|---|---|---|"
    factors = []
    for row, real, factor in native_rows(native, simulated):
        factors.append(factor)
        yield (f"| {STEPS.get(row['name'], row['name'])} | {row['cpus']} "
               f"| {number(real['ns'])} | {number(real['spread'])} | {number(row['ns'])} "
               f"| {number(row['low'])} .. {number(row['high'])} | {factor:.2f} "
               f"| {factor_words(factor)} |")
    yield ""
    if not factors:
        yield "No step was measured on both sides."
        return
    inputs = measured_here(simulated["topology"])
    if inputs:
        yield (f"These parameters were themselves measured on this machine: "
               f"{', '.join(inputs)}. Some rows follow from one of them alone: the "
               "hand-overs, and those of one CPU. Such a row says how well two measurements "
               "agree, not how good the model is.")
        yield ""
    yield (f"The factors go from {min(factors):.2f} to {max(factors):.2f}. No parameter was "
           "chosen to make this table come out. A factor far from 1 means that the model is "
           "wrong for this processor by that factor. A figure that rests on that step is no "
           "better.")
    yield ""
    yield ("A virtual machine's CPUs may share a cache now and not an hour later. The "
           "parameters come from such a machine. In most runs a hand-over by "
           "compare-and-swap took 26 to 29 ns there, and about 110 in others, steadily "
           "within a run. A contended addition took the same in both. The parameters are "
           "those of the near pair.")
    yield from native_words(native)


def native_words(native):
    """Why two CPUs on one word can be slower in the model than on the machine."""
    theirs = {(row["name"], row["cpus"]): row["ns"] for row in native["results"]}
    alone, add = theirs.get(("fetch_add", 1)), theirs.get(("fetch_add", 2))
    hand_over = theirs.get(("ping_pong_cas", 2))
    # Both CPUs together make an addition each add / 2; what is over the addition itself is
    # an addition's share of a hand-over.
    if not alone or not add or not hand_over or add / 2 <= alone:
        return
    yield ""
    yield (f"Natively, two CPUs that add to one word make an addition every "
           f"{number(add / 2)} ns. The addition itself takes {number(alone)} ns of it, and a "
           f"hand-over takes {number(hand_over)} ns. So the CPU that has the line makes "
           f"about {hand_over / (add / 2 - alone):.0f} additions before it lets the line go. "
           "The model's owner keeps a line for its hold time only. Every figure that reads "
           "blocks has other work between two additions, so there the owner has no second "
           "addition to make.")


# ---- numbers of the papers ----

KINDS = {
    "predicted": "Predicted: no parameter was chosen by looking at the number",
    "fitted": "Fitted, or a ratio to what was fitted: the row says nothing",
    "explained": "Explained: a mechanism is in the model because of this number",
    "consequence": "A consequence of something that the paper does not give",
    "arithmetic": "Arithmetic"}


def paper_rows(figures):
    for figure in figures.values():
        for panel, series_of in figure.panels.items():
            for series, rows in series_of.items():
                for row in rows if not paper_anywhere(rows) else []:
                    if row["paper"] is not None:
                        yield figure, panel, series, row


def anywhere_rows(figures):
    for figure in figures.values():
        for panel, series_of in figure.panels.items():
            for series, rows in series_of.items():
                if paper_anywhere(rows):
                    yield figure, panel, series, rows, paper_anywhere(rows)


def meets(rows, paper):
    rows = sorted(rows, key=lambda row: row["x"])
    for before, after in zip(rows, rows[1:]):
        if (before["value"] - paper) * (after["value"] - paper) <= 0:
            return f"between x = {before['x']:g} and {after['x']:g}"
    return f"nowhere from x = {rows[0]['x']:g} to {rows[-1]['x']:g}"


def paper_section(figures):
    yield "## 2. Numbers in the papers' texts"
    yield ""
    yield ("Band: lowest and highest over the sensitivity set, the parameters that nothing "
           "pins down. The fits are not made again for each machine of the set. A number "
           "inside its band is no proof. A number outside says that the model lacks "
           "something.")
    rows = list(paper_rows(figures))
    yield ""
    yield ("For some numbers the paper does not say at which x they hold. The table says "
           "where the model's curve meets them.")
    yield ""
    yield "| source | what | paper | the curve meets it | |"
    yield "|---|---|---|---|---|"
    for figure, panel, series, those, paper in anywhere_rows(figures):
        yield (f"| {figure.head['paper']} | {panel}: {series} | {number(paper)} "
               f"| {meets(those, paper)} | a consequence, not a prediction |")
    for kind, words in KINDS.items():
        those = [row for row in rows if row[3]["kind"] == kind]
        if not those:
            continue
        yield ""
        yield f"### {words}"
        yield ""
        yield "| source | what | at | paper | here | band | here / paper | in the band |"
        yield "|---|---|---|---|---|---|---|---|"
        for figure, panel, series, row in those:
            ratio = row["value"] / row["paper"] if row["paper"] else float("nan")
            inside = "yes" if row["low"] <= row["paper"] <= row["high"] else "no"
            band = f"{number(row['low'])} .. {number(row['high'])}"
            if row["low"] == row["high"]:
                band = inside = ""
            yield (f"| {figure.head['paper']} | {panel}: {series} | {row['x']:g} "
                   f"| {number(row['paper'])} {row['unit']} | {number(row['value'])} "
                   f"| {band} | {ratio:.2f} | {inside} |")


# ---- statements of order ----

class Claims:
    """Asks the figures. A claim stays open if a row that it needs is missing."""

    def __init__(self, figures):
        self.figures, self.lines = figures, []

    def row(self, figure, panel, series, x):
        for row in self.figures[figure].panels[panel][series]:
            if row["x"] == x:
                return row
        raise KeyError(x)

    def xs(self, figure, panel, series):
        return sorted(row["x"] for row in self.figures[figure].panels[panel][series])

    def claim(self, source, words, ask):
        try:
            holds, numbers = ask(self)
        except (KeyError, ZeroDivisionError, IndexError) as error:
            holds, numbers = None, f"no row {error}"
        verdict = {True: "agrees", False: "**disagrees**", None: "open"}[holds]
        self.lines.append(f"| {source} | {words} | {numbers} | {verdict} |")


# The model cannot tell schemes apart that are closer than this.
RESOLUTION = 1.2


def above(big, small):
    """True or False where the bands are apart and by enough, None where not."""
    if max(big["value"], small["value"]) < RESOLUTION * min(big["value"], small["value"]):
        return None
    if big["low"] > small["high"]:
        return True
    if big["high"] < small["low"]:
        return False
    return None


def compare(figure, panel, big, small, x):
    def ask(c):
        a, b = c.row(figure, panel, big, x), c.row(figure, panel, small, x)
        return above(a, b), (f"{big} {number(a['value'])}, {small} {number(b['value'])} "
                             f"{a['unit']}")
    return ask


SLIGHTLY = 1.5


def slightly(figure, panel, big, small, x):
    """Is big ahead, and by less than SLIGHTLY?"""
    def ask(c):
        holds, numbers = compare(figure, panel, big, small, x)(c)
        a, b = c.row(figure, panel, big, x)["value"], c.row(figure, panel, small, x)["value"]
        if holds is None or a < b:
            return holds, numbers
        return (holds if a < SLIGHTLY * b else False), f"{numbers}: times {a / b:.3g}"
    return ask


def grows(figure, panel, series, least=None, most=None):
    """Is the factor from the first x to the last within the limits?"""
    def ask(c):
        xs = c.xs(figure, panel, series)
        first, last = (c.row(figure, panel, series, x) for x in (xs[0], xs[-1]))
        factor = last["value"] / first["value"]
        holds = (least is None or factor >= least) and (most is None or factor <= most)
        return holds, f"times {factor:.3g} from {xs[0]:g} to {xs[-1]:g}"
    return ask


def break_even(c):
    sizes = c.xs("spectrum", "reads of 64 bytes", "refcache")
    for size in sizes:
        vanilla = c.row("spectrum", "reads of 64 bytes", "atomic", size)["value"]
        refcache = c.row("spectrum", "reads of 64 bytes", "refcache", size)["value"]
        if vanilla > refcache:
            return 8 <= size <= 32, f"vanilla is ahead from {size:g} MiB on"
    return False, f"vanilla is not ahead up to {sizes[-1]:g} MiB"


def quarter(c):
    lodic = c.row("reclaim", "all blocks of 1 GB", "lodic (10%)", 45)["value"]
    paygo = c.row("reclaim", "all blocks of 1 GB", "paygo", 45)["value"]
    return lodic < paygo / 4, f"lodic {number(lodic)} ms, paygo {number(paygo)} ms"


def all_hot(c):
    xs = c.xs("reclaim", "all blocks of 1 GB", "paygo")
    for x in xs:
        lodic = c.row("reclaim", "all blocks of 1 GB", "lodic (100%)", x)["value"]
        paygo = c.row("reclaim", "all blocks of 1 GB", "paygo", x)["value"]
        if lodic > paygo:
            return 15 < x <= 80, f"lodic is slower from {x:g} processes on"
    return False, "lodic is never slower"


def saturates(c):
    xs = c.xs("applications", "requests of 6 us", "atomic")
    best = max(xs, key=lambda x: c.row("applications", "requests of 6 us", "atomic",
                                       x)["value"])
    return 20 <= best <= 40, f"atomic is best at {best:g} processes, for requests of 6 us"


def first_with_readers(c):
    panel = c.figures["reclaim-paygo"].panels["with readers"]
    if "refcache" not in panel and c.row("reclaim-paygo", "without readers", "refcache", 0):
        return False, "refcache does not come to an end within the window while readers go on"
    three = {name: panel[name][0]["value"] for name in ("atomic", "refcache", "paygo")}
    return (min(three, key=three.get) == "refcache",
            ", ".join(f"{name} {number(v)} ms" for name, v in three.items()))


def split_share(c):
    slow = c.row("anchor", "96 CPUs, one block", "paygo", 1000)["value"]
    none = c.row("anchor", "96 CPUs, one block", "paygo", 0)["value"]
    return slow > 0.95 * none, f"at 1 in 1000 PAYGO keeps {100 * slow / none:.1f} %"


CLAIMS = [
    ("LODIC s.5.2.3", "through process space, throughput grows with the CPUs",
     grows("scaling", "one block, all CPUs", "lodic", least=90)),
    ("LODIC s.5.2.3", "through file space it fails to scale",
     grows("scaling", "one block, all CPUs", "lodic_file", most=10)),
    ("LODIC s.5.1", "LODIC is as good as RefCache in a server (within its band)",
     lambda c: (above(c.row("applications", "50 processes, over atomic", "refcache", 8),
                      c.row("applications", "50 processes, over atomic", "lodic", 8))
                is not True, "ratio {:.3g} and {:.3g}".format(
                    c.row("applications", "50 processes, over atomic", "refcache",
                          8)["value"],
                    c.row("applications", "50 processes, over atomic", "lodic",
                          8)["value"]))),
    ("LODIC s.1", "with the global counter a web server is best at 30 cores", saturates),
    ("LODIC s.5.2.2", "a tenth mapped: under a quarter of the per-core schemes at 45",
     quarter),
    ("LODIC s.5.2.2", "all mapped: above the per-core schemes from 40 processes on",
     all_hot),
    ("LODIC s.5.2.2", "a query's worst case grows with the sharers",
     grows("query", "nobody holds it", "lodic", least=4)),
    ("LODIC s.5.2.3", "mapping hardly disturbs readers that use process space",
     lambda c: (c.row("mapping", "mapped for 100 us, not touched", "lodic", 5)["value"] > 0.8,
                f"{c.row('mapping', 'mapped for 100 us, not touched', 'lodic', 5)['value']:.2f} "
                "left")),
    ("LODIC s.5.2.3", "with file space 1/100 is left from five mapping processes on (not "
     "expected: the model has no locks that sleep)",
     lambda c: (c.row("mapping", "mapped for 10 us, not touched", "lodic_file", 5)["value"] < 0.02,
                f"{c.row('mapping', 'mapped for 10 us, not touched', 'lodic_file', 5)['value']:.2f}"
                " left")),
    ("PAYGO s.6.2.1", "RefCache is ahead of vanilla on one block",
     compare("scaling-paygo", "one block, all CPUs", "refcache", "atomic", 96)),
    ("PAYGO s.6.2.1", "PAYGO is slightly behind RefCache",
     slightly("scaling-paygo", "one block, all CPUs", "refcache", "paygo", 96)),
    ("PAYGO s.6.2.1", "SNZI is slightly ahead of vanilla",
     slightly("scaling-paygo", "one block, all CPUs", "snzi", "atomic", 96)),
    ("PAYGO s.6.2.2", "with many blocks vanilla is ahead of SNZI",
     compare("weak", "random reads from ten files, by threads", "atomic", "snzi", 96)),
    ("PAYGO s.6.2.2", "with many blocks PAYGO is ahead of RefCache",
     compare("weak", "random reads from ten files, by threads", "paygo", "refcache", 96)),
    ("PAYGO s.6.2.3", "RefCache falls sharply as the file grows",
     grows("spectrum", "reads of 64 bytes", "refcache", most=0.5)),
    ("LODIC s.5.2.1", "collisions take RefCache from 186 to 70 Mops/s at 4 KiB",
     grows("spectrum", "reads of 4 KiB", "refcache", most=0.5)),
    ("PAYGO s.6.2.3", "PAYGO hardly falls (but for caches, which are not modelled)",
     grows("spectrum", "reads of 64 bytes", "paygo", least=0.7)),
    ("PAYGO s.6.2.3", "vanilla overtakes RefCache at 16 MiB", break_even),
    ("PAYGO s.6.2.3", "split references do not cost throughput", split_share),
    ("PAYGO s.6.3", "dropping a file that is read, RefCache is first", first_with_readers),
    ("PAYGO s.6.3", "dropping a file at rest, vanilla is before RefCache",
     compare("reclaim-paygo", "without readers", "refcache", "atomic", 0)),
]


def claims_section(figures):
    claims = Claims(figures)
    for source, words, ask in CLAIMS:
        claims.claim(source, words, ask)
    yield "## 3. What the papers say without a number"
    yield ""
    yield ("The model exists to get the order right. \"Open\" means that the bands overlap, "
           "that the two are within a fifth of each other, or that a scheme is missing.")
    yield ""
    yield "| source | the paper says | the model says | |"
    yield "|---|---|---|---|"
    yield from claims.lines


# ---- what no paper says ----

# The kernel series asks this of hybrid: so much of its rate at one thread a process.
KEPT_AT_LEAST = 0.9


def row_at(figure, panel, series, x):
    return next(row for row in figure.panels[panel][series] if row["x"] == x)


def processes_rows(figure):
    """Threads a process, and for each scheme its rate, what is left of it, and how many lines
    move."""
    schemes = ["atomic", "paygo", "paygo_fold", "lodic", "hybrid"]
    place = "far apart"
    yield f"| threads a process, {place} | " + " | ".join(schemes) + " |"
    yield "|---|" + "---|" * len(schemes)
    for x in sorted(row["x"] for row in figure.panels[f"kept, {place}"]["lodic"]):
        cells = []
        for scheme in schemes:
            mops, kept, moves = (
                row_at(figure, f"{what}, {place}", scheme, x)["value"]
                for what in ("reads", "kept", "line transfers of an operation"))
            cells.append(f"{number(mops)}, {kept:.2f}, {moves:.2f}")
        yield f"| {x:g} | " + " | ".join(cells) + " |"


def processes_words(figure):
    lowest = min((row["low"], panel, row["x"]) for panel, series in figure.panels.items()
                 if panel.startswith("kept, ") for row in series["hybrid"] if row["x"] > 1)
    holds = "It does" if lowest[0] >= KEPT_AT_LEAST else "**It does not**"
    return (f"All 120 CPUs read one block of 4 KiB. A cell has the rate in Mops/s, its ratio to "
            "the rate at one thread a process, and the line transfers of an operation. "
            "`hybrid` must keep "
            f"{KEPT_AT_LEAST:g}. {holds}: over all placings and the whole band, it keeps at "
            f"least {lowest[0]:.2f} ({lowest[1].removeprefix('kept, ')}, {lowest[2]:g} "
            "threads).")


ENTRIES = ["64 entries, filled", "512 entries, filled", "4096 entries, filled",
           "512 entries, at a failed cas"]


def entries_rows(figure):
    for panel, series in figure.panels.items():
        if series[next(iter(series))][0]["unit"] != "Mops/s":
            continue
        names = ["atomic"] + [name for name in ENTRIES if name in series] + ["paygo"]
        yield ""
        yield f"| {panel}: MiB | " + " | ".join(names) + " |"
        yield "|---|" + "---|" * len(names)
        for row in series["atomic"]:
            yield f"| {row['x']:g} | " + " | ".join(
                number(row_at(figure, panel, name, row["x"])["value"])
                for name in names) + " |"


def most_gain(figure, panel, more, less):
    return max(row["value"] / row_at(figure, panel, less, row["x"])["value"]
               for row in figure.panels[panel][more])


def entries_words(figure):
    any_block, zipf, _ = [panel for panel, series in figure.panels.items()
                          if next(iter(series.values()))[0]["unit"] != "percent"]
    small, middle, large = ENTRIES[:3]
    held = {name: rows[0] for name, rows in
            figure.panels["files kept in memory at most, blocks of 4 KiB"].items()}
    yield (f"512 entries read at most {most_gain(figure, any_block, middle, small):.2f} times "
           "as much as 64 where all blocks are alike, and "
           f"{most_gain(figure, zipf, middle, small):.2f} times under Zipf's law. 4096 entries "
           f"read at most {most_gain(figure, any_block, large, middle):.2f} and "
           f"{most_gain(figure, zipf, large, middle):.2f} times as much as 512. The first of "
           "these takes a file of 4 to 16 MiB whose blocks are all alike and of 4 KiB each. In "
           "folios of 64 KiB such a file has no more than 256 objects. On "
           f"{held[middle]['x']:g} CPUs, 4096 entries can keep {number(held[large]['value'])} "
           f"MB in memory, and 512 entries {number(held[middle]['value'])} MB. A table of 4096 "
           "takes 128 KiB of a CPU's caches instead of 16 KiB. The model has no caches, so it "
           "flatters the larger table. We therefore take 512.")
    yield ""
    yield ("So a CPU's entries hold 2 MiB of blocks of 4 KiB at most. The number of entries "
           "bounds no bytes where folios are large: 512 folios of 2 MiB are 1 GiB. The largest "
           "file of PAYGO Fig. 10 is 32 such folios. A bound of 64 MiB a CPU therefore costs "
           "none of these files anything. Together the CPUs should never hold more than a "
           "small share of the memory. That share is a decision, and the model says nothing "
           "of it.")


def own_processes(figure):
    yield ""
    yield "### Processes of several threads"
    yield ""
    yield processes_words(figure)
    yield ""
    yield from processes_rows(figure)


def own_entries(figure):
    yield ""
    yield "### How many entries a CPU's table needs"
    yield ""
    yield ("In the kernel an entry of PAYGO's table owns a reference. So it stays when nobody "
           "holds its block, until it has been idle for some time. 96 CPUs read files of 1 to "
           "64 MiB at random, in Mops/s. A filled table has an entry for every block that "
           "there is room for. At a failed cas: as the kernel makes entries, a few "
           "milliseconds after the start.")
    yield from entries_rows(figure)
    yield ""
    yield from entries_words(figure)


def own_section(figures):
    yield "## 4. What no paper says"
    for name, section in (("processes", own_processes), ("entries", own_entries)):
        if name in figures:
            yield from section(figures[name])
        else:
            yield from ("", f"The figure {name} was not run.")


def meaning_section(figures):
    # Counters that a query looks at have no band: no clock is in them.
    rows = [row for _, _, _, row in paper_rows(figures)
            if row["kind"] == "predicted" and row["low"] < row["high"]]
    inside = sum(row["low"] <= row["paper"] <= row["high"] for row in rows)
    off = sorted(max(row["value"] / row["paper"], row["paper"] / row["value"])
                 for row in rows if row["paper"] > 0 and row["value"] > 0)
    yield "## 5. What this means"
    yield ""
    yield (f"Of {len(rows)} predicted times and rates, {inside or 'none'} "
           f"{'lie inside their' if inside > 1 else 'lies inside its'} band.")
    if off:
        yield (f"Half of them are within a factor of {off[len(off) // 2]:.2f} of the paper. "
               f"The worst is off by a factor of {off[-1]:.2f}.")
    yield ""
    yield "What the figures say, and what they do not say:"
    yield ""
    yield from (
        "- The figures show order, slope, where a scheme collapses, and on which line. They "
        "do not show absolute throughput, nor which of two schemes is ahead by less than a "
        "fifth.",
        "- We knew the papers' numbers when we made the model. Nothing here is blind.",
        "- Uncontended rows are mostly the fitted work of a read. They are close because of "
        "that.",
        "- Table 3 is not reproduced. The pte alone does not explain its second row. With "
        "another word or two of the process the model comes near. Which words those would "
        "be is a guess.",
        "- Cache capacity, prefetching, hyperthreads, turbo, TLBs, memory bandwidth, "
        "interrupts and the scheduler are not in the model. No figure shows them.",
        "- Native checks reach as far as two CPUs do: one line that goes to and fro. What "
        "120 CPUs do to it rests on published latencies and the fitted cost of a queue.")


def wrapped(line):
    """A paragraph or an item of a list, in lines of the page's width; tables stay."""
    if line.startswith(("|", "#", "<!--")):
        return line
    return textwrap.fill(line, PAGE_COLUMNS, subsequent_indent="  " if line[:2] == "- " else "",
                         break_long_words=False, break_on_hyphens=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--micro", default="", help="a file with bench_micro's JSON")
    parser.add_argument("--out", default=str(ROOT / "doc" / "validation.md"))
    options = parser.parse_args()

    build = (ROOT / options.build).resolve()
    figures = {path.stem: Figure(path)
               for path in sorted((build / "figures").glob("*.csv"))
               if Figure.is_figure(path) and not path.stem.startswith("tier-")}  # tiers.py
    if not figures:
        sys.exit("validate: no figures; run sim/figures/figures.py first")
    if options.micro:
        native = json.loads(pathlib.Path(options.micro).read_text())
    else:
        native = run_json([str(build / "bench" / "bench_micro"), "--json"])
    simulated = run_json([str(build / "lodic-sim"), "micro", "--json"])
    lines = ["<!-- SPDX-License-Identifier: GPL-2.0-only OR MIT -->",
             "<!-- Written by sim/validate.py from measurements; do not edit. -->",
             "# How far the timing model can be trusted", "",
             *native_section(native, simulated), "",
             *paper_section(figures), "",
             *claims_section(figures), "",
             *own_section(figures), "",
             *meaning_section(figures)]
    pathlib.Path(options.out).write_text("\n".join(map(wrapped, lines)) + "\n")
    print(f"validate: {options.out}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
