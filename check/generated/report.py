# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What became of generated mutants: a table for each file, and each one that escaped."""

import collections
import json
import pathlib
import sys
import textwrap
import tomllib

from run import key_of

EQUIVALENT = pathlib.Path(__file__).resolve().parent.parent / "equivalent.toml"
KINDS = ("order", "logic", "flow")
COLUMNS = ("caught", "equivalent", "open", "not run", "unreached")


def read_equivalent(path=EQUIVALENT):
    """{key without its kind: why}, of mutants that change nothing that matters."""
    if not path.exists():
        return {}
    entries = tomllib.loads(path.read_text()).get("mutant", [])
    return {(e["file"], e["function"], " ".join(e["change"].split()), e.get("nth", 0)):
            " ".join(e["why"].split()) for e in entries}


def entry_of(mutant):
    """What to put into that list."""
    lines = textwrap.wrap(mutant.change, 92, break_long_words=False, break_on_hyphens=False)
    change = "\n  ".join(lines)
    return (f'[[mutant]]\nfile = "{mutant.file}"\nfunction = "{mutant.function}"\n' +
            (f"nth = {mutant.nth}\n" if mutant.nth else "") +
            f"change = '''\n  {change}'''\nwhy = \"\"")


def name_of(mutant):
    return mutant.file, mutant.function, " ".join(mutant.change.split()), mutant.nth


def rows_of(mutants, verdicts, reached, equivalent):
    """For each mutant a dictionary: itself, its verdict, and how it was caught."""
    for mutant in mutants:
        row = {**mutant._asdict(), **verdicts.get(key_of(mutant), {})}
        row.pop("key", None)
        row.pop("state", None)
        why = equivalent.get(name_of(mutant))
        if mutant.number not in reached:
            row["verdict"] = "unreached"
        elif "verdict" not in row:
            row["verdict"] = "not run"
        elif row["verdict"] == "escaped":
            row["verdict"] = "equivalent" if why else "open"
        if why:
            row["why"] = why
        yield row


def complaints(mutants, rows, equivalent):
    """What is wrong with the list of equivalent mutants."""
    there = {name_of(mutant) for mutant in mutants}
    tops = {mutant.file.split("/")[0] for mutant in mutants} # the others have no mutants now
    for name in equivalent:
        if name not in there and name[0].split("/")[0] in tops:
            yield f"no such mutant: {name[0]}, {name[1]}: {name[2]} (nth {name[3]})"
    for row in rows:
        if row["verdict"] == "caught" and "why" in row:
            yield f"caught, so not equivalent: {row['file']}, {row['function']}: {row['change']}"


def print_files(rows, out):
    table = collections.defaultdict(collections.Counter)
    for row in rows:
        table[(row["file"], row["kind"])][row["verdict"]] += 1
        table[("all", row["kind"])][row["verdict"]] += 1
    widths = [max(len(c), 7) for c in COLUMNS]
    print(f"{'file':<32} {'kind':<5} " +
          " ".join(f"{c:>{w}}" for c, w in zip(COLUMNS, widths)), file=out)
    for file, kind in sorted(table, key=lambda fk: (fk[0] == "all", fk[0], KINDS.index(fk[1]))):
        counts = table[(file, kind)]
        print(f"{file:<32} {kind:<5} " +
              " ".join(f"{counts[c]:>{w}}" for c, w in zip(COLUMNS, widths)), file=out)


def print_how(rows, out):
    """By what the caught ones were caught, and under which memory model."""
    table = collections.Counter((row["kind"], row["memory"], row["how"]) for row in rows
                                if row["verdict"] == "caught")
    print("\ncaught by", file=out)
    for (kind, memory, how), nr in sorted(table.items()):
        print(f"  {kind:<5} {memory:<5} {how:<9} {nr:>6}", file=out)


def print_open(rows, out):
    listed = [row for row in rows if row["verdict"] == "open"]
    print(f"\nopen: escaped, and nobody has said that nothing changes: {len(listed)}", file=out)
    for row in listed:
        print(f"  {row['file']}:{row['line']}: {row['function']}: {row['change']}"
              f"{' (nth ' + str(row['nth']) + ')' if row['nth'] else ''}\n"
              f"      mutant {row['number']}; {row['cases']} cases, {row['runs']} runs, all with "
              f"{row['schedules']} schedules, {row['cpu']:.0f} s of CPU", file=out)


def print_unreached(rows, out):
    table = collections.Counter((row["file"], row["function"]) for row in rows
                                if row["verdict"] == "unreached")
    print("\nno scenario runs these functions, or not all of them: mutants there", file=out)
    for (file, function), nr in sorted(table.items()):
        print(f"  {file}: {function}: {nr}", file=out)


def show(mutants, every, journal, reached, as_json, whole, out=sys.stdout):
    """mutants: which to tell of, among every one that there is."""
    equivalent = read_equivalent()
    rows = list(rows_of(mutants, journal.verdicts, reached, equivalent))
    wrong = list(complaints(every, rows, equivalent))
    if as_json:
        json.dump({"state": journal.state, "mutants": rows, "complaints": wrong}, out, indent=1)
        print(file=out)
        return
    print_files(rows, out)
    print_how(rows, out)
    print_open(rows, out)
    if whole:
        print_unreached(rows, out)
    for line in wrong:
        print(f"check/equivalent.toml: {line}", file=out)
