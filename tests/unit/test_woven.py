#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Rows of check/mutants/ woven into a small C text: each breaks what it says, and no other.

    test_woven.py SOURCE COMPILER...
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT, CC = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "check" / "mutants"))

import rows  # noqa: E402
import weave  # noqa: E402

TEXT = r"""#include <stdio.h>
#include <stdlib.h>
static int check_mutant_now;

/* Heads of several shapes. */
static inline __attribute__((always_inline)) int
sum(const int values[2],
    int (*change)(int value))
{
	return change(values[0]) + change(values[1]);
}

static int same(int value)
{
	return value;
}

void say(int value)
{
	printf("%d", value);
}

int main(int argc, char **argv)
{
	int values[2] = { 3, 4 };

	check_mutant_now = argc > 1 ? atoi(argv[1]) : 0;
	say(sum(values, same));
	return 0;
}
"""
HEAD = "mutant {}\nrule x\nsearch a b sc 1\n@@ a.c\n"
# Name, hunks, what the program says then. None: they overlap.
OTHER = "+static int other(int value)\n+{\n+\treturn -value;\n+}\n+\n"
ROWS = [
    ("first-only", "-\treturn change(values[0]) + change(values[1]);\n"
                   "+\treturn change(values[0]);\n", "3"),
    ("said-twice", " \tprintf(\"%d\", value);\n+\tprintf(\"%d\", value);\n", "77"),
    ("in-two", "-\treturn value;\n+\treturn value + 1;\n@@\n"
               "-\tprintf(\"%d\", value);\n+\tprintf(\"<%d\", value);\n", "<9"),
    ("overlap", " static int same(int value)\n {\n-\treturn value;\n+\treturn 0;\n"
                "@@\n" + OTHER + " static int same(int value)\n", None),
    ("added", OTHER + " static int same(int value)\n {\n"
              "-\treturn value;\n+\treturn other(value);\n", "-7"),
]


def numbered(*wanted):
    found = []
    for name, hunks, _ in ROWS:
        if name in wanted:
            found += rows.read("a.c.mutants", HEAD.format(name) + hunks)
    return list(enumerate(found, 1))


class Woven(unittest.TestCase):
    def setUp(self):
        rows.DISK = {"a.c": TEXT}

    def said(self, chosen):
        with tempfile.TemporaryDirectory(prefix="lodic-woven-") as folder:
            source = pathlib.Path(folder) / "a.c"
            source.write_text(weave.woven("a.c", chosen))
            (source.parent / "woven.h").write_text("")
            program = source.with_suffix("")
            subprocess.run([*CC, "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", "-o", program, source],
                           check=True)
            return [subprocess.run([program, str(i)], stdout=subprocess.PIPE, check=True,
                                   timeout=60).stdout.decode() for i in range(len(chosen) + 1)]

    def test_each_row_breaks_what_it_says(self):
        good = [row for row in ROWS if row[2]]
        chosen = numbered(*(name for name, _, _ in good))
        self.assertEqual(self.said(chosen), ["7"] + [said for _, _, said in good])

    def test_hunks_that_overlap(self):
        with self.assertRaisesRegex(rows.Problem, "overlap"):
            weave.woven("a.c", numbered("overlap"))

    def test_text_outside_of_functions(self):
        row = rows.read("a.c.mutants", HEAD.format("outside") +
                        "-static int check_mutant_now;\n+static long check_mutant_now;\n")
        with self.assertRaisesRegex(rows.Problem, "outside of functions"):
            weave.woven("a.c", [(1, row[0])])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
