#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs every figure of lodic-sim and draws it: CSV and PNG into BUILD/figures/.

Lines are values, bands are what became of them over the sensitivity set (parameters that
nothing pins down). Fitted rows are hollow and dashed, predicted ones solid; a cross is a
number that the paper's text gives. What is simulated says so.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib import ticker
except ImportError:
    sys.exit("figures: no matplotlib; `make deps` installs it (python3-matplotlib)")

from figure_data import Figure, paper_anywhere  # noqa: E402

GREY = "#d4d4d4"
# One colour a scheme in all figures; what is not a scheme takes from the rest.
COLOURS = {
    "null": "#9ca3af", "atomic": "#111827", "frozen": "#7c2d12", "hazard": "#ca8a04",
    "snzi": "#65a30d", "sloppy": "#db2777", "percpu": "#0891b2", "refcache": "#6d28d9",
    "paygo": "#0f766e", "lodic": "#c2410c", "lodic_file": "#f59e0b",
    "lodic (10%)": "#fdba74", "lodic (20%)": "#f97316", "lodic (100%)": "#c2410c",
    "lodic_flag": "#ef4444", "template": "#64748b"}
REST = ["#2563eb", "#c2410c", "#0f766e", "#6d28d9", "#ca8a04", "#111827", "#db2777",
        "#65a30d", "#0891b2", "#7c2d12"]
MARKERS = "osD^vPX*<>ph"
LOG_UNITS = {"Mops/s", "ns", "ms", "MB", "bytes", "transfers", "1/hour", "ratio"}
# Rarer than this, an event an hour is as good as never; the axis ends there.
NEVER_AN_HOUR = 1e-12
# These begin first, so that no other waits for them in the end.
LONGEST = {"spectrum", "weak", "reclaim-paygo", "costs"}


def style_of(series, i):
    colour = COLOURS.get(series, REST[i % len(REST)])
    return colour, MARKERS[i % len(MARKERS)]


def number(value, _=None):
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.0e}"


def paper_colour(panel, row, colour):
    """Black where several series are held against the same number."""
    same = [other for rows in panel.values() for other in rows
            if other["x"] == row["x"] and other["paper"] == row["paper"]]
    return "black" if len(same) > 1 else colour


def draw_lines(axes, panel):
    for i, (series, rows) in enumerate(panel.items()):
        colour, marker = style_of(series, i)
        rows = sorted(rows, key=lambda row: row["x"])
        xs = [row["x"] for row in rows]
        fitted = all(row["kind"] == "fitted" for row in rows)
        axes.fill_between(xs, [row["low"] for row in rows], [row["high"] for row in rows],
                          color=colour, alpha=0.15, lw=0)
        axes.plot(xs, [row["value"] for row in rows], color=colour, lw=1.3,
                  ls="--" if fitted else "-", zorder=3)
        anywhere = paper_anywhere(rows)
        if anywhere:
            axes.axhline(anywhere, color=colour, lw=1, ls=":",
                         label=f"{number(anywhere)}: paper, x not given")
        for row in rows:
            hollow = row["kind"] == "fitted"
            axes.plot(row["x"], row["value"], marker, ms=4.5, mec=colour, zorder=4,
                      mfc="white" if hollow else colour)
            if row["paper"] is not None and not anywhere:
                axes.plot(row["x"], row["paper"], "x", ms=8, mew=1.8, zorder=5,
                          color=paper_colour(panel, row, colour))
        axes.plot([], [], color=colour, marker=marker, ms=4.5, lw=1.3,
                  ls="--" if fitted else "-", mfc="white" if fitted else colour,
                  label=series + (" (fitted)" if fitted else ""))
    axes.grid(True, color=GREY, lw=0.5)


def draw_bars(axes, panel):
    names = list(panel)
    for i, series in enumerate(names):
        colour, _ = style_of(series, i)
        row = panel[series][0]
        fitted = row["kind"] == "fitted"
        axes.barh(i, row["value"], color="white" if fitted else colour, edgecolor=colour,
                  height=0.62, alpha=0.85, zorder=2)
        axes.plot([row["low"], row["high"]], [i, i], color="black", lw=1.6, zorder=3)
        if row["paper"] is not None:
            axes.plot(row["paper"], i, "x", color="black", ms=9, mew=2, zorder=4)
        axes.annotate(" " + number(row["value"]), (max(row["high"], row["value"]), i),
                      va="center", fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.18)
    axes.grid(True, axis="x", color=GREY, lw=0.5)


def is_bars(panel):
    return all(len(rows) == 1 for rows in panel.values())


def scale(axes, panel):
    rows = [row for series in panel.values() for row in series]
    unit = rows[0]["unit"]
    values = [row["value"] for row in rows if row["value"] > 0]
    wide = values and max(values) / min(values) > 30
    if unit in LOG_UNITS and wide:
        if is_bars(panel):
            axes.set_xscale("symlog" if any(r["value"] <= 0 for r in rows) else "log")
        elif unit == "1/hour":
            axes.set_yscale("log", nonpositive="clip")
            axes.set_ylim(NEVER_AN_HOUR, max(values) * 100)
        elif any(row["low"] <= 0 for row in rows):
            axes.set_yscale("symlog", linthresh=min(values))
        else:
            axes.set_yscale("log")
    axis = axes.xaxis if is_bars(panel) else axes.yaxis
    if axis.get_scale() == "log" and values and max(values) / min(values) < 1000:
        axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axis.set_minor_locator(ticker.NullLocator())
    if unit != "1/hour":
        axis.set_major_formatter(number)
    xs = sorted({row["x"] for row in rows})
    spread = 20 if len(xs) <= 8 else 100
    if not is_bars(panel) and xs[0] >= 0 and xs[-1] > spread * max(1, xs[0]):
        if xs[0] > 0:
            axes.set_xscale("log")
        else:
            axes.set_xscale("symlog", linthresh=xs[1] if len(xs) > 1 else 1)
            axes.set_xlim(-0.3 * xs[1], xs[-1] * 1.5)
        if len(xs) <= 8:
            axes.set_xticks(xs, [f"{x:g}" for x in xs])
            axes.minorticks_off()
    return unit


def said_of(figure):
    """What the marks mean, as far as there are any."""
    rows = [row for panel in figure.panels.values() for series in panel.values()
            for row in series]
    said = ""
    if any(row["paper"] is not None for row in rows):
        said += " Crosses: numbers of the paper's text."
    if any(row["kind"] == "fitted" for row in rows):
        said += " Hollow: fitted."
    return said


def draw(figure, path):
    panels = list(figure.panels.items())
    columns = min(len(panels), 2)
    lines = (len(panels) + columns - 1) // columns
    tallest = max(len(panel) for _, panel in panels)
    height = max(3.3, 1.4 + 0.24 * tallest)
    caption = textwrap.wrap(figure.caption() + said_of(figure), 210 if columns > 1 else 110)
    foot = 0.2 + 0.14 * len(caption)
    inches = (6.2 * columns + 0.6, height * lines + foot + 0.5)
    canvas, grid = plt.subplots(lines, columns, squeeze=False, figsize=inches)
    for axes in grid.flat[len(panels):]:
        axes.axis("off")
    labels = figure.head["x"].split(" | ")
    labels += labels[-1:] * len(panels)
    for axes, (name, panel), label in zip(grid.flat, panels, labels):
        bars = is_bars(panel)
        (draw_bars if bars else draw_lines)(axes, panel)
        unit = scale(axes, panel)
        axes.set_title(name, fontsize=9)
        (axes.set_xlabel if bars else axes.set_ylabel)(unit, fontsize=8)
        if not bars:
            axes.set_xlabel(label, fontsize=8)
            axes.legend(fontsize=7, frameon=False, loc="center left",
                        bbox_to_anchor=(1.0, 0.5))
        axes.tick_params(labelsize=7)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    word = "simulated: " if figure.simulated else ""
    canvas.suptitle(f"{word}{figure.title}", x=0.01, ha="left", fontsize=12,
                    fontweight="bold")
    canvas.text(0.01, 0.05 / inches[1], "\n".join(caption), fontsize=7, color="#555555",
                va="bottom")
    canvas.tight_layout(rect=(0, foot / inches[1], 1, 0.98))
    canvas.savefig(path, dpi=110)
    plt.close(canvas)


def table_of_costs(figure):
    """LODIC Table 1, measured, as markdown."""
    columns = list(figure.panels)
    schemes = []
    for panel in figure.panels.values():
        schemes += [name for name in panel if name not in schemes]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build", help="where lodic-sim was built")
    parser.add_argument("--only", default="", help="names of figures, with commas")
    parser.add_argument("--quick", action="store_true", help="few points, no bands")
    parser.add_argument("--no-run", action="store_true", help="draw the CSV files again")
    parser.add_argument("--seed", default="1", help="seed of all runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()

    program = str((ROOT / options.build / "lodic-sim").resolve())
    directory = (ROOT / options.build / "figures").resolve()
    directory.mkdir(parents=True, exist_ok=True)
    names = [n for n in options.only.split(",") if n] or names_of(program)
    extra = ["--seed", options.seed] + (["--quick", "--no-band"] if options.quick else [])
    failed = 0
    if options.no_run:
        done = [(name, directory / f"{name}.csv", "") for name in names]
    else:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            order = sorted(names, key=lambda name: name not in LONGEST)
            done = list(pool.map(lambda n: measure(program, n, directory, extra), order))
    for name, path, said in done:
        if said:
            print(f"figures: {name}: {said}", file=sys.stderr)
        if path is None or not path.exists():
            failed += 1
            continue
        figure = Figure(path)
        if not figure.panels:
            continue
        draw(figure, directory / f"{name}.png")
        if name == "costs":
            (directory / "costs.md").write_text("\n".join(table_of_costs(figure)) + "\n")
        print(f"figures: {directory / (name + '.png')}")
    if failed:
        sys.exit(f"figures: {failed} of {len(done)} failed")


if __name__ == "__main__":
    main()
