#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The example in lodic.h and in README.md is doc/example.c, that of a page in C++ doc/example.cc.
Both run.

    test_example.py LODIC EXAMPLE LODIC_H EXAMPLE_C README
    test_example.py LODIC EXAMPLE - EXAMPLE_CC PAGE
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BLOCK = 4096
NR_BLOCKS = 20
TAIL = 100
SECONDS = 60
PAUSE_SECONDS = 0.01
STEP = 7
lodic, example, header, source, readme = sys.argv[1:]


def program_in(text):
    """The example as a header's first comment has it: lines that begin with a tab."""
    lines = text.split("*/")[1].split("\n")
    inside = [i for i, line in enumerate(lines) if line.startswith(" *\t")]
    block = lines[inside[0]:inside[-1] + 1]
    return "".join(line.removeprefix(" *").removeprefix("\t") + "\n" for line in block)


class Example(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-example-"))
        self.socket = self.folder / "cache.sock"
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.addCleanup(self.end_service)

    def stat(self):
        done = subprocess.run([lodic, "stat", "--json", "--socket", self.socket],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=SECONDS, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def end_service(self):
        stat = self.stat()
        if stat:
            os.kill(stat["service_pid"], signal.SIGTERM)
        deadline = time.monotonic() + SECONDS
        while self.socket.exists() and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)

    def run_it(self, *arguments, **more):
        return subprocess.run([example, *map(str, arguments)], capture_output=True,
                              text=True, timeout=SECONDS, check=False, **more)

    def test_text_in_header_and_readme_is_the_file(self):
        text = pathlib.Path(source).read_text(encoding="ascii")
        licence, program = text.split("\n", 1)
        self.assertIn("SPDX", licence)
        if header != "-":
            self.assertEqual(program_in(pathlib.Path(header).read_text(encoding="ascii")), program)
        fence = "```cpp" if source.endswith(".cc") else "```c"
        self.assertIn(f"{fence}\n{program}```\n",
                      pathlib.Path(readme).read_text(encoding="utf-8"))

    def test_sum_is_right_and_blocks_are_in_place(self):
        data = bytes(i * STEP % 256 for i in range(NR_BLOCKS * BLOCK + TAIL))
        path = self.folder / "data"
        path.write_bytes(data)
        for _ in range(2):
            result = self.run_it(path, self.socket)
            self.assertEqual(result.returncode, 0, result.stderr)
            found = re.fullmatch(r"sum (\d+); (\d+) blocks in place, (\d+) copied\n",
                                 result.stdout)
            total, in_place, copied = map(int, found.groups())
            self.assertEqual(total, sum(data))
            self.assertEqual(in_place + copied, NR_BLOCKS + 1)
            if self.stat()["admitted"] == 0:
                self.skipTest("no file can be cached here: all blocks were copied")
            self.assertEqual((copied, result.stderr), (0, ""))

    def test_errors_are_said(self):
        for arguments, status, words in (
                ([], 2, "usage"),
                ([self.folder / "none"], 1, "No such file"),
                ([self.folder, self.socket], 1, "Is a directory")):
            result = self.run_it(*arguments)
            self.assertEqual(result.returncode, status)
            self.assertIn(words, result.stderr)
            self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
