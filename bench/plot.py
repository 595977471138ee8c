#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Draws what `lodic bench pin --csv` wrote: a panel per size and access, a row per
method, a dot per number of processes, a line from the first to the third quartile."""

import csv
import pathlib
import sys

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    sys.exit("plot: no matplotlib; `make deps` installs it (python3-matplotlib)")

METHODS = ["private", "mmap", "lodic_read", "lodic_pin", "pin_hazard", "pin_frozen",
           "pin_atomic", "pread"]
ACCESSES = ["hot", "random", "zipf"]
OURS = ("lodic_read", "lodic_pin")
STYLES = {1: ("o", "#7a8aa0"), 2: ("D", "#c2410c"), 4: ("s", "#0f766e"),
          8: ("^", "#6d28d9")}
GREY = "#d4d4d4"


def load(path):
    """(first comment, rows that were measurable)"""
    with open(path, newline="") as f:
        comment = f.readline().lstrip("# ").strip()
        rows = [row for row in csv.DictReader(f) if row["mops"]]
    return comment, rows


def panel(axes, rows):
    for y, method in enumerate(METHODS):
        axes.axhline(y, color=GREY, lw=0.6, zorder=0)
        for row in rows:
            if row["method"] != method:
                continue
            marker, colour = STYLES.get(int(row["processes"]), ("x", "black"))
            # Two dots that mean the same number would hide each other.
            at = y + 0.16 * (1 if int(row["processes"]) > 1 else -1)
            axes.plot([float(row["mops_q1"]), float(row["mops_q3"])], [at, at],
                      color=colour, lw=2.2, alpha=0.55, solid_capstyle="butt")
            axes.plot(float(row["mops"]), at, marker, color=colour, ms=5.5,
                      label=f"{row['processes']} process"
                            f"{'es' if int(row['processes']) > 1 else ''}")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.grid(True, axis="x", which="major", color=GREY, lw=0.6)
    axes.set_yticks(range(len(METHODS)), METHODS)
    for label in axes.get_yticklabels():
        if label.get_text() in OURS:
            label.set_fontweight("bold")
    axes.set_ylim(len(METHODS) - 0.4, -0.6)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def draw(comment, rows, path):
    sizes = sorted({int(row["bytes"]) for row in rows})
    accesses = [a for a in ACCESSES if any(row["access"] == a for row in rows)]
    inches = (1.6 + 3.4 * len(accesses), 1.0 + 3.0 * len(sizes))
    figure, grid = plt.subplots(len(sizes), len(accesses), squeeze=False, sharey=True,
                                sharex="row", figsize=inches)
    for i, size in enumerate(sizes):
        for j, access in enumerate(accesses):
            axes = grid[i][j]
            panel(axes, [row for row in rows
                         if int(row["bytes"]) == size and row["access"] == access])
            name = f"{size} B" if size < 1024 else f"{size // 1024} KiB"
            axes.set_title(f"{access}, {name}", fontsize=10)
            if i == len(sizes) - 1:
                axes.set_xlabel("million reads a second, all processes", fontsize=9)
    handles = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="upper right", frameon=False,
                  ncol=len(handles), fontsize=9)
    figure.suptitle("Ways to read a block", x=0.01, ha="left", fontsize=12,
                    fontweight="bold")
    figure.text(0.01, 0.008, comment, fontsize=7, color="#666666")
    figure.tight_layout(rect=(0, 0.02, 1, 0.985))
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: plot.py RESULTS.csv FIGURE.png")
    comment, rows = load(sys.argv[1])
    if not rows:
        sys.exit(f"plot: {sys.argv[1]} has no measurable row")
    draw(comment, rows, sys.argv[2])
    print(f"plot: {sys.argv[2]}")


if __name__ == "__main__":
    main()
