#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Draws what a benchmark wrote; which one it was, the columns say.

lodic bench pin --csv   a panel per size and access, a row per method, a dot per number of
                        processes
bench_count --csv       a panel per walk and number of CPUs, a row per scheme, a dot per
                        number of objects
bench/scale.py          a panel per walk and kind of worker, a line per scheme over CPUs

A line through a dot goes from the first to the third quartile."""

import csv
import pathlib
import sys

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import matplotlib.ticker
except ImportError:
    sys.exit("plot: no matplotlib; `make deps` installs it (python3-matplotlib)")

METHODS = ["private", "mmap", "lodic_read", "lodic_pin", "pin_hazard", "pin_frozen",
           "pin_atomic", "pread"]
ACCESSES = ["hot", "random", "zipf"]
WALKS = ["hot", "round", "random", "query"]
OURS = ("lodic_read", "lodic_pin", "lodic")
# What everything is compared with: above it is better than today, below it is worse.
YARDSTICKS = ("atomic", "pin_atomic")
STYLES = [("o", "#7a8aa0"), ("D", "#c2410c"), ("s", "#0f766e"), ("^", "#6d28d9"),
          ("v", "#1d4ed8"), ("P", "#a16207")]
GREY = "#d4d4d4"
# Between two labels at the end of lines, as a share of the panel's height.
LABEL_GAP = 0.046


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


def bare(axes):
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def label_plainly(axis):
    """A logarithmic axis with 1, 2, 5, 10 ... on it, not powers."""
    axis.set_major_locator(matplotlib.ticker.LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(lambda x, _: f"{x:g}")


def dots(axes, names, rows, row_name, series_of, series, x_of):
    """A row per name; row_name and series_of say where a row of the file belongs, x_of
    gives (first quartile, median, third quartile). series: value -> label."""
    for y, name in enumerate(names):
        axes.axhline(y, color=GREY, lw=0.6, zorder=0)
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
    label_plainly(axes.xaxis)
    axes.minorticks_off()
    axes.grid(True, axis="x", which="major", color=GREY, lw=0.6)
    axes.set_yticks(range(len(names)), names)
    for label in axes.get_yticklabels():
        if label.get_text() in OURS:
            label.set_fontweight("bold")
    axes.set_ylim(len(names) - 0.4, -0.6)
    bare(axes)


def finish(figure, grid, title, comments, path):
    handles = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="upper right", frameon=False,
                      ncol=len(handles), fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.text(0.01, 0.008, "\n".join(comments), fontsize=7, color="#666666")
    figure.tight_layout(rect=(0, 0.01 + 0.012 * len(comments), 1, 0.975))
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def draw_pin(comments, rows, path):
    sizes = sorted({int(row["bytes"]) for row in rows})
    accesses = [a for a in ACCESSES if any(row["access"] == a for row in rows)]
    numbers = sorted({int(row["processes"]) for row in rows})
    series = {str(n): f"{n} process{'es' if n > 1 else ''}" for n in numbers}
    inches = (1.6 + 3.4 * len(accesses), 1.0 + 3.0 * len(sizes))
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
            name = f"{size} B" if size < 1024 else f"{size // 1024} KiB"
            axes.set_title(f"{access}, {name}", fontsize=10)
            if i == len(sizes) - 1:
                axes.set_xlabel("million reads a second, all processes", fontsize=9)
    finish(figure, grid, "Ways to read a block", comments, path)


def nanoseconds(row):
    """On one CPU; the fastest quartile first."""
    return [int(row["cpus"]) * 1e3 / float(row[key])
            for key in ("mops_q3", "mops", "mops_q1")]


def draw_count(comments, rows, path):
    cpus = sorted({int(row["cpus"]) for row in rows})
    cpus = in_order([cpus[0], cpus[-1]])  # what lies between is bench/scale.py's
    walks = [w for w in WALKS if any(row["walk"] == w for row in rows)]
    names = in_order(row["scheme"] for row in rows)
    objects = sorted({int(row["objects"]) for row in rows})
    series = {str(n): f"{n} object{'s' if n > 1 else ''}" for n in objects}
    inches = (1.6 + 3.2 * len(walks), 1.0 + (0.6 + 0.32 * len(names)) * len(cpus))
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
            axes.set_title(f"{walk}, {n} CPU{'s' if n > 1 else ''}", fontsize=10)
            what = "query" if walk == "query" else "ref and unref"
            axes.set_xlabel(f"ns for a {what} on one CPU", fontsize=9)
    finish(figure, grid, "Counting: every scheme", comments, path)


def spread_labels(axes, ends):
    """Names at the ends of lines, moved apart where they would cover each other.
    ends: (y in data, name, colour), any order."""
    to_axes = axes.transData + axes.transAxes.inverted()
    placed = sorted((to_axes.transform((1, y))[1], name, colour)
                    for y, name, colour in ends)
    heights = []
    for y, _, _ in placed:
        heights.append(max(y, heights[-1] + LABEL_GAP) if heights else y)
    # What was pushed out at the top goes down again.
    limit = max(1.0, LABEL_GAP * len(heights) - 0.02)
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], limit)
        limit = heights[i] - LABEL_GAP
    for height, (_, name, colour) in zip(heights, placed):
        axes.text(1.02, height, name, transform=axes.transAxes, color=colour, fontsize=8,
                  va="center", fontweight="bold" if name in OURS else "normal")


def scale_lines(axes, rows, colours):
    ends = []
    for name in in_order(row["scheme"] for row in rows):
        line = sorted((int(row["cpus"]), float(row["mops"]), float(row["mops_q1"]),
                       float(row["mops_q3"])) for row in rows if row["scheme"] == name)
        cpus, mops, low, high = zip(*line)
        strong = name in OURS or name in YARDSTICKS
        axes.plot(cpus, mops, "o-", color=colours[name], ms=3.5, lw=2.4 if strong else 1.2)
        axes.fill_between(cpus, low, high, color=colours[name], alpha=0.15, lw=0)
        ends.append((mops[-1], name, colours[name]))
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(sorted({int(row["cpus"]) for row in rows}))
    axes.minorticks_off()
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    label_plainly(axes.yaxis)
    axes.grid(True, which="major", color=GREY, lw=0.6)
    bare(axes)
    return ends


def scale_colours(rows):
    names = in_order(row["scheme"] for row in rows)
    wheel = plt.get_cmap("tab20").colors
    wheel = wheel[::2] + wheel[1::2]  # the dark half first
    colours = {name: wheel[i % len(wheel)] for i, name in enumerate(names)}
    colours.update({name: "#c2410c" for name in names if name in OURS})
    colours.update({name: "black" for name in names if name in YARDSTICKS})
    return colours


def draw_scale(comments, rows, path):
    panels = in_order((row["source"], row["walk"], row["objects"]) for row in rows)
    kinds = in_order((row["workers"], row["per_user"]) for row in rows)
    colours = scale_colours(rows)
    figure, grid = plt.subplots(len(kinds), len(panels), squeeze=False,
                                figsize=(1.2 + 4.6 * len(panels), 0.8 + 3.6 * len(kinds)))
    labels = []
    for i, (workers, per_user) in enumerate(kinds):
        kind = workers if per_user == "1" else f"{per_user} {workers} of one user"
        for j, panel in enumerate(panels):
            axes = grid[i][j]
            chosen = [row for row in rows
                      if (row["workers"], row["per_user"]) == (workers, per_user) and
                      (row["source"], row["walk"], row["objects"]) == panel]
            axes.set_visible(bool(chosen))
            if not chosen:
                continue
            labels.append((axes, scale_lines(axes, chosen, colours)))
            source, walk, objects = panel
            what = "lodic bench pin" if source == "pin" else \
                f"{objects} object{'s' if objects != '1' else ''}"
            axes.set_title(f"{walk}, {what}; {kind}", fontsize=10)
            axes.set_xlabel("CPUs", fontsize=9)
            if j == 0:
                axes.set_ylabel("million a second, all CPUs", fontsize=9)
    for axes, ends in labels:  # now that all panels have their limits
        spread_labels(axes, ends)
    finish(figure, grid, "Counting on more and more CPUs", comments, path)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: plot.py RESULTS.csv FIGURE.png")
    comments, rows = load(sys.argv[1])
    if not rows:
        sys.exit(f"plot: {sys.argv[1]} has no measurable row")
    if "method" in rows[0]:
        draw_pin(comments, rows, sys.argv[2])
    elif "source" in rows[0]:
        draw_scale(comments, rows, sys.argv[2])
    else:
        draw_count(comments, rows, sys.argv[2])
    print(f"plot: {sys.argv[2]}")


if __name__ == "__main__":
    main()
