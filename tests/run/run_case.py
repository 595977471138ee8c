# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the tests of `lodic run` share: a folder and a service of their own, and programs."""

import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

SECONDS = 100  # a run may take
PYTHON = "/usr/bin/python3"
NOBODY = 65534
KIB, MIB = 1 << 10, 1 << 20
SYSCALLS = {"ioctl": 16, "shmat": 30, "socket": 41, "memfd_create": 319, "clone": 56}  # x86-64
FAILS, KILLS = 0x00050001, 0x80000000  # with EPERM; the process

# For programs in Python: reads until the cache serves fd, for at most 20 s. /proc/self/io
# counts the reads that the kernel does.
WARM = """
import os, sys, time
def reads():
    with open("/proc/self/io", "rb", 0) as f:
        return int(f.read().split(b"syscr:")[1].split()[0])
def warm(fd):
    end = time.monotonic() + 20
    of_one = -reads() + reads()
    while time.monotonic() < end:
        for i in range(200):
            os.pread(fd, 1000, 0)
        before = reads()
        os.pread(fd, 1000, 0)
        if reads() - before == of_one:
            return
"""


def run(command, **more):
    more.setdefault("timeout", SECONDS)
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, **more)


def until(condition, what, seconds=20):
    """Waits for the event; a failure says what did not come. With a mutant it never comes."""
    seconds = min(seconds, float(os.environ.get("LODIC_TEST_SECONDS", seconds)))
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def forbid(name, how=FAILS):
    """A seccomp filter for this system call; for a child."""
    def install():
        libc = ctypes.CDLL(None)
        rules = ((0x20, 0, 0, 0), (0x15, 0, 1, SYSCALLS[name]), (0x06, 0, 0, how),
                 (0x06, 0, 0, 0x7fff0000))
        code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *r) for r in rules))
        head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rules),
                                                       ctypes.addressof(code)))
        if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, head, 0, 0):
            os._exit(99)
    return install


def without_privileges(lodic):
    """If root runs this script, it begins again as nobody; nothing here needs more. Where nobody
    may not read the build, root goes on."""
    if os.getuid() != 0:
        return
    folder = tempfile.mkdtemp(prefix="lodic-nobody-", dir=".")
    os.chown(folder, NOBODY, NOBODY)
    nobody = {"cwd": folder, "user": NOBODY, "group": NOBODY, "extra_groups": []}
    again = [PYTHON, os.path.abspath(sys.argv[0]), lodic, *sys.argv[2:]]
    tries = ([lodic, "run", "--help"], ["test", "-r", again[1], "-a", "-w", tempfile.gettempdir()])
    try:
        if all(run(words, **nobody).returncode == 0 for words in tries):
            sys.exit(subprocess.run(again, check=False, **nobody).returncode)
    except OSError:
        pass
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("nobody may not read this build, so these programs run as root", file=sys.stderr)


def kill_all(process):
    """It, and what it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class Case(unittest.TestCase):
    """A folder on a file system that has leases, and a service for it."""

    lodic = ""
    reader = "" # tests/run/run_reader.c

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-run-", dir=".")).resolve()
        self.addCleanup(shutil.rmtree, self.folder, True)
        # Elsewhere, because a socket's path must be short.
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="lodic-run-"))
        self.addCleanup(shutil.rmtree, self.place, True)
        self.socket = self.place / "socket"
        self.report = self.folder / "report"
        # Cases write to files that shall be cached again at once. A service that a program
        # starts finds this where the last one would have left it.
        left = self.place / "socket.conf"
        left.write_text("lease-pause = 0\n" + self.left(), encoding="utf-8")
        left.chmod(0o600)
        self.serve()
        self.addCleanup(self.end_service)

    def left(self):
        """Further lines of that file."""
        return ""

    def serve(self):
        done = run([self.lodic, "run", "--socket", self.socket, "--memory", "64M", "--", "true"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def ask(self, verb):
        done = run([self.lodic, verb, "--socket", self.socket, "--json"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(done.stdout)

    def service_pid(self):
        return self.ask("stat")["service_pid"]

    def end_service(self):
        done = run([self.lodic, "stat", "--socket", self.socket, "--json"])
        if done.returncode == 0:
            os.kill(json.loads(done.stdout)["service_pid"], signal.SIGKILL)

    def readers(self):
        return self.ask("who")["readers"]

    def hits(self, program):
        return sum(r["hits"] for r in self.readers() if r["program"] == program)

    def under(self, command, *options):
        """The words that run command under the cache."""
        return [str(word) for word in
                (self.lodic, "run", "--socket", self.socket, *options, "--", *command)]

    def start(self, command, **more):
        """Starts it in a session of its own."""
        process = subprocess.Popen([str(word) for word in command], start_new_session=True, **more)
        self.addCleanup(kill_all, process)
        return process

    def nothing_left(self):
        """Of all programs, at the service."""
        until(lambda: not self.readers(), "nobody is left")
        until(lambda: sum(f["opens"] for f in self.ask("files")["files"]) == 0,
              "the service has all files back")
        until(lambda: [self.ask("stat")[key] for key in ("clients", "contexts", "pinned")] ==
              [0, 0, 0], "nothing is left")

    def way(self, name, *options, before=(), reports=False):
        """A way of the reader, without the cache and with it."""
        for mode in ("plain", "cached") + ("reported",) * reports:
            folder = self.folder / mode
            folder.mkdir()
            words = [self.reader, name, folder, "plain" if mode == "plain" else "cached"]
            if mode != "plain":
                report = [f"--report={self.report}", "--json"] if mode == "reported" else []
                words = self.under(words, *options, *report)
            done = run([*before, *words])
            self.assertEqual((done.returncode, done.stderr), (0, b""), (name, mode))

    def reports(self, command, status=0, **more):
        """Runs it with a report; returns (what it did, [the report's objects])."""
        done = run(self.under(command, f"--report={self.report}", "--json"), **more)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done, [json.loads(line) for line in self.report.read_text().splitlines()]

    def same(self, command, clean=lambda text: text, **more):
        """The program must do the same with and without; returns what the report says."""
        plain = run(command, **more)
        done, reports = self.reports(command, plain.returncode, **more)
        self.assertEqual((clean(done.stdout), clean(done.stderr)),
                         (clean(plain.stdout), clean(plain.stderr)))
        return reports

    def file(self, name, size, seed=1):
        path = self.folder / name
        path.write_bytes(random.Random(seed).randbytes(size))
        return path


def of_all_files(reports, program):
    """The sums of a program's processes."""
    found = [r for r in reports if r["program"] == program and not r["path"]]
    return {key: sum(r[key] for r in found) for key in
            ("reads", "served", "served_bytes", "bytes", "read_keeps_offset")}
