#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Named mutants: one rule each, broken by a small patch.

    check/mutants/rows.py                         checks all rows
    check/mutants/rows.py --list                  names, files, rules
    check/mutants/rows.py --list --json           all that a row says
    check/mutants/rows.py --show look-first       a diff
    check/mutants/rows.py --apply look-first --out DIR
                                                  changed copies of its files, below DIR

The rows of core/frame.c have that path below this folder, and .mutants behind it. A row is

    # a comment
    mutant look-first
    rule C1: counted first
    search softmiss-reclaim lodic sc 100000
    test unit/test_reclaim_carry
    whole 20000
    source lib/client/seat.c
    @@ core/cache/context.h
    -text before
    +text after
     both

search: lodic-check finds it in that scenario and scheme. The memory is the strongest one in which
the mutant still shows: sc before tso. The number is of schedules after which it has survived.
`movers` stands behind it if tasks must move between CPUs. test: a native program that finds it.
whole: the search over the whole product finds it, in so many schedules from seed 1 on (whole.py).
`whole 20000 files`: only scenario `files` is searched.
lacks: it does not yet; this is what a scenario must do, or what must be looked at.
source: a file that the test needs compiled with the changed headers. The text before occurs once in
the file. `@@` begins another hunk of the same file, `@@ PATH` one of another file. The text after
may keep a wrong window open by mutant_window(); broken.h has it."""

import argparse
import collections
import difflib
import json
import pathlib
import re
import sys

# A file that a row changes begins with it.
BROKEN = '#include "check/mutants/broken.h"'
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = "check/mutants/"
# Rows that the kernel's text has all at once: kernel/tool/series.py.
KERNEL = "kernel/files/"
SUFFIX = ".mutants"
MEMORIES = ("sc", "tso")
WHOLE = re.compile(r"\d+( [a-z]+)?")

Search = collections.namedtuple("Search", "scenario scheme memory budget movers")
# Lines of a file, before and after.
Hunk = collections.namedtuple("Hunk", "path before after line")
# where: its file and line. tests: a list of words each. whole: schedules, of one scenario or ("")
# of all. lacks: "" if that finds it. notes: its comments.
Row = collections.namedtuple("Row", "name rule searches tests whole scenario lacks sources hunks "
                             "where notes")


class Problem(Exception):
    """What is wrong with a row: (file, line, text)."""

    def __init__(self, where, what):
        super().__init__(f"{where[0]}:{where[1]}: {what}")
        self.file, self.line, self.what = *where, what


class Tree:
    """The files on disk, as tools/tidy.py has them: {path: text}."""

    def __init__(self, root=ROOT):
        self.root = root

    def __iter__(self):
        found = (path for folder in (FOLDER, KERNEL) for path in (self.root / folder).rglob("*"))
        return (str(path.relative_to(self.root)) for path in found)

    def __contains__(self, path):
        return (self.root / path).is_file()

    def __getitem__(self, path):
        return (self.root / path).read_text()


DISK = Tree()


def row_files(tree=DISK, folder=FOLDER):
    return sorted(path for path in tree if path.startswith(folder) and path.endswith(SUFFIX))


def search_of(words, where):
    if (len(words) not in (4, 5) or words[2] not in MEMORIES or not words[3].isdigit() or
            words[4:] not in ([], ["movers"])):
        raise Problem(where, "search: SCENARIO SCHEME sc|tso BUDGET [movers]")
    return Search(*words[:3], int(words[3]), len(words) == 5)


def hunk_of(path, lines, where):
    while lines and not lines[-1]:
        lines.pop()
    before = [line[1:] for line in lines if line[:1] != "+"]
    after = [line[1:] for line in lines if line[:1] != "-"]
    if before == after or not before:
        raise Problem(where, "a hunk changes nothing, or does not say where")
    return Hunk(path, before, after, where[1])


class Reader:
    """One file's rows, line by line."""

    def __init__(self, file):
        self.file, self.rows, self.row, self.notes = file, [], None, []
        self.path, self.lines, self.began = None, None, 0

    def end_hunk(self):
        if self.lines is not None:
            hunk = hunk_of(self.path, self.lines, (self.file, self.began))
            self.row["hunks"].append(hunk)
        self.lines = None

    def end_row(self):
        self.end_hunk()
        if self.row:
            row = Row(**self.row)
            found = row.searches or row.tests or row.whole
            if row.lacks and not row.whole:
                raise Problem(row.where, f"{row.name}: lacks, but no search looks for it")
            if not row.rule or not row.hunks or not found:
                raise Problem(row.where, f"{row.name}: needs a rule, a search or test, and a hunk")
            self.rows.append(row)
        self.row = None

    def begin_hunk(self, path, where):
        self.end_hunk()
        self.path = path or self.path
        if not self.path:
            raise Problem(where, "the first @@ names a file")
        self.lines, self.began = [], where[1]

    def line(self, number, text):
        where = (self.file, number)
        word, _, rest = text.partition(" ")
        if not text:
            self.notes = []
        if text.startswith("#"):
            # The comment right above a row is the row's.
            self.notes.append(text[1:].strip())
        elif word == "mutant":
            self.end_row()
            self.path = None
            self.row = {"name": rest, "rule": "", "searches": [], "tests": [], "whole": 0,
                        "scenario": "", "lacks": "", "sources": [], "hunks": [], "where": where,
                        "notes": self.notes}
            self.notes = []
        elif self.row is None:
            if text:
                raise Problem(where, "a row begins with `mutant NAME`")
        elif word == "@@":
            self.begin_hunk(rest, where)
        elif self.lines is not None:
            if text[:1] not in ("", " ", "+", "-"):
                raise Problem(where, "a line of a hunk begins with +, - or a space")
            self.lines.append(text)
        elif word == "rule":
            self.row["rule"] = rest
        elif word == "search":
            self.row["searches"].append(search_of(rest.split(), where))
        elif word == "test" and rest:
            self.row["tests"].append(rest.split())
        elif word == "whole" and WHOLE.fullmatch(rest) and not self.row["whole"]:
            number, _, scenario = rest.partition(" ")
            self.row["whole"], self.row["scenario"] = int(number), scenario
        elif word == "lacks" and rest:
            self.row["lacks"] = rest
        elif word == "source" and rest:
            self.row["sources"].append(rest)
        elif text:
            raise Problem(where, f"{word}: no such word")


def read(file, text):
    """The rows of one file. Raises Problem."""
    reader = Reader(file)
    for number, line in enumerate(text.splitlines(), 1):
        reader.line(number, line)
    reader.end_row()
    return reader.rows


def parse(tree=DISK, folder=FOLDER):
    """All rows. Raises Problem."""
    return [row for file in row_files(tree, folder) for row in read(file, tree[file])]


def place_of(hunk, lines, where):
    """The line of a file where the hunk's text stands. It stands there once."""
    nr = len(hunk.before)
    places = [i for i in range(len(lines) - nr + 1) if lines[i:i + nr] == hunk.before]
    if len(places) != 1:
        raise Problem(where, f"the text before is {len(places)} times in {hunk.path}, not once")
    return places[0]


def changed(row, path, lines):
    """The lines of a file with the row's hunks in place."""
    places = []
    for hunk in row.hunks:
        if hunk.path == path:
            places.append((place_of(hunk, lines, (row.where[0], hunk.line)), hunk))
    places.sort(reverse=True)
    end = len(lines)
    for place, hunk in places:
        if place + len(hunk.before) > end:
            raise Problem((row.where[0], hunk.line), "two hunks overlap")
        end = place
        lines = lines[:place] + hunk.after + lines[place + len(hunk.before):]
    return lines


def paths_of(row):
    return list(dict.fromkeys(hunk.path for hunk in row.hunks))


def apply(row, tree=DISK):
    """{path: changed text}"""
    texts = {}
    for path in paths_of(row):
        if path not in tree:
            raise Problem(row.where, f"there is no {path}")
        texts[path] = "\n".join(changed(row, path, tree[path].splitlines())) + "\n"
    return texts


def problems(tree=DISK):
    """[(file, line, what)]: of all rows, for tidy.py as well."""
    try:
        rows = parse(tree) + parse(tree, KERNEL)
    except Problem as problem:
        return [(problem.file, problem.line, problem.what)]
    found, seen = [], {}
    for row in rows:
        home = row.where[0].removeprefix(FOLDER).removesuffix(SUFFIX)
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row.name):
            found.append((*row.where, f"{row.name}: names are of small letters and dashes"))
        if row.name in seen:
            found.append((*row.where, f"{row.name}: also in {seen[row.name]}"))
        if home != row.hunks[0].path and not home.startswith(KERNEL):
            found.append((*row.where, f"{row.name}: its first hunk is not in {home}"))
        seen[row.name] = row.where[0]
        try:
            apply(row, tree)
        except Problem as problem:
            found.append((problem.file, problem.line, f"{row.name}: {problem.what}"))
    return found


def named(rows, name):
    for row in rows:
        if row.name == name:
            return row
    sys.exit(f"rows: there is no mutant {name}; --list names them")


def as_json(row):
    return {"name": row.name, "rule": row.rule, "files": paths_of(row), "notes": row.notes,
            "searches": [s._asdict() for s in row.searches], "tests": row.tests,
            "whole": row.whole, "scenario": row.scenario, "lacks": row.lacks,
            "sources": row.sources}


def tell(rows, json_wanted):
    if json_wanted:
        print(json.dumps([as_json(row) for row in rows], indent=1))
        return
    for row in rows:
        print(f"{row.name:24} {' '.join(paths_of(row)):32} {row.rule}")


def show(row):
    for path, text in apply(row).items():
        before = DISK[path].splitlines(keepends=True)
        sys.stdout.writelines(difflib.unified_diff(before, text.splitlines(keepends=True),
                                                   "a/" + path, "b/" + path))


def write(row, out):
    """Leaves a copy that is so already: ninja goes by times."""
    for path, text in apply(row).items():
        target = out / path
        text = f'{BROKEN}\n#line 1 "{path}"\n{text}'
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="only tell what rows there are")
    parser.add_argument("--json", action="store_true", help="with --list: as JSON")
    parser.add_argument("--show", metavar="NAME", help="a row as a diff")
    parser.add_argument("--apply", metavar="NAME", help="write changed copies of its files")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="where --apply writes")
    options = parser.parse_args()
    if options.apply and not options.out:
        parser.error("--apply needs --out")
    try:
        if options.list:
            tell(parse(), options.json)
        elif options.show:
            show(named(parse(), options.show))
        elif options.apply:
            write(named(parse(), options.apply), options.out)
        else:
            found = problems()
            for file, line, what in found:
                print(f"{file}:{line}: {what}")
            print(f"{len(parse()) if not found else 'some'} rows, {len(found)} problems")
            sys.exit(bool(found))
    except Problem as problem:
        sys.exit(f"rows: {problem}")


if __name__ == "__main__":
    main()
