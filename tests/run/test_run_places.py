#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic run --mmap`: a program that maps a file once gets its hold later, and gives it back.

    test_run_places.py LODIC READER

The gate is the service itself: while it is stopped, nobody gets a hold. The programs under test ask
for nothing a second time. They only read a pipe, which comes by the shim.
"""

import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import MIB, PYTHON, SECONDS, Case, forbid, run, until  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""

PAGE = 4096

# Does what each line of its input says, and prints what comes of it. `libc` has the functions that
# a program links to, which are the shim's. `past` has libc's own.
TOLD = """
import ctypes, os, sys
def functions(name):
    c = ctypes.CDLL(name, use_errno=True)
    c.mmap.restype = c.mremap.restype = ctypes.c_void_p
    c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    c.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int,
                         ctypes.c_void_p]
    c.mprotect.argtypes = c.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    c.munmap.argtypes = c.mlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return c
libc, past = functions(None), functions("libc.so.6")
READ, WRITE, SHARED, PRIVATE, FIXED, ANONYMOUS, PAGE = 1, 2, 1, 2, 16, 32, 4096
fd = os.open(sys.argv[1], os.O_RDONLY)
size = os.fstat(fd).st_size
def map(protection=READ, flags=PRIVATE, fd=fd, at=None, n=size, offset=0, by=libc):
    at = by.mmap(at, n, protection, flags, fd, offset)
    assert at != 2 ** 64 - 1, os.strerror(ctypes.get_errno())
    return at
def line(at):
    with open("/proc/self/maps") as f:
        for text in f:
            first, last = (int(word, 16) for word in text.split()[0].split("-"))
            if first <= at < last:
                return text
    return ""
def held(at):
    return "lodic-hold" in line(at)
def status(name):
    with open("/proc/self/status") as f:
        return [text.split()[1] for text in f if text.startswith(name)][0]
def see(at, n=16):
    return ctypes.string_at(at, n).hex()
def same(at, n=size, offset=0):
    return ctypes.string_at(at, n) == os.pread(fd, n, offset)
def put(at, byte, n=PAGE):
    ctypes.memset(at, byte, n)
for order in iter(sys.stdin.readline, ""):
    said = eval(order) if order.startswith("(") else exec(order)
    os.write(1, (str(said) + "\\n").encode())
"""


class Told:
    """A program of that kind."""

    def __init__(self, case, path, *options, **more):
        self.process = case.start(case.under([PYTHON, "-c", TOLD, path], *options), **more,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        case.addCleanup(self.process.stdin.close)
        case.addCleanup(self.process.stdout.close)
        self.case = case
        self("pass")

    def begin(self, order):
        self.process.stdin.write(order.encode() + b"\n")

    def end(self):
        line = self.process.stdout.readline()
        self.case.assertTrue(line, self.process.poll())
        return line.decode().strip()

    def __call__(self, order):
        self.begin(order)
        return self.end()

    def until(self, order, what):
        until(lambda: self(order) == "True", what)


class Places(Case):
    """What the program maps while there is no hold yet."""

    MAPPED = "at = map()"

    def file_of_generation(self, generation, size=2 * MIB):
        path = self.folder / "file"
        with open(path, "r+b" if path.exists() else "w+b") as f:
            f.write(bytes([generation]) * size)
        return path

    def holds(self, pid):
        """Has this process a hold? The question does not come by the shim."""
        return "lodic-hold" in pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")

    def stopped(self):
        pid = self.service_pid()
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        os.kill(pid, signal.SIGSTOP)
        return pid

    def mapped(self, *orders, options=("--mmap",), size=2 * MIB, **more):
        """A program that has done this while the service was stopped."""
        told = Told(self, self.file("file", size), *options, **more)
        service = self.stopped()
        for order in orders:
            self.assertEqual(told(order), "None")
        self.assertEqual(told("(held(at))"), "False")
        os.kill(service, signal.SIGCONT)
        return told

    def test_four_map_once_four_served(self):
        path = self.file("file", 8 * MIB)
        four = [Told(self, path, "--mmap", f"--report={self.report}", "--json") for _ in range(4)]
        service = self.stopped()
        for told in four:
            told.begin("at = map()")
        self.assertEqual([told.end() for told in four], ["None"] * 4)
        self.assertEqual([told("(held(at))") for told in four], ["False"] * 4)
        os.kill(service, signal.SIGCONT)
        for told in four:
            told.until("(held(at) and same(at))", "each of the four is served")
        self.assertEqual(self.ask("stat")["holds_read"], 1)
        for told in four:
            told.process.stdin.close()
            told.process.wait()
        found = [json.loads(line) for line in self.report.read_text().splitlines()]
        sums = [r["mappings"] for r in found if r["path"] == str(path)]
        self.assertEqual(sums, [{"all": 1, "served_bytes": 8 * MIB, "served": 1}] * 4)

    def test_wait_as_said(self):
        """Nobody has read the file before, so the service never has it at the first question."""
        path = self.file("file", 8 * MIB)
        told = Told(self, path, "--mmap", "--mmap-wait=0")
        self.assertEqual(told("at = map()"), "None")
        told.until("(held(at) and same(at))", "it is served later")
        told = Told(self, self.file("other", 8 * MIB), "--mmap", "--mmap-wait")
        self.assertEqual(told("at = map(); was = held(at)"), "None")
        self.assertEqual(told("(was)"), "True")

    def test_hold_comes_to_closed_descriptor(self):
        told = Told(self, self.file("file", 2 * MIB), "--mmap", "--mmap-wait=0")
        self.assertEqual(told("at = map(); want = ctypes.string_at(at, size); os.close(fd)"),
                         "None")
        told.until("(held(at) and ctypes.string_at(at, size) == want)", "it is served")

    def test_waiting_program_is_served(self):
        """It only waits, and makes no other call that comes by the shim."""
        for wait in ("time.sleep(0.01)", "epoll.poll(0.01)", "poll.poll(10)",
                     "select.select([], [], [], 0.01)"):
            path = self.file(wait, 2 * MIB) # nobody has read it
            told = Told(self, path, "--mmap", "--mmap-wait=0")
            self.assertEqual(told("import select, time; epoll = select.epoll(); "
                                  "poll = select.poll(); at = map()"), "None")
            told.begin(f"while True: {wait}")
            until(lambda pid=told.process.pid: self.holds(pid), f"{wait} is enough")
            told.process.kill()

    def test_child_is_served_too(self):
        told = self.mapped("at = map()")
        child = "\n".join(("import time", "pid = os.fork()", "if pid == 0:",
                           " end = time.monotonic() + 20",
                           " while not held(at) and time.monotonic() < end: pass",
                           " os._exit(0 if held(at) and same(at) else 1)"))
        self.assertEqual(told(f"exec({child!r}, globals())"), "None")
        self.assertEqual(told("(os.waitpid(pid, 0)[1])"), "0")

    def test_changed_parts_stay(self):
        self.changed_parts_stay()

    @unittest.skipIf(platform.machine() != "x86_64", "the number of ioctl() is that of x86-64")
    def test_changed_parts_stay_old_kernel(self):
        """It has no answer about one mapping, and gives the list of all."""
        self.changed_parts_stay(preexec_fn=forbid("ioctl"))

    def test_many_are_served(self):
        """More than one call does. One of them is changed past the shim."""
        told = self.mapped("many = [map(n=PAGE, offset=2 * i * PAGE) for i in range(200)]",
                           "at = many.pop(100)", "past.munmap(at, PAGE)",
                           "past.mmap(at, PAGE, 3, PRIVATE | ANONYMOUS | FIXED, -1, 0)",
                           "put(at, 0x55)")
        told.until("(all(held(one) for one in many))", "all are served")
        self.assertEqual(told("(see(at))"), "55" * 16)

    def changed_parts_stay(self, **more):
        """Each second 16 pages of a mapping are changed by libc, and the rest gets the hold."""
        changes = (
            "libc.munmap(at + {0}, 4 * PAGE) or map(READ | WRITE, PRIVATE | ANONYMOUS | FIXED, -1,"
            " at + {0}, 4 * PAGE) and put(at + {0}, 0x55)",
            "libc.mprotect(at + {0}, PAGE, READ | WRITE) or put(at + {0}, 0x55)",
            "map(READ | WRITE, PRIVATE | ANONYMOUS | FIXED, -1, at + {0}, PAGE)"
            " and put(at + {0}, 0x55)",
            "libc.syscall(11, ctypes.c_void_p(at + {0}), ctypes.c_size_t(4 * PAGE)) or"
            " past.mmap(at + {0}, PAGE, 3, PRIVATE | ANONYMOUS | FIXED, -1, 0)"
            " and put(at + {0}, 0x55)",
            "libc.mremap(at + {0}, PAGE, PAGE, 3, map(READ, PRIVATE | ANONYMOUS, -1, None, PAGE))"
            " and past.mmap(at + {0}, PAGE, 3, PRIVATE | ANONYMOUS | FIXED, -1, 0)"
            " and put(at + {0}, 0x55)",
        )
        places = [(i * 32 + 16) * PAGE for i in range(len(changes))]
        told = self.mapped("at = map()", *(change.format(place) for change, place in
                                           zip(changes, places)), **more)
        for i, place in enumerate(places):
            rest = place - 16 * PAGE
            told.until(f"(held(at + {rest}) and same(at + {rest}, 16 * PAGE, {rest}))",
                       f"what lies before part {i}")
            self.assertEqual(told(f"(see(at + {place}))"), "55" * 16, i)
            self.assertEqual(told(f"(held(at + {place}))"), "False", i)
        last = places[-1] + 4 * PAGE
        self.assertEqual(told(f"(held(at + {last}) and same(at + {last}, size - {last}, {last}))"),
                         "True")

    def test_locked_part_stays(self):
        """Nothing of this shows in /proc/self/maps."""
        told = self.mapped("at = map()", "assert libc.mlock(at + 16 * PAGE, 4 * PAGE) == 0",
                           "whole = map()", "assert libc.madvise(whole, size, 16) == 0", # DONTDUMP
                           "other = map()")
        was = told("(status('VmLck'))")
        self.assertNotEqual(was, "0")
        told.until("(held(other))", "another mapping is served")
        self.assertEqual(told("(held(at + 16 * PAGE), held(whole))"), str((False, False)))
        self.assertEqual(told("(held(at), held(at + 20 * PAGE))"), str((True, True)))
        self.assertEqual(told("(status('VmLck'))"), was)

    def test_changed_past_the_shim_stays(self):
        told = self.mapped(
            "at = map()", "other = map(); assert other != at",
            "past.munmap(at + 16 * PAGE, PAGE)",
            "past.mmap(at + 16 * PAGE, PAGE, 3, PRIVATE | ANONYMOUS | FIXED, -1, 0)",
            "put(at + 16 * PAGE, 0x55)")
        told.until("(held(other) and same(other))", "another mapping is served")
        self.assertEqual(told("(see(at + 16 * PAGE), held(at), same(at, 16 * PAGE))"),
                         str(("55" * 16, False, True)))

    def test_advised_is_served(self):
        told = self.mapped("at = map()", *(f"assert libc.madvise(at, size, {advice}) == 0"
                                           for advice in (0, 1, 2, 3, 4)))
        told.until("(held(at) and same(at))", "advice that is only a hint changes nothing")

    def test_written_mapping_never(self):
        told = self.mapped("at = map(READ | WRITE)", "put(at + PAGE, 0x55)", "other = map()")
        told.until("(held(other))", "another mapping is served")
        self.assertEqual(told("(held(at), see(at + PAGE), same(at, PAGE))"),
                         str((False, "55" * 16, True)))
        self.assertEqual(told("new = map(READ | WRITE)"), "None")
        self.assertEqual(told("(held(new) and same(new))"), "True")

    def test_written_since_the_question(self):
        """The answer lies in the socket, and has the old bytes. The program sees the new ones, and
        then takes the answer. It takes a few calls until the answer is such a one."""
        for calls in range(8):
            generation = 2 * calls + 1
            path = self.file_of_generation(generation)
            told = Told(self, path, "--mmap", "--mmap-wait=0")
            self.assertEqual(told("at = map()"), "None")
            for call in range(calls + 1):
                until(lambda: self.ask("stat")["holds"] >= 1, "the hold is there")
                if call < calls:
                    self.assertEqual(told("pass"), "None")
            if self.holds(told.process.pid):
                break # a private mapping of it is a snapshot
            self.file_of_generation(generation + 1)
            for _ in range(8):
                self.assertEqual(told("(see(at, 1))"), f"{generation + 1:02x}", calls)
            told.process.kill()
        self.assertGreater(calls, 0)


class Promised(Case):
    """Shared mappings of files that somebody writes to after all."""

    def test_sqlite_sees_each_write(self):
        path = self.folder / "t.db"
        done = run([PYTHON, "-c", MAKE, path])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        told = self.start(self.under([PYTHON, "-c", ASK, path], "--mmap=*/t.db"),
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

        def asked():
            told.stdin.write(b"\n")
            return json.loads(told.stdout.readline())
        until(lambda: asked()["held"], "the database is served")
        for generation in range(1, 12):
            done = run([PYTHON, "-c", WRITE, path, str(generation)])
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            truth = json.loads(run([PYTHON, "-c", TRUTH, path]).stdout)
            self.assertEqual(asked()["rows"], truth, generation)

    def promised(self):
        path = self.folder / "file"
        path.write_bytes(b"\1" * 2 * MIB)
        told = Told(self, path, "--mmap=*/file")
        self.assertEqual(told("at = map(READ, SHARED)"), "None")
        told.until("(held(at))", "it is served")
        return path, told

    def written(self, path, byte):
        with open(path, "r+b") as f:
            f.write(bytes([byte]) * 2 * MIB)

    def test_readers_see_no_hole(self):
        """A thread reads all the time while the memory under it changes to and fro. The file is
        opened for writing, and keeps its bytes."""
        path, told = self.promised()
        self.assertEqual(told(f"exec({READS!r}, globals())"), "None")
        for _ in range(5):
            told.until("(held(at))", "it is served")
            with open(path, "r+b"):
                told.until("(not held(at))", "it went back")
            # One that went back waits for a second. A new mapping comes at once.
            self.assertEqual(told("at = map(READ, SHARED)"), "None")
        self.assertEqual(told("(bad, rounds > 5)"), str((0, True)))

    def test_comes_again(self):
        path, told = self.promised()
        self.written(path, 2)
        told.until("(not held(at))", "it went back")
        told.until("(held(at) and see(at, 1) == '02')", "it is served again when nobody writes")

    def test_any_lock_gives_back(self):
        """No other call may do it: this thread makes none between the write and the look."""
        for lock in ("fcntl.lockf(1, fcntl.LOCK_UN)", "fcntl.flock(1, fcntl.LOCK_UN)",
                     "fcntl.fcntl(1, 37, bytes([2]) + bytes(31))", # F_OFD_SETLK
                     "os.lockf(1, os.F_ULOCK, 0)"):
            path, told = self.promised()
            self.assertEqual(told("import fcntl"), "None")
            self.written(path, 2)
            self.assertEqual(told(f"exec({TRY.format(lock)!r}, globals()); was = see(at, 1)"),
                             "None")
            self.assertEqual(told("(was)"), "02", lock)
            told.process.kill()

    def test_service_dies_gives_back(self):
        path, told = self.promised()
        os.kill(self.service_pid(), signal.SIGKILL)
        told.until("(not held(at))", "nobody would say when it is written")
        self.written(path, 2)
        self.assertEqual(told("(see(at, 1))"), "02")

    def test_flags_set_still_goes_back(self):
        """The shim forgets what it knows of a descriptor, but not the mapping."""
        path, told = self.promised()
        self.assertEqual(told("import fcntl"), "None")
        self.assertEqual(told("flags = fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK)"), "None")
        self.written(path, 2)
        told.until("(not held(at))", "it went back")
        self.assertEqual(told("(see(at, 1))"), "02")

    def test_closed_descriptor_keeps_hold(self):
        path, told = self.promised()
        self.assertEqual(told("os.close(fd)"), "None")
        self.written(path, 2)
        for _ in range(3):
            self.assertEqual(told("(see(at, 1), held(at))"), str(("01", True)))
        self.nothing_open(path)

    def test_no_descriptor_goes_back_later(self):
        """The limit stands before the write: any call after it may be the one that tries."""
        path, told = self.promised()
        limit = "resource.setrlimit(resource.RLIMIT_NOFILE, ({}, limits[1]))"
        lock = "fcntl.fcntl(fd, 37, bytes([2]) + bytes(31))" # F_OFD_SETLK
        self.assertEqual(told("import fcntl, resource; "
                              "limits = resource.getrlimit(resource.RLIMIT_NOFILE); "
                              f"{limit.format('fd + 1')}"), "None")
        self.written(path, 2)
        self.assertEqual(told(f"{lock}; was = see(at, 1); {limit.format('limits[0]')}; {lock}"),
                         "None")
        self.assertEqual(told("(was, see(at, 1))"), str(("01", "02")))

    def nothing_open(self, path):
        until(lambda: not [f for f in self.ask("files")["files"]
                           if f["path"] == str(path) and f["opens"]], "the service has it back")

    def test_changed_mapping_goes_back_first(self):
        path, told = self.promised()
        self.assertEqual(told("libc.mprotect(at + PAGE, PAGE, 0)"), "None")
        self.assertEqual(told("(held(at + PAGE))"), "False")
        self.assertEqual(told("libc.mprotect(at + PAGE, PAGE, READ)"), "None")
        self.written(path, 2)
        told.until("(see(at, 1) + see(at + PAGE, 1) + see(at + 2 * PAGE, 1) == '020202')", "all")

    def test_step_aside_gives_back(self):
        path, told = self.promised()
        self.assertEqual(told("libc.mlockall(0)"), "None")
        self.assertEqual(told("(held(at))"), "False")
        self.written(path, 2)
        self.assertEqual(told("(see(at, 1))"), "02")


TRY = "try: {}\nexcept OSError: pass"

# In the program: its thread reads all that is mapped at `at`, without Python's lock.
READS = """
import threading
libc.memcmp.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_size_t]
bad, rounds, want = 0, 0, bytes([1]) * size
def reads():
    global bad, rounds
    while True:
        bad += libc.memcmp(at, want, size) != 0
        rounds += 1
threading.Thread(target=reads, daemon=True).start()
"""

MAKE = """
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
c.execute("create table t (id integer primary key, g int, x text)")
c.executemany("insert into t values (?, 0, ?)", ((i, "x" * 200) for i in range(12000)))
c.commit()
"""
WRITE = """
import sqlite3, sys
c, g = sqlite3.connect(sys.argv[1]), int(sys.argv[2])
if g % 3 == 2:
    c.execute("delete from t where id % 2 = ? and id % 7 = ?", (g % 2, g % 7))
else:
    c.execute("update t set g = ?", (g,))
c.commit()
if g % 3 == 2:
    c.execute("vacuum")
"""
ROWS = "select min(g), max(g), count(*), sum(length(x)) from t"
TRUTH = f"""
import json, sqlite3, sys
print(json.dumps(sqlite3.connect(sys.argv[1]).execute("{ROWS}").fetchone()))
"""
ASK = f"""
import json, os, sqlite3, sys
c = sqlite3.connect(f"file:{{sys.argv[1]}}?mode=ro", uri=True)
c.execute("pragma mmap_size=1000000000")
c.execute("pragma cache_size=0")
for _ in sys.stdin:
    try:
        rows = c.execute("{ROWS}").fetchone()
    except sqlite3.Error as e:
        rows = str(e)
    held = "lodic-hold" in open("/proc/self/maps").read()
    os.write(1, (json.dumps({{"rows": rows, "held": held}}) + "\\n").encode())
"""


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
