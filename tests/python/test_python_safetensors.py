#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""safe_open(), load(), sharded models and lodic.auto, beside safetensors and numpy themselves.

    LODIC_BUILD=FOLDER test_python_safetensors.py [CASE...]
"""

import json
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import sysconfig
import warnings

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from py_case import MIB, PYTHON, Case, lay_out, main, run  # pylint: disable=C0413

lay_out()

try:
    import numpy
    import safetensors.numpy
except ImportError as _error:
    print(f"python safetensors: {_error}: tools/wheels.sh has not installed it")
    sys.exit(77)

import lodic.safetensors  # pylint: disable=C0413
from lodic.safetensors import load_file, safe_open  # pylint: disable=C0413

SEED = int.from_bytes(os.urandom(4), "little")
WITHOUT = "import sys; sys.modules['safetensors'] = None\n" # as where it is not installed


def equal(mine, theirs):
    """Are two arrays, or dicts of arrays, the same to a program?"""
    if isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(equal(mine[k], theirs[k]) for k in theirs)
    return (type(mine), mine.dtype, mine.shape, mine.tobytes()) == \
        (type(theirs), theirs.dtype, theirs.shape, theirs.tobytes()) and \
        mine.flags.writeable == theirs.flags.writeable


def outcome(function, *words):
    """What a call gives: its array, or the type of its exception."""
    try:
        return function(*words)
    except BaseException as error:  # pylint: disable=broad-except
        return type(error)


class Files(Case):
    """A model of 6 MiB, so that its memory is shared, and the same in two files and an index."""

    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        places = numpy.random.default_rng(SEED)
        self.tensors = {
            "large": places.standard_normal((700, 1000), numpy.float32),
            "cube": places.integers(-9, 9, (30, 40, 500), numpy.int32),
            "small": places.integers(0, 255, 777, numpy.uint8),
            "none": numpy.empty((0, 3), numpy.int16), "scalar": numpy.asarray(2.5),
            "flags": places.integers(0, 2, (5, 1)).astype(bool)}
        self.path = self.folder / "model.safetensors"
        safetensors.numpy.save_file(self.tensors, self.path, {"format": "np"})
        shards = {"model-1.safetensors": ("large", "none"),
                  "model-2.safetensors": ("cube", "small", "scalar", "flags")}
        for file, names in shards.items():
            safetensors.numpy.save_file({name: self.tensors[name] for name in names},
                                        self.folder / file, {"format": "np"})
        self.index = self.folder / "model.safetensors.index.json"
        self.map = {name: file for file, names in shards.items() for name in names}
        self.write_index(self.map)

    def write_index(self, files):
        self.index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": files}))

    def counted(self):
        """What programs were given: a load takes a hold, and a private mapping of it."""
        return self.stat("holds_given", "holds")


class SafeOpen(Files):
    def test_all_as_the_original(self):
        for framework in ("np", "numpy"):
            with safe_open(self.path, framework, fallback=False) as mine, \
                    safetensors.safe_open(self.path, framework) as theirs:
                self.assertEqual(mine.keys(), theirs.keys())
                self.assertEqual(mine.offset_keys(), theirs.offset_keys())
                self.assertEqual(mine.metadata(), theirs.metadata())
                self.assertTrue(equal(mine.get_tensors(), theirs.get_tensors()))
                for name in theirs.keys():
                    part, whole = mine.get_slice(name), theirs.get_slice(name)
                    self.assertEqual((part.get_shape(), part.get_dtype()),
                                     (whole.get_shape(), whole.get_dtype()))
                    self.assertTrue(equal(mine.get_tensor(name), theirs.get_tensor(name)))
            for closed in (mine, theirs):
                with self.assertRaises(safetensors.SafetensorError):
                    closed.keys()

    def test_slices_as_the_original(self):
        def place(n):
            return self.random.choice((None, None, 0, 1, n // 2, n - 1, n, n + 1, -1, -n,
                                       self.random.randrange(n + 1)))

        def places(n): # a stop before the start is a panic of the original's language
            start, stop = place(n), place(n)
            return (start, None if stop is not None and 0 <= stop < (start or 0) else stop)

        def part(n):
            return self.random.choice((
                lambda: slice(*places(n)), lambda: slice(*places(n)),
                lambda: slice(*places(n), self.random.choice((1, 2, -1))),
                lambda: self.random.randrange(-n - 1, n + 2),
                lambda: self.random.randrange(-n, max(n, 1)),
                lambda: self.random.choice((..., None, True, 1.0, "a", [], [0], (), 1 << 40,
                                            numpy.int64(1)))))()

        mine, theirs = safe_open(self.path, "np"), safetensors.safe_open(self.path, "np")
        given = 0
        for _ in range(1500):
            name = self.random.choice(("large", "cube", "cube", "small", "none", "scalar", "flags"))
            shape = self.tensors[name].shape
            index = tuple(part(n) for n in shape[:self.random.randrange(len(shape) + 1)])
            if self.random.random() < 0.1:
                index += (part(3),)
            if len(index) == 1 and self.random.random() < 0.7:
                index = index[0]
            ours = outcome(mine.get_slice(name).__getitem__, index)
            right = outcome(theirs.get_slice(name).__getitem__, index)
            if isinstance(right, numpy.ndarray):
                given += 1
                self.assertTrue(equal(ours, right), (name, shape, index, ours, right))
            else:
                self.assertEqual(ours, right, (name, shape, index))
        self.assertGreater(given, 300)

    def test_open_reads_the_header_alone(self):
        before = self.counted()
        with safe_open(self.path, "np", fallback=False) as file:
            self.assertEqual(file.get_slice("cube").get_shape(), [30, 40, 500])
            self.assertEqual((file.metadata(), len(file.keys())), ({"format": "np"}, 6))
            self.assertEqual(self.counted(), before)
            tensor = file.get_tensor("cube")
            file.get_tensors()
            self.assertEqual(self.stat("holds_read", "holds"), [1, 1])
        self.assertTrue(equal(tensor, self.tensors["cube"]))
        del tensor, file
        self.nothing_used()

    def test_forked_child(self):
        with safe_open(self.path, "np", fallback=False) as file:
            large = file.get_tensor("large")
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    again = file.get_tensor("large") # another mapping, which only a child makes
                    large[:] = again[:] = 5
                    assert equal(file.get_tensor("cube"), self.tensors["cube"])
                    assert equal(load_file(self.path, fallback=False), self.tensors)
                    status = 0
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertTrue(equal(large, self.tensors["large"]))

    def test_torch_as_the_original(self):
        try:
            import torch  # pylint: disable=C0415
            import safetensors.torch  # pylint: disable=C0415,W0621
        except ImportError:
            self.skipTest("no torch here")
        plain = {"large": torch.randn(512, 1024), "none": torch.empty(0, 3),
                 "scalar": torch.tensor(2.5), "half": torch.randn(6, 8).to(torch.bfloat16)}
        for name in ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "uint16", "complex64",
                     "float4_e2m1fn_x2"):
            if hasattr(torch, name):
                places = torch.randint(0, 100, (4, 48), dtype=torch.uint8)
                plain[name] = places.view(getattr(torch, name))
        path = self.folder / "torch"
        safetensors.torch.save_file(plain, path)

        def bits(tensor):
            return (tensor.dtype, tensor.shape,
                    tensor.reshape(-1).view(torch.uint8).tolist() if tensor.numel() else [])

        with safe_open(path, "pt", fallback=False) as mine, \
                safetensors.safe_open(path, "pt") as theirs:
            self.assertEqual(mine.offset_keys(), theirs.offset_keys())
            for name in plain:
                self.assertEqual(bits(mine.get_tensor(name)), bits(theirs.get_tensor(name)), name)
            for index in (slice(None, None, 8), (..., -1), [1, 2], (slice(-3, None), 5)):
                self.assertEqual(bits(mine.get_slice("large")[index].contiguous()),
                                 bits(theirs.get_slice("large")[index].contiguous()))
        self.assertEqual(self.stat("holds_read"), [1])

    def test_slice_of_a_closed_file(self):
        with safe_open(self.path, "np") as file:
            part = file.get_slice("large")
        self.assertTrue(equal(part[3:5], self.tensors["large"][3:5].copy()))

    def test_each_tensor_is_ones_own(self):
        with safe_open(self.path, "np") as file:
            first, second = file.get_tensor("large"), file.get_tensor("large")
            rows, part = file.get_slice("large")[0:400], file.get_slice("large")[0:2, 0:2]
            first[:] = 7
            rows[:] = 8
            part[:] = 9
            self.assertTrue(equal(second, self.tensors["large"]))
            self.assertTrue(equal(file.get_tensor("large"), self.tensors["large"]))
        read_only = load_file(self.path, writable=False)
        self.assertFalse(any(array.flags.writeable for array in read_only.values() if array.size))

    def test_file_replaced_or_changed_after_open(self):
        other = self.folder / "other"
        changed = {name: numpy.asarray(numpy.flip(array).copy())
                   for name, array in self.tensors.items()}
        safetensors.numpy.save_file(changed, other, {"format": "np"})
        old = safe_open(self.path, "np")
        other.replace(self.path)
        self.assertTrue(equal(old.get_tensors(), self.tensors))
        with safe_open(self.path, "np") as file:
            with open(self.path, "r+b") as writer:
                writer.truncate(self.path.stat().st_size - 1)
            with self.assertRaisesRegex(ValueError, "has changed since it was opened"):
                file.get_tensor("large")

    def test_names_and_types_that_are_not_there(self):
        with safe_open(self.path, "np") as file:
            for ask in (file.get_tensor, file.get_slice):
                with self.assertRaisesRegex(safetensors.SafetensorError, "does not contain"):
                    ask("nothing")
        for words in (("jax",), ("np", "cuda")):
            with self.assertRaises(ValueError):
                safe_open(self.path, *words)
        with self.assertRaises(FileNotFoundError):
            safe_open(self.folder / "nothing", "np")
        path = self.folder / "types"
        for kind, n in (("F6_E2M3", 3), ("F4", 2), ("F8_E4M3", 4), ("BF16", 8), ("F8_E8M0", 4)):
            header = b'{"a":{"dtype":"%s","shape":[4],"data_offsets":[0,%d]}}' % (kind.encode(), n)
            path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(n))
            with safe_open(path, "np") as file:
                self.assertEqual(file.get_slice("a").get_dtype(), kind)
                with self.assertRaisesRegex(TypeError, f"'a' is of the type {kind}"):
                    file.get_tensor("a")

    def test_load_bytes(self):
        data = self.path.read_bytes()
        loaded = lodic.safetensors.load(data)
        self.assertTrue(equal(loaded, safetensors.numpy.load(data)))
        with self.assertRaises(safetensors.SafetensorError):
            lodic.safetensors.load(data[:-1])
        says = self.python(WITHOUT + """
import sys, lodic.safetensors as s
data = open(sys.argv[1], "rb").read()
a = s.load(data)
a["small"][0] ^= 255
print(sorted(a), a["large"].tobytes() in data)
try:
    s.load(data[:-1])
except s.FormatError as error:
    print(type(error).__mro__[1].__module__)
""", self.path)
        self.assertEqual(says.split("\n")[:2],
                         [f"{sorted(self.tensors)} True", "lodic._header"])

    def test_sharded_model(self):
        self.assertTrue(equal(load_file(self.index, fallback=False), self.tensors))
        with safe_open(self.index, "np") as file:
            self.assertEqual(file.keys(), sorted(self.tensors))
            self.assertEqual(sorted(file.offset_keys()), sorted(self.tensors))
            self.assertEqual(file.metadata(), {"format": "np"})
            self.assertTrue(equal(file.get_slice("cube")[3], self.tensors["cube"][3]))
        for elsewhere in ("../model.safetensors", str(self.path), "..", ".", "", 5, "a\0b"):
            self.write_index({**self.map, "large": elsewhere})
            with self.assertRaisesRegex(ValueError, "index.json: the weight_map names a file"):
                load_file(self.index)
        self.write_index({**self.map, "large": "model-2.safetensors"})
        with self.assertRaisesRegex(ValueError, "model-2.safetensors: there is no tensor 'large'"):
            load_file(self.index)
        self.write_index({**self.map, "large": "model-3.safetensors"})
        with self.assertRaises(FileNotFoundError):
            load_file(self.index)
        for text in ("", "[]", "{}", '{"weight_map": []}', "[" * 100000):
            self.index.write_text(text)
            with self.assertRaisesRegex(ValueError, "no weight_map"):
                load_file(self.index)


class WithoutCache(Files):
    """There is no service, and none can start."""

    def setUp(self):
        super().setUp()
        self.nowhere = self.place + "/nothing/socket"
        self.addCleanup(os.environ.__setitem__, "LODIC_SOCKET", self.socket)
        os.environ["LODIC_SOCKET"] = self.nowhere

    def test_original_loads_it(self):
        with self.assertWarnsRegex(lodic.NotShared, "model.safetensors: not shared: ") as caught:
            loaded = load_file(self.path)
        self.assertEqual(caught.filename, __file__)
        self.assertTrue(equal(loaded, safetensors.numpy.load_file(self.path)))
        with self.assertRaises(OSError):
            load_file(self.path, fallback=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertTrue(equal(load_file(self.index), self.tensors))
            with safe_open(self.path, "np", writable=False) as file:
                self.assertFalse(file.get_tensor("large").flags.writeable)
                self.assertTrue(equal(file.get_slice("cube")[:, 3:5].copy(),
                                      self.tensors["cube"][:, 3:5].copy()))

    def test_mapped_without_the_package(self):
        # Nothing is copied: the bytes of the tensors are those of the kernel's pages.
        says = self.python(WITHOUT + """
import sys, warnings, lodic.safetensors as s
warnings.simplefilter("ignore")
def anonymous():
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("RssAnon"))
s.load_file(sys.argv[1])
before = anonymous()
with s.safe_open(sys.argv[1], "np") as f:
    a, b = f.get_tensors(), f.get_tensor("large")
    print(sum(int(x.sum()) for x in (a["cube"], a["small"])), anonymous() - before < 1000)
    a["large"][:] = 3
    print((b == 3).any(), f.get_slice("cube")[2:3, 5].shape)
    try:
        f.get_slice("cube")[:, -3:]
    except IndexError:
        print("refused")
""", self.path)
        whole = sum(int(self.tensors[name].sum()) for name in ("cube", "small"))
        self.assertEqual(says.split("\n")[:-1], [f"{whole} True", "False (1, 500)", "refused"])


WORKER = """
import hashlib, multiprocessing, sys

def work(paths, meet, said_by):
    import numpy, safetensors.numpy, warnings
    warnings.simplefilter("error")
    with safetensors.safe_open(paths[0], framework="np") as file:
        part = file.get_slice("large")[100:600]
    arrays = safetensors.numpy.load_file(paths[0])
    array = numpy.load(paths[1])
    said_by.put(hashlib.sha256(b"".join(a.tobytes() for a in (
        *(arrays[name] for name in sorted(arrays)), array, part))).hexdigest())
    meet.wait(100)
    meet.wait(100)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    meet, said_by = context.Barrier(5), context.Queue()
    workers = [context.Process(target=work, args=(sys.argv[1:], meet, said_by)) for _ in range(4)]
    for worker in workers:
        worker.start()
    print({said_by.get(timeout=100) for _ in workers}, flush=True)
    meet.wait(100)
    print(*(worker.pid for worker in workers), flush=True)
    sys.stdin.read()
    meet.wait(100)
    for worker in workers:
        worker.join()
"""


def memory_of(pid):
    """(bytes of holds, bytes of its own) of a process, each in proportion to its sharers."""
    held = own = here = 0
    with open(f"/proc/{pid}/smaps", encoding="ascii", errors="replace") as file:
        for line in file:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                here = "memfd:lodic" in line and "hold" in line
            elif line.startswith("Pss:") and here:
                held += int(line.split()[1]) << 10
            elif line.startswith("Anonymous:"):
                own += int(line.split()[1]) << 10
    return held, own


class Auto(Files):
    """Programs that do not name lodic, with LODIC_AUTO and without it."""

    def setUp(self):
        super().setUp()
        self.array = self.folder / "array.npy"
        numpy.save(self.array, numpy.asfortranarray(self.tensors["cube"].astype(numpy.int64)))
        # Where a wheel is installed, Python reads the files *.pth. Here that is a user's folder.
        site = pathlib.Path(sysconfig.get_path("purelib", f"{os.name}_user",
                                               {"userbase": str(self.folder / "user")}))
        site.parent.mkdir(parents=True)
        site.symlink_to(os.environ["LODIC_PACKAGE"])
        self.environment = {**os.environ, "PYTHONUSERBASE": str(self.folder / "user"),
                            "LODIC_AUTO": "1"}
        self.environment["PYTHONPATH"] = os.environ["PYTHONPATH"].split(":", 1)[1]

    def workers(self, **environment):
        """(what the four say, bytes in holds, bytes of their own)."""
        script = self.folder / "worker.py"
        script.write_text(WORKER)
        program = subprocess.Popen([PYTHON, str(script), str(self.path), str(self.array)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**self.environment, **environment})
        said, pids = program.stdout.readline(), program.stdout.readline().split()
        self.assertEqual(len(pids), 4)
        memory = [memory_of(int(pid)) for pid in pids]
        program.communicate(timeout=100)
        self.assertEqual(program.returncode, 0)
        return said, *(sum(numbers) for numbers in zip(*memory))

    def test_workers_share_with_no_line_changed(self):
        said, none, own = self.workers(LODIC_AUTO="0")
        self.assertEqual((none, self.counted()[0]), (0, 0))
        shared_said, held, left = self.workers()
        self.assertEqual(shared_said, said)
        files = self.path.stat().st_size + self.array.stat().st_size
        self.assertLess(held, files * 1.1)
        self.assertGreater(held, files * 0.8)
        self.assertEqual(self.stat("holds_read", "holds_failed"), [2, 0])
        # Each worker had both files as its own before.
        self.assertGreater(own - left, files * 4 * 0.8)
        self.nothing_used()

    def say(self, program, *words, **environment):
        done = run([PYTHON, "-W", "always", "-c", program, *words],
                   env={**self.environment, **environment})
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode(), done.stderr.decode()

    def test_import_does_the_same(self):
        for order in ("import lodic.auto, numpy, safetensors.numpy",
                      "import numpy, safetensors.numpy, lodic.auto"):
            given = self.counted()[0]
            says, _ = self.say(f"""
{order}
import sys
a, b = safetensors.numpy.load_file(sys.argv[1]), numpy.load(sys.argv[2])
a["large"][0] = b[0] = 1
print(isinstance(safetensors.safe_open(sys.argv[1], "np"), safetensors.safe_open))
""", self.path, self.array, LODIC_AUTO="", PYTHONPATH=os.environ["PYTHONPATH"])
            self.assertEqual((says, self.counted()[0]), ("True\n", given + 4))

    def test_steps_aside_once_where_the_kernel_shares(self):
        _, warned = self.say("import numpy, sys\nfor mode in 'rrc':\n"
                             "    numpy.load(sys.argv[1], mmap_mode=mode)", self.array)
        self.assertEqual(warned.count("StepsAside"), 1, warned)
        self.assertEqual(self.counted()[0], 0)

    def test_all_else_as_the_original(self):
        damaged, objects, zipped = (self.folder / name for name in ("damaged", "o.npy", "z.npz"))
        damaged.write_bytes(self.path.read_bytes()[:-1])
        numpy.save(objects, numpy.array([{"a": "b" * 2 * MIB}]), allow_pickle=True)
        numpy.savez(zipped, a=self.tensors["large"])
        (self.folder / "short.npy").write_bytes(self.array.read_bytes()[:-1])
        program = """
import io, sys, numpy, safetensors, safetensors.numpy
def say(function, *words, **more):
    try:
        print(type(function(*words, **more)).__name__)
    except Exception as error:
        print(type(error).__name__, error)
folder = sys.argv[1]
for name in ("damaged", "nothing", "array.npy", "z.npz"):
    say(safetensors.numpy.load_file, folder + "/" + name)
    say(safetensors.safe_open, folder + "/" + name, "np")
    say(safetensors.safe_open, folder + "/" + name, framework="np", device="cuda")
say(safetensors.safe_open, folder + "/model.safetensors", "none")
say(safetensors.safe_open)
for name in ("damaged", "nothing", "o.npy", "z.npz", "short.npy"):
    say(numpy.load, folder + "/" + name)
say(numpy.load, folder + "/o.npy", allow_pickle=True)
say(numpy.load, 5)
say(numpy.load, io.BytesIO(open(folder + "/array.npy", "rb").read()))
say(numpy.load, folder + "/array.npy", None, False, True, "ASCII")
"""
        plain, _ = self.say(program, self.folder, LODIC_AUTO="0")
        auto, warned = self.say(program, self.folder)
        self.assertEqual(auto, plain)
        self.assertNotIn("NotShared", warned)
        self.assertEqual(self.counted()[0], 0)

    def test_no_cache_programs_run(self):
        says, warned = self.say("""
import numpy, safetensors.numpy, sys
print(safetensors.numpy.load_file(sys.argv[1])["cube"].shape, numpy.load(sys.argv[2]).shape)
""", self.path, self.array, LODIC_SOCKET=self.place + "/nothing/socket")
        self.assertEqual(says, "(30, 40, 500) (30, 40, 500)\n")
        self.assertEqual(warned.count("NotShared"), 2, warned)

    def test_package_broken_programs_run(self):
        broken = self.folder / "broken"
        broken.mkdir()
        (broken / "lodic.py").write_text("raise ImportError('no extension')")
        says, warned = self.say("import numpy; print(numpy.ones(3).sum())",
                                PYTHONPATH=f"{broken}:{self.environment['PYTHONPATH']}")
        self.assertEqual(says, "3.0\n")
        self.assertEqual(warned, "lodic.auto: numpy stays as it is: no extension\n")

    def test_other_modules_of_these_names_stay(self):
        """A folder in the program's own, beside the real numpy, and what asks for its loader."""
        other = self.folder / "other"
        (other / "safetensors").mkdir(parents=True)
        (other / "safetensors" / "__init__.py").write_text("x = 1\n")
        says, warned = self.say("""
import importlib.util
print(importlib.util.find_spec("safetensors").loader.get_filename("safetensors"))
import numpy, safetensors
print(safetensors.x, hasattr(numpy.load, "lodic_original"))
""", PYTHONPATH=f"{other}:{self.environment['PYTHONPATH']}")
        self.assertEqual(says, f"{other}/safetensors/__init__.py\n1 True\n")
        self.assertRegex(warned, r"\Alodic.auto: safetensors stays as it is: .*safe_open.*\n\Z")

    def test_array_replaced_while_it_is_loaded(self):
        """The header and the bytes are of the same file: the one that was opened."""
        array = self.folder / "replaced.npy"
        numpy.save(array, numpy.arange(1 << 20, dtype=numpy.int64))
        numpy.save(self.folder / "new.npy", numpy.ones((1 << 9, 1 << 11), numpy.float64))
        says, _ = self.say("""
import os, sys, lodic._shared, numpy
array, new = sys.argv[1:]
opens = lodic._shared.Shared.__init__
def replaces(self, *words, **more):
    os.rename(new, array)
    opens(self, *words, **more)
lodic._shared.Shared.__init__ = replaces
loaded = numpy.load(array)
print(loaded.dtype, loaded.shape, loaded.sum())
""", array, self.folder / "new.npy")
        self.assertEqual(says, "float64 (512, 2048) 1048576.0\n")

    def test_off_costs_no_import(self):
        for off in ({"LODIC_AUTO": "0"}, {"LODIC_AUTO": ""}):
            says, _ = self.say(
                "import sys; print([n for n in sys.modules if n.startswith('lodic')], "
                "[f for f in sys.meta_path if 'lodic' in type(f).__module__])", **off)
            self.assertEqual(says, "[] []\n")
        says, _ = self.say("import sys; print('lodic' in sys.modules)")
        self.assertEqual(says, "False\n") # neither numpy nor safetensors has come


if __name__ == "__main__":
    print(f"seed {SEED}")
    main()
