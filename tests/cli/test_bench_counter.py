#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic bench counter`: what it prints, and what it refuses.

Usage: test_bench_counter.py LODIC
"""

import json
import os
import subprocess
import sys
import unittest

LODIC = sys.argv[1] if len(sys.argv) > 1 else ""
SECONDS = 100
WAYS = {"private", "paygo", "guard", "percpu", "atomic", "fetch_add", "cas"}
BARE = {"bare", "bare_apart", "percpu_bare"}  # only where there are restartable sequences
SHORT = ["--rounds", "3", "--objects", "1,8", "--threads", "1"]
FULL = 4096  # entries of a CPU's table there


def run_bench(*words, **more):
    return subprocess.run([LODIC, "bench", "counter", *words], stdin=subprocess.DEVNULL,
                          text=True, check=False, capture_output=True, timeout=SECONDS,
                          **more)


class BenchCounter(unittest.TestCase):
    def check(self, done, path):
        self.assertEqual(done.returncode, 0, done.stderr)
        found = json.loads(done.stdout)
        self.assertEqual(found["path"], path)
        rows = [row for row in found["results"] if "in_word" not in row]
        ways = WAYS | BARE if path == "restartable sequences" else WAYS
        self.assertEqual({row["scheme"] for row in rows}, ways)
        self.assertEqual({row["objects"] for row in rows}, {1, 8})
        for row in rows:
            self.assertLessEqual({"scheme", "threads", "objects", "hold", "mops", "ns", "ratio"},
                                 set(row))
        holds = {row["hold"]: row["in_word"] for row in found["results"] if "in_word" in row}
        self.assertEqual(holds[0], 0)
        self.assertGreater(holds[4 * FULL], 0.5)
        self.assertEqual(found["crowd"]["puts"], 20 * 200)
        self.assertEqual(found["object_bytes"], 8)

    def test_json_has_every_way(self):
        found = json.loads(run_bench("--json", *SHORT, "--crowd", "20").stdout)
        self.check(run_bench("--json", *SHORT, "--crowd", "20"), found["path"])

    def test_without_sequences_it_says_so(self):
        environment = {**os.environ, "GLIBC_TUNABLES": "glibc.pthread.rseq=0"}
        self.check(run_bench("--json", *SHORT, "--crowd", "20", env=environment), "atomics")

    def test_table_names_what_is_missed_or_met(self):
        done = run_bench(*SHORT)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^paygo +[-\d]")
        self.assertRegex(done.stdout, r"(?m)^  paygo over bare, 1 thread .*"
                                      r"(met|missed|not measured)$")
        self.assertRegex(done.stdout, r"(?m)^  cas over paygo, 2 threads .* not measured$")

    def test_too_few_rounds_measure_nothing_and_say_so(self):
        done = run_bench("--rounds", "1", "--objects", "1", "--threads", "1")
        self.assertNotIn(" 0.00 ", done.stdout)
        self.assertRegex(done.stdout, r"(?m)^ +0 held: not measured; ")
        self.assertRegex(done.stdout, r"(?m)^  paygo over bare, 1 thread +-  \(.*not measured$")
        found = json.loads(run_bench("--json", "--rounds", "1", "--objects", "1", "--threads",
                                     "1").stdout)
        self.assertEqual({row["ns"] for row in found["results"]}, {None})
        self.assertEqual({goal["value"] for goal in found["goals"]}, {None})

    def test_wrong_lists_are_refused(self):
        for words in ["--objects", "3"], ["--objects", "1024"], ["--threads", "0"], \
                ["--rounds", "0"], ["--crowd", "x"], ["more"]:
            done = run_bench(*words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)

    def test_more_threads_than_cpus_are_refused(self):
        done = run_bench("--threads", "1024", "--rounds", "1")
        if len(os.sched_getaffinity(0)) < 1024:
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("fewer CPUs", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
