#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Follows doc/recipes.md in a copy of the tree, word for word.

The page holds all there is to do, in three forms:

    In `FILE`, after `TEXT`:        the code block below goes behind the line with TEXT
    In `FILE`, replace `TEXT` by:   the code block below stands for the line with TEXT
    ```sh                           these commands run, and must succeed
    ```text                         each of these lines is in what the commands printed;
                                    ... stands for anything

    test_recipes.py [SOURCE]
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1) if len(sys.argv) > 1 and os.path.isdir(sys.argv[1])
                      else pathlib.Path(__file__).parents[2]).resolve()
PAGE = "doc/recipes.md"
NOT_COPIED = ("build", ".git", "__pycache__")
ROWS = "lib/settings_list.h"
PYTHON_H = pathlib.Path(sysconfig.get_path("include")) / "Python.h"
SECONDS = 300
MAX_FILES = 4

STEP = re.compile(
    r"^In `(?P<file>[^`]+)`, (?P<how>after|replace) `(?P<anchor>[^`]+)`(?: by)?:\n\n"
    r"```\w+\n(?P<text>.*?)^```$"
    r"|^```(?P<kind>sh|text)\n(?P<block>.*?)^```$", re.MULTILINE | re.DOTALL)
MADE = re.compile(r"(?:>>?|-o) (\S+)")


def steps_of(page, number):
    """The steps of one recipe, in order."""
    parts = re.split(r"^## (\d+)\. ", page, flags=re.MULTILINE)
    section = dict(zip(parts[1::2], parts[2::2]))[str(number)]
    return list(STEP.finditer(section))


class Recipes(unittest.TestCase):
    """One copy of the tree takes all changes in turn, and has one build folder. The first change
    makes ninja build the most."""

    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-recipes-"))
        cls.addClassCleanup(shutil.rmtree, folder, True)
        cls.tree = folder / "lodic"
        shutil.copytree(SOURCE, cls.tree, ignore=shutil.ignore_patterns(*NOT_COPIED))

    def setUp(self):
        self.said = ""
        self.touched = set()

    def edit(self, step):
        path = self.tree / step["file"]
        lines = path.read_text().split("\n")
        found = [i for i, line in enumerate(lines) if step["anchor"] in line]
        self.assertTrue(found, f"{step['file']} has no line with {step['anchor']}")
        # More than one may hold it: the page means the first.
        at = found[0] + (step["how"] == "after")
        lines[at:found[0] + 1] = step["text"].removesuffix("\n").split("\n")
        path.write_text("\n".join(lines))
        self.touched.add(step["file"])

    def run_commands(self, commands):
        made = [name for name in MADE.findall(commands) if not name.startswith("build/")]
        self.touched |= set(made)
        done = subprocess.run(["bash", "-eu", "-c", commands], cwd=self.tree, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
        self.said = done.stdout
        self.assertEqual(done.returncode, 0, f"{commands}\n{done.stdout}")

    def look_for(self, lines):
        said = [" ".join(line.split()) for line in self.said.splitlines()]
        for line in lines.splitlines():
            parts = [re.escape(" ".join(part.split())) for part in line.split("...")]
            self.assertTrue(any(re.search(".*".join(parts), one) for one in said),
                            f"no line printed is like: {line}\n{self.said}")

    def follow(self, number):
        steps = steps_of((SOURCE / PAGE).read_text(), number)
        kinds = [step["kind"] or "edit" for step in steps]
        for needed in ("sh", "text"):
            self.assertIn(needed, kinds, f"recipe {number} has no step of this kind")
        for step in steps:
            if step["file"]:
                self.edit(step)
            elif step["kind"] == "sh":
                self.run_commands(step["block"])
            else:
                self.look_for(step["block"])
        self.assertTrue(1 <= len(self.touched) <= MAX_FILES, sorted(self.touched))
        print(f"\n  recipe {number}: {', '.join(sorted(self.touched))}", file=sys.stderr)

    def compiles(self, rows):
        """Does the table of settings compile when its rows are these?"""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-rows-"))
        self.addCleanup(shutil.rmtree, folder, True)
        (folder / "lib").mkdir()
        (folder / ROWS).write_text(rows)
        # Files that are named "lib/..." are looked for in the folder first.
        done = subprocess.run(["cc", "-fsyntax-only", "-std=gnu11", f"-I{folder}", f"-I{SOURCE}",
                               f"-I{SOURCE}/include", SOURCE / "lib/settings_value.c"],
                              capture_output=True, text=True, check=False)
        return done.returncode == 0

    def test_2_number_of_stat(self):
        self.follow(2)

    def test_3_scheme(self):
        self.follow(3)

    def test_5_setting(self):
        self.follow(5)

    def test_6_workload(self):
        self.follow(6)

    def test_7_command(self):
        self.follow(7)

    @unittest.skipUnless(PYTHON_H.exists(), "no Python.h (Debian: python3-dev)")
    def test_8_python_function(self):
        self.follow(8)

    def test_setting_without_successor_decision_does_not_compile(self):
        rows = (SOURCE / ROWS).read_text()
        self.assertTrue(self.compiles(rows))
        start = rows.index("SETTING(KEEP,")
        row = rows[start:rows.index("\nSETTING(", start)]
        for other in (re.sub(r"\bLEFT,\s*", "", row), re.sub(r"\bLEFT,", "PERHAPS,", row),
                      re.sub(r"\bAT_START,\s*", "", row)):
            self.assertNotEqual(other, row)
            self.assertFalse(self.compiles(rows.replace(row, other)), other)


if __name__ == "__main__":
    unittest.main(verbosity=2)
