#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic serve` and control groups. Near a limit the group's files are stand-ins, in a mount
namespace of the test's own; so it needs root.

Usage: test_limit.py LODIC
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LODIC = os.path.abspath(sys.argv[1])
SECONDS = 60
MIB = 1 << 20
LIMIT = 64 * MIB
READS = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for _ in range(4):
    for i in range(128):
        assert os.pread(fd, 1 << 20, i << 20) == bytes([i]) * (1 << 20), i
print("right")
"""

EATS = """
import subprocess, sys
eaten = bytearray(int(sys.argv[1]) << 20)
sys.exit(subprocess.run(sys.argv[2:]).returncode)
"""


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


class Groups(unittest.TestCase):
    """Real groups, which this process may make as root, or not at all."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-limit-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.mount = next((mount for mount in (pathlib.Path("/sys/fs/cgroup/memory"),
                                               pathlib.Path("/sys/fs/cgroup"))
                           if (mount / "cgroup.procs").exists()), None)
        if self.mount is None:
            self.skipTest("no control groups are mounted")
        self.starter = self.mount / f"lodic-test-{os.getpid()}"
        try:
            self.starter.mkdir()
        except OSError as err:
            self.skipTest(f"{self.starter}: {err.strerror}")
        self.addCleanup(self.remove, self.starter)

    @staticmethod
    def remove(group):
        """The kernel lets a group go a moment after its last process."""
        deadline = time.monotonic() + SECONDS
        while group.exists() and time.monotonic() < deadline:
            try:
                group.rmdir()
            except OSError:
                time.sleep(0.05)


class Escape(Groups):
    def group_of(self, pid):
        kinds = "memory" if self.mount.name == "memory" else ""
        for line in pathlib.Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines():
            if line.split(":")[1] == kinds:
                return line.split(":", 2)[2]
        return None

    def serve(self, *words):
        served = subprocess.Popen(
            ["sh", "-c", 'echo 0 >"$1/cgroup.procs" && shift && exec "$@"', "sh", self.starter,
             LODIC, "serve", "-m", "8M", "-s", self.folder / "s", *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(served.communicate)
        self.addCleanup(served.kill)
        if "serving 8 MiB" not in served.stdout.readline():
            error = served.stderr.read()
            if "cgroup.procs" in error:
                self.skipTest(error.strip())
            self.fail(error)
        return served

    def test_service_stays_with_its_starter(self):
        served = self.serve()
        self.assertEqual(self.group_of(served.pid), "/" + self.starter.name)

    def test_service_leaves_if_told(self):
        group = self.mount / "lodic"
        if not group.exists():
            self.addCleanup(self.remove, group)
        for _ in range(2):  # the second one finds the group there
            served = self.serve("--escape", "yes")
            self.assertEqual(self.group_of(served.pid), "/lodic")
            served.terminate()
            self.assertEqual(served.wait(SECONDS), 0)
            self.assertIn(f"the control group is {group} now", served.stderr.read())

    def test_service_leaves_before_it_becomes_a_user(self):
        """That user may not make groups: root does, and says so once."""
        group = self.mount / "lodic"
        if not group.exists():
            self.addCleanup(self.remove, group)
        self.folder.chmod(0o777)
        served = self.serve("--user", "65534", "--escape", "yes")
        status = pathlib.Path(f"/proc/{served.pid}/status").read_text(encoding="ascii")
        self.assertIn("\nUid:\t65534\t65534\t65534\t65534\n", status)
        self.assertEqual(self.group_of(served.pid), "/lodic")
        served.terminate()
        self.assertEqual(served.wait(SECONDS), 0)
        said = served.stderr.read()
        self.assertEqual(said.count(f"the control group is {group} now"), 1, said)
        self.assertNotIn("cannot be left", said)

    def test_service_that_cannot_leave_says_so(self):
        """Another user, who may not make groups."""
        program = shutil.which("setpriv")
        self.folder.chmod(0o777)
        served = subprocess.Popen(
            ["sh", "-c", 'echo 0 >"$1/cgroup.procs" && shift && exec "$@"', "sh", self.starter,
             program, "--reuid", "65534", "--clear-groups", LODIC, "serve", "-m", "8M",
             "--escape", "yes", "-s", self.folder / "s"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(served.communicate)
        self.addCleanup(served.kill)
        if "serving 8 MiB" not in served.stdout.readline():
            self.skipTest(served.stderr.read().strip())
        self.assertEqual(self.group_of(served.pid), "/" + self.starter.name)
        served.terminate()
        self.assertEqual(served.wait(SECONDS), 0)
        self.assertIn("this control group cannot be left", served.stderr.read())


class Small(Groups):
    """A real group with little memory, and no word of any option."""

    LIMIT = 96 * MIB

    def setUp(self):
        super().setUp()
        name = "memory.limit_in_bytes" if self.mount.name == "memory" else "memory.max"
        try:
            (self.starter / name).write_text(f"{self.LIMIT}\n", encoding="ascii")
        except OSError as err:
            self.skipTest(f"{self.starter / name}: {err.strerror}")

    def run_there(self, *words):
        return subprocess.run(
            ["sh", "-c", 'echo 0 >"$1/cgroup.procs" && shift && exec "$@"', "sh", self.starter,
             *words], capture_output=True, text=True, timeout=SECONDS, check=False)

    def stat(self):
        done = subprocess.run([LODIC, "stat", "--json", "-s", self.folder / "s"], check=True,
                              stdout=subprocess.PIPE, timeout=SECONDS)
        return json.loads(done.stdout)

    def end(self):
        pid = self.stat()["service_pid"]
        os.kill(pid, signal.SIGTERM)
        while os.path.exists(f"/proc/{pid}"):
            time.sleep(0.01)

    def test_program_runs_and_the_cache_is_small(self):
        done = self.run_there(LODIC, "run", "-s", self.folder / "s", "--", "echo", "it runs")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "it runs\n", ""))
        self.addCleanup(self.end)
        stat = self.stat()
        # Half of the group's limit is for both, and a quarter of what is free is the beginning.
        self.assertEqual(stat["hold_limit"], 45 * MIB)
        self.assertGreater(stat["data_bytes"], 4 * MIB)
        self.assertLessEqual(stat["data_bytes"], 25 * MIB)

    def test_hold_leaves_something_to_the_programs(self):
        """There would be room for it, but less than an eighth would be left."""
        data = self.folder / "data"
        data.write_bytes(bytes(24 * MIB))
        done = self.run_there(sys.executable, "-c", EATS, "44", LODIC, "load", "--hold", "-s",
                              self.folder / "s", data)
        self.addCleanup(self.end)
        self.assertEqual((done.returncode, self.stat()["hold_bytes"]), (1, 0), done.stderr)
        self.assertIn("the service gets no memory for it", done.stderr)
        done = self.run_there(LODIC, "load", "--hold", "-s", self.folder / "s", data)
        self.assertEqual((done.returncode, self.stat()["hold_bytes"]), (0, 24 * MIB), done.stderr)

    def test_file_larger_than_the_group_is_read_by_its_programs(self):
        """Blocks come and go, the arena grows no further than the group allows, nobody dies."""
        data = self.folder / "data"
        with open(data, "wb") as f:
            for i in range(128):
                f.write(bytes([i]) * MIB)
        done = self.run_there(LODIC, "run", "-s", self.folder / "s", "--", sys.executable, "-c",
                              READS, data)
        self.assertEqual((done.returncode, done.stdout), (0, "right\n"), done.stderr)
        self.addCleanup(self.end)
        stat = self.stat()
        self.assertGreater(stat["admitted"], 0)
        self.assertLessEqual(stat["data_bytes"] + stat["hold_bytes"], 49 * MIB)


if __name__ == "__main__":
    if os.geteuid() != 0 or not shutil.which("unshare"):
        print("only root can make a mount namespace here")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=0)
