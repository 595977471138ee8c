#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes doc/tiers.md: the numbers of the KLOC paper beside the tier simulator's.

The numbers come from the CSV files that `make figures` leaves, and from
bench/results/recordings.json, which `make bench-recordings` writes. Only the words stand here.
"""

import argparse
import json
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "sim" / "figures"))
from figure_data import Figure  # noqa: E402

PAGE_COLUMNS = 96
FIGURES = ["tier-claims", "tier-policies", "tier-reuse", "tier-controls", "tier-slow", "tier-ratio",
           "tier-memory", "tier-objects"]
RECORDINGS = ROOT / "bench" / "results" / "recordings.json"
MIB = 1 << 20
REUSE_ROWS = ["naive", "nimble++", "kloc", "kloc, in need", "oracle"]
RECORDED_ROWS = ["naive", "nimble++", "kloc_nomigration", "kloc", "kloc, in need", "oracle",
                 "all_fast"]
NEAR = (0.8, 1.25)

# Why a number differs: the beginning of its name, and the words.
WHY = [
    ("rocksdb: kloc_nomigration", "the first file that fills fast memory is no colder than the "
     "next one: with Zipf's law over ranges, placing by activity picks no better ones"),
    ("rocksdb: kloc, in need: with", "readers in order are a quarter of the operations, and a "
     "promotion costs slow memory as much as the read that it saves"),
    ("rocksdb: kloc", "each value is written to fast memory and demoted to slow memory later. "
     "Slow memory is what the run waits for, so a demotion costs as much as a write there"),
    ("redis: kloc, in need / nimble, kernel", "the nearest: nimble with its kernel objects in "
     "slow memory, as KLOCs s.3.2 says of prior work"),
    ("redis", "checkpoints are demoted as in RocksDB; what is gained are socket buffers"),
    ("most", "the ratio of bandwidths is 8 here, and the paper does not give its own"),
    ("all_local", "what streams takes three quarters of a socket's bandwidth here; the paper "
     "does not say how much"),
    ("kloc_numa / autonuma", "autonuma, too, places what comes new beside the task, and most "
     "objects are new; only files that were there before are left behind"),
    ("kloc_numa / nimble", "nimble stays on the first socket altogether"),
    ("migrations to slow", ""),
    ("migrations to fast", "the paper has 4 to 12 %. At scale 64 files have four times as many "
     "frames, and it is 28 % for kloc, 11 % for kloc in need"),
    ("of these, page", "half of what moves are small objects: inodes and index nodes of closed "
     "files. Files are as many as in the paper, but 256 times smaller"),
    ("moved too often", "the paper has less than 1 %"),
    ("uses that", "each use of an object counts as a look-up here; the paper counts accesses to "
     "its trees, of which an unknown part needs a knode"),
    ("nodes visited", "a tree a file has few objects at this scale; a single tree of 2 * 10^6 "
     "objects would be 21 deep"),
]

WORDS = ["""
# Two tiers of memory

`lodic-sim tier` runs a workload's events through `core/kloc` with each policy. It charges what
memory takes: latency, bandwidth, what one tier's traffic takes from the other, copies, scans.

    build/lodic-sim tier --list
    build/lodic-sim tier --workload rocksdb
    build/lodic-sim tier --workload redis --policy naive,kloc --fast 4g --ratio 4 --json
    make figures bench-recordings && /usr/bin/python3 sim/tiers.py     # writes this page

Counts are exact. Times come from a stated cost model (`sim/parameters/tier-two`,
`tier-optane`), and differences under 20 % mean nothing. The generators have the shape of the
paper's workloads (`sim/parameters/tier-work`), as far as its text gives one. All three files were
committed before a workload of the paper was run. Since then only comments in them changed.
After the first runs the engine lost two faults. A tick dropped the moves that uses had asked for,
and scans took their time from the movers. RocksDB's shape lost one: a sixth of its reads were of
files that nobody had open. The controls were shaped until each asks its question.

`--scale 1` runs the paper's sizes as they are. A policy then takes minutes, and up to 12 GB of this
machine's memory.
""", """
## The paper's numbers

The paper says two things of when a closed file leaves fast memory: at once (KLOCs s.4.5), and
as pressure demands (KLOCs s.4.1). `kloc` is the first reading: whole groups leave at the last
close and come back when they are used. `kloc, in need` is the second one: groups leave under
pressure, and what is touched comes back (ADR-0030). Numbers of policies are times another
policy's throughput.
""", """
## Policies by workload

Throughput in times all_slow. The band is over three seeds, and over both ends of the parameters
that decide, one at a time. These are slow bandwidth (1:2 to 1:8), interference, what a move costs,
how much is scanned, the tick, and those of the workload itself.

KLOC's order in the paper's Fig. 4 does not come out. The model waits for slow memory in most
runs, and there a move costs what the access would have cost that it saves. So a policy that moves
pays only for what is used several times between two moves. The first reading moves most, and it
is below all_slow where files are opened for one use. The paper's text does not settle this. It
gives neither the ratio of bandwidths of Fig. 4, nor how often a file is used while it is open.
""", """
## How often a frame is used while its file is open

All depends on this re-use, so here it is swept. The control `phases` opens files, reads each frame
so often, and closes them for long. Throughput is in times all_slow. The last table says where the
workloads stand. Writes count as uses. A frame counts once more each time that its file is opened,
so a file that stays open was opened once.

All five shapes use a frame one to two times while its file is open. The paper says no more than
what the programs do (KLOCs s.3.1, s.7.1). RocksDB merges files, so it writes them once and reads
them once. Redis writes its checkpoints. Terasort reads what it wrote. Cassandra has a cache of its
own. So the shapes lie left of where moving groups begins to pay. Of the programs recorded below,
those whose files come and go lie there, too. At 1:8 the second reading reaches the paper's 1.96
times naive with a re-use of 8 to 16.
""", """
## Controls

`phases` is where grouping should gain: files are opened, read eight times over, and closed for
long. It does, by the second reading. The oracle has far more. The others are workloads where it
has no right to:

- `open_files`: nobody closes a file. KLOC gains all the same, because a file that nobody uses ages
  (KLOCs s.3.2). Without ages it would not.
- `hot_set`: all files are hot, larger than fast memory, and open for one read. The first reading
  has half of what naive has.
- `giant`: one file, hot in 1 %. A group is all or nothing: KLOC gains nothing, and the oracle more
  than three times. What is hot lies all over the file, so groups by parts of it (`--segment`) lose.
- `tiny`: a million files of one frame. All of them fit, and the first reading still moves each of
  them out and in again.
- `streams`: half of the threads stream through the programs' memory. That fits once the files are
  out of fast memory. KLOC gains much, and nimble with its kernel objects in slow memory as much: it
  takes no grouping.
- `phases, interference`: the slow tier's traffic takes 81 % of what it does from the fast one. Less
  is left of every gain.
- `cassandra`, above: a cache of its own. No policy gains over naive there, nor does all_fast.
""", """
## Where objects are placed, and how they move

RocksDB, counts of the measured part (KLOCs Fig. 5b). As in the paper, KLOC places the fewest
frames in slow memory. Unlike there, it moves more than nimble++. The paper draws the bars without
numbers.
""", """
## Bandwidth and capacity

Times all_slow, the average over the five workloads (KLOCs s.7.4, Fig. 6). Gains grow with the ratio
of bandwidths, and policies come closer to each other with 32 GB of fast memory, as in the paper.
KLOC's gain over nimble does not peak at 8 GB, because there is none on the average.
""", """
## Memory

By sizeof, for the most objects that the scaled run had, times the scale. "The index alone" is the
links of objects and whole knodes: what grouping adds to a host that has its objects anyway. The
paper's own sum does not close: two million objects with 8 bytes each are 16 MB, and not 96
(KLOCs s.4.2.3, s.7.1).
""", """
## How long objects live

The paper's lifetimes cannot be those of all objects. By Little's law a page cache of 10 GB whose
frames live for 160 ms takes in 62 GB/s, twice what fast memory carries. Here, too, those that were
freed count, and no others.
""", """
## Recordings of real programs

`make bench-recordings` runs each program once under `lodic run --record`
([tier-trace.md](tier-trace.md)), with a service that has two tiers and the policy kloc. Then the
simulator makes the service's calls again: all of its decisions are the same. And it runs the
program's opens, closes and reads with every policy. A third of the bytes that the program reads is
fast. Memory is as fast as on the paper's machine, with the program's own time between its reads.
Which share of the bytes came from slow memory is an exact count.

nginx that opens a file for each request, and the loader, read each descriptor once or by read(2).
The service serves neither, so its policy has nothing to decide there.
""", """
Share of the bytes that were read from slow memory, in percent:
""", """
Throughput in times all_slow, without the programs' own time: at most so much can placing gain. With
their time, no policy gains more than {most} over all_slow, nor does all_fast more than {bound}. On
two CPUs these programs use little of the bandwidth that the model has.
""", """
Moving groups saves at most {won} points against naive placement, and costs up to {lost} points
where files are closed between two uses. nimble++ saves more where a part of a file is hot. The
oracle shows what there is to save.

Where files stay open, only their ages move them. The first reading then moves nginx's files out and
back, and without the program's time that takes more than it saves.
""", """
## What the model lacks

- The programs. A generator has one idea of each. RocksDB's ranges are hot by Zipf's law, and its
  table cache closes files. Redis writes checkpoints all the time. Filebench keeps its files open.
- A CPU's caches, but for a share of misses. Device traffic. Write-back that waits for the disk.
- All policies move 32 objects at a time. The paper's KLOC moves kernel objects one by one
  (KLOCs s.6.2), which `--one-by-one` does.
- Where a page lies in the DRAM cache of the second platform: an object's number decides.
- Of public traces one small sample has been run ([tier-trace.md](tier-trace.md)). The recordings
  lack writes, small objects, and the memory of the programs.
- Prefetching is told to the policy, as KLOCs s.4.4 has it, for frames that are in memory. Frames
  that are on disk are not fetched early.
- Scale. At 64 instead of 256, a file has four times as many frames, and whole groups cost more.
  There kloc has a third of naive's throughput on RocksDB, and as much as naive on Redis. The second
  reading has 0.6 and 1.2 times naive's, as here.
- How long the run is: it touches three times the footprint. With `run_percent` 3000, ten times as
  long, no row of RocksDB or Redis changes by more than 8 % but that of `kloc` on Redis. What it
  moves out at first then counts for less, and it comes 13 % above naive.
"""]


def number(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def why(name):
    return next((words for begin, words in WHY if name.startswith(begin)), "")


def wrapped_words(text, facts):
    """The words as they stand, but what has a number from the results is filled in again."""
    for part in text.strip().split("\n\n"):
        filled = part
        for name, value in facts.items():
            filled = filled.replace("{" + name + "}", value)
        yield from part.split("\n") if filled == part else textwrap.wrap(filled, PAGE_COLUMNS)
        yield ""


def wrapped(text):
    yield from textwrap.wrap(text, PAGE_COLUMNS)
    yield ""


def claims(figure):
    yield "| what | paper | here | band | here / paper | why |"
    yield "|---|---|---|---|---|---|"
    near = nr = 0
    for panel, series_of in figure.panels.items():
        yield f"| **{panel}** | | | | | |"
        for name, rows in series_of.items():
            row = rows[0]
            times = row["value"] / row["paper"]
            band = "" if row["low"] == row["high"] else \
                f"{number(row['low'])} .. {number(row['high'])}"
            nr += 1
            near += NEAR[0] <= times <= NEAR[1]
            yield (f"| {name} | {number(row['paper'])} {row['unit']} | {number(row['value'])} "
                   f"| {band} | {times:.2f} | {why(name)} |")
    yield "| **parameters** | | | | | |"
    yield "| time to scan a million pages | 2 s | 2 s | | | it is a parameter |"
    yield ""
    yield from wrapped(f"{near} of {nr} numbers are within a quarter of the paper's. Where it "
                       "has a range or a limit, its upper end stands here.")


def policies(figure):
    columns = list(figure.panels)
    yield "| policy | " + " | ".join(columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for name in figure.panels[columns[0]]:
        cells = []
        for column in columns:
            row = figure.panels[column][name][0]
            cells.append(f"{number(row['value'])} ({number(row['low'])} .. "
                         f"{number(row['high'])})")
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""


def counts(figure):
    columns = list(figure.panels)
    yield "| policy | " + " | ".join(columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for name in figure.panels[columns[0]]:
        cells = [f"{figure.panels[c][name][0]['value']:.0f}" for c in columns]
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""


def ratios(figure):
    panels = figure.panels
    xs = sorted({row["x"] for rows in next(iter(panels.values())).values() for row in rows})
    columns = [(panel, x) for panel in panels for x in xs]
    yield "| policy | " + " | ".join(
        f"{panel.split(' of')[0]}, 1:{x:.0f}" for panel, x in columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for name in panels[columns[0][0]]:
        cells = [number(next(row["value"] for row in panels[panel][name] if row["x"] == x))
                 for panel, x in columns]
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""


def memory(figure):
    columns = list(figure.panels)
    units = [next(iter(figure.panels[c].values()))[0]["unit"] for c in columns]
    yield "| workload | paper | " + " | ".join(
        f"{c}, {u}" for c, u in zip(columns, units)) + " |"
    yield "|---|---|" + "---|" * len(columns)
    for name, rows in figure.panels[columns[0]].items():
        cells = [number(figure.panels[c][name][0]["value"]) for c in columns]
        yield f"| {name} | {number(rows[0]['paper'])} MB | " + " | ".join(cells) + " |"
    yield ""


def reuse(figure):
    panels = {name: rows for name, rows in figure.panels.items() if name.startswith("slow")}
    xs = [row["x"] for row in next(iter(panels.values()))["naive"]]
    yield "| policy | ratio | " + " | ".join(f"{x:.0f} reads" for x in xs) + " |"
    yield "|---|---|" + "---|" * len(xs)
    for panel, series_of in panels.items():
        for name in REUSE_ROWS:
            cells = [number(row["value"]) for row in series_of[name]]
            yield f"| {name} | {panel.split()[-1]} | " + " | ".join(cells) + " |"
    yield ""
    yield "| workload | uses of a frame while its file is open |"
    yield "|---|---|"
    for name, rows in figure.panels["the workloads"].items():
        yield f"| {name} | {rows[0]['value']:.2f} |"
    yield ""


def recordings():
    """Four tables' lines."""
    programs = json.loads(RECORDINGS.read_text())["programs"]
    yield [
        "| program | MiB of files | MiB read | uses of a frame while its file is open | decisions "
        "of the service that were made again |", "|---|---|---|---|---|", *(
            f"| {name} | {p['footprint_bytes'] / MIB:.0f} | {p['touched_bytes'] / MIB:.0f} "
            f"| {p['reuse']:.2f} "
            f"| {p['replay']['decisions']} |" for name, p in programs.items()), ""]
    for key in ("slow_percent", "memory_only"):
        yield [
            "| policy | " + " | ".join(programs) + " |", "|---|" + "---|" * len(programs),
            *(f"| {row} | " + " | ".join(number(p["policies"][row][key])
                                         for p in programs.values()) + " |"
              for row in RECORDED_ROWS), ""]


def recorded_facts():
    """The numbers that the words on recordings have."""
    programs = json.loads(RECORDINGS.read_text())["programs"].values()
    moved = [p["policies"][row]["slow_percent"] - p["policies"]["naive"]["slow_percent"]
             for p in programs for row in ("kloc", "kloc, in need")]
    real = {row: max(p["policies"][row]["throughput"] for p in programs)
            for row in RECORDED_ROWS}
    bound = real.pop("all_fast")
    return {"won": f"{-min(moved):.0f}", "lost": f"{max(moved):.0f}",
            "most": f"{100 * max(real.values()) - 100:.0f} %",
            "bound": f"{100 * bound - 100:.0f} %"}


def lifetimes(figure):
    yield "| workload | kind | paper, ms | here, ms |"
    yield "|---|---|---|---|"
    for panel, series_of in figure.panels.items():
        for name, rows in series_of.items():
            if rows[0]["paper"] is not None:
                yield (f"| {panel.split(': ')[1]} | {name} | {number(rows[0]['paper'])} "
                       f"| {number(rows[0]['value'])} |")
    yield ""


def page(figures):
    head = figures["tier-claims"].head
    yield "<!-- SPDX-License-Identifier: GPL-2.0-only OR MIT -->"
    yield "<!-- Written by sim/tiers.py from measurements; do not edit. -->"
    yield from WORDS[0].strip().split("\n")
    yield ""
    yield from wrapped(f"Parameters {head['parameters']}, seed {head['seed']}, bands over "
                       f"{head['machines']} runs; sizes divided by 256.")
    parts = [claims(figures["tier-claims"]), policies(figures["tier-policies"]),
             reuse(figures["tier-reuse"]), policies(figures["tier-controls"]),
             counts(figures["tier-slow"]), ratios(figures["tier-ratio"]),
             memory(figures["tier-memory"]), lifetimes(figures["tier-objects"]), *recordings(), []]
    facts = recorded_facts()
    for text, part in zip(WORDS[1:], parts):
        yield from wrapped_words(text, facts)
        yield from part
    yield from WORDS[-1].strip().split("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build", help="where figures/*.csv are")
    parser.add_argument("--out", default=str(ROOT / "doc" / "tiers.md"))
    options = parser.parse_args()
    folder = (ROOT / options.build).resolve() / "figures"
    if not RECORDINGS.exists():
        sys.exit(f"tiers: no {RECORDINGS}: run `make bench-recordings` first")
    missing = [n for n in FIGURES if not (folder / f"{n}.csv").exists()]
    if missing:
        sys.exit(f"tiers: no {missing[0]}.csv in {folder}: run `make figures` first")
    figures = {name: Figure(folder / f"{name}.csv") for name in FIGURES}
    pathlib.Path(options.out).write_text("\n".join(page(figures)) + "\n")
    print(f"tiers: {options.out}")


if __name__ == "__main__":
    main()
