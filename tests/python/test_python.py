#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Cache, File and Hold: what they give, from which thread and process, and until when.

    LODIC_BUILD=FOLDER test_python.py [CASE...]
"""

import ctypes
import doctest
import os
import pathlib
import pickle
import random
import signal
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from py_case import MIB, Case, lay_out, main, run, until  # pylint: disable=C0413

lay_out()

import lodic  # pylint: disable=C0413

try:
    import numpy
except ImportError:
    numpy = None

SEED = int.from_bytes(os.urandom(4), "little")


class Python(Case):
    """One file of 3 MiB and some bytes, so that a hold of it is shared."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.data = self.random.randbytes(3 * MIB + 1234)
        self.path = self.folder / "data"
        self.path.write_bytes(self.data)
        self.cache = lodic.Cache(self.socket)

    def test_read_any_range_right(self):
        with self.cache.open(self.path) as file:
            file.prefetch()
            hits, misses = self.stat("hits", "misses")
            buffer = bytearray(20000)
            for _ in range(500):
                at = self.random.randrange(len(self.data) + 5000)
                n = self.random.randrange(20000)
                self.assertEqual(file.read(n, at), self.data[at:at + n])
                got = file.read_into(memoryview(buffer)[:n], at)
                self.assertEqual(buffer[:got], self.data[at:at + n])
            self.assertEqual(file.read(), self.data)
            self.assertEqual(file.read(-1, 1 << 20), self.data[1 << 20:])
            self.assertEqual((file.size, file.cached, file.why_not), (len(self.data), True, None))
            after = self.stat("hits", "misses")
            self.assertGreater(after[0], hits + 1000)
            # Reads behind the end may ask the kernel; blocks of the file must not.
            self.assertLess(after[1] - misses, 1000)

    def test_hold_is_the_file(self):
        file = self.cache.open(self.path)
        for offset, length in ((0, None), (4095, 2 * MIB), (5, 7), (3 * MIB, 5000)):
            hold = file.hold(offset, length)
            end = None if length is None else offset + length
            self.assertEqual(bytes(hold), self.data[offset:end])
            self.assertEqual(len(hold), len(self.data[offset:end]))
            self.assertTrue(memoryview(hold).readonly)
            hold.close()
            self.assertTrue(hold.closed)
            with self.assertRaisesRegex(ValueError, "the hold is closed"):
                memoryview(hold)
        self.nothing_used()

    def test_hold_shared_with_another_process(self):
        hold = self.cache.open(self.path).hold()
        self.python("import lodic, sys; a = lodic.File(sys.argv[1]).hold(); "
                    "assert lodic.shared().stat()['holds'] == 1, lodic.shared().stat()",
                    self.path)
        self.assertEqual(self.stat("holds_read", "holds_given"), [1, 2])
        self.assertEqual(bytes(hold), self.data)

    def test_hold_ends_with_last_buffer(self):
        hold = self.cache.open(self.path).hold()
        view, part = memoryview(hold), memoryview(hold)[5:10]
        with self.assertRaisesRegex(BufferError, "2 buffers still use this hold"):
            hold.close()
        del hold, view
        self.assertEqual(bytes(part), self.data[5:10])
        self.assertNotEqual(self.stat("hold_used_bytes"), [0])
        del part
        self.nothing_used()

    def test_numpy_and_dlpack_read_only(self):
        if numpy is None:
            self.skipTest("no numpy here: tools/wheels.sh installs it")
        hold = self.cache.open(self.path).hold()
        flat = numpy.frombuffer(hold, numpy.uint8)
        tensor = numpy.from_dlpack(hold)
        self.assertTrue(numpy.array_equal(tensor, flat))
        with self.assertRaisesRegex(ValueError, "read-only"):
            tensor[0] = 1
        # As a consumer does that does not look whether it may: its copy changes, and no other.
        ctypes.c_uint8.from_address(tensor.ctypes.data).value ^= 255
        self.assertEqual((tensor[0], flat[0]), (self.data[0] ^ 255, self.data[0]))
        del flat
        hold.close() # tensors outlive it
        self.assertEqual(bytes(tensor[1:9]), self.data[1:9])
        del tensor
        self.nothing_used()

    def test_dlpack_refuses(self):
        hold = self.cache.open(self.path).hold()
        self.assertEqual(hold.__dlpack_device__(), (1, 0))
        for words in ({}, {"max_version": (0, 8)}):
            with self.assertRaisesRegex(BufferError, "numpy.frombuffer"):
                hold.__dlpack__(**words)
        for words in ({"copy": True}, {"dl_device": (2, 0)}, {"stream": 1}):
            with self.assertRaises(BufferError):
                hold.__dlpack__(max_version=(1, 0), **words)
        hold.__dlpack__(max_version=(1, 1)) # a capsule that nobody takes
        hold.close()
        self.nothing_used()

    def test_dlpack_deleter_without_the_interpreter(self):
        hold = self.cache.open(self.path).hold()
        capsule = hold.__dlpack__(max_version=(1, 0))
        name = ctypes.create_string_buffer(b"used_dltensor_versioned")
        api = ctypes.pythonapi
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        at = api.PyCapsule_GetPointer(ctypes.py_object(capsule), b"dltensor_versioned")
        api.PyCapsule_SetName(ctypes.py_object(capsule), name)
        del capsule, hold
        self.assertNotEqual(self.stat("hold_used_bytes"), [0])
        # version, context, deleter; ctypes calls it without the interpreter's lock.
        deleter = ctypes.c_void_p.from_address(at + 16).value
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(at)
        self.nothing_used()

    def test_private_written_here_alone(self):
        for length in (None, 5000):
            hold = self.cache.open(self.path).hold(100, length)
            mine, other = memoryview(hold.private()), memoryview(hold.private())
            self.assertFalse(mine.readonly)
            self.assertEqual(mine, hold)
            for at in (0, len(mine) // 2, len(mine) - 1):
                mine[at] ^= 255
            self.assertNotEqual(mine, hold)
            self.assertEqual(bytes(other), bytes(hold))
            hold.close() # mappings outlive it
            self.assertEqual(mine[0], self.data[100] ^ 255)
            del mine, other
        self.nothing_used()

    def test_file_replaced_old_views_stand(self):
        old = self.cache.open(self.path)
        hold = old.hold()
        new = self.folder / "new"
        new.write_bytes(self.data[::-1])
        new.replace(self.path)
        self.assertEqual(bytes(hold), self.data)
        self.assertEqual(old.read(), self.data)
        self.assertEqual(bytes(self.cache.open(self.path).hold()), self.data[::-1])
        with open(self.path, "r+b") as writer: # in place, and shorter
            second = lodic.File(self.path).hold() if lodic.File(self.path).cached else None
            writer.truncate(2 * MIB)
            writer.write(b"new")
        self.assertIsNone(second)
        self.assertEqual(lodic.File(self.path).read(3), b"new")
        self.assertEqual(bytes(hold), self.data)

    def test_descriptor_opens_its_file(self):
        fd = os.open(self.path, os.O_RDONLY)
        file = self.cache.open(fd)
        os.close(fd)
        self.path.unlink()
        self.assertEqual(file.read(50, 7), self.data[7:57])
        hold = file.hold()
        for one in (file, hold):
            with self.assertRaisesRegex(TypeError, "cannot be pickled"):
                pickle.dumps(one)

    def test_pickle_held_anew(self):
        with self.cache.open(self.path) as file:
            hold = file.hold(10, 2 * MIB)
            texts = [pickle.dumps(one) for one in (self.cache, file, hold)]
        self.assertLess(len(texts[2]), 500)
        says = self.python("""
import pickle, sys
cache, file, hold = (pickle.loads(bytes.fromhex(text)) for text in sys.argv[1:])
assert file.read(2 << 20, 10) == bytes(hold)
print(cache.stat()["holds"], len(hold))
""", *(text.hex() for text in texts))
        self.assertEqual(says.split(), ["1", str(2 * MIB)])
        with open(self.path, "r+b") as file:
            file.truncate(MIB)
        with self.assertRaisesRegex(OSError, "the hold had 2097152 bytes from 10 on"):
            pickle.loads(texts[2])
        self.path.unlink()
        for text in texts[1:]:
            with self.assertRaisesRegex(FileNotFoundError, "No such file"):
                pickle.loads(text)

    def test_threads_have_contexts_of_their_own(self):
        file, wrong = self.cache.open(self.path), []
        file.read(10)
        meet = threading.Barrier(9)

        def read(seed):
            places = random.Random(seed)
            for _ in range(200):
                at = places.randrange(len(self.data))
                if file.read(5000, at) != self.data[at:at + 5000]:
                    wrong.append(at)
            meet.wait()
            meet.wait()

        threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        meet.wait()
        self.assertEqual(self.stat("contexts"), [9])
        meet.wait()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        until(lambda: self.stat("contexts") == [1], "a thread's context ends with it")
        del file
        self.cache = None
        until(lambda: self.stat("contexts", "clients") == [0, 0], "the last one ends, too")

    def test_fork_child_attaches_anew(self):
        file = self.cache.open(self.path)
        file.prefetch()
        hold = file.hold()
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert bytes(hold) == self.data
                assert file.read(9000, 77) == self.data[77:9077]
                assert bytes(file.hold(0, 2 * MIB)) == self.data[:2 * MIB]
                assert self.cache.stat()["contexts"] == 2, self.cache.stat()
                assert hold.private
                os.write(writer, b"y")
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(os.read(reader, 9), b"y")
        os.close(reader)
        os.close(writer)
        self.assertEqual(file.read(9000, 77), self.data[77:9077])
        self.assertEqual(bytes(hold), self.data)
        until(lambda: self.stat("contexts", "clients") == [1, 1], "the child's things are back")

    def test_service_killed_reads_go_on(self):
        file = self.cache.open(self.path)
        hold = file.hold()
        os.kill(self.stat("service_pid")[0], signal.SIGKILL)
        self.assertEqual(file.read(5000, 3), self.data[3:5003])
        self.assertEqual(bytes(hold), self.data)
        again = lodic.Cache(self.socket, memory=64 * MIB).open(self.path).hold(0, 2 * MIB)
        self.assertEqual(bytes(again), self.data[:2 * MIB])
        with self.assertRaisesRegex(OSError, "service"):
            hold.private() # of the dead one
        with self.assertRaisesRegex(BufferError, "service"):
            hold.__dlpack__(max_version=(1, 0))

    def test_examples_run(self):
        import lodic._cache  # pylint: disable=C0415,W0621
        import lodic.fs  # pylint: disable=C0415
        import lodic.safetensors  # pylint: disable=C0415
        import safetensors.numpy  # pylint: disable=C0415
        model = str(self.folder / "model")
        safetensors.numpy.save_file({"ones": numpy.ones((2, 3), numpy.float32)}, model)
        names = {"path": str(self.path), "model": model, "lodic": lodic, "os": os}
        for module, least in ((lodic, 7), (lodic._cache, 10), (lodic.safetensors, 4),
                              (lodic.fs, 3)):
            failed, tried = doctest.testmod(module, extraglobs=names)
            self.assertEqual(failed, 0, module)
            self.assertGreaterEqual(tried, least, module)

    def test_program_beside_the_package(self):
        says = run([sys.executable, "-m", "lodic", "stat", "--socket", self.socket])
        self.assertIn(b"service_pid", says.stdout, says.stderr)


if __name__ == "__main__":
    if numpy is None:
        print("python: no numpy here, because tools/wheels.sh has not installed it")
        sys.exit(77)
    print(f"seed {SEED}")
    main()
