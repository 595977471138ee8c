# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How this project draws lines and bars: sim/figures/figures.py and bench/plot.py use it.

A plot has at most MOST_LINES lines. The subject is drawn last, thicker and in a saturated
colour; the others are muted. Names stand at the ends of their lines, moved apart where they
would overlap. A cross is a number of a paper's text.
"""

import dataclasses
import sys
import textwrap

from figure_data import HIDDEN

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib import ticker
except ImportError:
    sys.exit("no matplotlib; `make deps` installs it (python3-matplotlib)")

MOST_LINES = 6
# Where a figure says nothing else, these are drawn before others, in this order.
RELEVANT = ["lodic", "atomic", "refcache", "paygo", "frozen", "snzi", "hazard", "lodic_file"]
YARDSTICK = "atomic"

GRID = "#e2e2e2"
INK = "#1f2937"
SOFT_INK = "#6b7280"
SUBJECTS = ["#d9480f", "#f08c00", "#a61e4d"]
YARDSTICK_COLOUR = "#4b5563"
# Muted, and still told apart: blue, green, violet, brown, teal, rose.
MUTED = ["#7b93b5", "#86a788", "#9a8bb8", "#b09a7c", "#74a5a6", "#c08d96"]
BAR = "#a9b6c6"
MARKERS = "osD^vPX"

# Sizes in inches and points.
AXES_WIDTH, AXES_HEIGHT = 4.5, 2.9
LEFT, TOP, BOTTOM = 0.78, 0.42, 0.58
LABEL_POINTS = 8
CHARACTER = 0.068  # the width of a label's character
LINE_GAP = 1.25    # between two labels' middles, in heights of a label


@dataclasses.dataclass
class Line:
    """Values over x. low and high: a band, or empty. hollow: which points were fitted.
    crosses: (x, value) of a paper."""
    name: str
    xs: list
    ys: list
    low: list = dataclasses.field(default_factory=list)
    high: list = dataclasses.field(default_factory=list)
    hollow: list = dataclasses.field(default_factory=list)
    crosses: list = dataclasses.field(default_factory=list)


def number(value, _=None):
    """Three digits, and no powers."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if abs(value) >= 0.001 else "<0.001"


def choose(names, relevant=(), most=MOST_LINES):
    """At most so many of names: those that are relevant here, then those that are
    everywhere, then the others in their order."""
    names = [name for name in dict.fromkeys(names) if name not in HIDDEN]
    order = list(relevant) + RELEVANT
    rank = {name: i for i, name in reversed(list(enumerate(order)))}
    chosen = sorted(names, key=lambda name: rank.get(name, len(order)))[:most]
    return [name for name in names if name in chosen]


def colours_of(panels, subjects):
    """Saturated for the subjects, muted for all others. panels: the names in each. Subjects
    are told apart within a panel; another name has one colour in all panels, and no other
    name of a panel has it."""
    names = list(dict.fromkeys(name for panel in panels for name in panel))
    colours = {YARDSTICK: YARDSTICK_COLOUR}
    for panel in panels:
        for i, name in enumerate(name for name in panel if name in subjects):
            colours.setdefault(name, SUBJECTS[i % len(SUBJECTS)])
    usual = [name for name in RELEVANT if name in names]
    for at, name in enumerate(dict.fromkeys(usual + names)):
        if name in colours:
            continue
        taken = {colours.get(other) for panel in panels if name in panel for other in panel}
        free = [colour for colour in MUTED if colour not in taken]
        colours[name] = free[0] if free else MUTED[at % len(MUTED)]
    return colours


def bare(axes):
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#9ca3af")
    axes.tick_params(labelsize=7.5, colors=INK, length=3, color="#9ca3af")
    axes.grid(True, which="major", color=GRID, lw=0.6)
    axes.set_axisbelow(True)


def plain_log(axis, low, high):
    """1, 2, 5, 10 ... on a logarithmic axis where they have room, else 1, 10, 100 ..."""
    near = high / low < 1000
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if near else (1,), numticks=12))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(number)


def draw_line(axes, line, colour, subject, marker):
    width, order = (2.8, 6) if subject else (1.3, 3)
    if line.low:
        axes.fill_between(line.xs, line.low, line.high, color=colour, lw=0, zorder=order - 1,
                          alpha=0.22 if subject else 0.13)
    axes.plot(line.xs, line.ys, color=colour, lw=width, zorder=order,
              solid_capstyle="round")
    hollow = line.hollow or [False] * len(line.xs)
    for x, y, empty in zip(line.xs, line.ys, hollow):
        axes.plot(x, y, marker, ms=5.5 if subject else 4, mec=colour, zorder=order + 0.5,
                  mew=1.2, mfc="white" if empty else colour)


def crosses_of(lines):
    """Each number of a paper once, also when several lines are held against it."""
    return list(dict.fromkeys(cross for line in lines for cross in line.crosses))


def draw_crosses(axes, lines):
    """label_ends() labels those at the right end; without one there, the first few have a
    label here."""
    crosses = crosses_of(lines)
    last = max([line.xs[-1] for line in lines])
    for x, y in crosses:
        axes.plot(x, y, "x", ms=8, mew=2, color=INK, zorder=9, clip_on=False)
    if any(x == last for x, _ in crosses):
        return
    for x, y in crosses[:3]:
        axes.annotate(f"paper: {number(y)}", (x, y), xytext=(2, 14), ha="left",
                      textcoords="offset points", fontsize=7.5, color=INK, zorder=10,
                      bbox={"fc": "white", "ec": "none", "alpha": 0.85, "pad": 0.8})


def spread(heights, gap):
    """Moves sorted heights apart to at least gap, each group around its own middle, and
    keeps all between 0 and 1 if they fit."""
    groups = []  # (sum of wishes, number, lowest place)
    for height in heights:
        group = [height, 1, height]
        while groups and group[2] < groups[-1][2] + groups[-1][1] * gap:
            before = groups.pop()
            group[0] += before[0]
            group[1] += before[1]
            group[2] = group[0] / group[1] - (group[1] - 1) * gap / 2
            group[2] = max(0, min(group[2], 1 - (group[1] - 1) * gap))
        groups.append(group)
    return [lowest + i * gap for _, nr, lowest in groups for i in range(nr)]


def label_ends(axes, lines, colours, subjects):
    """Names at the right, each at the height of its line's end, and the papers' numbers
    that lie there. To be called when the axes have their limits and their place."""
    gap = LINE_GAP * LABEL_POINTS / 72 * axes.figure.dpi / axes.get_window_extent().height
    to_axes = axes.transData + axes.transAxes.inverted()
    last = max(line.xs[-1] for line in lines)
    ends = [(line.xs[-1], line.ys[-1], line.name, colours[line.name], line.name in subjects)
            for line in lines]
    ends += [(x, y, f"x paper: {number(y)}", INK, False)
             for x, y in crosses_of(lines) if x == last]
    ends = sorted((*to_axes.transform(end[:2])[::-1], *end[2:]) for end in ends)
    heights = spread([min(max(end[0], 0), 1) for end in ends], gap)
    for (y, x, name, colour, bold), at in zip(ends, heights):
        axes.annotate(name, (x, min(max(y, 0), 1)), xytext=(1.055, at), va="center",
                      xycoords="axes fraction", textcoords="axes fraction",
                      fontsize=LABEL_POINTS, color=colour, annotation_clip=False,
                      fontweight="bold" if bold else "normal",
                      arrowprops={"arrowstyle": "-", "lw": 0.7, "color": colour,
                                  "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 4})


def draw_lines(axes, lines, colours, subjects):
    """All lines of one plot, the subjects last. Labels come later, by label_ends()."""
    markers = {line.name: MARKERS[i % len(MARKERS)] for i, line in enumerate(lines)}
    for line in sorted(lines, key=lambda line: line.name in subjects):
        draw_line(axes, line, colours[line.name], line.name in subjects,
                  markers[line.name])
    draw_crosses(axes, lines)
    bare(axes)


def draw_bars(axes, bars, subjects, log, rows):
    """bars: (name, value, low, high, hollow, cross or None); the shortest on top. rows: how
    many bars the panel has room for."""
    bars = sorted(bars, key=lambda bar: bar[1])
    above = [bar[1] for bar in bars if bar[1] > 0] or [1]
    if log:
        axes.set_xscale("log")
        axes.set_xlim(min(above) / 3, max(above) * 6)
        plain_log(axes.xaxis, min(above) / 3, max(above) * 6)
    else:
        axes.set_xlim(0, 1.25 * max(above + [bar[5] or 0 for bar in bars]))
        axes.xaxis.set_major_formatter(number)
    for i, (name, value, low, high, hollow, cross) in enumerate(bars):
        colour = SUBJECTS[0] if name in subjects else \
            YARDSTICK_COLOUR if name == YARDSTICK else BAR
        axes.barh(i, value, color="white" if hollow else colour, height=0.62,
                  edgecolor=colour, zorder=2)
        if low != high:
            axes.plot([low, high], [i, i], color=INK, lw=1.2, zorder=3)
        said = number(value)
        if cross is not None:
            axes.plot(cross, i, "x", color=INK, ms=8, mew=2, zorder=4)
            if cross > max(value, high):
                axes.annotate(said, (value, i), xytext=(-5, 0), va="center", ha="right",
                              textcoords="offset points", fontsize=7.5, zorder=5,
                              color=INK if hollow else "white")
                said = f"paper: {number(cross)}"
            else:
                said += f"   (x paper: {number(cross)})"
        # A logarithmic axis has no place for 0.
        end = max(value, high, cross or 0, axes.get_xlim()[0])
        axes.annotate(said, (end, i), xytext=(9 if end == cross else 4, 0),
                      textcoords="offset points", va="center", fontsize=7.5, color=INK,
                      zorder=5)
    axes.set_yticks(range(len(bars)), [bar[0] for bar in bars])
    bare(axes)
    axes.tick_params(axis="y", labelsize=LABEL_POINTS, length=0)
    axes.grid(False, axis="y")
    for label in axes.get_yticklabels():
        if label.get_text() in subjects:
            label.set_fontweight("bold")
            label.set_color(SUBJECTS[0])
    axes.set_ylim(max(len(bars), rows) - 0.4, -0.7)


def room_for(names):
    return CHARACTER * max(len(name) for name in names)


class Page:
    """Panels in columns, under a verdict and a title, above a caption. All places are in
    inches, so that labels have the room that they need."""

    def __init__(self, words, nr_panels, line_names, bar_names, tallest=0):
        """words: (verdict, title, caption). line_names stand at lines' ends, bar_names
        before bars; tallest: the most bars of a panel."""
        verdict, title, caption = words
        self.columns = min(nr_panels, 2)
        rows = (nr_panels + self.columns - 1) // self.columns
        self.left = max(LEFT, room_for(bar_names) + 0.2 if bar_names else 0)
        self.height = max(AXES_HEIGHT if line_names else 0.9, 0.25 * tallest + 0.25)
        right = room_for(line_names + ["x paper: 0.00"]) + 0.4 if line_names else 0.75
        self.cell = (self.left + AXES_WIDTH + right, TOP + self.height + BOTTOM)
        width = self.cell[0] * self.columns + 0.1
        verdict = textwrap.wrap(verdict, int(width / 0.112))
        caption = textwrap.wrap(caption, int(width / 0.0625))
        self.head = 0.5 + 0.24 * len(verdict)
        foot = 0.2 + 0.135 * len(caption)
        self.size = (width, self.head + self.cell[1] * rows + foot)
        self.canvas = plt.figure(figsize=self.size, dpi=110)
        self.nr = 0
        self.text(0.12, self.size[1] - 0.12, "\n".join(verdict), 12.5, INK, "top",
                  fontweight="bold")
        self.text(0.12, self.size[1] - self.head + 0.12, title, 9, SOFT_INK, "bottom")
        self.text(0.12, 0.1, "\n".join(caption), 7, SOFT_INK, "bottom")

    def text(self, x, y, text, size, colour, va, **more):
        self.canvas.text(x / self.size[0], y / self.size[1], text, fontsize=size,
                         color=colour, va=va, ha="left", **more)

    def panel(self, title):
        """The axes of the next panel."""
        row, column = divmod(self.nr, self.columns)
        self.nr += 1
        x = self.cell[0] * column + self.left
        y = self.size[1] - self.head - self.cell[1] * row - TOP - self.height
        axes = self.canvas.add_axes((x / self.size[0], y / self.size[1],
                                     AXES_WIDTH / self.size[0], self.height / self.size[1]))
        axes.set_title(title, fontsize=9.5, loc="left", color=INK)
        return axes

    def save(self, path):
        """An SVG file has the same bytes for the same picture, so that a commit shows only what
        has changed."""
        with plt.rc_context({"svg.hashsalt": "lodic"}):
            self.canvas.savefig(path, metadata={"Date": None} if str(path).endswith(".svg")
                                else None)
        plt.close(self.canvas)
