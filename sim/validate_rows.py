# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The rows that the timing model is held against: their list, its rules, and the score.

The list is sim/rows.toml. The figures' CSV files must have the same rows of the same kind, and
no others with a number of a paper. A rule that is broken gives one message, which names the row.
"""

import re
import statistics
import tomllib

KINDS = ("predicted", "fitted", "explained", "consequence", "arithmetic")
# A band that is wider than this share of its value, to either side, says too little to pass.
BAND_AT_MOST = 0.25
# CSV files have six digits.
SAME = 1e-5


def read_list(path):
    with open(path, "rb") as f:
        return tomllib.load(f)


def series_of(entry):
    series = entry.get("series", "")
    return series if isinstance(series, list) else [series]


def points_of(entry):
    """x and the paper's number; x is None where the paper does not say it."""
    return entry["points"] if "points" in entry else [[None, entry["paper"]]]


class Row:
    """One number of the list."""

    def __init__(self, entry, series, x, paper):
        self.entry, self.series, self.x, self.paper = entry, series, x, paper
        self.kind, self.unit = entry["kind"], entry["unit"]
        self.source, self.panel = entry["source"], entry.get("panel", "")
        self.figure = entry.get("figure", "")
        several = len(series_of(entry)) * len(points_of(entry)) > 1
        at = "" if x is None else f", {x:g}"
        self.id = f"{entry['id']}: {series}{at}" if several else entry["id"]
        self.found = []  # in the CSV

    @property
    def counts(self):
        return self.kind == "predicted" and "same_as" not in self.entry

    @property
    def place(self):
        return (self.figure, self.panel, self.series)

    @property
    def what(self):
        return f"{self.panel}: {self.series}"


def rows_of(listed):
    return [Row(entry, series, x, paper) for entry in listed.get("row", [])
            for series in series_of(entry) for x, paper in points_of(entry)]


def is_same(one, other):
    return abs(one - other) <= SAME * max(abs(one), abs(other))


# ---- rules of the list alone ----

def wrong_entry(entry, by_id):
    """What is wrong with one entry, or None."""
    kind, over, same = entry["kind"], entry.get("over"), entry.get("same_as")
    if kind not in KINDS:
        return f"there is no kind {kind}"
    if kind in ("explained", "consequence") and not entry.get("why"):
        return f"it is {kind}, and does not say why"
    if ("points" in entry) == ("paper" in entry):
        return "it has points or paper, not both and not neither"
    if "pending" not in entry and not all(entry.get(k) for k in ("figure", "panel", "series")):
        return "it is not pending, and has no figure, panel or series"
    for other in (over, same):
        if other and other not in by_id:
            return f"there is no row {other}"
    if entry["unit"] == "ratio" and kind in ("predicted", "explained") and "pending" not in entry \
            and not over and "over_unlisted" not in entry:
        return "it is a ratio, and does not say to what (over, over_unlisted)"
    if over and by_id[over]["kind"] == "fitted" and kind != "fitted":
        return f"it is a ratio to {over}, which is fitted, so it is fitted and not {kind}"
    if same:
        theirs = [paper for _, paper in points_of(by_id[same])]
        if not all(any(is_same(paper, other) for other in theirs)
                   for _, paper in points_of(entry)):
            return f"it is not the same number as {same}"
    return None


def twice(rows, key):
    """Pairs of rows with one key."""
    seen = {}
    for row in rows:
        first = seen.setdefault(key(row), row)
        if first is not row:
            yield first, row


def check_list(listed):
    """Messages: what breaks a rule in the list itself."""
    entries = listed.get("row", [])
    by_id = {}
    for entry in entries:
        if entry["id"] in by_id:
            yield f"row {entry['id']}: it stands twice in the list"
        by_id[entry["id"]] = entry
    for entry in entries:
        wrong = wrong_entry(entry, by_id)
        if wrong:
            yield f"row {entry['id']}: {wrong}"
    yield from check_counts(rows_of(listed))


def check_counts(rows):
    """No number may count twice, and no ratio to what was fitted may count."""
    placed = [row for row in rows if "pending" not in row.entry]
    for first, row in twice(placed, lambda r: (*r.place, r.x)):
        yield f"row {row.id}: it has the place of row {first.id}"
    counting = [row for row in rows if row.counts]
    for first, row in twice(counting, lambda r: (r.source.split()[0], r.paper, r.unit)):
        if (first.place, first.x) != (row.place, row.x):
            yield (f"row {row.id}: it is the number of row {first.id}, counted twice; one of "
                   "them needs same_as")
    fitted = {(row.figure, row.series, row.x) for row in rows if row.kind == "fitted"}
    for row in rows:
        below = re.search(r"\b(?:ratio to|over) (\w+)$", row.panel)
        if row.kind == "predicted" and below and (row.figure, below[1], row.x) in fitted:
            yield f"row {row.id}: it is a ratio to {below[1]}, which is fitted there"


# ---- rules of the list and the figures ----

def csv_rows(figures):
    """(place, row) of each row with a number of a paper."""
    for figure in figures.values():
        for panel, series_of_panel in figure.panels.items():
            for series, rows in series_of_panel.items():
                for row in rows:
                    if row["paper"] is not None:
                        yield (figure.name, panel, series), row


def find_rows(rows, figures):
    """Gives each row of the list its rows in the CSV files."""
    for row in rows:
        if row.figure in figures:
            panel = figures[row.figure].panels.get(row.panel, {})
            row.found = [found for found in panel.get(row.series, [])
                         if row.x is None or is_same(found["x"], row.x)]


def wrong_row(row):
    """What is wrong with what the CSV has of a listed row, or None."""
    where = f"{row.figure}.csv"
    if "pending" in row.entry:
        return f"it is no longer pending: {where} has it" if row.found else None
    if not row.found:
        return f"{where} has no such row ({row.what})"
    if len(row.found) > 1 and row.x is not None:
        return f"it stands {len(row.found)} times in {where}"
    for found in row.found:
        if found["kind"] != row.kind:
            return f"it is {row.kind} in the list and {found['kind']} in {where}"
        if found["paper"] is None or not is_same(found["paper"], row.paper):
            return f"the paper says {row.paper:g} in the list and {found['paper']} in {where}"
        if found["unit"] != row.unit:
            return f"it is in {row.unit} in the list and in {found['unit']} in {where}"
    return None


def check_figures(rows, figures):
    """Messages: where the CSV files and the list differ."""
    find_rows(rows, figures)
    for row in rows:
        wrong = wrong_row(row)
        if wrong:
            yield f"row {row.id}: {wrong}"
    listed = {}
    for row in rows:
        listed.setdefault(row.place, []).append(row.x)
    for place, found in csv_rows(figures):
        if not any(x is None or is_same(found["x"], x) for x in listed.get(place, [])):
            figure, panel, series = place
            yield (f"row {panel}: {series} at {found['x']:g}: {figure}.csv has it with a "
                   "number of the paper, and sim/rows.toml does not list it")
    hashes = {}
    for name, figure in figures.items():
        file, _, text = figure.head.get("parameters", "none").partition(" ")
        first = hashes.setdefault(file, (text, name))
        if first[0] != text:
            yield f"{name}.csv and {first[1]}.csv are of different texts of {file}"


# ---- verdicts and score ----

def number(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def verdict_of(low, here, high, paper):
    """inside, too wide to say, or outside with the factor from the band's nearest end."""
    if not low <= paper <= high:
        end = low if paper < low else high
        if min(end, paper) <= 0:
            return "outside"
        factor = end / paper if end > paper else paper / end
        return f"outside: {factor:.2f} times too {'high' if end > paper else 'low'}"
    if low < (1 - BAND_AT_MOST) * here or high > (1 + BAND_AT_MOST) * here:
        return "too wide to say"
    return "inside"


def meets(rows, paper):
    """Where the curve has the number, if the paper does not say at which x."""
    rows = sorted(rows, key=lambda row: row["x"])
    for before, after in zip(rows, rows[1:]):
        if (before["value"] - paper) * (after["value"] - paper) <= 0:
            return f"met between x = {before['x']:g} and {after['x']:g}"
    return f"met nowhere from x = {rows[0]['x']:g} to {rows[-1]['x']:g}"


def record_of(row):
    """A row for JSON and for the page."""
    record = {"id": row.id, "source": row.source, "what": row.what, "at": row.x,
              "kind": row.kind, "paper": row.paper, "low": None, "here": None, "high": None,
              "unit": row.unit, "verdict": ""}
    if "pending" in row.entry:
        record["what"] = ""
        record["verdict"] = f"pending: {row.entry['pending']}"
    elif row.x is None:
        record["verdict"] = meets(row.found, row.paper)
    else:
        found = row.found[0]
        record.update(low=found["low"], here=found["value"], high=found["high"])
        if row.kind in ("fitted", "arithmetic"):
            record["verdict"] = f"says nothing: {row.kind}"
        else:
            record["verdict"] = verdict_of(found["low"], found["value"], found["high"],
                                           row.paper)
    return record


def factor_of(record):
    """How far off it is, to either side: 1 is exact."""
    here, paper = record["here"], record["paper"]
    return max(here / paper, paper / here) if here > 0 and paper > 0 else float("inf")


def score_of(rows):
    """Of the rows that count: how many lie inside their bands."""
    records = [record_of(row) for row in rows if row.counts and "pending" not in row.entry]
    verdicts = [record["verdict"] for record in records]
    factors = [factor_of(record) for record in records]
    return {
        "predicted": len(records),
        "inside": verdicts.count("inside"),
        "outside": sum(verdict.startswith("outside") for verdict in verdicts),
        "too wide to say": verdicts.count("too wide to say"),
        "within a quarter of the paper's number":
            sum(factor <= 1 + BAND_AT_MOST for factor in factors),
        "median factor": round(statistics.median(factors), 3) if factors else None,
        "worst factor": round(max(factors), 3) if factors else None,
        "pending": sum(row.counts and "pending" in row.entry for row in rows)}


# ---- parameters ----

def check_parameters(listed, text):
    """Messages: where sim/parameters.toml and the parameter file differ."""
    entries = {entry["name"]: entry for entry in listed["parameter"]}
    # What is fitted again at the ends of the bands (sim/machine.h) follows from what is listed.
    fits = {f"{end}_{name}": entry for name, entry in entries.items() if "band" in entry
            for end, bound in zip(("low", "high"), entry["band"]) if bound != entry["value"]}
    names = set()
    for line in text.splitlines():
        code, _, comment = line.partition("#")
        name, equals, value = (part.strip() for part in code.partition("="))
        if not equals:
            continue
        names.add(name)
        if name in fits:
            continue
        if name not in entries:
            yield f"parameter {name}: sim/parameters.toml does not list it"
            continue
        theirs = entries[name]["value"]
        mine = [int(part) for part in value.split()]
        if mine != (theirs if isinstance(theirs, list) else [theirs]):
            yield f"parameter {name}: it is {value}, and {theirs} in sim/parameters.toml"
        band = re.search(r"\bband (\d+)\.\.(\d+)", comment)
        if entries[name].get("band") != ([int(band[1]), int(band[2])] if band else None):
            yield f"parameter {name}: its band in sim/parameters.toml is another one"
    for name in [*entries, *fits]:
        if name not in names:
            yield f"parameter {name}: sim/parameters/xeon-ex does not have it"
