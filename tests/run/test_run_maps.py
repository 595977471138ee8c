#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic run --mmap`: a mapping behaves under it as without it, and nothing is left of it.

    test_run_maps.py LODIC READER

READER is tests/run/run_reader.c, with the ways of run_maps.c. The programs are Debian's sqlite3,
git and python3.
"""

import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import MIB, PYTHON, SECONDS, Case, run, until  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
Case.reader = str(pathlib.Path(sys.argv[2]).resolve()) if len(sys.argv) > 2 else ""

MMAP = "--mmap=big9*" # the files that run_maps.c has as promised


def mappings(reports, program, end=""):
    """The sums over the files of a program whose path has this end; "": over all files."""
    sums = {}
    for report in reports:
        if report["program"] == program and report["path"].endswith(end) and \
                bool(report["path"]) == bool(end):
            for key, n in report["mappings"].items():
                sums[key] = sums.get(key, 0) + n
    return sums


class Ways(Case):
    """Each way of the reader, without the cache and with it."""

    def test_bytes(self):
        self.way("map_bytes", MMAP)

    def test_parts(self):
        self.way("map_parts", MMAP)

    def test_fixed(self):
        self.way("map_fixed", MMAP)

    def test_write(self):
        self.way("map_write", MMAP)

    def test_copy(self):
        self.way("map_copy", MMAP)

    def test_advice(self):
        self.way("map_advice", MMAP)

    def test_errors(self):
        self.way("map_errors", MMAP)

    def test_children(self):
        self.way("map_children", MMAP)

    def test_rewritten_never_stale(self):
        self.way("map_rewritten", MMAP)

    def test_threads_and_signals(self):
        self.way("map_threads", MMAP)

    def test_jumped_out(self):
        self.way("map_jumped", MMAP)

    def test_address_space_limited_not_served(self):
        self.way("map_limited", MMAP)

    def test_replaced_unseen_right_file(self):
        self.way("map_unseen", MMAP)

    def test_descriptors_used_up(self):
        self.way("map_descriptors", MMAP)

    def test_confined_no_system_call(self):
        self.way("map_confined", MMAP, reports=True)

    def test_not_served_reasons(self):
        self.way("map_not_served", MMAP, reports=True)
        found = [json.loads(line) for line in self.report.read_text().splitlines()]
        sums = mappings(found, "run_reader")
        self.assertEqual(sums["all"], sum(n for why, n in sums.items()
                                          if why not in ("all", "served_bytes")))
        whys = ("opened_for_writing", "other_kind_of_mapping", "beyond_the_end", "too_small",
                "shared_not_promised", "locked")
        self.assertEqual([sums.get(why, 0) for why in whys], [1, 3, 3, 1, 1, 1], sums)
        self.assertGreaterEqual(sums["served"], 3)
        self.assertEqual(mappings(found, "run_reader", "big2").get("locked"), 1, found)


class Left(Case):
    """What the service has, while a program has mappings and afterwards."""

    def start(self, *options):
        reader = subprocess.Popen(
            self.under([self.reader, "map_told", self.folder, "cached"], *options),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(reader.communicate)
        self.addCleanup(reader.kill)
        line = reader.stdout.readline()
        self.assertEqual(line, b"ready\n", line or reader.communicate())
        return reader

    def tell(self, reader, order):
        """Returns (how many mappings were served, how many took long)."""
        reader.stdin.write(order)
        reader.stdin.flush()
        line = reader.stdout.readline()
        self.assertTrue(line, reader.poll())
        return tuple(int(word) for word in line.split())

    def used(self):
        return self.ask("stat")["hold_used_bytes"]

    def held_by(self, pid):
        return sum(r["hold_bytes"] for r in self.readers() if r["pid"] == pid)

    def test_unmapped_nothing_held(self):
        reader = self.start("--mmap")
        self.assertGreater(self.used(), 2 * MIB)
        self.assertGreater(self.held_by(reader.pid), 2 * MIB)
        self.tell(reader, b"u")
        until(lambda: self.used() == 0, "nothing is held after munmap()")
        until(lambda: self.held_by(reader.pid) == 0, "who says so")
        self.assertEqual(self.ask("stat")["holds"], 1) # it stays warm
        self.tell(reader, b"m")
        self.assertEqual(self.ask("stat")["holds_read"], 1)
        reader.communicate(timeout=SECONDS)
        until(lambda: self.used() == 0, "nothing is held after the end")
        until(lambda: not self.readers(), "the reader is gone")

    def test_killed_nothing_held(self):
        reader = self.start("--mmap")
        self.assertGreater(self.used(), 2 * MIB)
        reader.kill()
        reader.communicate()
        until(lambda: self.used() == 0, "nothing is held after SIGKILL")
        until(lambda: not self.readers(), "the reader is gone")

    def test_service_killed_mapping_stays_successor_serves(self):
        reader = self.start("--mmap")
        os.kill(self.service_pid(), signal.SIGKILL)
        self.tell(reader, b"l")
        self.serve()
        self.tell(reader, b"m")
        self.assertGreater(self.used(), 2 * MIB)

    def test_service_stopped_mmap_waits_once(self):
        reader = self.start("--mmap")
        pid = self.service_pid()
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        os.kill(pid, signal.SIGSTOP)
        served, slow = self.tell(reader, b"t")
        self.assertEqual(served, 0)
        self.assertIn(slow, (1, 2)) # three if each waits; the second may be a busy machine's
        os.kill(pid, signal.SIGCONT)
        self.tell(reader, b"m")

    def test_service_stopped_signal_handled_at_once(self):
        """The service goes on when the handler has run, and answers: the mapping is served. A
        handler that waits for mmap() comes when that has given the service up. A busy machine may
        be late, so there are several tries."""
        path, pid = self.file("big", 4 * MIB), self.service_pid()
        program = subprocess.Popen(self.under([PYTHON, "-c", SIGNALLED, path], "--mmap"),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)
        self.addCleanup(os.kill, pid, signal.SIGCONT)

        def waits():
            call = pathlib.Path(f"/proc/{program.pid}/syscall").read_text().split()[0]
            return call in ("7", "35", "230") # poll, nanosleep, clock_nanosleep

        def answered():
            self.assertEqual(program.stdout.read(1), b"r")
            os.kill(pid, signal.SIGSTOP)
            program.stdin.write(b"x")
            until(waits, "mmap() waits for the service")
            program.send_signal(signal.SIGUSR1)
            self.assertEqual(program.stdout.read(1), bytes([signal.SIGUSR1]))
            os.kill(pid, signal.SIGCONT)
            return program.stdout.read(1)

        self.assertIn(b"s", (answered() for _ in range(10)))

    def test_without_option_nothing_mapped(self):
        path = self.file("data", 2 * MIB)
        script = ("import mmap, sys\n"
                  "f = open(sys.argv[1], 'rb')\n"
                  "for i in range(20):\n"
                  "    m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)\n"
                  "    print(m[-1], m[5000])\n")
        reports = self.same([PYTHON, "-c", script, path])
        self.assertFalse(any("mappings" in report for report in reports))
        self.assertEqual(self.ask("stat")["holds_given"], 0)

    def test_no_room_reason(self):
        """Holds have 60 MiB here, and blocks the rest."""
        path = self.file("large", MIB)
        os.truncate(path, 61 * MIB)
        script = ("import mmap, sys, zlib\n"
                  "f = open(sys.argv[1], 'rb')\n"
                  "for i in range(3):\n"
                  "    m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)\n"
                  "    print(zlib.crc32(m))\n")
        plain = run([PYTHON, "-c", script, path])

        def no_room():
            done = run(self.under([PYTHON, "-c", script, path], "--mmap", "--json",
                                  f"--report={self.report}"))
            self.assertEqual((done.returncode, done.stdout), (0, plain.stdout), done.stderr)
            found = [json.loads(line) for line in self.report.read_text().splitlines()]
            return mappings(found, "python3", "large") == {
                "all": 3, "served": 0, "served_bytes": 0, "no_room": 3}
        until(no_room, "the service says so, and in time")


# Maps the file until the hold is what it gets. Then it says so, waits for the test, and maps once
# more. The C part of Python's handler writes the signal's number to the pipe at once.
SIGNALLED = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
os.set_blocking(1, False)
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.set_wakeup_fd(1)

def served():
    at = libc.mmap(None, size, 1, 2, fd, 0)
    held = f"{at:x}-" in "".join(line for line in open("/proc/self/maps") if "lodic-hold" in line)
    libc.munmap(at, size)
    return held

while True:
    while not served():
        pass
    os.write(1, b"r")
    if not os.read(0, 1):
        break
    os.write(1, b"s" if served() else b"n")
"""


# Maps the file until the hold is what it gets, at most for 20 s. Then it looks at what
# doc/hazards.md says that a program can notice, and prints one object.
NOTICED = """
import ctypes, fcntl, json, os, sys, time
path, served = sys.argv[1], sys.argv[2] == "served"
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
READ, EXEC, PRIVATE, FIXED, MIB = 1, 4, 2, 16, 1 << 20
fd = os.open(path, os.O_RDONLY)
size = os.fstat(fd).st_size

def map(at, size, offset=0, flags=PRIVATE):
    return libc.mmap(at, size, READ, flags, fd, offset)

def shown(at):
    with open("/proc/self/maps") as f:
        return any("lodic-hold" in line for line in f if int(line.split("-")[0], 16) == at)

def failed(result):
    return ctypes.get_errno() if result not in (0,) else 0

def rss(name):
    with open("/proc/self/status") as f:
        return [int(line.split()[1]) for line in f if line.startswith(name)][0]

end, at = time.monotonic() + 20, map(None, size)
while served and not shown(at) and time.monotonic() < end:
    libc.munmap(at, size)
    time.sleep(0.05)
    at = map(None, size)
said = {"hold": shown(at), "aligned": at % (2 * MIB) == 0}
pages = (ctypes.c_ubyte * (size // 4096))()
libc.mincore(at, size, pages)
said["all_in"] = all(n & 1 for n in pages)
before = rss("RssShmem"), rss("RssFile")
ctypes.string_at(at, size)
said["shared_memory"] = rss("RssShmem") - before[0] > rss("RssFile") - before[1]
said["executable"] = failed(libc.mprotect(at, size, READ | EXEC))
half = size // 2
place = libc.mmap(None, size, 0, PRIVATE | 32, -1, 0)
map(place, half, 0, PRIVATE | FIXED)
map(place + half, half, half, PRIVATE | FIXED)
said["merged"] = libc.mremap(place, size, size * 2, 1) != 2 ** 64 - 1 or ctypes.get_errno()
fcntl.flock(fd, fcntl.LOCK_EX)
os.close(fd)
fd = os.open(path, os.O_RDONLY)
try:
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    said["lock"] = "falls with the close"
except BlockingIOError:
    said["lock"] = "stays with the mapping"
os.close(fd)
print(json.dumps(said), flush=True)
sys.stdin.read()
"""


class Noticed(Case):
    """doc/hazards.md, "What a program can notice": without the cache and with it."""

    def left(self):
        return f"immutable = {self.folder}/mount/*\n" # tmpfs is not cached without a promise

    def mounted(self):
        """A file system of our own, on which nothing is executed."""
        place = self.folder / "mount"
        place.mkdir()
        done = run(["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", place])
        if done.returncode:
            self.skipTest(done.stderr.decode().strip())
        self.addCleanup(run, ["umount", "-l", place])
        path = place / "file"
        path.write_bytes(os.urandom(4 * MIB))
        return place, path

    def noticed(self, path, *under):
        process = self.start([*under, PYTHON, "-c", NOTICED, path, "served" if under else "plain"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = process.stdout.readline()
        self.assertTrue(line, process.poll())
        return process, json.loads(line)

    def ends(self, process):
        process.communicate(timeout=SECONDS)
        self.assertEqual(process.returncode, 0)

    def test_noticed(self):
        place, path = self.mounted()
        process, said = self.noticed(path)
        self.assertEqual((said["hold"], said["shared_memory"]), (False, True)) # a tmpfs
        self.assertEqual(said["executable"], errno.EACCES)
        self.assertEqual((said["merged"], said["lock"]), (True, "stays with the mapping"))
        self.assertNotEqual(run(["umount", place]).returncode, 0)
        self.ends(process)

        process, said = self.noticed(path, *self.under([], "--mmap"))
        self.assertEqual((said["hold"], said["aligned"], said["all_in"]), (True, True, True))
        self.assertEqual((said["shared_memory"], said["executable"]), (True, 0))
        self.assertEqual((said["merged"], said["lock"]), (errno.EFAULT, "falls with the close"))
        self.assertEqual(run([self.lodic, "drop", "--socket", self.socket, path]).returncode, 0)
        until(lambda: run(["umount", place]).returncode == 0, "the mapping keeps no mount")
        self.ends(process)

    def test_memory_is_the_services(self):
        path = self.file("file", 4 * MIB)
        with open(path, "rb") as f:
            os.fsync(f.fileno())
            os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        process, said = self.noticed(path)
        self.assertEqual((said["hold"], said["all_in"], said["shared_memory"]),
                         (False, False, False))
        self.ends(process)
        process, said = self.noticed(path, *self.under([], "--mmap"))
        self.assertEqual((said["hold"], said["all_in"], said["shared_memory"]), (True,) * 3)
        self.ends(process)


class Programs(Case):
    """Programs of this system that map their files."""

    def same_mapped(self, command, option, end):
        """The program must do the same with and without, until its mappings are served. Returns
        what the last report says of files with this end."""
        plain = run(command)
        self.assertEqual((plain.returncode, plain.stderr), (0, b""))
        sums = {}

        def served():
            self.report.unlink(missing_ok=True)
            done = run(self.under(command, *option, f"--report={self.report}", "--json"))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, plain.stdout, b""))
            found = [json.loads(line) for line in self.report.read_text().splitlines()]
            sums.update(mappings(found, pathlib.Path(command[0]).name, end))
            return sums.get("served")
        if option != ["--mmap"] or end != ".db":
            until(served, f"{command[0]} has its mappings served")
        else:
            self.assertFalse(served())
        return sums

    def test_sqlite(self):
        path = self.folder / "t.db"
        done = run(["sqlite3", path, "create table t(a integer primary key, b text);"
                    "with recursive n(i) as (select 1 union all select i + 1 from n "
                    "where i < 20000) insert into t select i, printf('%060d', i * 7919 % 20011) "
                    "from n; create index i on t(b);"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        command = ["sqlite3", "-readonly", path, "pragma mmap_size=268435456;"
                   "select count(*), sum(a), max(b) from t where b > '" + "0" * 55 + "10000';"
                   "pragma integrity_check;"]
        self.assertEqual(self.same_mapped(command, ["--mmap"], ".db").get("shared_not_promised"),
                         1)
        sums = self.same_mapped(command, ["--mmap=*/t.db"], ".db")
        self.assertGreater(sums["served_bytes"], 2 * MIB)

    def test_git(self):
        place = self.folder / "git"
        place.mkdir()
        self.file("git/data", 3 * MIB)
        git = ["git", "-C", place, "-c", "user.name=a", "-c", "user.email=a@b",
               "-c", "core.bigFileThreshold=512m"]
        for words in (["init", "-q"], ["add", "data"], ["commit", "-qm", "a"],
                      ["repack", "-qad"]):
            done = run([*git, *words])
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.same_mapped([*git, "cat-file", "blob", "HEAD:data"], ["--mmap"], ".pack")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
