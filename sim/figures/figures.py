#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs the figures of lodic-sim and draws them: CSV and PNG into BUILD/figures/.

The title of a figure is a verdict, computed from its rows (verdicts.py). Lines are values,
bands are what became of them over the sensitivity set: the parameters that nothing pins
down. Hollow points were fitted, a cross is a number of the paper's text. A plot has at most
six lines; JSON and CSV have all.

--readme FILE draws only the README's figure: `figure scaling`, one panel, as SVG or PNG.
--cache FILE draws only pins of one hot block in liblodic's cache (`lodic-sim cache`), as SVG or
PNG.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

import drawing
from drawing import Line, Page, number
from figure_data import HIDDEN, Figure, paper_anywhere
from verdicts import verdict_of, verdict_of_readme

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

LOG_UNITS = {"Mops/s", "ns", "ms", "MB", "bytes", "1/hour", "ratio"}
# Values that lie farther apart than this go on a logarithmic axis.
WIDE = 12
# Rarer than this, an event an hour is as good as never; the axis ends there.
NEVER_AN_HOUR = 1e-12
# Beside lines a panel of bars is high; with fewer bars than this they would be thick.
FEW_BARS = 6
# These begin first, the longest before all, so that no other waits for one of them in the end.
LONGEST = ["tier-policies", "entries", "spectrum", "tier-controls", "tier-reuse", "tier-ratio",
           "weak", "counter", "processes", "threads", "applications", "tier-claims", "mapping",
           "scaling-paygo", "anchor", "scaling", "tier-kinds"]

# What a figure is about, where that is not the scheme lodic.
SUBJECTS = {
    "breakdown": {"counter"},
    "breakdown-paygo": {"counter"},
    "curve24": {"paygo"},
    "drains": {"hybrid, 16 threads a process"},
    "drop": {"lodic (100%)"},
    "entries": {"512 entries, filled"},
    "latency": {"LODIC, mapped, process space", "process space"},
    "maximum": {"key-value, always holding", "zipf 0.98", "5 bits, zipf 0.98"},
    "memory": {"LODIC, 120 processes", "LODIC, 1 GB mapped on each", "lodic"},
    "processes": {"hybrid"},
    "query": {"measured, p = 0.9", "lodic"},
    "reclaim": {"lodic (10%)", "lodic (20%)", "lodic (100%)"},
    "sleepers": {"lodic_file, sleeps"},
    "spectrum": {"paygo"},
    "threads": {"a context each (liblodic)"},
    "tier-claims": set(),
    "tier-controls": {"kloc", "kloc, in need"},
    "tier-kinds": {"+ block I/O"},
    "tier-memory": set(),
    "tier-nodes": {"kloc_numa"},
    "tier-objects": {"frame"},
    "tier-policies": {"kloc", "kloc, in need"},
    "tier-ratio": {"kloc", "kloc, in need"},
    "tier-reuse": {"kloc", "kloc, in need"},
    "tier-slow": {"kloc", "kloc, in need"},
    "walk": {"process space"},
    "weak": {"paygo"}}
# Which series come first, where the usual choice misses what the figure is about.
RELEVANT = {
    "maximum": ["4 bits, zipf 0.98", "5 bits, zipf 0.98", "7 bits, zipf 0.98",
                "8 bits, zipf 0.98", "5 bits, one page", "7 bits, one page"],
    "query": ["lodic", "atomic", "refcache", "paygo", "hazard", "sloppy"],
    "entries": ["512 entries, filled", "atomic", "paygo", "64 entries, filled",
                "4096 entries, filled", "512 entries, at a failed cas"],
    "processes": ["hybrid", "lodic", "atomic", "paygo", "paygo_fold", "hazard"],
    "scaling": ["lodic", "atomic", "refcache", "paygo", "frozen", "lodic_file"],
    "scaling-paygo": ["lodic", "atomic", "refcache_sv6", "paygo", "snzi", "snzi_sv6"],
    "threads": ["a context each (liblodic)", "atomic", "pte and lock, side by side",
                "pte and lock, far apart", "pte, side by side", "pte, far apart"],
    "tier-ratio": ["kloc", "kloc, in need", "naive", "nimble", "nimble++", "oracle"],
    "tier-reuse": ["kloc", "kloc, in need", "naive", "nimble", "nimble++", "oracle"]}

# The README's figure.
README_PANEL = "one block, all CPUs"
README_SCHEMES = ["atomic", "frozen", "refcache", "paygo", "lodic"]


def panels_of(figure):
    """(title, series -> rows) of each panel; one with two units becomes two."""
    for name, panel in figure.panels.items():
        panel = {series: rows for series, rows in panel.items()
                 if series not in HIDDEN}
        units = list(dict.fromkeys(rows[0]["unit"] for rows in panel.values()))
        for unit in units:
            title = name if len(units) == 1 else f"{name}, {unit}"
            yield title, {series: rows for series, rows in panel.items()
                          if rows[0]["unit"] == unit}


def is_bars(panel):
    return all(len(rows) == 1 for rows in panel.values())


def line_of(series, rows):
    rows = sorted(rows, key=lambda row: row["x"])
    crosses = [] if paper_anywhere(rows) else \
        [(row["x"], row["paper"]) for row in rows if row["paper"] is not None]
    return Line(series, [row["x"] for row in rows], [row["value"] for row in rows],
                [row["low"] for row in rows], [row["high"] for row in rows],
                [row["kind"] == "fitted" for row in rows], crosses)


def scale_y(axes, rows):
    unit = rows[0]["unit"]
    values = [row["value"] for row in rows if row["value"] > 0]
    wide = bool(values) and max(values) / min(values) > WIDE
    if unit == "1/hour":
        axes.set_yscale("log", nonpositive="clip")
        axes.set_ylim(NEVER_AN_HOUR, max(values) * 100)
        return
    if unit in LOG_UNITS and wide and all(row["value"] > 0 for row in rows):
        axes.set_yscale("log")
        drawing.plain_log(axes.yaxis, min(values), max(values))
    else:
        axes.set_ylim(0, 1.08 * max([row["high"] for row in rows] +
                                    [row["paper"] or 0 for row in rows] + [1e-9]))
        axes.yaxis.set_major_formatter(number)


def scale_x(axes, rows):
    xs = sorted({row["x"] for row in rows})
    spread = 20 if len(xs) <= 8 else 100
    if xs[0] < 0 or xs[-1] <= spread * max(1, xs[0]):
        gaps = [after - before for before, after in zip(xs, xs[1:])]
        if gaps and len(xs) <= 8 and min(gaps) > 0.045 * (xs[-1] - xs[0]):
            axes.set_xticks(xs, [f"{x:g}" for x in xs])
        return
    if xs[0] > 0:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=xs[1] if len(xs) > 1 else 1)
        axes.set_xlim(-0.3 * xs[1], xs[-1] * 1.5)
    axes.minorticks_off()
    if len(xs) <= 8:
        axes.set_xticks(xs, [f"{x:g}" for x in xs])
    else:
        axes.xaxis.set_major_formatter(number)


def draw_paper_level(axes, lines, rows_of):
    """A number of the paper that has no x: a dotted line across."""
    for line in lines:
        anywhere = paper_anywhere(rows_of[line.name])
        if not anywhere:
            continue
        axes.axhline(anywhere, color=drawing.INK, lw=1, ls=":")
        # On the side where the line is farther away.
        apart = [max(line.ys[end] / anywhere, anywhere / line.ys[end]) for end in (0, -1)]
        right = apart[1] > apart[0]
        axes.annotate(f"paper: {number(anywhere)} (x not given)", (int(right), anywhere),
                      xycoords=("axes fraction", "data"), fontsize=7.5,
                      xytext=(-3 if right else 3, 4), textcoords="offset points",
                      ha="right" if right else "left", color=drawing.INK)


def draw_panel(axes, panel, names, colours, subjects, label, tallest):
    """Draws one panel; returns its lines, whose labels must wait for the limits."""
    rows = [row for series in names for row in panel[series]]
    unit = rows[0]["unit"]
    if is_bars(panel):
        bars = [(name, row["value"], row["low"], row["high"], row["kind"] == "fitted",
                 row["paper"]) for name in names for row in panel[name]]
        above = [bar[1] for bar in bars if bar[1] > 0]
        drawing.draw_bars(axes, bars, subjects,
                          unit in LOG_UNITS and bool(above) and
                          max(above) > WIDE * min(above), tallest)
        axes.set_xlabel(unit, fontsize=8, color=drawing.INK)
        return []
    lines = [line_of(name, panel[name]) for name in names]
    drawing.draw_lines(axes, lines, colours, subjects)
    scale_y(axes, rows)
    scale_x(axes, rows)
    draw_paper_level(axes, lines, panel)
    axes.set_ylabel(unit, fontsize=8, color=drawing.INK)
    axes.set_xlabel(label, fontsize=8, color=drawing.INK)
    return lines


def said_of(figure, left_out):
    """What the marks mean, as far as there are any."""
    rows = [row for panel in figure.panels.values() for series in panel.values()
            for row in series]
    said = ""
    if any(row["paper"] is not None for row in rows):
        said += " Crosses: numbers of the paper's text."
    if any(row["kind"] == "fitted" for row in rows):
        said += " Hollow: fitted, so no prediction."
    if any(row["low"] < row["high"] for row in rows):
        said += " Bands: the parameters that nothing pins down."
    if left_out:
        said += f" Only in the CSV: {', '.join(left_out)}."
    return said


def draw(figure, path):
    subjects = SUBJECTS.get(figure.name, {"lodic"})
    panels = list(panels_of(figure))
    relevant = sorted(subjects) + RELEVANT.get(figure.name, [])
    chosen = [list(panel) if is_bars(panel) else drawing.choose(panel, relevant)
              for _, panel in panels]
    line_names = [name for (_, panel), names in zip(panels, chosen) if not is_bars(panel)
                  for name in names]
    bar_names = [name for (_, panel), names in zip(panels, chosen) if is_bars(panel)
                 for name in names]
    colours = drawing.colours_of(chosen, subjects)
    left_out = list(dict.fromkeys(
        name for (_, panel), names in zip(panels, chosen) for name in panel
        if name not in names))
    labels = figure.head["x"].split(" | ")
    labels += labels[-1:] * len(panels)
    word = " (simulated)" if figure.simulated else ""
    tallest = max([len(panel) for _, panel in panels if is_bars(panel)] + [0])
    if line_names:
        tallest = max(tallest, FEW_BARS)
    page = Page((verdict_of(figure), f"{figure.title}{word}",
                 figure.caption() + said_of(figure, left_out)),
                len(panels), line_names, bar_names, tallest)
    drawn = []
    by_name = {name: i for i, name in enumerate(figure.panels)}
    for (title, panel), names in zip(panels, chosen):
        axes = page.panel(title)
        label = labels[by_name.get(title, page.nr - 1)]
        drawn.append((axes, draw_panel(axes, panel, names, colours, subjects, label,
                                       tallest)))
    for axes, lines in drawn:
        if lines:
            drawing.label_ends(axes, lines, colours, subjects)
    page.save(path)


def draw_readme(figure, path):
    """One panel, both axes linear, so that a straight line is what scales."""
    panel = figure.panels[README_PANEL]
    lines = [line_of(name, panel[name]) for name in README_SCHEMES]
    subjects = {"lodic"}
    colours = drawing.colours_of([README_SCHEMES], subjects)
    caption = (f"Simulated: {figure.head['topology']}, parameters "
               f"{figure.head['parameters']}, seed {figure.head['seed']}. Crosses: the "
               "LODIC paper. Hollow: fitted (atomic and refcache on 120 CPUs); all other "
               "points are predicted. Bands: the parameters that nothing pins down.")
    page = Page((verdict_of_readme(figure),
                 "All CPUs read one hot 4 KiB block (simulated)", caption), 1,
                README_SCHEMES, [])
    axes = page.panel("")
    drawing.draw_lines(axes, lines, colours, subjects)
    axes.set_ylim(0, None)
    axes.set_xlim(0, None)
    axes.set_xticks([1] + lines[0].xs[2:])
    axes.set_xlabel("CPUs, each reads the same block", fontsize=8, color=drawing.INK)
    axes.set_ylabel("million reads a second", fontsize=8, color=drawing.INK)
    drawing.label_ends(axes, lines, colours, subjects)
    page.save(path)


# Machines of the figure of liblodic's cache, and where they are looked at.
CACHE_CPUS = {"8x15": "1,15,30,60,90,120", "4x128": "1,64,128,256,384,512"}
CACHE_SCHEMES = ["private", "hazard", "lodic", "paygo", "atomic"]


def cache_points(program, topology, seed):
    words = ["cache", "--topology", topology, "--cpus", CACHE_CPUS[topology], "--what", "pin",
             "--blocks", "1", "--schemes", ",".join(CACHE_SCHEMES), "--band", "--json",
             "--seed", seed]
    return json.loads(subprocess.run([program, *words], stdout=subprocess.PIPE,
                                     check=True).stdout)


def cache_lines(said):
    for scheme in CACHE_SCHEMES:
        rows = [row for row in said["results"] if row["scheme"] == scheme]
        yield Line(scheme, *[[row[key] for row in rows]
                             for key in ("cpus", "mops", "low", "high")])


def draw_cache(program, seed, path):
    """Pins of one hot block over CPUs. Both axes are linear: a straight line scales."""
    all_said = [cache_points(program, topology, seed) for topology in CACHE_CPUS]
    last = {row["scheme"]: row for row in all_said[-1]["results"]}
    peak = max(row["mops"] for row in all_said[-1]["results"] if row["scheme"] == "atomic")
    verdict = (f"One hot block on {last['lodic']['cpus']} CPUs: a pin of lodic keeps "
               f"{last['lodic']['of_private']:.0%} of a private count's rate; one shared word "
               f"never passes {number(peak)} million pins a second")
    caption = ("Simulated: parameters "
               f"{all_said[0]['parameter_file']} {all_said[0]['parameters']}, seed {seed}; the "
               f"block is computed with for {all_said[0]['work_cycles']} cycles. Bands: "
               f"{all_said[0]['machines']} machines, over the parameters that nothing pins "
               "down. private: nobody looks at the count, so nothing can be evicted. "
               "Differences under 20 % mean nothing: the upper four scale alike.")
    page = Page((verdict, "liblodic's cache: every CPU pins the same block (simulated)",
                 caption), len(all_said), CACHE_SCHEMES, [])
    subjects = {"lodic"}
    colours = drawing.colours_of([CACHE_SCHEMES], subjects)
    drawn = []
    for said in all_said:
        axes, lines = page.panel(f"machine {said['topology']}"), list(cache_lines(said))
        drawing.draw_lines(axes, lines, colours, subjects)
        axes.set_ylim(0, None)
        axes.set_xlim(0, None)
        axes.set_xticks(lines[0].xs)
        axes.set_xlabel("CPUs, each pins the same block", fontsize=8, color=drawing.INK)
        axes.set_ylabel("million pins a second", fontsize=8, color=drawing.INK)
        axes.yaxis.set_major_formatter(number)
        drawn.append((axes, lines))
    for axes, lines in drawn:
        drawing.label_ends(axes, lines, colours, subjects)
    page.save(path)


def table_of_costs(figure):
    """LODIC Table 1, measured, as markdown."""
    columns = list(figure.panels)
    schemes = dict.fromkeys(name for panel in figure.panels.values() for name in panel
                            if name not in HIDDEN)
    yield "<!-- SPDX-License-Identifier: GPL-2.0-only OR MIT -->"
    yield f"# {figure.title} (simulated)"
    yield ""
    yield figure.caption()
    yield ""
    heads = [f"{name} ({next(iter(figure.panels[name].values()))[0]['unit']})"
             for name in columns]
    yield "| scheme | " + " | ".join(heads) + " |"
    yield "|---|" + "---|" * len(columns)
    for scheme in schemes:
        cells = []
        for name in columns:
            rows = figure.panels[name].get(scheme)
            if not rows:
                cells.append("")
                continue
            row = rows[0]
            text, low, high = (number(row[key]) for key in ("value", "low", "high"))
            if low != high:
                text += f" ({low} .. {high})"
            cells.append(text)
        yield f"| {scheme} | " + " | ".join(cells) + " |"


def names_of(program):
    done = subprocess.run([program, "figure", "--list"], stdout=subprocess.PIPE, check=True)
    return [line.split()[0] for line in done.stdout.decode().splitlines() if line.strip()]


def measure(program, name, directory, extra):
    """Runs one figure; returns its CSV's path, or what went wrong."""
    path = directory / f"{name}.csv"
    done = subprocess.run([program, "figure", name, "--csv", str(path), *extra],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        return name, None, done.stderr.decode().strip()
    return name, path, done.stderr.decode().strip()


def measured(program, names, directory, options):
    """(name, CSV or None, what was said) of each figure, run here or left from before. Those
    that are run come as they are ready, so that one is drawn while others run."""
    if options.no_run:
        for name in names:
            yield name, directory / f"{name}.csv", ""
        return
    extra = ["--seed", options.seed] + (["--quick", "--no-band"] if options.quick else [])
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        order = [name for name in LONGEST if name in names]
        order += [name for name in names if name not in LONGEST]
        runs = [pool.submit(measure, program, name, directory, extra) for name in order]
        for run in concurrent.futures.as_completed(runs):
            yield run.result()


def draw_one(name, path, directory, readme):
    figure = Figure(path)
    if readme:
        draw_readme(figure, readme)
        return readme
    draw(figure, directory / f"{name}.png")
    if name == "costs":
        (directory / "costs.md").write_text("\n".join(table_of_costs(figure)) + "\n")
    return directory / f"{name}.png"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build", help="where lodic-sim was built")
    parser.add_argument("--only", default="", help="names of figures, with commas")
    parser.add_argument("--quick", action="store_true", help="few points, no bands")
    parser.add_argument("--no-run", action="store_true", help="draw the CSV files again")
    parser.add_argument("--seed", default="1", help="seed of all runs (default: 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--readme", metavar="FILE", type=pathlib.Path,
                        help="draw only the README's figure, an SVG or PNG of this name")
    parser.add_argument("--cache", metavar="FILE", type=pathlib.Path,
                        help="draw only pins of one hot block in liblodic's cache")
    options = parser.parse_args()

    program = str((ROOT / options.build / "lodic-sim").resolve())
    if options.cache:
        draw_cache(program, options.seed, options.cache)
        print(f"figures: {options.cache}")
        return
    directory = (ROOT / options.build / "figures").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    names = [n for n in options.only.split(",") if n] or names_of(program)
    if options.readme:
        names = ["scaling"]
    failed = 0
    for name, path, said in measured(program, names, directory, options):
        if said:
            print(f"figures: {name}: {said}", file=sys.stderr)
        if path is None or not path.exists():
            failed += 1
            continue
        print(f"figures: {draw_one(name, path, directory, options.readme)}")
    if failed:
        sys.exit(f"figures: {failed} of {len(names)} failed")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
