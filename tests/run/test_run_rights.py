#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic run` by root, of programs that become other users: each is served by its own service.

    test_run_rights.py LODIC READER [ROUNDS [SEED]]

ROUNDS is how many children the storms have, with 10 ways to lose rights. What needs no root stands
in test_run.py. See run_inside.py for where this runs; without root it is skipped.
"""

import json
import os
import pathlib
import shutil
import signal
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]

import run_inside  # pylint: disable=C0413
from run_case import NOBODY, run  # pylint: disable=C0413

LODIC, READER = (sys.argv[1:3] + ["", ""])[:2]
ROUNDS, SEED = (sys.argv[3:5] + ["30", "1"][len(sys.argv[3:5]):])
SECONDS = max(100, int(ROUNDS))
LEASE = 1 << 28 # CAP_LEASE


class Users(unittest.TestCase):
    """Root's programs."""

    def setUp(self):
        self.folder = run_inside.FILES / "f"
        self.folder.mkdir()
        self.addCleanup(shutil.rmtree, self.folder)
        for uid in (0, NOBODY):
            self.addCleanup(run_inside.end_service, self.stat, uid)

    def stat(self, path):
        done = run([LODIC, "stat", "--socket", path, "--json"])
        return json.loads(done.stdout) if done.returncode == 0 else None

    def way(self, name, *options):
        done = run([LODIC, "run", "--memory", "32M", *options, "--", READER, name, self.folder,
                    "cached"], timeout=SECONDS, env=dict(os.environ, ROUNDS=ROUNDS, SEED=SEED))
        self.assertEqual((done.returncode, done.stderr), (0, b""), (name, SEED))

    def test_new_user_has_own_service(self):
        self.way("rights_new_user")
        service = run_inside.status(self.stat(run_inside.default_socket(NOBODY))["service_pid"])
        self.assertEqual(service["Uid"].split(), [str(NOBODY)] * 4)
        self.assertEqual([int(service[key], 16) for key in
                          ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd")],
                         [LEASE, LEASE, 0, 0, 0])

    def test_storm_to_nobody(self):
        self.way("rights_storm", "--socket", "/tmp/socket")
        os.kill(self.stat("/tmp/socket")["service_pid"], signal.SIGKILL)

    def test_storm_to_own_services(self):
        self.way("rights_storm_users")


if __name__ == "__main__":
    run_inside.enter()
    print(f"{ROUNDS} rounds, seed {SEED}")
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
