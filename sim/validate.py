#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Compares the timing model with what is known; writes doc/validation.md and validation.json.

1. The papers: every number in their texts that a figure has a row for (sim/rows.toml).
2. The papers: statements of order.
3. This machine: the steps of bench_micro, native against simulated.
4. What the kernel series asks of its own schemes.
5. What stands behind each parameter (sim/parameters.toml).

The numbers come from bench_micro, from `lodic-sim micro` and from the CSV files of
sim/figures/figures.py. No number is typed here, and nothing is tuned.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import textwrap

import validate_claims as claims
import validate_native
import validate_own
import validate_rows as lists
from validate_rows import number

PAGE_COLUMNS = 96
ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "sim" / "figures"))
from figure_data import Figure  # noqa: E402

PARAMETERS = "xeon-ex"


def run_json(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"validate: `{' '.join(command)}` failed: "
                 f"{done.stderr.decode().strip()}")
    return json.loads(done.stdout)


# ---- what everything else comes from ----

def figures_of(directory):
    figures = {path.stem: Figure(path) for path in sorted(directory.glob("*.csv"))
               if Figure.is_figure(path) and not path.stem.startswith("tier-")}  # tiers.py
    if not figures:
        sys.exit("validate: no figures; run sim/figures/figures.py first")
    return figures


def stop_at(messages):
    messages = list(messages)
    for message in messages:
        print(f"validate: {message}", file=sys.stderr)
    if messages:
        sys.exit(1)


def checked_lists(options):
    """The two lists, which keep their own rules."""
    listed = lists.read_list(options.rows)
    parameters = lists.read_list(ROOT / "sim" / "parameters.toml")
    text = (ROOT / "sim" / "parameters" / PARAMETERS).read_text()
    stop_at([*lists.check_list(listed), *claims.check_statements(listed),
             *lists.check_parameters(parameters, text)])
    return listed, parameters


def heads(figures, key):
    found = {figure.head.get(key, "none") for figure in figures.values()}
    return sorted(found - {"none"})


def versions(figures):
    """Of lodic-sim, which wrote the figures."""
    found = {(row["version"], row["commit"]) for figure in figures.values()
             for panel in figure.panels.values() for rows in panel.values() for row in rows}
    return ", ".join(f"{version} ({commit})" for version, commit in sorted(found))


def result_of(listed, rows, figures):
    """What doc/validation.json has."""
    return {
        "rows": [lists.record_of(row) for row in rows],
        "statements": claims.answers(listed, figures),
        "score": lists.score_of(rows),
        "parameters hash": " ".join(heads(figures, "parameters")),
        "topologies": heads(figures, "topology"),
        "version": versions(figures)}


# ---- the page ----

def counted(statements, verdict):
    return sum(one["verdict"] == verdict for one in statements)


def summary(result):
    score, statements = result["score"], result["statements"]
    without = sum(one["cause"] == claims.CAUSE_NOT_KNOWN for one in statements)
    off = "" if score["median factor"] is None else (
        f" Their median is off by a factor of {score['median factor']:.2f}, the worst by "
        f"{score['worst factor']:.2f}.")
    yield "## In ten lines"
    yield ""
    yield (f"- **Score: {score['inside']} of {score['predicted']} predicted numbers inside the "
           f"model's band**, {score['outside']} outside, {score['too wide to say']} where the "
           f"band is too wide to say.{off}")
    yield ("- A number is predicted if no parameter and no mechanism was chosen because of it. "
           "There are few: most of the papers' results are pictures, and we copy none by eye.")
    yield (f"- Statements of order: {counted(statements, 'agrees')} agree, "
           f"{counted(statements, 'disagrees')} disagree, {counted(statements, 'open')} are "
           f"open. Of those that disagree, {without or 'none'} "
           f"{'are' if without > 1 else 'is'} without a cause.")
    yield ("- Believe: which scheme collapses, and on which line. Of the order of schemes, believe "
           "what section 2 marks as agreeing.")
    yield ("- Do not believe: absolute throughput, and which of two schemes is ahead by less "
           "than a fifth.")
    yield ("- We knew the papers' numbers when we made the model. Nothing here is blind. But "
           "rows and their kinds are listed before they are run (sim/rows.toml).")
    yield ("- LODIC's 164 lies inside its band since reads take the address-space lock. The lock "
           "is in the model because of the other columns of Table 3.")
    yield ("- Rows that nobody contends for are mostly the fitted work of a read. They are close "
           "because of that.")
    yield ("- Prefetching, hyperthreads, turbo, TLBs, memory bandwidth, interrupts and the "
           "scheduler are not in the model.")
    yield ("- Native checks reach as far as two CPUs do. What 120 CPUs do to a line rests on "
           "published latencies and on what was fitted.")
    yield (f"- Machines: {', '.join(result['topologies'])}. Parameters: "
           f"{result['parameters hash']}. All rows: [validation.json](validation.json).")


def band_of(record):
    if record["low"] is None or record["low"] == record["high"]:
        return ""
    return f"{number(record['low'])} .. {number(record['high'])}"


HEAD = ["| source | what | at | paper | here | band | here / paper | verdict |",
        "|---|---|---|---|---|---|---|---|"]


def row_line(record):
    at = "not given" if record["at"] is None else f"{record['at']:g}"
    here, ratio = "", ""
    if record["here"] is not None:
        here = number(record["here"])
        ratio = f"{record['here'] / record['paper']:.2f}"
    return (f"| {record['source']} | {record['what']} | {at} "
            f"| {number(record['paper'])} {record['unit']} | {here} | {band_of(record)} "
            f"| {ratio} | {record['verdict']} |")


def series_line(records):
    """Rows of one series in one line, where nobody learns much from each."""
    first = records[0]
    if len(records) == 1:
        return row_line(first)
    at, paper, here, ratio = (", ".join(words) for words in zip(*(
        (f"{one['at']:g}", number(one["paper"]), number(one["here"]),
         f"{one['here'] / one['paper']:.2f}") for one in records)))
    inside = sum(one["verdict"] == "inside" for one in records)
    return (f"| {first['source']} | {first['what']} | {at} | {paper} {first['unit']} | {here} | "
            f"| {ratio} | {inside} of {len(records)} inside |")


def lines_of(kind, rows, records):
    if kind != "consequence":
        return [row_line(records[row.id]) for row in rows]
    series = {}
    for row in rows:
        series.setdefault((row.entry["id"], row.series), []).append(records[row.id])
    return map(series_line, series.values())


WORDS = {
    "predicted": "Predicted: nothing was chosen by looking at the number",
    "explained": "Explained: a mechanism is in the model because of this number",
    "consequence": "A consequence of something that the paper does not give",
    "fitted": "Fitted, or a ratio to what was fitted: the row says nothing"}


def sentence(words):
    return f"{words[0].upper()}{words[1:]}."


def why_lines(entries):
    """Each reason once, with its rows."""
    reasons = {}
    for entry in entries:
        if "why" in entry:
            reasons.setdefault(" ".join(entry["why"].split()), []).append(entry["id"])
    for why, ids in reasons.items():
        yield f"- {', '.join(ids)}: {why}."


def numbers_section(listed, rows, result):
    records = dict(zip((row.id for row in rows), result["rows"]))
    yield "## 1. Numbers in the papers' texts"
    yield ""
    yield ("A band goes from the lowest to the highest value over the sensitivity set: the "
           "parameters that nothing pins down, one at a time. Both fits are made again for each "
           "machine of the set. *Inside*: the paper's number lies in the band, and no end "
           f"is farther than {100 * lists.BAND_AT_MOST:.0f} % from the value. *Too wide to "
           "say*: an end is farther. *Outside*: by which factor the nearest end misses it.")
    for kind, words in WORDS.items():
        those = [row for row in rows if row.kind == kind and "pending" not in row.entry
                 and "same_as" not in row.entry]
        if not those:
            continue
        yield from ("", f"### {words}", "", *HEAD)
        yield from lines_of(kind, those, records)
        reasons = list(why_lines([entry for entry in listed["row"] if entry["kind"] == kind
                                  and "pending" not in entry and "same_as" not in entry]))
        if reasons:
            yield from ("", *reasons)
    yield from arithmetic_words(rows, records)
    pending = [row for row in rows if "pending" in row.entry]
    if pending:
        yield from ("", "### Listed before they are run", "")
        yield from (f"- {row.source}. As a row: {number(row.paper)} {row.unit}, {row.kind}. "
                    f"{sentence(row.entry['pending'])}" for row in pending)
    yield from ("", "### What no row stands for", "")
    yield from (f"- {entry['source']}: {entry['what']}. {sentence(entry['why'])}"
                for entry in listed.get("left_out", []))


def arithmetic_words(rows, records):
    those = [row for row in rows if row.kind == "arithmetic" and "pending" not in row.entry]
    same = sum("same_as" in row.entry for row in rows)
    ratios = [records[row.id]["here"] / row.paper for row in those]
    yield ""
    if those:
        yield (f"Another {len(those)} rows are arithmetic: sizes, and how many counters a query "
               f"looks at. Here they are {min(ratios):.2f} to {max(ratios):.2f} times the "
               "paper's numbers.")
    if same:
        yield ""
        yield (f"{same} rows hold a number that another row holds, in another place or under "
               "another assumption. They are in the JSON file, and never count.")


MARK = {"disagrees": "**disagrees**"}


def statements_section(result):
    yield "## 2. What the papers say without a number"
    yield ""
    yield ("The model exists to get the order right. \"Open\" means that the bands overlap, that "
           "the two are within a fifth of each other, or that a scheme is missing.")
    yield ""
    yield "| source | the paper says | the model says | |"
    yield "|---|---|---|---|"
    for one in result["statements"]:
        yield (f"| {one['source']} | {one['says']} | {one['model']} "
               f"| {MARK.get(one['verdict'], one['verdict'])} |")
    causes = {}
    for one in result["statements"]:
        if one["cause"]:
            causes.setdefault(" ".join(one["cause"].split()), []).append(one["says"])
    if causes:
        yield from ("", "Why it disagrees, as far as we know. A cause is an inference until a "
                    "run without it agrees.", "")
        yield from (f"- *{'*, *'.join(says)}*. {cause}" for cause, says in causes.items())


def parameters_section(parameters):
    entries = parameters["parameter"]
    yield "## 5. What stands behind the parameters"
    yield ""
    yield (f"{sum(entry['basis'] == 'assumed' for entry in entries)} of {len(entries)} "
           "parameters are assumed. *Checked*: from memory, and another source agrees. What a "
           "look at each source gave is in sim/parameters.toml.")
    yield ""
    yield "| parameter | value | band | basis | source |"
    yield "|---|---|---|---|---|"
    for entry in entries:
        value = entry["value"]
        value = " ".join(map(str, value)) if isinstance(value, list) else value
        band = " .. ".join(map(str, entry["band"])) if "band" in entry else ""
        yield (f"| `{entry['name']}` | {value} | {band} | {entry['basis']} "
               f"| {entry['source']} |")


def wrapped(line):
    """A paragraph or an item of a list, in lines of the page's width; tables stay."""
    if line.startswith(("|", "#", "<!--")):
        return line
    return textwrap.fill(line, PAGE_COLUMNS, subsequent_indent="  " if line[:2] == "- " else "",
                         break_long_words=False, break_on_hyphens=False)


def page_of(listed, parameters, rows, result, native, simulated, figures):
    return ["<!-- SPDX-License-Identifier: GPL-2.0-only OR MIT -->",
            "<!-- Written by sim/validate.py from measurements; do not edit. -->",
            "# How far the timing model can be trusted", "",
            *summary(result), "",
            *numbers_section(listed, rows, result), "",
            *statements_section(result), "",
            *validate_native.section(native, simulated), "",
            *validate_own.section(figures), "",
            *parameters_section(parameters)]


def report(result):
    for one in result["statements"]:
        if one["cause"] == claims.CAUSE_NOT_KNOWN:
            print(f"validate: statement {one['id']} disagrees, {claims.CAUSE_NOT_KNOWN}: "
                  f"{one['model']}")
    score = result["score"]
    print(f"validate: {score['inside']} of {score['predicted']} predicted rows lie inside their "
          f"bands, {score['outside']} outside, {score['too wide to say']} too wide to say")


def options_of():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--figures", default="", help="CSV files, if not in BUILD/figures")
    parser.add_argument("--micro", default="", help="a file with bench_micro's JSON")
    parser.add_argument("--rows", default=str(ROOT / "sim" / "rows.toml"))
    parser.add_argument("--check", choices=["list", "rows"],
                        help="write nothing; check the lists alone, or also the CSV files")
    parser.add_argument("--out", default=str(ROOT / "doc" / "validation.md"),
                        help="the page; the JSON file stands beside it")
    return parser.parse_args()


def main():
    options = options_of()
    build = (ROOT / options.build).resolve()
    listed, parameters = checked_lists(options)
    if options.check == "list":
        return
    figures = figures_of(pathlib.Path(options.figures or build / "figures"))
    rows = lists.rows_of(listed)
    stop_at(lists.check_figures(rows, figures))
    if options.check == "rows":
        return
    if options.micro:
        native = json.loads(pathlib.Path(options.micro).read_text())
    else:
        native = run_json([str(build / "bench" / "bench_micro"), "--json"])
    simulated = run_json([str(build / "lodic-sim"), "micro", "--json"])
    result = result_of(listed, rows, figures)
    page = page_of(listed, parameters, rows, result, native, simulated, figures)
    out = pathlib.Path(options.out)
    out.write_text("\n".join(map(wrapped, page)) + "\n")
    out.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    report(result)
    print(f"validate: {out}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
