# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The rules of doc/paper-map.md: sections that exist, functions and tests that exist."""

import fnmatch
import re

from tidy_source import blank, line_of, rule

MAP = "doc/paper-map.md"
# The section numbers that each paper has.
SECTIONS = {
    "LODIC": "1 2 2.1 2.2 3 4 4.1 4.2 4.3 4.4 4.4.1 4.4.2 4.5 5 5.1 5.2 5.2.1 5.2.2 5.2.3 "
             "5.2.4 6 7",
    "PAYGO": "1 2 2.1 2.2 3 3.1 3.2 3.3 3.4 3.5 4 5 6 6.1 6.2 6.2.1 6.2.2 6.2.3 6.2.4 6.2.5 "
             "6.3 7 8",
    "KLOC": "1 2 3 3.1 3.2 3.3 4 4.1 4.2 4.2.1 4.2.2 4.2.3 4.3 4.4 4.5 5 6 6.1 6.2 7 7.1 7.2 "
            "7.3 7.4 8",
}
NUMBER = r"\d+(?:\.\d+)*"
# LODIC s.4.3; LODIC s.4.2, s.4.5; LODIC s.4.3 to 4.5.
CITATION = re.compile(rf"\b(LODIC|PAYGO|KLOC)s?(?:'s)?:?\s+(s\.{NUMBER}"
                      rf"(?:(?:,|,?\s+and|\s+to)\s+(?:s\.{NUMBER}|{NUMBER}\.\d+))*)")
# Another form, which nobody could look up; other papers' sections follow a year or names.
UNCLEAR = re.compile(r"((?:\d{4}\)|et al\.),\s+)?(?<![\w'%])s\. ?\d[\d.]*|"
                     r"\b(?:LODIC|PAYGO|KLOC)\b[^.]{0,9}(?:\b[Ss]ec(?:tions?|\.)\s*|\u00a7)\d")
ROW = re.compile(rf"^\|\s*(LODIC|PAYGO|KLOC)(?: s\.({NUMBER}))?", re.MULTILINE)
DATA_SUFFIXES = (".json", ".csv", ".svg", ".png")
FUNCTION = re.compile(r"`(?:struct )?(\w+)\(\)`")
PATH = re.compile(r"`([\w.*-]+/[\w./*-]+)`")
ROWS = "check/mutants/core/a.c.mutants"
MUTANT_NAMES = re.compile(r"\bmutants?\s+`?([a-z]+(?:[-_][a-z]+)+(?:, [a-z]+(?:-[a-z]+)+)*)`?")


def sections_of(citation):
    return re.findall(NUMBER, citation.replace("s.", ""))


@rule(bad=[{"core/a.h": "/* (LODIC s.9.9) */\n", MAP: "| LODIC s.9.9 | x |\n"},
           {"core/a.h": "/* (LODIC\n * s.4.3, s.4.4) */\n", MAP: "| LODIC s.4.3 | x |\n"},
           {"core/a.h": "/* as LODIC s.4.3 to 4.5 say */\n", MAP: "| LODIC s.4.3 | x |\n"},
           {"sim/a.py": '("PAYGO s.6.4", "x")\n', MAP: "| PAYGO s.6 | x |\n"},
           {"sim/t/a": "# LODIC s.5\n", MAP: ""}, {"core/a.h": "/* (s.4.3) */\n"},
           {"core/a.h": "/* LODIC section 4 */\n"}, {"core/a.h": "/* LODIC, s. 4.3 */\n"},
           {MAP: "| KLOC s.9.1 | x |\n"}],
      good={"core/a.h": "/* as (LODIC\n * s.4.3, Fig. 6); LODIC s.4.3, and 5 of 7 */\n"
                        "/* (OSDI\n * 2010), s.4.3; Yang et al.,\n * s.4.1 */\n",
            "a.csv": "LODIC s.9\n", MAP: "| LODIC s.4.3 embedding | x |\n| KLOC | x |\n"})
def paper_sections(tree):
    """A section that is cited, as in LODIC s.4.3, is in the paper and in doc/paper-map.md."""
    page = tree.get(MAP)
    known = set(ROW.findall(page or ""))
    exist = {(paper, number) for paper, numbers in SECTIONS.items() for number in numbers.split()}
    for path, text in tree.items():
        if path.endswith(DATA_SUFFIXES) or path.startswith("tools/tidy"):
            continue
        # The ends of a comment's lines count as spaces.
        flat = re.sub(r"\n[ \t]*[*#]?", lambda m: " " * len(m[0]), text) \
            if path != MAP else text
        for found in CITATION.finditer(flat):
            for number in sections_of(found[2]):
                at = line_of(text, found.start())
                if (found[1], number) not in exist:
                    yield path, at, f"the paper has no {found[1]} s.{number}"
                elif (found[1], number) not in known:
                    yield path, at, f"{found[1]} s.{number} is not in {MAP}"
        for found in UNCLEAR.finditer(CITATION.sub(blank, flat)):
            if not found[1]:
                yield path, line_of(text, found.start()), f"write LODIC s.4.3, not {found[0]}"


def files_named(tree, cell):
    """The files that a cell names, also by a folder or a pattern."""
    paths = []
    for name in PATH.findall(cell):
        pattern = name + "*" if name.endswith("/") else name
        paths += [path for path in tree if fnmatch.fnmatch(path, pattern)]
    return paths


def has_function(text, name):
    return re.search(rf"\b{name}\s*\(", text)


@rule(bad=[{MAP: "| LODIC s.1 | x | `core/a.c`: `f()` | | | |\n", "core/a.c": "int g(void);\n"},
           {MAP: "| LODIC s.1 | x | `f()` in `core/a.c` | | | |\n", "core/b.c": "int f(void);\n",
            "core/a.c": "int g(void);\n"},
           {MAP: "| LODIC s.1 | x | `lodic`: `f()` | | | |\n", "kernel/files/a.c": "int g;\n"}],
      good={MAP: "| LODIC s.1 | x | `core/a.c`: `f()`, `g()` | | | |\n"
                 "| LODIC s.1 | x | `lodic`: `f()` | | | |\n",
            "core/a.c": "int f(void);\nint g(void);\n", "kernel/files/a.c": "int f(void);\n"})
def paper_functions(tree):
    """A function that doc/paper-map.md names stands in a file that the same cell names; if the
    cell names none, in the kernel's series."""
    series = [path for path in tree if path.startswith(("kernel/files/", "kernel/patches/"))]
    for i, line in enumerate(tree.get(MAP, "").split("\n")):
        for cell in line.split("|") if line.startswith("|") else ():
            paths = files_named(tree, cell) or series
            for name in FUNCTION.findall(cell):
                if not any(has_function(tree[path], name) for path in paths):
                    yield MAP, i + 1, f"no {name}() in {' '.join(PATH.findall(cell)) or 'kernel/'}"


def guest_words(tree):
    """Names of tests in the guest: programs, subtests and KUnit cases."""
    texts = [text for path, text in tree.items()
             if path.startswith(("kernel/tests/", "kernel/files/lodic-kunit/",
                              "kernel/files/kloc-kunit/", "kernel/extra/"))]
    stems = [path.rsplit("/", 1)[-1].split(".")[0] for path in tree
             if path.startswith("kernel/tests/")]
    return " ".join(texts + stems)


@rule(bad=[{MAP: "| section | test in the guest |\n|---|---|\n| LODIC s.1 | `hold` all |\n"},
           {MAP: "| section | test in the guest |\n|---|---|\n| LODIC s.1 | `hold` gone-away |\n",
            "kernel/tests/hold.c": "x"},
           {MAP: "| LODIC s.1 | x | mutants a-b, no-pin |\n", ROWS: "mutant no-pin\n"},
           {"doc/races.md": "mutant `no-pin`\n", ROWS: "mutant no-pins\n"}],
      good={MAP: "| section | test in the guest |\n|---|---|\n| LODIC s.1 | `hold` two-frames |\n"
                 "\n| LODIC s.1 | x | mutants, mutant no-pin |\n",
            "kernel/tests/hold.c": '"two-frames"', ROWS: "mutant no-pin\nrule x\n"})
def paper_tests(tree):
    """Tests of the guest and mutants that doc/paper-map.md and doc/races.md name exist."""
    mutants = {name for path, text in tree.items() if path.startswith("check/mutants/")
               for name in re.findall(r"^mutant (.*)$", text, re.MULTILINE)}
    for path in (MAP, "doc/races.md"):
        for found in MUTANT_NAMES.finditer(tree.get(path, "")):
            for name in found[1].split(", "):
                if name not in mutants:
                    yield path, line_of(tree[path], found.start()), f"there is no mutant {name}"
    yield from guest_tests(tree)


def guest_tests(tree):
    words, column = guest_words(tree), None
    for i, line in enumerate(tree.get(MAP, "").split("\n")):
        cells = [cell.strip() for cell in line.split("|")]
        if "test in the guest" in cells:
            column = cells.index("test in the guest")
        elif not line.startswith("|"):
            column = None
        elif column and column < len(cells):
            names = re.findall(r"`(\w+)`", cells[column]) + \
                re.findall(r"\b([a-z]+(?:[-_][a-z]+)+)\b", cells[column])
            for name in names:
                if not re.search(rf"\b{re.escape(name)}\b", words):
                    yield MAP, i + 1, f"the guest has no test {name}"
