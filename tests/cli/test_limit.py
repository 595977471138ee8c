#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic serve` near a control group's limit. The group's files are stand-ins, in a mount
namespace of the test's own; so it needs root.

Usage: test_limit.py LODIC
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

LODIC = os.path.abspath(sys.argv[1])
SECONDS = 60
MIB = 1 << 20
LIMIT = 64 * MIB


def group_of(version):
    """Where this process's group has its files; None: the kernel has no such group."""
    for line in pathlib.Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
        number, kinds, path = line.split(":", 2)
        if version == 2 and number == "0":
            return pathlib.Path("/sys/fs/cgroup" + path)
        if version == 1 and kinds == "memory":
            return pathlib.Path("/sys/fs/cgroup/memory" + path)
    return None


class Limit(unittest.TestCase):
    NAMES = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
             2: ("memory.max", "memory.current")}
    high = False

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-limit-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.socket = self.folder / "s"
        self.groups = self.folder / "groups"
        self.groups.mkdir()

    def serve(self, version, *words):
        """With a group that has nothing in it at first."""
        place = group_of(version)
        if place is None:
            self.skipTest(f"this kernel shows no control group of version {version}")
        self.place = self.groups / place.relative_to("/sys/fs/cgroup")
        self.place.mkdir(parents=True, exist_ok=True)
        self.names = self.NAMES[version]
        self.use(0)
        (self.place / self.names[0]).write_text("max\n" if self.high else f"{LIMIT}\n",
                                                encoding="ascii")
        if self.high:
            (self.place / "memory.high").write_text(f"{LIMIT}\n", encoding="ascii")
        served = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", 'mount --bind "$1" /sys/fs/cgroup && shift && exec "$@"',
             "sh", self.groups, LODIC, "serve", "-m", "8M", "--holds", "0", "-s", self.socket,
             *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True)
        self.addCleanup(served.communicate)
        self.addCleanup(served.kill)
        line = served.stdout.readline()
        if not line and "mount" in (error := served.stderr.read()):
            self.skipTest(error.strip())
        self.assertIn("serving 8 MiB", line)
        return served

    def use(self, used):
        """Replaced by a rename: the service reads it whenever it likes."""
        new = self.place / "new"
        new.write_text(f"{used}\n", encoding="ascii")
        new.rename(self.place / self.names[1])

    def frames(self):
        done = subprocess.run([LODIC, "stat", "--json", "-s", self.socket], check=True,
                              stdout=subprocess.PIPE, timeout=SECONDS)
        return json.loads(done.stdout)["frames"]

    def stays(self):
        """It looks once a second, while somebody asks."""
        whole, end = self.frames(), time.monotonic() + 3
        while time.monotonic() < end:
            self.assertEqual(self.frames(), whole)
            time.sleep(0.1)

    def wait_for(self, true):
        deadline = time.monotonic() + SECONDS
        while not true():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)

    def calm(self):
        """A stand-in for the machine's own pressure."""
        calm = self.folder / "calm"
        calm.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", encoding="ascii")
        return calm

    def shrinks(self, version):
        served = self.serve(version, "--pressure", self.calm())
        whole = self.frames()
        self.use(LIMIT - LIMIT // 8)  # not less than an eighth is left
        self.stays()
        self.use(LIMIT - LIMIT // 8 + 4096)
        self.wait_for(lambda: self.frames() < whole)
        served.terminate()
        self.assertEqual(served.wait(SECONDS), 0)
        self.assertIn("the control group has 7 of 64 MiB left: the cache gets 3 MiB",
                      served.stderr.read())

    def test_first_version(self):
        self.shrinks(1)

    def test_second_version(self):
        self.shrinks(2)

    def test_memory_high_is_a_limit_too(self):
        self.high = True
        self.shrinks(2)

    def test_no_room_for_a_smaller_cache_is_said_and_harms_nothing(self):
        served = self.serve(2, "--pressure", self.calm())
        self.use(LIMIT - 8192)
        self.stays()
        served.terminate()
        self.assertEqual(served.wait(SECONDS), 0)
        self.assertEqual(served.stderr.read().count("too little to make a smaller cache"), 1)

    def test_off_looks_at_no_group(self):
        served = self.serve(2, "--pressure", "off")
        self.use(LIMIT - 4 * MIB)
        self.stays()
        served.terminate()
        self.assertEqual(served.wait(SECONDS), 0)


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("unshare"):
        print("only root can make a mount namespace here")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=0)
