#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The search over the whole product: one seed gives one schedule, wherever memory lies.

    test_whole.py LODIC_CHECK LODIC_WHOLE
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCHEDULES = 60
check, whole = sys.argv[1:]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def search(*options, before=()):
    done = run(*before, whole, "--json", *options)
    if done.returncode not in (0, 1):
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


class Whole(unittest.TestCase):
    def test_same_seeds_in_other_processes_same_hash(self):
        one = search("--schedules", str(SCHEDULES), "--jobs", "1")
        self.assertFalse(one["violated"], one)
        for what in ("reads", "pins", "services", "lives"):
            self.assertGreater(one[what], 0, what)
        self.assertEqual(one, search("--schedules", str(SCHEDULES), "--jobs", "3"))

    @unittest.skipIf(not shutil.which("setarch"), "there is no setarch")
    def test_addresses_not_random_same_hash(self):
        fixed = ("setarch", os.uname().machine, "-R")
        if run(*fixed, "true").returncode != 0:
            self.skipTest("this system lets nobody choose")
        self.assertEqual(search("--schedules", str(SCHEDULES)),
                         search("--schedules", str(SCHEDULES), before=fixed))

    def test_other_seeds_other_hash(self):
        self.assertNotEqual(search("--schedules", "5")["hash"],
                            search("--schedules", "5", "--seed", "6")["hash"])

    def test_no_fault_none_drawn(self):
        found = search("--schedules", "20", "--no-fault", "all")
        self.assertFalse(any(found["faults"].values()), found)

    def test_one_fault_only_that_drawn(self):
        found = search("--schedules", "20", "--fault", "death")["faults"]
        self.assertGreater(found.pop("death"), 0)
        self.assertFalse(any(found.values()), found)

    def test_trace_says_what_happens(self):
        done = run(whole, "--schedules", "1", "--trace")
        self.assertIn("lodic_attach() = ", done.stderr)

    def test_bad_usage_is_told(self):
        for options in (["x"], ["--fault", "x"], ["--scenario", "x"], ["--schedules", "0"],
                        ["--trace"]):
            self.assertEqual(run(whole, *options).returncode, 2, options)

    def test_check_runs_it(self):
        done = run(check, "--whole", "--schedules", "3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("3 schedules", done.stdout)

    def test_check_without_it_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(check, folder)
            done = run(alone, "--whole")
        self.assertEqual(done.returncode, 2)
        self.assertIn("ninja lodic-whole", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
