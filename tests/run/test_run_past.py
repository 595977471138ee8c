#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic run` and what goes past libc's functions: rings, other loaders, other languages.

    test_run_past.py LODIC READER RING_LIBRARY

READER is tests/run/run_reader.c, and RING_LIBRARY is tests/run/run_ring.c.
"""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import Case, run  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
Case.reader = str(pathlib.Path(sys.argv[2]).resolve()) if len(sys.argv) > 2 else ""
RING_LIBRARY = str(pathlib.Path(sys.argv[3]).resolve()) if len(sys.argv) > 3 else ""
SKIPPED = 77


class Ways(Case):
    """Each way of the reader, without the cache and with it."""

    def test_closed_inside_libc_not_served(self):
        self.way("closed_inside")

    def test_left_alone_inside_libc_served(self):
        self.way("left_inside")

    def test_login_tty_terminal_there(self):
        self.way("login_tty")

    def test_replaced_by_bare_calls_other_file(self):
        self.way("replaced_bare")

    def test_clone_by_its_other_name_not_served(self):
        self.way("clone_inner")

    def test_bad_pointers_are_errors(self):
        self.way("bad_pointers")

    def test_clone3_unreadable_is_an_error(self):
        self.way("clone3_unreadable")


class Rings(Case):
    """A library with liburing comes into the process, and closes and opens by a ring."""

    def ring(self, way, **variables):
        folder = self.folder / variables.get("RING_HOW", way)
        folder.mkdir()
        variables = [f"{name}={value}" for name, value in variables.items()]
        done = run(self.under(["env", f"RING_LIBRARY={RING_LIBRARY}", *variables, self.reader, way,
                               folder, "cached"]))
        if done.returncode == SKIPPED:
            self.skipTest(done.stdout.decode())
        self.assertEqual((done.returncode, done.stderr), (0, b""), variables)

    def test_library_loaded_later(self):
        for how in ("init", "params", "setup"):
            self.ring("ring", RING_HOW=how)

    def test_library_linked(self):
        preload = run(self.under(["sh", "-c", "echo $LD_PRELOAD"])).stdout.decode().strip()
        for how in ("init", "params", "setup"):
            self.ring("ring", RING_HOW=how, LD_PRELOAD=f"{preload}:{RING_LIBRARY}")

    def test_child_inherits(self):
        self.ring("ring_inherited")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
