#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic bench service`: what it prints, what it refuses, and that a Ctrl-C leaves nothing.

Usage: test_bench_service.py LODIC
"""

import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LODIC = sys.argv[1] if len(sys.argv) > 1 else ""
SECONDS = 60  # a run may take
WHAT = ["evict", "evict_pinned", "fill", "open", "open_wall", "reap", "turn", "barrier"]
SMALL = ["--memory", "64M", "--contexts", "32", "--seconds", "0.1"]
DESCRIPTORS = 512  # 400 files, 32 contexts of a program each, and their sockets are more


def limit_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))


class BenchService(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.environment = {**os.environ, "TMPDIR": str(self.folder)}

    def need_leases(self):
        with tempfile.NamedTemporaryFile(dir=self.folder) as made, open(made.name, "rb") as f:
            made.close()
            try:
                fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            except OSError:
                self.skipTest("no leases where temporary files are: set TMPDIR")

    def run_bench(self, *words, **more):
        return subprocess.run(
            [LODIC, "bench", "service", "--workdir", self.folder, *words],
            stdin=subprocess.DEVNULL, text=True, check=False, capture_output=True,
            timeout=SECONDS, env=self.environment, **more)

    def done_well(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        # On a busy machine there may be progress.
        self.assertRegex(done.stderr, r"\A(lodic: [a-z ]+: \d+ %\n)*\Z")

    def nothing_stays(self):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if not list(self.folder.iterdir()):
                return
            time.sleep(0.01)
        self.fail(f"it has left {list(self.folder.iterdir())}")

    def test_json_has_each_figure(self):
        self.need_leases()
        done = self.run_bench(*SMALL, "--files", "400", "--json", preexec_fn=limit_descriptors)
        self.done_well(done)
        said = json.loads(done.stdout)
        self.assertEqual((said["contexts"], said["files"]), (32, 400))
        self.assertGreaterEqual(said["frames"], 16384)
        self.assertIn(said["barrier"], ("light", "lock"))
        self.assertEqual([row["what"] for row in said["results"]], WHAT)
        for row in said["results"]:
            self.assertGreater(row["per_second"], 0, row)
            self.assertGreater(row["p50_us"], 0, row)
            self.assertGreaterEqual(row["p999_us"], row["p50_us"], row)
            self.assertGreaterEqual(row["max_us"], row["p999_us"], row)
        self.assertGreater(said["pinned"], 0)
        self.assertEqual(said["results"][WHAT.index("reap")]["nr"], 32)
        self.assertEqual(said["descriptors"], DESCRIPTORS)
        self.assertEqual(said["refused"], "ENFILE")
        self.assertTrue(200 < said["held"] < 400, said["held"])
        self.nothing_stays()

    def test_table_locked_pins_all_files_held(self):
        self.need_leases()
        done = self.run_bench(*SMALL, "--files", "40", "--barrier", "lock")
        self.done_well(done)
        self.assertIn("locked pins", done.stdout)
        for what in WHAT:
            self.assertRegex(done.stdout, rf"(?m)^{what} +\d")
        self.assertIn("held at once: all 40 files", done.stdout)

    def test_bad_input_refused_with_one_message(self):
        for words in (["--memory", "much"], ["--memory", "1M"], ["--contexts", "1025"],
                      ["--contexts", "0"], ["--files", "0"], ["--files", "x"],
                      ["--seconds", "0"], ["--barrier", "heavy"], ["--pinning", "1025"],
                      ["--pins", "65"], ["more"]):
            done = self.run_bench(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertRegex(done.stderr, r"\Alodic bench service: .*\nTry (.*\n)+\Z", words)
        for words in (["--memory", "7000000M"], ["--workdir", "/nonexistent"]):
            done = self.run_bench(*words)
            self.assertEqual((done.returncode, done.stdout), (1, ""), words)
            self.assertRegex(done.stderr, r"\Alodic: .*\n\Z", words)
        self.nothing_stays()

    def test_stopped_leaves_nothing(self):
        self.need_leases()
        for number, status in (signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL):
            with subprocess.Popen(
                    [LODIC, "bench", "service", "--workdir", self.folder, *SMALL,
                     "--files", "100000"], stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL, env=self.environment) as bench:
                deadline = time.monotonic() + SECONDS
                while not list(self.folder.glob("lodic-files-*/00000100")):
                    self.assertLess(time.monotonic(), deadline)
                    self.assertIsNone(bench.poll())
                bench.send_signal(number)
                self.assertEqual(bench.wait(SECONDS), status)
            self.nothing_stays()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
