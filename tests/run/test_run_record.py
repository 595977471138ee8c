#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic run --record`: what the record has of programs, and what lodic-sim makes of it.

    test_run_record.py LODIC READER LODIC-SIM
"""

import collections
import os
import pathlib
import re
import shlex
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import KIB, PYTHON, WARM, Case, run, without_privileges  # pylint: disable=C0413

if len(sys.argv) > 1:
    sys.argv[1:4] = [str(pathlib.Path(word).resolve()) for word in sys.argv[1:4]]
    without_privileges(sys.argv[1])
    Case.lodic, Case.reader, SIM = sys.argv[1:4]

# preload/run_recorded.h, once more and by hand.
HEAD, EVENT, HEAD_BYTES = struct.Struct("<8sIIQQQQ"), struct.Struct("<QQIIQ"), 4096
NOTHING, PROCESS, END, OPEN, CLOSE, READ = range(6)
Event = collections.namedtuple("Event", "op pid thread file offset bytes cpu_ns")

# Each of four threads reads its own file, in an order that its name gives. Then children do.
MANY = """
import os, sys, threading
folder, files = sys.argv[1], int(sys.argv[2])
def read(name):
    fd = os.open(folder + "/" + name, os.O_RDONLY)
    for i in range(1000):
        os.pread(fd, 100 + i % 7, (i * 37 % 50) * 512)
    os.close(fd)
def all_of(prefix):
    threads = [threading.Thread(target=read, args=(prefix + str(i),)) for i in range(files)]
    for t in threads: t.start()
    for t in threads: t.join()
all_of("f")
kept = os.open(folder + "/f0", os.O_RDONLY)
children = []
for i in range(2):
    pid = os.fork()
    if pid == 0:
        all_of("f")
        os._exit(0)
    children.append(pid)
for pid in children:
    assert os.waitpid(pid, 0)[1] == 0
"""
FOREVER = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
n = 0
while True:
    for i in range(100):
        os.pread(fd, 10, n + i)
    n += 100
    os.write(1, b"%d\\n" % n)
"""


class Record(Case):
    """Records of programs, read as their format says."""

    def record(self, command, *options, status=0, said="", **more):
        """Runs it; returns its events."""
        path = self.folder / "record"
        done = run(self.under(command, "--record", path, *options), **more)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        self.assertRegex(done.stderr.decode(), f"^{said}$")
        return self.events(path)

    def events(self, path):
        with open(path, "rb") as f:
            head = HEAD.unpack(f.read(HEAD.size))
            self.assertEqual(head[:3], (b"LODICRU1", EVENT.size, os.cpu_count()))
            f.seek(HEAD_BYTES)
            raw = f.read(min(head[3], head[4]) * EVENT.size)
        self.threads, self.ended = head[5], head[6]
        return [Event(who >> 48, who & 0xffffffff, who >> 32 & 0xffff, file, offset, n, ns)
                for file, offset, n, ns, who in EVENT.iter_unpack(raw) if who]

    def simulate(self, *more):
        done = run([SIM, "tier", "--trace", self.folder / "record", "--scale", "1", "--fast", "4m",
                    "--slow", "64m", *more])
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_reads_with_offsets(self):
        one, two = self.file("one", 64 * KIB), self.file("two", 64 * KIB)
        mark = self.file("mark", 10)
        program = WARM + f"""
mark = os.open({str(mark)!r}, os.O_RDONLY)
fd = os.open({str(one)!r}, os.O_RDONLY)
warm(fd)
for i in range(20):
    os.pread(fd, 4096, i * 1000)
os.close(fd)
os.pread(mark, 3, 0)
fd = os.open({str(two)!r}, os.O_RDONLY)
while os.read(fd, 7000):
    pass
os.lseek(fd, 123, 0)
other = os.dup(fd)
os.readv(other, [bytearray(10), bytearray(20)])
os.close(fd)
os.pread(mark, 3, 1)
os.preadv(other, [bytearray(5)], 60000)
os.dup2(0, other)
os.pread(mark, 3, 2)
os.pread(os.open({str(one)!r}, os.O_RDONLY), 1, 9)
"""
        events = self.record([PYTHON, "-c", program])
        reads = [e for e in events if e.op == READ]
        files = list(dict.fromkeys(e.file for e in reads))
        of = {file: [(e.offset, e.bytes) for e in reads if e.file == file] for file in files}
        ours = [f for f in files if (0, 7000) in of[f] or (19000, 4096) in of[f]]
        self.assertEqual(len(ours), 2)
        self.assertEqual(of[ours[0]][-21:], [(i * 1000, 4096) for i in range(20)] + [(9, 1)])
        self.assertEqual(of[ours[1]], [(i * 7000, min(7000, 64 * KIB - i * 7000))
                                       for i in range(10)] + [(123, 30), (60000, 5)])
        # Each close before what comes after it.
        marks = next(f for f in files if of[f] == [(0, 3), (1, 3), (2, 3)])
        order = [(e.op, ours.index(e.file)) if e.file in ours else e.offset for e in events
                 if e.file in ours and e.op != READ or e.file == marks and e.op == READ]
        self.assertEqual(order, [(OPEN, 0), (CLOSE, 0), 0, (OPEN, 1), (OPEN, 1), (CLOSE, 1), 1,
                                 (CLOSE, 1), 2, (OPEN, 0)])
        self.assertEqual((events[0].op, events[-1].op, self.ended), (PROCESS, END, 0))
        self.assertLess(sum(e.cpu_ns for e in events), 20e9)

    def test_threads_and_children(self):
        for i in range(4):
            self.file(f"f{i}", 64 * KIB, seed=i)
        events = self.record([PYTHON, "-c", MANY, self.folder, 4])
        wanted = [((i * 37 % 50) * 512, 100 + i % 7) for i in range(1000)]
        of = collections.defaultdict(list)
        for e in events:
            if e.op == READ:
                of[e.pid, e.thread, e.file].append((e.offset, e.bytes))
        whole = [key for key, reads in of.items() if reads == wanted]
        self.assertEqual(len(whole), 12)
        self.assertEqual(len({pid for pid, _, _ in whole}), 3)
        self.assertEqual(len({thread for _, thread, _ in whole}), 12)
        self.assertEqual(len({file for _, _, file in whole}), 4)
        # The parent opens each file once, and one once more, which its children inherit.
        kept = collections.Counter(e.file for e in events if e.op == OPEN and
                                   e.pid in {pid for pid, _, _ in whole})
        self.assertEqual(sorted(n for file, n in kept.items()
                                if file in {file for _, _, file in whole}), [3, 3, 3, 6])
        # A thread's number is no other's.
        pids = collections.defaultdict(set)
        for e in events:
            pids[e.thread].add(e.pid)
        self.assertEqual([thread for thread, of in pids.items() if len(of) > 1], [])
        # Nothing is open in the end, as the simulator counts it.
        opens = collections.Counter()
        for e in events:
            if e.op in (PROCESS, END):
                opens = collections.Counter({k: n for k, n in opens.items() if k[0] != e.pid})
            elif e.op != READ:
                opens[e.pid, e.file] += 1 if e.op == OPEN else -1
        self.assertEqual([n for n in opens.values() if n], [])
        self.assertEqual(self.simulate()[::2], (0, ""))

    def test_killed(self):
        path, record = self.file("data", 64 * KIB), self.folder / "record"
        process = self.start(self.under([PYTHON, "-c", FOREVER, path], "--record", record),
                             stdout=subprocess.PIPE)
        for _ in range(100):
            told = int(process.stdout.readline())
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        data = collections.Counter(e.file for e in self.events(record) if e.op == READ)
        file, nr = data.most_common(1)[0]
        self.assertGreaterEqual(nr, told)
        offsets = [e.offset for e in self.events(record) if e.op == READ and e.file == file]
        self.assertEqual(offsets, list(range(nr)))
        self.assertEqual(self.simulate()[::2], (0, ""))

    def test_same_file_again(self):
        path, record = self.file("data", 64 * KIB), self.folder / "record"
        first = self.start(self.under([PYTHON, "-c", FOREVER, path], "--record", record),
                           stdout=subprocess.PIPE)
        first.stdout.readline()
        events = self.record([PYTHON, "-c", "pass"])
        for _ in range(100):
            first.stdout.readline()
        self.assertIsNone(first.poll())
        first.stdout.close()
        self.assertEqual(len({e.pid for e in events}), 1)

    def test_full(self):
        path = self.file("data", 64 * KIB)
        program = f"""
import os
fd = os.open({str(path)!r}, os.O_RDONLY)
assert all(len(os.pread(fd, 10, i)) == 10 for i in range(5000))
"""
        events = self.record([PYTHON, "-c", program], "--record-size", "64K",
                             said=r"lodic run: python3[.0-9]*\[\d+\]: the record is not complete: "
                             r"it is full; --record-size makes it larger\n")
        self.assertEqual((len(events), self.ended), ((64 * KIB - HEAD_BYTES) // EVENT.size, 1))
        status, _, said = self.simulate()
        self.assertEqual(status, 0)
        self.assertRegex(said, "the record ends before its programs: it was full")

    def test_disk_full(self):
        if run(["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=256k", "x",
                self.place]).returncode != 0:
            self.skipTest("no mount namespace of one's own")
        path, disk = self.file("data", 64 * KIB), self.place / "disk"
        disk.mkdir()
        reads = self.folder / "reads.py"
        reads.write_text(f"import os\nfd = os.open({str(path)!r}, os.O_RDONLY)\n"
                         "assert all(len(os.pread(fd, 10, i)) == 10 for i in range(20000))\n")
        words = shlex.join(self.under([PYTHON, reads], "--record", disk / "r"))
        done = run(["unshare", "-rm", "sh", "-ec",
                    f"mount -t tmpfs -o size=256k x {disk}\n{words}\n"
                    f"cp --sparse=always {disk}/r '{self.folder}/record'"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertRegex(done.stderr.decode(), r"\Alodic run: \S+: the record is not complete: "
                         r"there is no room on its disk\n\Z")
        events = self.events(self.folder / "record")
        self.assertEqual(self.ended, 2)
        self.assertGreater(len(events), 2000)
        self.assertRegex(self.simulate()[2], "its disk was full")

    def test_programs_do_not_notice(self):
        for name in ("replaced", "close_all", "vfork", "fork", "bad_buffer", "locks", "seccomp",
                     "descriptors_used_up", "threads_replaced"):
            with self.subTest(name):
                self.way(name, "--record", self.folder / "record")
                for mode in ("plain", "cached"):
                    run(["rm", "-rf", self.folder / mode])

    def test_wrong_use(self):
        for words, pattern in ((["--record-size", "1M", "true"], "ask for that too"),
                               (["--record", "r", "--record-size", "1", "true"], "64K or more"),
                               (["--record", "/no/such/r", "true"], "cannot write /no/such/r")):
            done = run([self.lodic, "run", "--socket", self.socket, *words])
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr.decode(), pattern)

    def test_broken_records(self):
        self.record([PYTHON, "-c", "pass"], "--record-size", "64K")
        path = self.folder / "record"
        whole = path.read_bytes()
        for at, what, pattern in ((0, b"LODICRU2", "no such|no record"), (8, b"\x18", "no record"),
                                  (HEAD_BYTES + 30, b"\x09", "event 1: there is no such op")):
            path.write_bytes(whole[:at] + what + whole[at + len(what):])
            status, _, said = self.simulate("--format", "run")
            self.assertEqual(status, 2, said)
            self.assertRegex(said, pattern)
        path.write_bytes(whole[:HEAD_BYTES + EVENT.size + 3])
        status, _, said = self.simulate()
        self.assertEqual(status, 2, said)
        self.assertTrue(re.search("event 2: cut off", said), said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
