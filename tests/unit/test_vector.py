#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The program of doc/use/vector.md finds the nearest vector, held and copied.

    test_vector.py LODIC VECTOR VECTOR_CC PAGE
"""

import array
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SECONDS = 60
DIM = 16
NR = 20000  # 1.2 MiB: a hold that processes share
SEED = 11
lodic, vector, source, page = sys.argv[1:]


def run(*command):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False,
                          timeout=SECONDS)


class Vector(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-vector-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.index = self.folder / "index"
        self.socket = self.folder / "cache"

    def make(self, seed):
        """What the nearest one is: small whole numbers, so that sums are exact."""
        print(f"seed={seed}")
        numbers = random.Random(seed)
        rows = [[numbers.randrange(-9, 9) for _ in range(DIM)] for _ in range(NR)]
        fresh = self.folder / "fresh"
        fresh.write_bytes(array.array("f", [n for row in rows for n in row]).tobytes())
        fresh.rename(self.index)
        distance, row = min((sum((n - 1) ** 2 for n in row), i) for i, row in enumerate(rows))
        return f"row {row}, distance {distance}, "

    def serve(self, *more):
        done = run(lodic, "serve", "--daemon", "--socket", self.socket, "--memory", "16M", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        text = run(lodic, "stat", "--json", "--socket", self.socket).stdout
        pid = int(re.search(r'"service_pid": *(\d+)', text)[1])
        self.addCleanup(os.kill, pid, signal.SIGTERM)

    def search(self):
        done = run(vector, self.index, NR, self.socket)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_nearest_is_found_in_the_hold_and_in_the_next_file(self):
        self.serve("--holds", "4M")
        for seed in SEED, SEED + 1:
            wanted = self.make(seed)
            self.assertEqual(self.search(), wanted + "held\n")

    def test_nearest_is_found_without_room_to_hold(self):
        self.serve("--holds", "0")
        wanted = self.make(SEED)
        for _ in range(2):
            said = self.search()
            self.assertTrue(said.startswith(wanted), said)
            self.assertNotIn("held", said)

    def test_page_shows_the_program(self):
        text = pathlib.Path(page).read_text(encoding="utf-8")
        part = re.search(r"```cpp\n(.*?)```\n", text, re.DOTALL)[1]
        self.assertIn(part, pathlib.Path(source).read_text(encoding="ascii"))
        self.assertIn("lodicpp::hold hold(", part)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
