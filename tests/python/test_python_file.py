#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""lodic.File as an open file: a place, the io module's classes over it, libraries that want one.

    LODIC_BUILD=FOLDER test_python_file.py [CASE...]
"""

import csv
import io
import os
import pathlib
import pickle
import random
import signal
import sys
import threading
import warnings
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from py_case import MIB, Case, lay_out, main  # pylint: disable=C0413

lay_out()

import lodic  # pylint: disable=C0413

try:
    import numpy
except ImportError:
    numpy = None
try:
    import fsspec
except ImportError:
    fsspec = None

SEED = int.from_bytes(os.urandom(4), "little")
# Files of a size that the kernel does not know, and whose bytes stay for a while.
NO_SIZE = ("/proc/version", "/proc/filesystems", "/proc/kallsyms", "/proc/self/mountinfo",
           "/proc/self/limits", "/sys/kernel/mm/transparent_hugepage/enabled",
           "/sys/devices/system/cpu/possible")


class File(Case):
    """One file of 3 MiB and some bytes, with ends of lines in it."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.data = self.random.randbytes(3 * MIB + 1234)
        self.path = self.folder / "data"
        self.path.write_bytes(self.data)

    def one_step(self, ours, theirs):
        """The same call on two files."""
        at, n = self.random.randrange(len(self.data) + 5000), self.random.randrange(20000)
        step = self.random.choice(("seek", "back", "end", "read", "readinto", "line", "all"))
        if step == "seek":
            return [file.seek(at) for file in (ours, theirs)]
        if step == "back":
            n = min(n, theirs.tell())
            return [file.seek(-n, io.SEEK_CUR) for file in (ours, theirs)]
        if step == "end":
            return [file.seek(-n, io.SEEK_END) for file in (ours, theirs)]
        if step == "read":
            return [file.read(n) for file in (ours, theirs)]
        if step == "line":
            return [file.readline() for file in (ours, theirs)]
        if step == "all" and self.random.random() < 0.05:
            return [file.read() for file in (ours, theirs)]
        buffers = bytearray(n), bytearray(n)
        return [(file.readinto(buffer), bytes(buffer))
                for file, buffer in zip((ours, theirs), buffers)]

    def test_is_an_open_file(self):
        with lodic.File(self.path) as ours, open(self.path, "rb", 0) as theirs:
            self.assertIsInstance(ours, io.RawIOBase)
            for file in (ours, theirs):
                self.assertEqual((file.readable(), file.seekable(), file.writable(), file.isatty(),
                                  file.closed, file.mode, str(file.name)),
                                 (True, True, False, False, False, "rb", str(self.path)))
            for _ in range(1500):
                one, other = self.one_step(ours, theirs)
                self.assertEqual(one, other)
                self.assertEqual(ours.tell(), theirs.tell())
            at = ours.tell()
            self.assertEqual(ours.read(50, 7), self.data[7:57])
            self.assertEqual(ours.tell(), at)
            for file in (ours, theirs):
                with self.assertRaises(TypeError):
                    file.seek(1.5)
                for call in (lambda: file.write(b"x"), lambda: file.writelines([b"x"]),
                             lambda: file.truncate(0)):
                    with self.assertRaises(io.UnsupportedOperation):
                        call()
            self.assertEqual(ours.tell(), at)
        self.assertTrue(ours.closed)
        for call in (ours.tell, ours.read, ours.readable, lambda: ours.seek(0), ours.__enter__,
                     lambda: ours.readinto(bytearray(3)), ours.readline):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()

    def test_buffered_reader_over_it(self):
        with io.BufferedReader(lodic.File(self.path), 5000) as ours, \
                open(self.path, "rb", 5000) as theirs:
            for _ in range(1500):
                one, other = self.one_step(ours, theirs)
                self.assertEqual(one, other)
                self.assertEqual(ours.tell(), theirs.tell())
            raw = ours.raw
        self.assertTrue(raw.closed)

    def test_reads_at_the_place_hit(self):
        with lodic.File(self.path) as file:
            file.prefetch()
            hits = self.stat("hits")[0]
            while file.read(4096):
                pass
            self.assertGreaterEqual(self.stat("hits")[0] - hits, len(self.data) // 4096)

    def test_threads_share_a_place(self):
        """Each piece comes to one thread, as with a descriptor."""
        with lodic.File(self.path) as file:
            got, meet = [], threading.Barrier(6)

            def read():
                meet.wait()
                while piece := file.read(1000):
                    got.append(piece)

            threads = [threading.Thread(target=read) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        wanted = [self.data[i:i + 1000] for i in range(0, len(self.data), 1000)]
        self.assertEqual(sorted(got), sorted(wanted))

    def test_child_has_a_place_of_its_own(self):
        file = lodic.File(self.path)
        file.seek(100)
        end, entered = threading.Event(), threading.Event()

        def hold_the_lock(): # the child gets a lock that nobody gives back
            with file._opened[2]:  # pylint: disable=W0212
                entered.set()
                end.wait()

        thread = threading.Thread(target=hold_the_lock)
        thread.start()
        entered.wait()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(60)
                status = 0 if file.read(9) == self.data[100:109] and file.tell() == 109 else 2
            finally:
                os._exit(status)
        end.set()
        thread.join()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual((file.tell(), file.read(9)), (100, self.data[100:109]))

    def test_pickle_keeps_the_place(self):
        with lodic.File(self.path) as file:
            file.seek(4321)
            again = pickle.loads(pickle.dumps(file))
        self.assertEqual((again.tell(), again.read(9)), (4321, self.data[4321:4330]))

    def test_libraries_take_it(self):
        with zipfile.ZipFile(self.folder / "zip", "w") as archive:
            archive.writestr("a.csv", "a,b\n1,2\n")
        with zipfile.ZipFile(lodic.File(self.folder / "zip")) as archive, \
                io.TextIOWrapper(archive.open("a.csv"), newline="") as text:
            self.assertEqual(list(csv.reader(text)), [["a", "b"], ["1", "2"]])
        if numpy is None:
            self.skipTest("no numpy here: tools/wheels.sh installs it")
        array = numpy.arange(400_000, dtype="f4").reshape(4, -1)
        numpy.save(self.folder / "a.npy", array)
        numpy.savez(self.folder / "a.npz", x=array, y=array[0])
        file = lodic.File(self.folder / "a.npy")
        file.prefetch()
        hits = self.stat("hits")[0]
        self.assertTrue(numpy.array_equal(numpy.load(file), array))
        self.assertGreaterEqual(self.stat("hits")[0] - hits, array.nbytes // 4096 - 1)
        file.seek(0)
        self.assertTrue(numpy.array_equal(numpy.load(io.BufferedReader(file)), array))
        with numpy.load(lodic.File(self.folder / "a.npz")) as arrays:
            self.assertTrue(numpy.array_equal(arrays["x"], array))
            self.assertTrue(numpy.array_equal(arrays["y"], array[0]))

    def test_files_of_no_size(self):
        read = 0
        for path in NO_SIZE:
            try:
                wanted = pathlib.Path(path).read_bytes()
            except OSError:
                continue
            read += 1
            with lodic.File(path) as file:
                self.assertEqual(file.read(), wanted, path)
                self.assertEqual(file.read(), b"")
                for n, at in ((10, 0), (10, 5), (1 << 40, 0), (1 << 40, 7), (-1, 7), (0, 0),
                              (5, len(wanted)), (5, len(wanted) + 9)):
                    end = None if n < 0 else at + n
                    self.assertEqual(file.read(n, at), wanted[at:end], (path, n, at))
                file.seek(3)
                self.assertEqual(file.read(4) + file.readline(),
                                 wanted[3:7] + (wanted[7:].splitlines(True) or [b""])[0])
            with io.BufferedReader(lodic.File(path)) as file:
                self.assertEqual(file.read(), wanted, path)
            if fsspec is None:
                continue
            fs = fsspec.filesystem("lodic", socket=self.socket)
            with fs.open(path) as file:
                self.assertEqual(file.read(), wanted, path)
            self.assertEqual(fs.cat(path), wanted)
            self.assertEqual(fs.cat_file(path, 3, 9), wanted[3:9])
            self.assertEqual(fs.cat_file(path, 3), wanted[3:])
        self.assertGreater(read, 3)


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning) # Python's, of a fork with threads
    print(f"seed {SEED}")
    main()
