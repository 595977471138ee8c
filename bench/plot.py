#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Draws what a benchmark wrote; which one it was, the columns say.

lodic bench pin --csv   a panel per size and access, a row per method, a dot per number of
                        processes
bench_count --csv       a panel per walk and number of CPUs, a row per scheme, a dot per
                        number of objects
bench/scale.py          a panel per walk and kind of worker, a line per scheme over CPUs
lodic bench counter --json
                        PAYGO's Fig. 11 and 12: a line per way, over threads and over objects

A line through a dot, and a band around a line, go from the first to the third quartile. The
title is a verdict, computed from the rows."""

import argparse
import csv
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "sim" / "figures"))
import drawing  # noqa: E402
from drawing import Line, Page, number, plt  # noqa: E402

METHODS = ["private", "mmap", "lodic_read", "lodic_pin", "pin_hazard", "pin_frozen",
           "pin_atomic", "pread"]
ACCESSES = ["hot", "random", "zipf"]
WALKS = ["hot", "round", "random", "query"]
OURS = {"lodic_read", "lodic_pin", "lodic"}
# What everything is compared with: above it is better than today, below it is worse.
TODAY = "pread"
# Of the first number of processes or objects, of the second, and so on.
STYLES = [("o", "#8fa3bf"), ("D", "#d9480f"), ("s", "#5b8f7b"), ("^", "#7d6bb0"), ("v", "#b08a4e"),
          ("P", "#4b5563")]


def load(path):
    """(comments, rows that were measurable)"""
    comments, lines = [], []
    with open(path, newline="") as f:
        for line in f:
            (comments if line.startswith("#") else lines).append(line)
    rows = [row for row in csv.DictReader(lines) if row["mops"]]
    return [comment.lstrip("# ").strip() for comment in comments], rows


def in_order(values):
    """Each once, in the order in which they first came."""
    return list(dict.fromkeys(values))


def dots(axes, names, rows, row_name, series_of, series, x_of):
    """A row per name; row_name and series_of say where a row of the file belongs, x_of
    gives (first quartile, median, third quartile). series: value -> label."""
    for y, name in enumerate(names):
        axes.axhline(y, color=drawing.GRID, lw=0.6, zorder=0)
        for i, (value, label) in enumerate(series.items()):
            marker, colour = STYLES[i % len(STYLES)]
            # Two dots that mean the same number would hide each other.
            at = y + 0.5 * ((i + 0.5) / len(series) - 0.5)
            for row in rows:
                if row_name(row) != name or series_of(row) != value:
                    continue
                low, middle, high = x_of(row)
                axes.plot([low, high], [at, at], color=colour, lw=2.2, alpha=0.55,
                          solid_capstyle="butt")
                axes.plot(middle, at, marker, color=colour, ms=5, label=label)
    axes.set_xscale("log")
    values = [x for row in rows for x in x_of(row)] or [1]
    drawing.plain_log(axes.xaxis, min(values), max(values))
    axes.set_yticks(range(len(names)), names)
    drawing.bare(axes)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelsize=8.5)
    for label in axes.get_yticklabels():
        if label.get_text() in OURS:
            label.set_fontweight("bold")
            label.set_color(drawing.SUBJECTS[0])
    axes.set_ylim(len(names) - 0.4, -0.6)


def finish(figure, grid, verdict, title, comments, path):
    """The verdict, what the dots mean, and the comments, around a grid of dots."""
    handles = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    inches = figure.get_size_inches()[1]
    figure.legend(handles.values(), handles.keys(), loc="upper left", frameon=False,
                  ncol=len(handles), fontsize=8.5, borderaxespad=0, handletextpad=0.2,
                  bbox_to_anchor=(0.005, 1 - 0.62 / inches))
    figure.text(0.01, 1 - 0.12 / inches, verdict, fontsize=12, color=drawing.INK, va="top",
                fontweight="bold")
    figure.text(0.01, 1 - 0.38 / inches, title, fontsize=9, color=drawing.SOFT_INK, va="top")
    figure.text(0.01, 0.06 / inches, "\n".join(comments), fontsize=7,
                color=drawing.SOFT_INK)
    figure.tight_layout(rect=(0, (0.1 + 0.14 * len(comments)) / inches, 1,
                              1 - 0.85 / inches))
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def pin_verdict(rows):
    """The largest block and the most processes that the file has, and hot blocks."""
    size = max(int(row["bytes"]) for row in rows)
    processes = max(int(row["processes"]) for row in rows)
    mops = {row["method"]: float(row["mops"]) for row in rows
            if int(row["bytes"]) == size and int(row["processes"]) == processes and
            row["access"] == ACCESSES[0]}
    if not {"lodic_pin", TODAY, "pin_atomic"} <= set(mops):
        return "Ways to read a block"
    times, over = mops["lodic_pin"] / mops[TODAY], mops["lodic_pin"] / mops["pin_atomic"]
    return (f"lodic_pin reads hot blocks of {size_words(size)} {number(times)} times as fast "
            f"as {TODAY}, {number(over)} times as fast as pin_atomic "
            f"({processes} process{'es' if processes > 1 else ''})")


def size_words(size):
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB"


def draw_pin(comments, rows, path):
    sizes = sorted({int(row["bytes"]) for row in rows})
    accesses = [a for a in ACCESSES if any(row["access"] == a for row in rows)]
    numbers = sorted({int(row["processes"]) for row in rows})
    series = {str(n): f"{n} process{'es' if n > 1 else ''}" for n in numbers}
    inches = (1.6 + 3.4 * len(accesses), 1.4 + 3.0 * len(sizes))
    figure, grid = plt.subplots(len(sizes), len(accesses), squeeze=False, sharey=True,
                                sharex="row", figsize=inches)
    for i, size in enumerate(sizes):
        for j, access in enumerate(accesses):
            axes = grid[i][j]
            dots(axes, METHODS,
                 [row for row in rows
                  if int(row["bytes"]) == size and row["access"] == access],
                 lambda row: row["method"], lambda row: row["processes"], series,
                 lambda row: [float(row[key]) for key in ("mops_q1", "mops", "mops_q3")])
            axes.set_title(f"{access}, {size_words(size)}", fontsize=9.5, loc="left")
            if i == len(sizes) - 1:
                axes.set_xlabel("million reads a second, all processes", fontsize=9)
    finish(figure, grid, pin_verdict(rows), "Ways to read a block", comments, path)


def nanoseconds(row):
    """On one CPU; the fastest quartile first."""
    return [int(row["cpus"]) * 1e3 / float(row[key])
            for key in ("mops_q3", "mops", "mops_q1")]


def count_verdict(rows, cpus):
    """The hot walk with the fewest objects, on so many CPUs."""
    objects = min(int(row["objects"]) for row in rows)
    ns = {row["scheme"]: nanoseconds(row)[1] for row in rows
          if int(row["cpus"]) == cpus and int(row["objects"]) == objects and
          row["walk"] == WALKS[0]}
    if not {"lodic", "atomic"} <= set(ns):
        return "Counting: every scheme"
    return (f"On {cpus} CPU{'s' if cpus > 1 else ''} and one hot object a ref and unref take "
            f"{number(ns['lodic'])} ns with lodic, {number(ns['atomic'])} ns with atomic")


def draw_count(comments, rows, path):
    rows = [row for row in rows if row["scheme"] not in drawing.HIDDEN]
    cpus = sorted({int(row["cpus"]) for row in rows})
    cpus = in_order([cpus[0], cpus[-1]])  # what lies between is bench/scale.py's
    walks = [w for w in WALKS if any(row["walk"] == w for row in rows)]
    names = in_order(row["scheme"] for row in rows)
    objects = sorted({int(row["objects"]) for row in rows})
    series = {str(n): f"{n} object{'s' if n > 1 else ''}" for n in objects}
    inches = (1.6 + 3.2 * len(walks), 1.4 + (0.6 + 0.32 * len(names)) * len(cpus))
    figure, grid = plt.subplots(len(cpus), len(walks), squeeze=False, sharey=True,
                                figsize=inches)
    for i, n in enumerate(cpus):
        for j, walk in enumerate(walks):
            axes = grid[i][j]
            chosen = [row for row in rows
                      if int(row["cpus"]) == n and row["walk"] == walk]
            axes.set_visible(bool(chosen))
            dots(axes, names, chosen, lambda row: row["scheme"],
                 lambda row: row["objects"], series, nanoseconds)
            axes.set_title(f"{walk}, {n} CPU{'s' if n > 1 else ''}", fontsize=9.5,
                           loc="left")
            what = "query" if walk == "query" else "ref and unref"
            axes.set_xlabel(f"ns for a {what} on one CPU", fontsize=9)
    finish(figure, grid, count_verdict(rows, cpus[-1]), "Counting: every scheme", comments,
           path)


def scale_line(name, rows):
    points = sorted((int(row["cpus"]), *(float(row[key]) for key in
                                         ("mops", "mops_q1", "mops_q3")))
                    for row in rows if row["scheme"] == name)
    xs, ys, low, high = (list(column) for column in zip(*points))
    return Line(name, xs, ys, low, high)


def scale_axes(axes, lines):
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sorted({x for line in lines for x in line.xs}))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(number)
    drawing.plain_log(axes.yaxis, min(y for line in lines for y in line.ys),
                      max(y for line in lines for y in line.ys))
    axes.set_xlabel("CPUs", fontsize=8, color=drawing.INK)
    axes.set_ylabel("million a second, all CPUs", fontsize=8, color=drawing.INK)


def scale_panels(rows):
    """(title, rows) of each: what was walked, and by which workers."""
    keys = in_order((row["workers"], row["per_user"], row["source"], row["walk"],
                     row["objects"]) for row in rows)
    for key in keys:
        workers, per_user, source, walk, objects = key
        kind = workers if per_user == "1" else f"{per_user} {workers} of one user"
        what = "lodic bench pin" if source == "pin" else \
            f"{objects} object{'s' if objects != '1' else ''}"
        yield f"{walk}, {what}; {kind}", [
            row for row in rows
            if (row["workers"], row["per_user"], row["source"], row["walk"],
                row["objects"]) == key]


def scale_verdict(panels):
    """The first panel that has both: the product and what is there today."""
    for title, lines in panels:
        ends = {line.name: line for line in lines}
        for ours, theirs in (("lodic_pin", "pin_atomic"), ("lodic", "atomic")):
            if ours in ends and theirs in ends:
                times = ends[ours].ys[-1] / ends[theirs].ys[-1]
                return (f"On {ends[ours].xs[-1]} CPUs {ours} is {number(times)} times as fast "
                        f"as {theirs} ({title})")
    return "Counting on more and more CPUs"


def draw_scale(comments, rows, path):
    panels = []
    for title, chosen in scale_panels(rows):
        names = drawing.choose((row["scheme"] for row in chosen),
                               ["lodic_pin", "lodic_read", "pin_atomic", "pread"])
        panels.append((title, [scale_line(name, chosen) for name in names]))
    names = [[line.name for line in lines] for _, lines in panels]
    colours = drawing.colours_of(names, OURS)
    colours["pin_atomic"] = drawing.YARDSTICK_COLOUR
    page = Page((scale_verdict(panels), "Counting on more and more CPUs; bands: quartiles",
                 " ".join(comments)), len(panels), [name for some in names for name in some],
                [])
    drawn = []
    for title, lines in panels:
        axes = page.panel(title)
        drawing.draw_lines(axes, lines, colours, OURS)
        scale_axes(axes, lines)
        drawn.append((axes, lines))
    for axes, lines in drawn:
        drawing.label_ends(axes, lines, colours, OURS)
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    page.save(path)


def counter_line(name, rows, x):
    points = sorted((row[x], row["mops"], row["low"], row["high"]) for row in rows
                    if row["scheme"] == name)
    return Line(name, *(list(column) for column in zip(*points)))


def counter_panels(rows):
    """(title, what x is, rows) of each."""
    yield "1 object (PAYGO Fig. 11)", "threads", [row for row in rows if row["objects"] == 1]
    for n in in_order(row["threads"] for row in rows):
        yield (f"{n} thread{'s' if n > 1 else ''} (PAYGO Fig. 12)", "objects",
               [row for row in rows if row["threads"] == n])


def draw_counter(found, path):
    rows = [row for row in found["results"] if "in_word" not in row and row["mops"]]
    ours, panels = {"paygo"}, []
    for title, x, chosen in counter_panels(rows):
        names = drawing.choose((row["scheme"] for row in chosen),
                               ["private", "bare", "paygo", "percpu", "fetch_add", "cas"])
        panels.append((title, x, [counter_line(name, chosen, x) for name in names]))
    names = [[line.name for line in lines] for _, _, lines in panels]
    colours = drawing.colours_of(names, ours)
    colours["fetch_add"] = drawing.YARDSTICK_COLOUR
    times = {line.name: line.ys[-1] for line in panels[0][2]}
    page = Page((f"On {panels[0][2][0].xs[-1]} threads, one object: paygo is "
                 f"{number(times['paygo'] / times['fetch_add'])} times as fast as fetch_add",
                 "A get and a put; bands: quartiles",
                 f"{found['machine']['cpu']}, {found['rounds']} rounds"), len(panels),
                [name for some in names for name in some], [])
    drawn = []
    for title, x, lines in panels:
        axes = page.panel(title)
        drawing.draw_lines(axes, lines, colours, ours)
        scale_axes(axes, lines)
        axes.set_xlabel(x, fontsize=8, color=drawing.INK)
        axes.set_ylabel("million a second, all threads", fontsize=8, color=drawing.INK)
        drawn.append((axes, lines))
    for axes, lines in drawn:
        drawing.label_ends(axes, lines, colours, ours)
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    page.save(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("results", help="a CSV file of bench/results/, or counter.json")
    parser.add_argument("figure", help="the PNG or SVG file to draw")
    parser.add_argument("--source", choices=["count", "pin"],
                        help="of a scale file only these rows")
    options = parser.parse_args()
    if options.results.endswith(".json"):
        draw_counter(json.loads(pathlib.Path(options.results).read_text()), options.figure)
        print(f"plot: {options.figure}")
        return
    comments, rows = load(options.results)
    if options.source:
        rows = [row for row in rows if row.get("source") == options.source]
    if not rows:
        sys.exit(f"plot: {options.results} has no measurable row" +
                 (f" of {options.source}" if options.source else ""))
    if "method" in rows[0]:
        draw_pin(comments, rows, options.figure)
    elif "source" in rows[0]:
        draw_scale(comments, rows, options.figure)
    else:
        draw_count(comments, rows, options.figure)
    print(f"plot: {options.figure}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
