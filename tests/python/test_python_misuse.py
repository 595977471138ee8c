#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What a program in Python can do wrong: each ends in an exception that says so, and leaves
nothing behind.

    LODIC_BUILD=FOLDER test_python_misuse.py [CASE...]
"""

import errno
import gc
import io
import os
import pathlib
import pickle
import random
import resource
import signal
import sys
import threading
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from py_case import MIB, Case, LODIC, lay_out, main, run, sanitized  # pylint: disable=C0413

lay_out()

import lodic  # pylint: disable=C0413
from lodic import _lodic  # pylint: disable=C0413

SEED = int.from_bytes(os.urandom(4), "little")
NOBODY = 65534


def mappings():
    """How many mappings this process has."""
    with open("/proc/self/maps", "rb") as f:
        return sum(1 for _ in f)


def descriptors():
    return len(os.listdir("/proc/self/fd"))


class Misuse(Case):
    """One file of 2 MiB."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.data = self.random.randbytes(2 * MIB)
        self.path = self.folder / "data"
        self.path.write_bytes(self.data)
        self.cache = lodic.Cache(self.socket)
        self.file = self.cache.open(self.path)

    def test_close_while_buffers_live(self):
        holds = [self.file.hold() for _ in range(20)]
        views = [memoryview(hold) for hold in holds]
        refused, closed = [], []

        def close(hold):
            for _ in range(50):
                try:
                    hold.close()
                    closed.append(hold)
                except BufferError:
                    refused.append(hold)

        threads = [threading.Thread(target=close, args=(hold,)) for hold in holds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(refused), len(closed)), (1000, 0))
        self.assertTrue(all(view == self.data for view in views))
        for view in views:
            view.release()
        for hold in holds:
            hold.close()
            hold.close() # twice is no error
        self.nothing_used()

    def test_collector_frees_in_another_thread(self):
        gc.disable()
        self.addCleanup(gc.enable)
        for _ in range(50):
            hold = self.file.hold()
            circle = [hold, memoryview(hold), self.cache.open(self.path), hold.private()]
            circle.append(circle)
        del hold, circle
        self.file.read(5, 0) # this thread has a context
        self.assertNotEqual(self.stat("hold_used_bytes"), [0])
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        self.nothing_used()
        self.assertEqual(self.file.read(5, 0), self.data[:5])

    def test_thread_ends_after_its_cache(self):
        go, read = threading.Event(), threading.Event()
        cache = lodic.Cache(self.socket)
        files = [cache.open(self.path)]

        def use():
            files[0].read(5)
            read.set()
            go.wait()

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            read.clear()
            thread.start()
            read.wait()
        files.clear()
        del cache # its contexts end in this thread, not in their own
        go.set()
        for thread in threads:
            thread.join()
        self.file = self.cache = None
        self.nothing_left()

    def test_fork_with_holds(self):
        holds = [self.file.hold(at, n) for at, n in ((0, None), (5, 5000), (MIB // 2, MIB))]
        views = [memoryview(hold) for hold in holds]
        for way in ("drop", "exit", "crash"):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    assert views[0] == self.data and views[1] == self.data[5:5005]
                    try:
                        holds[0].close()
                    except BufferError:
                        status = 0
                    if way == "drop":
                        views.clear()
                        holds.clear()
                        self.file.close()
                        gc.collect()
                    elif way == "crash":
                        os.abort()
                finally:
                    os._exit(status)
            status = os.waitpid(child, 0)[1]
            self.assertEqual(status & 0x7f, 6 if way == "crash" else 0)
            self.assertEqual(os.waitstatus_to_exitcode(status) if way != "crash" else 0, 0)
            self.assertTrue(views[0] == self.data and views[2] == self.data[MIB // 2:][:MIB])
        views.clear()
        holds.clear()
        self.nothing_used()

    def test_fork_while_threads_read(self):
        end, wrong = threading.Event(), []

        def read(seed):
            places = random.Random(seed)
            while not end.is_set():
                at = places.randrange(len(self.data))
                with self.cache.open(self.path) as file:
                    hold = file.hold(0, MIB)
                    if file.read(99, at) != self.data[at:at + 99] or memoryview(hold)[0] != \
                            self.data[0]:
                        wrong.append(at)

        threads = [threading.Thread(target=read, args=(SEED + i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        signal.alarm(60)
                        assert self.file.read(99, 7) == self.data[7:106]
                        assert bytes(self.cache.open(self.path).hold()) == self.data
                        gc.collect()
                        status = 0
                    finally:
                        os._exit(status)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
        finally:
            end.set()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
        self.nothing_used()

    def test_fork_child_cannot_give_descriptors(self):
        hold = self.file.hold()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                hold.private()
            except OSError as error:
                status = 0 if error.errno == errno.ECHILD else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_unpickle_without_file(self):
        text = pickle.dumps(self.file.hold())
        self.path.unlink()
        with self.assertRaisesRegex(FileNotFoundError, str(self.path)):
            pickle.loads(text)
        self.path.mkdir()
        with self.assertRaises(IsADirectoryError):
            pickle.loads(text)

    def test_many_holds(self):
        # 10^5 large ones, and small ones. A process may have fewer mappings than that.
        before, fds = mappings(), descriptors()
        for length in (None, 1):
            n = 20000 if sanitized() else 100000
            holds, why = [], None
            try:
                while len(holds) < n:
                    holds.append(self.file.hold(0, length))
            except OSError as error:
                why = error.errno
            print(f"{len(holds)} holds of {length or 2 * MIB} bytes, then {why}", file=sys.stderr)
            self.assertTrue(len(holds) == n or why == errno.ENOMEM and len(holds) > 10000)
            if why:
                holds.pop()
            for hold in self.random.sample(holds, 100):
                self.assertEqual(bytes(memoryview(hold)[:1]), self.data[:1])
            self.random.shuffle(holds)
            del hold
            holds.clear()
            self.nothing_used()
            self.assertLess(mappings(), before + 100)
            self.assertLessEqual(descriptors(), fds + 2)

    def test_descriptors_used_up(self):
        self.file.read(1)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
        files = []
        try:
            with self.assertRaises(OSError) as caught:
                while True:
                    files.append(self.cache.open(self.path))
            self.assertEqual(caught.exception.errno, errno.EMFILE)
            self.assertGreater(len(files), 50)
            self.assertEqual(self.file.read(9, 3), self.data[3:12])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        files.clear()
        self.assertEqual(self.cache.open(self.path).read(9, 3), self.data[3:12])
        self.assertEqual(bytes(self.file.hold()), self.data)

    def test_no_memory_for_a_context(self):
        """Such a thread reads from the kernel."""
        if sanitized():
            self.skipTest("ASan has no limit of addresses")
        says = self.python("""
import resource, sys, threading, lodic
file, go, got = lodic.File(sys.argv[1]), threading.Event(), []

def read():
    go.wait()
    got.append(file.read(9, 3))

thread = threading.Thread(target=read)
thread.start()
with open("/proc/self/statm") as f:
    size = int(f.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (100 << 10), -1))
go.set()
thread.join()
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
print(got[0].hex(), lodic.shared().stat()["contexts"])
""", self.path)
        self.assertEqual(says.split(), [self.data[3:12].hex(), "0"])

    def test_wrong_arguments(self):
        file, hold = self.file, self.file.hold()
        for error, says, call in (
                (TypeError, "read-write", lambda: file.read_into(b"abc")),
                (TypeError, "", lambda: file.read_into(5)),
                (TypeError, "", lambda: file.read("x")),
                (TypeError, "", lambda: file.read(1, "x")),
                (TypeError, "", lambda: file.seek(None)),
                (ValueError, "whence", lambda: file.seek(0, 9)),
                (OSError, "before", lambda: file.seek(-1)),
                (io.UnsupportedOperation, "fileno", file.fileno),
                (io.UnsupportedOperation, "", file.truncate),
                (ValueError, "has a socket", lambda: lodic.File(self.path, cache=self.cache,
                                                                socket="x")),
                (ValueError, "the offset is negative", lambda: file.read(1, -1)),
                (ValueError, "the offset is negative", lambda: file.hold(-1)),
                (ValueError, "above 0", lambda: file.hold(0, 0)),
                (TypeError, "", lambda: file.hold(0, "x")),
                (OverflowError, "", lambda: file.hold(1 << 64)),
                (lodic.CacheError, "ends before the offset", lambda: file.hold(2 * MIB)),
                (FileNotFoundError, "/none", lambda: self.cache.open("/none")),
                (IsADirectoryError, "", lambda: self.cache.open("/")),
                (OSError, "", lambda: self.cache.open("/dev/null")),
                (OSError, "", lambda: self.cache.open(987)),
                (TypeError, "", lambda: self.cache.open(None)),
                (TypeError, "", lambda: self.cache.open(5.0)),
                (lodic.CacheError, "no service", lambda: lodic.Cache(self.socket + "1",
                                                                     service="")),
                (OSError, "", lambda: lodic.Cache("/" + "x" * 300)),
                (ValueError, "null", lambda: lodic.Cache("a\0b")),
                (TypeError, "", lambda: lodic.Hold(file, 0, 0)),
                (TypeError, "OpenFile", lambda: _lodic.Hold(_lodic, 0, 0)),
                (TypeError, "Attachment", lambda: _lodic.OpenFile(1, 0, "x")),
                (TypeError, "cannot create", lambda: _lodic.Private()),
                (TypeError, "", lambda: memoryview(hold).__setitem__(0, 1)),
                (TypeError, "", lambda: _lodic.Attachment())):
            with self.assertRaisesRegex(error, says):
                call()
        with open(self.path, "r+b") as writer, self.assertRaises(OSError):
            self.cache.open(writer.fileno())
        hold.close()
        self.nothing_used()

    def test_used_after_close(self):
        hold = self.file.hold()
        hold.close()
        self.file.close()
        self.file.close()
        self.cache.close()
        for call in (lambda: self.file.read(1), lambda: self.file.hold(), lambda: len(hold),
                     lambda: self.file.size, self.file.tell, self.file.seekable,
                     lambda: self.file.seek(0), lambda: self.file.readinto(bytearray(1)),
                     lambda: hold.private(), lambda: hold.descriptor(),
                     lambda: pickle.dumps(hold), lambda: self.cache.open(self.path),
                     lambda: hold.__dlpack__(max_version=(1, 0)), self.cache.stat):
            with self.assertRaisesRegex(ValueError, "closed"):
                call()
        self.assertIn("closed", f"{self.file!r} {hold!r} {self.cache!r}")

    def test_no_room_for_a_hold(self):
        large = self.folder / "large"
        with open(large, "wb") as file:
            file.truncate(64 * MIB)
        with self.assertRaises(OSError) as caught:
            self.cache.open(large).hold()
        self.assertEqual(caught.exception.errno, errno.EFBIG)
        some = [self.cache.open(large).hold(0, 20 * MIB)]
        with self.assertRaises(OSError) as caught:
            some.append(self.cache.open(large).hold(30 * MIB, 20 * MIB))
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        some.clear()
        self.nothing_used()
        self.cache.open(large).hold(30 * MIB, 20 * MIB)

    def test_another_user(self):
        if os.getuid() != 0:
            self.skipTest("only root can become another user")
        import safetensors.numpy  # pylint: disable=C0415
        import numpy  # pylint: disable=C0415
        model = self.folder / "model"
        safetensors.numpy.save_file({"a": numpy.arange(1000)}, model)
        for path, mode in ((model, 0o644), (self.folder, 0o755), (pathlib.Path(self.place), 0o777)):
            path.chmod(mode)
        words = [LODIC, "serve", "--help"]
        if run(words, user=NOBODY).returncode or run(["cat", model], user=NOBODY).returncode:
            self.skipTest("nobody may not read this build")
        says = self.python("""
import sys, warnings, numpy, lodic, lodic.safetensors
try:
    lodic.Cache(sys.argv[1])
except lodic.CacheError as error:
    assert not isinstance(error, PermissionError) and error.errno == 13, error
    print("not ours")
warnings.simplefilter("error")
own = lodic.Cache(sys.argv[1] + "n", memory=16 << 20, idle_exit=1)
try:
    lodic.safetensors.load_file(sys.argv[2], cache=own)
except lodic.NotShared as warning:
    print("not shared")
warnings.simplefilter("ignore")
a = lodic.safetensors.load_file(sys.argv[2], cache=own)["a"]
assert numpy.array_equal(a, numpy.arange(1000)) and a.flags.writeable
try:
    lodic.safetensors.load_file(sys.argv[2], cache=own, fallback=False)
except lodic.CacheError as error:
    print(error.reason)
""", self.socket, model, user=NOBODY, group=NOBODY, extra_groups=[])
        self.assertEqual(says.split("\n")[:-1], ["not ours", "not shared", "owner"])


if __name__ == "__main__":
    warnings.simplefilter("ignore", DeprecationWarning) # Python's, of a fork with threads
    print(f"seed {SEED}")
    main()
