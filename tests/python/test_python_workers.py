#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Workers that load the same weights: the right ones, in one memory, also when one is killed.

    LODIC_BUILD=FOLDER test_python_workers.py [CASE...]

The file has 256 MiB, and 32 MiB where the build has a sanitizer.
"""

import multiprocessing
import os
import pathlib
import queue
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import zlib
from multiprocessing import shared_memory

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from py_case import MIB, PYTHON, Case, lay_out, main, sanitized  # pylint: disable=C0413

lay_out()

try:
    import numpy
    import safetensors.numpy
except ImportError as _error:
    print(f"python workers: {_error}: tools/wheels.sh has not installed it")
    sys.exit(77)

import lodic.safetensors  # pylint: disable=C0413

SEED = int.from_bytes(os.urandom(4), "little")
WORKERS = 4
SIZE = (32 if sanitized() else 256) * MIB


def weights(size, seed=0):
    """Tensors of many types and shapes, of about size bytes."""
    places = numpy.random.default_rng(seed)
    tensors = {"none": numpy.empty((0, 3), numpy.int16), "scalar": numpy.float64(seed),
               "flags": places.integers(0, 2, 1001).astype(bool),
               "odd": places.integers(0, 255, 777, numpy.uint8),
               "complex": numpy.arange(10).astype(numpy.complex64)}
    for i, kind in enumerate((numpy.float32, numpy.float16, numpy.int64, numpy.uint8)):
        n = size // 4 // numpy.dtype(kind).itemsize // 64
        flat = places.integers(0, 255, n * 64 * numpy.dtype(kind).itemsize, numpy.uint8)
        tensors[f"layer.{i}"] = flat.view(kind).reshape(n // 2, 2, 64) if n % 2 == 0 else \
            flat.view(kind).reshape(n, 64)
    return {name: numpy.asarray(value) for name, value in tensors.items()}


def sums(tensors):
    """What tells two dicts of tensors apart."""
    return {name: (str(a.dtype), a.shape, zlib.crc32(a.tobytes() if a.nbytes < MIB else
                                                     memoryview(a).cast("B")))
            for name, a in tensors.items()}


def shared_bytes(pid):
    """The proportional share of this process in the memory of holds."""
    total = counted = 0
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as f:
        for line in f:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                counted = "memfd:lodic" in line and "hold" in line
            elif counted and line.startswith("Pss:"):
                total += int(line.split()[1]) << 10
    return total


def work(path, meet, said_by):
    """A worker: loads, says what it has, and waits until all have."""
    try:
        tensors = lodic.safetensors.load_file(path, fallback=False)
        said_by.put((os.getpid(), sums(tensors)))
        meet.wait(150)
        meet.wait(150)
    except Exception as error:  # pylint: disable=broad-except
        said_by.put((os.getpid(), repr(error)))


class Workers(Case):
    serve = () # nobody has to configure anything

    @classmethod
    def setUpClass(cls):
        cls.models = pathlib.Path(tempfile.mkdtemp(prefix="lodic-python-", dir=".")).resolve()
        cls.addClassCleanup(shutil.rmtree, cls.models, True)
        cls.model = cls.models / "model.safetensors"
        safetensors.numpy.save_file(weights(SIZE), cls.model, {"a": "b"})
        cls.expected = sums(safetensors.numpy.load_file(cls.model))

    def setUp(self):
        super().setUp()
        self.path = self.folder / "model.safetensors"
        self.path.hardlink_to(self.model)

    def together(self, way):
        """Four workers load the file, by fork or spawn or as threads: equal, and one memory."""
        context = threading if way == "threads" else multiprocessing.get_context(way)
        meet = context.Barrier(WORKERS + 1)
        said_by = queue.Queue() if way == "threads" else context.Queue()
        start = threading.Thread if way == "threads" else context.Process
        workers = [start(target=work, args=(self.path, meet, said_by)) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        said = [said_by.get(timeout=150) for _ in workers]
        for _, loaded in said:
            self.assertEqual(loaded, self.expected)
        meet.wait(150)
        pids = {pid for pid, _ in said} | set(self.stat("service_pid"))
        size = self.path.stat().st_size
        memory = sum(shared_bytes(pid) for pid in pids)
        self.assertGreater(memory, size * 0.9, "the tensors are not in holds")
        self.assertLess(memory, size * 1.1, "several processes have a memory of their own")
        self.assertEqual(self.stat("holds", "holds_read", "holds_failed"), [1, 1, 0])
        meet.wait(150)
        for worker in workers:
            worker.join()
        self.nothing_used()

    def test_workers_fork(self):
        self.together("fork")
        self.nothing_left()

    def test_workers_spawn(self):
        self.together("spawn")
        self.nothing_left()

    def test_workers_threads(self):
        self.together("threads")

    def test_written_tensor_is_ones_own(self):
        mine, other = (lodic.safetensors.load_file(self.path) for _ in range(2))
        for name, tensor in mine.items():
            if tensor.size:
                tensor.reshape(-1).view(numpy.uint8)[0] ^= 1
                self.assertNotEqual(sums({name: tensor})[name], self.expected[name])
        self.assertEqual(sums(other), self.expected)
        still = lodic.safetensors.load_file(self.path, writable=False)
        with self.assertRaisesRegex(ValueError, "read-only"):
            still["odd"][0] = 1

    def test_torch_equal(self):
        try:
            import torch  # pylint: disable=C0415
            import safetensors.torch  # pylint: disable=C0415
        except ImportError:
            self.skipTest("no torch here")
        path = self.folder / "torch"
        safetensors.torch.save_file({"a": torch.ones(3, 5, dtype=torch.bfloat16),
                                     "b": torch.arange(1 << 18)}, path)
        ours = lodic.safetensors.load_file(path, framework="torch")
        for name, theirs in safetensors.torch.load_file(path).items():
            self.assertTrue(torch.equal(ours[name], theirs), name)
        ours["b"][0] = 5

    def test_types_that_numpy_lacks(self):
        header = b'{"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
        path = self.folder / "bf16"
        path.write_bytes(struct.pack("<Q", len(header)) + header + b"1234")
        with self.assertRaisesRegex(TypeError, "'a' is of the type BF16"):
            lodic.safetensors.load_file(path)

    def test_damaged_files_refused(self):
        # What safetensors itself refuses is refused.
        def text(entry, data=b"12345678", n=None):
            header = entry if isinstance(entry, bytes) else b'{"a":{%s}}' % entry.encode()
            return struct.pack("<Q", len(header) if n is None else n) + header + data

        good = '"dtype":"BOOL","shape":[8],"data_offsets":[0,8]'
        path = self.folder / "damaged"
        for damage in (b"", b"123", text(good, n=1 << 40), text(good, n=90), text(b"{"),
                       text(b"[]"), text(b"\xff\xff"), text('"dtype":"BOOL"'),
                       text(good, b"1234567"), text(good, b"123456789"),
                       text(good.replace("[8]", "[9]")), text(good.replace("[0,8]", "[8,0]")),
                       text(good.replace("[0,8]", "[1,9]"), b"123456789"),
                       text(good.replace("[8]", "[-8]")), text(good.replace("[8]", "[8.0]")),
                       text(good.replace("[8]", '"8"')), text(good.replace("[0,8]", "0")),
                       text(good.replace("BOOL", "NONE")),
                       text(f'{good}}},"b":{{{good}'.encode().join((b'{"a":{', b"}}")))):
            path.write_bytes(damage)
            with self.assertRaises((ValueError, TypeError, OSError), msg=damage) as caught:
                lodic.safetensors.load_file(path, fallback=False)
            self.assertNotIn("Traceback", str(caught.exception))
            with self.assertRaises(Exception, msg=damage):
                safetensors.numpy.load_file(path)
        path.write_bytes(text(good))
        self.assertEqual(bytes(lodic.safetensors.load_file(path)["a"]), b"12345678")

    def test_file_replaced_while_loaded(self):
        old = lodic.safetensors.load_file(self.path)
        sum_old = sums(old)
        for seed, in_place in ((1, False), (2, True)): # the second is no link of the model
            new = self.folder / "new"
            safetensors.numpy.save_file(weights(MIB * 4, seed), new)
            if in_place:
                with open(self.path, "wb") as file:
                    file.write(new.read_bytes())
            else:
                new.replace(self.path)
            loaded = lodic.safetensors.load_file(self.path)
            self.assertEqual(sums(loaded), sums(weights(MIB * 4, seed)))
            self.assertEqual(sums(old), sum_old)
        del old, loaded
        self.nothing_used()

    def test_worker_killed_while_it_loads(self):
        program = """
import sys, lodic.safetensors
print("begins", flush=True)
while True:
    a = lodic.safetensors.load_file(sys.argv[1], fallback=False)
    assert a["odd"].shape == (777,)
"""
        places = random.Random(SEED)
        for i in range(6 if sanitized() else 12):
            if i % 3 == 0: # the service must read the file again
                os.utime(self.path)
                with open(self.path, "r+b"):
                    pass
            workers = [subprocess.Popen([PYTHON, "-c", program, str(self.path)],
                                        stdout=subprocess.PIPE) for _ in range(2)]
            for worker in workers:
                self.assertEqual(worker.stdout.readline(), b"begins\n")
                threading.Event().wait(places.random() * 0.1)
                worker.send_signal(signal.SIGKILL)
            for worker in workers:
                self.assertEqual(worker.wait(), -signal.SIGKILL)
                worker.stdout.close()
        self.nothing_left()
        self.assertEqual(sums(lodic.safetensors.load_file(self.path, fallback=False)),
                         self.expected)

    def test_killed_worker_leaks_elsewhere_not_here(self):
        # An object in shared memory that counts its users, beside a hold. Both have a worker
        # that is killed (Ray#64627).
        counted = shared_memory.SharedMemory(create=True, size=8)
        self.addCleanup(counted.unlink)
        self.addCleanup(counted.close)
        program = """
import sys, lodic
from multiprocessing import resource_tracker, shared_memory
resource_tracker.register = lambda *_: None # the owner unlinks it
object = shared_memory.SharedMemory(sys.argv[1])
object.buf[0] += 1                          # get: in use by this worker
hold = lodic.File(sys.argv[2]).hold()       # the same with lodic
print(object.buf[0], len(hold), flush=True)
sys.stdin.read()                            # until it is killed
"""
        worker = subprocess.Popen([PYTHON, "-c", program, counted.name, str(self.path)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(worker.stdout.readline().split()[0], b"1")
        self.assertNotEqual(self.stat("hold_used_bytes"), [0])
        worker.kill()
        worker.communicate()
        self.assertEqual(counted.buf[0], 1, "nobody has it, and its owner may never free it")
        self.nothing_left()


if __name__ == "__main__":
    print(f"seed {SEED}")
    main()
