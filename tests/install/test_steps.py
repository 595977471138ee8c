#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How much a fresh clone builds: the steps of the product and of the wheel have bounds.

    test_steps.py SOURCE

Build folders are prepared, and ninja counts; nothing is compiled. What `make wheel` does, its
recipe says.
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
MOST_PRODUCT = 450
MOST_WHEEL = 150
TOTAL = re.compile(r"(?m)^\[\d+/(\d+)\] ")


def run(*command):
    done = subprocess.run(list(map(str, command)), cwd=SOURCE, text=True, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{command}: {done.stdout[-1000:]}"
    return done.stdout


def recipe(goal, folder):
    """The commands of `make GOAL`, without what its prerequisites install."""
    said = run("make", "--no-print-directory", "--dry-run", goal, f"BUILD={folder}")
    lines = map(shlex.split, said.splitlines())
    return [words for words in lines if words[:2] == ["sh", "tools/setup.sh"] or
            words[0] == "ninja"]


def steps(folder, *goals):
    return int(TOTAL.findall(run("ninja", "-C", folder, "-n", *goals))[-1])


class Steps(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory(prefix="lodic-steps-")
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name, "build")

    def bound(self, what, number, most):
        print(f"{what}: {number} steps, at most {most}")
        self.assertLessEqual(number, most, f"{what} is more to build than it should be")

    def test_product(self):
        run("meson", "setup", self.folder)
        self.bound("meson setup && ninja", steps(self.folder), MOST_PRODUCT)

    def test_wheel(self):
        setup, ninja = recipe("wheel", self.folder)
        run(*setup)
        self.bound("make wheel", steps(self.folder, *ninja[3:]), MOST_WHEEL)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
