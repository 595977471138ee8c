#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Random calls of a program under `lodic run`: each read gives the bytes of the file that the
kernel has at that number (run_random.c).

    test_run_random.py LODIC RUN_READER [EXECUTIONS [SEED]]
"""

import os
import subprocess
import sys
import time
import unittest

from run_case import Case, of_all_files

LODIC, READER = sys.argv[1:3]
EXECUTIONS = sys.argv[3] if len(sys.argv) > 3 else "20000"
SEED = sys.argv[4] if len(sys.argv) > 4 else os.environ.get("LODIC_TEST_SEED",
                                                           str(time.time_ns() % 2**31))
LIMIT_S = 7200


class Random(Case):
    lodic = LODIC

    def test_random_calls_right_bytes(self):
        started = time.monotonic()
        done, reports = self.reports([READER, "random", self.folder, "cached"],
                                     env=dict(os.environ, SEED=SEED, EXECUTIONS=EXECUTIONS),
                                     timeout=LIMIT_S)
        print(done.stdout.decode(), end="")
        self.assertEqual(done.stderr, b"", f"seed={SEED}")
        sums = of_all_files(reports, "run_reader")
        print(f"{sums['reads']} reads, {sums['served']} of them served from the cache, in "
              f"{time.monotonic() - started:.1f} s")
        self.assertGreater(sums["served"], 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
