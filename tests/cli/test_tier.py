#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic tier`: two tiers of a running cache, as a user sees and moves them.

    test_tier.py LODIC LOOK_READER
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

SECONDS = 60
BLOCK = 4096
MIB = 1 << 20
LODIC, READER = map(os.path.abspath, sys.argv[1:3])


class Tier(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-tier-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.socket = self.folder / "s"
        self.file = self.folder / "file"
        self.file.write_bytes(os.urandom(MIB))

    def start(self, *words, **more):
        process = subprocess.Popen([str(w) for w in words], text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, **more)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        process.kill()
        process.communicate(timeout=SECONDS)

    def serve(self, *options):
        service = self.start(LODIC, "serve", "-m", "8M", "--holds", "0", "-s", self.socket,
                             *options)
        self.assertIn("serving", service.stdout.readline())
        reader = self.start(READER, self.socket, 1, 0, self.file, stdin=subprocess.PIPE)
        reader.stdout.readline()
        return service

    def tier(self, *options, status=0):
        done = subprocess.run([LODIC, "tier", "-s", str(self.socket), *map(str, options)],
                              capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def now(self):
        return json.loads(self.tier("--json", "--wait").stdout)

    def of_file(self):
        return [(f["fast"], f["slow"], f["new"]) for f in self.now()["files"]]

    def test_two_tiers_file_moves_there_and_back(self):
        self.serve("--fast-memory", "4M")
        self.assertEqual(self.of_file(), [(MIB // BLOCK, 0, "fast")])
        self.tier("--to", "slow", self.file, "--wait")
        self.assertEqual(self.of_file(), [(0, MIB // BLOCK, "slow")])
        self.tier("--to", "fast", self.file, "--wait")
        o = self.now()
        self.assertEqual([t["tier"] for t in o["tiers"]], ["fast", "slow"])
        self.assertEqual(sum(t["frames"] for t in o["tiers"]), 8 * MIB // BLOCK)
        self.assertEqual([(m["to"], m["moved"]) for m in o["moves"]],
                         [("fast", MIB // BLOCK), ("slow", MIB // BLOCK)])
        self.assertFalse(o["moving"])
        self.assertIn("two tiers", self.tier().stdout)

    def test_hold_nobody_has_moves(self):
        self.serve("--fast-memory", "4M", "--holds", "2M")
        holder = self.start(READER, self.socket, 1, 0, self.file, stdin=subprocess.PIPE,
                            env={**os.environ, "LOOK_HOLD": str(MIB)})
        holder.stdout.readline()
        self.tier("--to", "slow", self.file, "--wait")
        self.assertEqual([t["holds"] for t in self.now()["tiers"]], [1, 0])
        holder.communicate(timeout=SECONDS)
        self.tier("--to", "slow", self.file, "--wait")
        o = self.now()
        self.assertEqual([(t["holds"], t["hold_bytes"]) for t in o["tiers"]], [(0, 0), (1, MIB)])
        self.assertEqual([m["holds_moved"] for m in o["moves"]], [0, 1])
        self.assertRegex(self.tier().stdout, r"(?m)^slow +1 +1.00 MiB +1 +0$")

    def test_globs_place(self):
        self.serve("--fast-memory", "4M", "--slow", self.folder / "*")
        self.assertEqual(self.of_file(), [(0, MIB // BLOCK, "slow")])

    def test_one_tier_says_how_to_have_two(self):
        self.serve()
        self.assertIn("--fast-memory", self.tier().stdout)
        self.assertIn("one tier", self.tier("--to", "slow", self.file, status=1).stderr)

    def refused(self, status, why, *options):
        done = subprocess.run([LODIC, "serve", "-m", "8M", "--holds", "0", "-s",
                               self.folder / "t", *options], capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, status)
        self.assertIn(why, done.stderr)

    def test_resize_below_fast_memory_next_service_starts(self):
        service = self.serve("--fast-memory", "4M")
        self.run_lodic("resize", "-s", self.socket, "3M")
        self.end(service)
        self.run_lodic("run", "-s", self.socket, "--", "true")
        pid = json.loads(self.run_lodic("stat", "-s", self.socket, "--json").stdout)["service_pid"]
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        frames = [t["frames"] for t in self.now()["tiers"]]
        self.assertEqual((len(frames), sum(frames)), (2, 3 * MIB // BLOCK))

    def run_lodic(self, *words):
        done = subprocess.run([LODIC, *map(str, words)], capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_record_ends_with_a_resize_log_says_so(self):
        record = self.folder / "record"
        service = self.serve("--fast-memory", "4M", "--policy", "kloc", "--policy-record", record)
        self.run_lodic("resize", "-s", self.socket, "16M")
        service.send_signal(signal.SIGTERM)
        self.assertIn("record ends: the cache has another size",
                      service.communicate(timeout=SECONDS)[1])
        self.assertTrue(record.read_text(encoding="ascii").startswith("begin kloc "))

    def test_record_that_cannot_be_refused(self):
        two = ["--fast-memory", "4M", "--policy", "kloc"]
        for options, why in ((two + ["--policy-record", "name"], "begins with /"),
                             (["--policy-record", self.folder / "r"], "say --policy"),
                             (two + ["--policy-record", "/dev/null"], "regular file")):
            self.refused(1, why, *options)
        self.assertFalse((self.folder / "r").exists())

    def test_policy_moves_alone(self):
        self.serve("--fast-memory", "4M", "--policy", "kloc")
        self.assertIn("policy", self.tier("--to", "slow", self.file, status=1).stderr)
        self.assertEqual(self.of_file()[0][:2], (MIB // BLOCK, 0))
        o = self.now()
        self.assertEqual(o["policy"], "kloc")
        self.assertEqual([(k["active"], k["opens"]) for k in o["knodes"]], [(True, 1)])
        self.assertIn("active", self.tier().stdout)

    def test_mistakes_are_named(self):
        self.serve("--fast-memory", "4M")
        self.assertIn("neither", self.tier("--to", "nowhere", self.file, status=2).stderr)
        self.assertIn("name the files", self.tier("--to", "slow", status=2).stderr)
        other = self.folder / "other"
        other.write_bytes(b"x")
        self.assertIn("does not hold", self.tier("--to", "slow", other, status=1).stderr)
        self.refused(1, "as large as", "--fast-memory", "8M")
        self.refused(1, "without its part for holds", "--fast-memory", "8M")
        self.refused(2, "no policy", "--fast-memory", "4M", "--policy", "no")
        self.refused(1, "fast-memory", "--policy", "kloc")

    def test_log_sizes_below_1_mib_in_kib(self):
        service = self.serve("--fast-memory", "512K", "--huge-pages", "off")
        service.send_signal(signal.SIGTERM)
        self.assertRegex(service.communicate(timeout=SECONDS)[1], r"tiers: 51\d KiB fast")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
