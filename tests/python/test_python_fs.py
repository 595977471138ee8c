#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""lodic:// for fsspec: the same answers as file://, from the cache, and only for reading.

    LODIC_BUILD=FOLDER test_python_fs.py [CASE...]

pandas, pyarrow and Dask are 150 MB, and tools/wheels.sh does not install them. Their cases run
where they can be imported, as with PYTHONPATH. LODIC_ROUNDS says how many programs read Parquet
files and end (20).
"""

import errno
import io
import os
import pathlib
import pickle
import random
import signal
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from py_case import MIB, PYTHON, Case, ask, lay_out, main, run, until  # pylint: disable=C0413

lay_out()

try:
    import fsspec
except ImportError:
    print("python fs: no fsspec here, because tools/wheels.sh has not installed it")
    sys.exit(77)

import lodic  # pylint: disable=C0413
from lodic.fs import LodicFileSystem, Reader  # pylint: disable=C0413

SEED = int.from_bytes(os.urandom(4), "little")
WORKERS = 4
ROUNDS = int(os.environ.get("LODIC_ROUNDS", "20"))

# A program whose thread is not Python's, as pyarrow's are not. The C library starts it. The thread
# reads through the cache, and lets the main thread end. Then it is busy for a while without the
# interpreter's lock, in a hash (hashed) or in a close that asks a service (closed). At last it
# wants that lock again.
FOREIGN = """
import ctypes, hashlib, os, sys, threading
from lodic.fs import Reader

path, how = sys.argv[1:]
read, stopped = threading.Event(), threading.Event()

def foreign(_):
    reader = Reader(path)
    assert reader.read(4096)
    read.set()
    stopped.wait()
    if how == "hashed":
        hashlib.sha256(bytes(1 << 26)).digest()
    del reader
    os.write(1, b"it has let go of the file")
    return 0

start = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(foreign)
thread = ctypes.c_ulong()
assert ctypes.CDLL(None).pthread_create(ctypes.byref(thread), None, start, None) == 0
read.wait()
if how == "closed":
    os.write(1, b"read ")
    os.read(0, 1) # the test has stopped the service
stopped.set()
"""
PARQUET = """
import sys, fsspec, pandas
for _ in range(8):
    table = pandas.read_parquet("lodic://" + sys.argv[1])
"""


class FileSystem(Case):
    """A tree of files."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.data = self.random.randbytes(2 * MIB + 99)
        self.path = self.folder / "data"
        self.path.write_bytes(self.data)
        (self.folder / "below" / "more").mkdir(parents=True)
        (self.folder / "below" / "a.csv").write_text("a,b\n1,2\n3,4\n")
        (self.folder / "below" / "more" / "b.csv").write_text("a,b\n5,6\n")
        self.fs = fsspec.filesystem("lodic", socket=self.socket)

    def test_found_by_name(self):
        self.assertIs(type(self.fs), LodicFileSystem)
        fs, path = fsspec.core.url_to_fs(f"lodic://{self.path}")
        self.assertEqual((type(fs), path), (LodicFileSystem, str(self.path)))
        self.assertEqual(fs.unstrip_protocol(path), f"lodic://{self.path}")

    def test_answers_of_local_files(self):
        local, top = fsspec.filesystem("file"), str(self.folder)
        for ask_fs in (lambda fs: fs.ls(top, detail=True), lambda fs: fs.ls(top, detail=False),
                       lambda fs: sorted(fs.find(top)), lambda fs: fs.glob(top + "/**/*.csv"),
                       lambda fs: fs.info(self.path), lambda fs: fs.exists(top + "/none"),
                       lambda fs: fs.isdir(top), lambda fs: fs.isfile(str(self.path)),
                       lambda fs: fs.size(str(self.path)), lambda fs: fs.modified(str(self.path)),
                       lambda fs: list(fs.walk(top)), lambda fs: fs.du(top),
                       lambda fs: fs.cat(top + "/below/a.csv"), lambda fs: fs.head(self.path, 9),
                       lambda fs: fs.cat(top + "/below/*.csv"), lambda fs: fs.tail(self.path, 9),
                       lambda fs: fs.cat_file(self.path, 5, 5000),
                       lambda fs: fs.cat_file(self.path, -50),
                       lambda fs: fs.cat_file(self.path, 5, -7),
                       lambda fs: fs.cat_ranges([str(self.path)] * 3, [0, 7, 99],
                                                [4, 70000, 1 << 20])):
            self.assertEqual(ask_fs(self.fs), ask_fs(local))
        with self.assertRaises(FileNotFoundError):
            self.fs.open(top + "/none")

    def test_reader_is_a_file(self):
        with self.fs.open(self.path) as ours, open(self.path, "rb") as theirs:
            self.assertEqual(ours.size, len(self.data))
            for _ in range(300):
                where = (self.random.randrange(len(self.data) + 5000), 0) \
                    if self.random.random() < 0.7 else (-self.random.randrange(len(self.data)), 2)
                self.assertEqual(ours.seek(*where), theirs.seek(*where))
                n = self.random.choice((0, 1, 100, 4096, 70000, 300000))
                self.assertEqual(ours.read(n), theirs.read(n))
                self.assertEqual(ours.tell(), theirs.tell())
            for file in (ours, theirs):
                file.seek(5)
            self.assertEqual(ours.readline(), theirs.readline())
            self.assertEqual(ours.read(), theirs.read())
            with self.assertRaises(OSError):
                ours.seek(-1)
            with self.assertRaises(io.UnsupportedOperation):
                ours.write(b"x")
        with self.assertRaisesRegex(ValueError, "closed"):
            ours.read(1)
        with fsspec.open(f"lodic://{self.folder}/below/a.csv", "r", socket=self.socket) as file:
            self.assertEqual(list(file), ["a,b\n", "1,2\n", "3,4\n"])

    def test_reads_hit(self):
        fs = fsspec.filesystem("lodic", socket=self.socket, prefetch=True)
        reader = fs.open(self.path)
        until(lambda: self.stat("cached")[0] >= len(self.data) // 4096, "the file is cached")
        hits = self.stat("hits")[0]
        self.assertEqual(reader.read(), self.data)
        self.assertGreaterEqual(self.stat("hits")[0] - hits, len(self.data) // 4096)

    def test_read_only(self):
        before = sorted(self.folder.rglob("*"))
        path = str(self.path)
        for call in (lambda fs: fs.open(path, "wb"), lambda fs: fs.open(path, "ab"),
                     lambda fs: fs.open(path, "r+b"), lambda fs: fs.rm(path),
                     lambda fs: fs.mv(path, path + "2"), lambda fs: fs.cp(path, path + "2"),
                     lambda fs: fs.mkdir(path + "d"), lambda fs: fs.makedirs(path + "d"),
                     lambda fs: fs.touch(path), lambda fs: fs.pipe(path, b""),
                     lambda fs: fs.put(path, path + "2"), lambda fs: fs.rmdir(path)):
            with self.assertRaises(OSError) as caught:
                call(self.fs)
            self.assertEqual(caught.exception.errno, errno.EROFS)
        self.assertEqual(sorted(self.folder.rglob("*")), before)
        self.assertEqual(self.path.read_bytes(), self.data)

    @unittest.skipIf(sys.version_info >= (3, 14), "since 3.14 such a thread waits for ever")
    def test_foreign_thread_lets_go_before_the_end(self):
        self.assertEqual(self.python(FOREIGN, self.path, "hashed"), "it has let go of the file")

    @unittest.skipIf(sys.version_info >= (3, 14), "since 3.14 such a thread waits for ever")
    def test_foreign_thread_closes_by_stopped_service(self):
        pid = self.stat("service_pid")[0]
        with subprocess.Popen([PYTHON, "-c", FOREIGN, str(self.path), "closed"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            try:
                self.assertEqual(program.stdout.read(5), b"read ")
                os.kill(pid, signal.SIGSTOP)
                program.stdin.write(b"x")
                program.stdin.close()
                self.assertEqual(program.stdout.read(), b"it has let go of the file")
            finally:
                os.kill(pid, signal.SIGCONT)
                program.kill()

    def test_parquet_programs_end(self):
        """LODIC_ROUNDS programs, each with eight reads by pyarrow's threads."""
        try:
            import pandas  # pylint: disable=C0415
            import pyarrow  # noqa: F401  pylint: disable=C0415,W0611
        except ImportError as error:
            self.skipTest(f"{error}: pandas and pyarrow are not here")
        path = self.folder / "table.parquet"
        pandas.DataFrame({"x": [self.random.random() for _ in range(100_000)]}).to_parquet(
            path, compression=None)
        aborted = [done.stderr for done in (
            run([sys.executable, "-c", PARQUET, path]) for _ in range(ROUNDS)) if done.returncode]
        hits, misses = self.stat("hits", "misses")
        print(f"{len(aborted)} of {ROUNDS} aborted; hits {hits}, misses {misses}", file=sys.stderr)
        self.assertEqual(aborted, [])
        self.assertGreater(hits, misses)

    def test_addresses_of_the_page(self):
        """What doc/use/python.md says of pandas and pyarrow."""
        try:
            import pandas  # pylint: disable=C0415
            import pyarrow.parquet  # pylint: disable=C0415
        except ImportError as error:
            self.skipTest(f"{error}: pandas and pyarrow are not here")
        path = self.folder / "a.parquet"
        wanted = pandas.DataFrame({"x": [self.random.random() for _ in range(100_000)]})
        wanted.to_parquet(path, compression=None)
        wanted.to_csv(self.folder / "a.csv", index=False)
        prefetched = fsspec.filesystem("lodic", prefetch=True)
        with prefetched.open(path) as file:
            until(lambda: self.stat("cached")[0] >= file.size // 4096, "the file is cached")
        read_table = pyarrow.parquet.read_table
        for read in (lambda: pandas.read_parquet(f"lodic://{path}"),
                     lambda: pandas.read_parquet(lodic.File(path)),
                     lambda: pandas.read_csv(lodic.File(self.folder / "a.csv")),
                     lambda: read_table(f"fsspec+lodic://{path}").to_pandas(),
                     lambda: read_table(lodic.File(path)).to_pandas(),
                     lambda: read_table(str(path), filesystem=LodicFileSystem()).to_pandas()):
            hits, misses = self.stat("hits", "misses")
            pandas.testing.assert_frame_equal(read(), wanted)
            after = self.stat("hits", "misses")
            self.assertGreater(sum(after), hits + misses)
        # The list of file systems is part of pyarrow's library, and closed to Python.
        with self.assertRaisesRegex(pyarrow.ArrowInvalid, "filesystem type"):
            read_table(f"lodic://{path}")

    def test_pickles(self):
        fs = pickle.loads(pickle.dumps(self.fs))
        reader = fs.open(self.path)
        reader.seek(77)
        again = pickle.loads(pickle.dumps(reader))
        self.assertIsInstance(again, Reader)
        self.assertEqual(again.read(100), self.data[77:177])


class Dask(Case):
    """A cluster of four processes, one of which is killed."""

    serve = ("--memory", "256M")

    def tables(self, pandas, numpy):
        places = numpy.random.default_rng(1)
        for i in range(8):
            n = 200_000
            pandas.DataFrame({"k": places.integers(0, 50, n), "x": places.random(n),
                              "y": places.integers(0, 1 << 40, n)}).to_parquet(
                                  self.folder / f"{i}.parquet", row_group_size=20_000)

    def test_dask_cluster_as_without(self):
        try:
            import dask.dataframe  # pylint: disable=C0415
            import distributed  # pylint: disable=C0415
            import numpy  # pylint: disable=C0415
            import pandas  # pylint: disable=C0415
            import pyarrow.parquet  # pylint: disable=C0415
        except ImportError as error:
            self.skipTest(f"{error}: Dask, pandas and pyarrow are not here")
        self.tables(pandas, numpy)
        size = sum(path.stat().st_size for path in self.folder.glob("*.parquet"))

        def ask_dask(protocol, **options):
            frame = dask.dataframe.read_parquet(f"{protocol}://{self.folder}/*.parquet", **options)
            return frame.groupby("k").agg({"x": ["sum", "max"], "y": ["sum", "count"]}).compute()

        cached = {"storage_options": {"socket": self.socket}}
        with distributed.LocalCluster(n_workers=WORKERS, threads_per_worker=1,
                                      dashboard_address=None) as cluster, \
                distributed.Client(cluster) as client:
            wanted = ask_dask("file").sort_index()
            for _ in range(2):
                pandas.testing.assert_frame_equal(ask_dask("lodic", **cached).sort_index(), wanted)
            hits = self.stat("hits")[0]
            victim = next(iter(client.run(os.getpid).values()))
            answers = []
            thread = threading.Thread(
                target=lambda: answers.extend(ask_dask("lodic", **cached) for _ in range(3)))
            thread.start()
            os.kill(victim, signal.SIGKILL)
            thread.join()
            for answer in answers:
                pandas.testing.assert_frame_equal(answer.sort_index(), wanted)
            self.assertEqual(len(answers), 3)
            until(lambda: victim not in client.run(os.getpid).values() and
                  len(client.run(os.getpid)) == WORKERS, "Dask restarts the worker")
            pandas.testing.assert_frame_equal(ask_dask("lodic", **cached).sort_index(), wanted)
            stat, who = ask(self.socket), ask(self.socket, "who")
            print(f"{size} bytes; cached {stat['cached'] * 4096}; hits {hits}, then "
                  f"{stat['hits']}; misses {stat['misses']}; {len(who['readers'])} readers",
                  file=sys.stderr)
            self.assertGreater(stat["hits"], hits)
            self.assertLessEqual(stat["cached"] * 4096, size * 1.1)
        with pyarrow.parquet.ParquetFile(fsspec.open(f"lodic://{self.folder}/0.parquet", **{
                "socket": self.socket}).open()) as table:
            self.assertTrue(table.read().equals(
                pyarrow.parquet.read_table(self.folder / "0.parquet")))
        lodic.shared(self.socket).close()


if __name__ == "__main__":
    print(f"seed {SEED}")
    main()
