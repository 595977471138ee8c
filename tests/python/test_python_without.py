#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A program in Python without a cache: it reads its data, and a warning says why.

    LODIC_BUILD=FOLDER test_python_without.py [CASE...]
"""

import json
import os
import pathlib
import pickle
import shutil
import signal
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from py_case import PYTHON, lay_out, main, run, until  # pylint: disable=C0413

lay_out()

import lodic  # pylint: disable=C0413

try:
    import safetensors.numpy
    import numpy
except ImportError:
    numpy = None
try:
    import fsspec
except ImportError:
    fsspec = None

# It reads in all ways, and prints what it got and what it was told. A file that is not there still
# is one, and a program that wants a cache by name is told that there is none.
PROGRAM = """
import hashlib, io, json, sys, warnings
import lodic
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    data, model = sys.argv[1:3]
    got, told = [], {}
    for _ in range(int(sys.argv[3])):
        file = lodic.File(data)
        got += [file.read(), file.read(-1, 0), io.BufferedReader(lodic.File(data)).read()]
    if "fsspec" in sys.argv:
        import fsspec
        got += [fsspec.open("lodic://" + data).open().read(), fsspec.filesystem("lodic").cat(data)]
    told["reads"] = [str(one.message) for one in caught if one.category is lodic.NotShared]
    caught.clear()
    if "numpy" in sys.argv:
        import lodic.safetensors
        tensors = lodic.safetensors.load_file(model)
        told["sum"] = float(tensors["a"].sum())
        tensors["a"][0] = 7
        told["load_file"] = [str(one.message) for one in caught
                             if one.category is lodic.NotShared]
        try:
            lodic.safetensors.load_file(model, fallback=False)
        except OSError as error:
            told["refused"] = type(error).__name__, error.reason
told["got"] = [hashlib.sha1(one).hexdigest() for one in got]
told["cached"], told["why_not"], told["reason"] = file.cached, file.why_not, file.reason
for what in lodic.Cache, lodic.shared, file.hold, file.prefetch:
    try:
        what()
        told[what.__name__] = None
    except OSError as error:
        told[what.__name__] = type(error).__name__, error.reason, error.strerror
try:
    lodic.File(data + "-none")
except FileNotFoundError as error:
    told["none"] = error.filename
print(json.dumps(told))
"""


def removed(group):
    """Removes a control group. Its service goes on for a moment after its last program."""
    for pid in (group / "cgroup.procs").read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    try:
        group.rmdir()
    except OSError:
        return False
    return True


class Without(unittest.TestCase):
    """A data file and a model; a package without the program `lodic`."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-without-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.data = self.folder / "data"
        self.data.write_bytes(os.urandom(300_000))
        self.model = self.folder / "model"
        self.words = [self.data, self.model]
        self.package = self.folder / "site"
        shutil.copytree(os.environ["LODIC_PACKAGE"], self.package, symlinks=True)
        self.environment = dict(os.environ, LODIC_SOCKET=str(self.folder / "socket"),
                                PYTHONPATH=os.environ["PYTHONPATH"].replace(
                                    os.environ["LODIC_PACKAGE"], str(self.package)))
        self.options = []
        if numpy is not None:
            safetensors.numpy.save_file({"a": numpy.ones((100, 100))}, self.model)
            self.options.append("numpy")
        if fsspec is not None:
            self.options.append("fsspec")

    def use(self, *before, rounds=1, **variables):
        """Runs the program; it must have read right, whatever there is."""
        done = run([*before, PYTHON, "-c", PROGRAM, *self.words, rounds, *self.options],
                   env=dict(self.environment, **variables))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        told = json.loads(done.stdout)
        hashed, = set(told["got"])
        self.assertEqual(hashed, run(["sha1sum", self.data]).stdout.decode().split()[0])
        self.assertEqual(told["none"], f"{self.data}-none")
        if numpy is not None:
            self.assertEqual(told["sum"], 10000)
        return told, done.stderr.decode()

    def without(self, reason, says, *before, **more):
        """The same where there is no cache, for this reason."""
        told, _ = self.use(*before, **more)
        self.assertEqual((told["cached"], told["reason"]), (False, reason))
        self.assertRegex(told["why_not"], says)
        self.assertNotIn("; or ", told["why_not"])
        self.assertEqual(told["reads"], [f"{self.data}: read without the cache: {told['why_not']}"])
        for what in "Cache", "shared", "hold", "prefetch":
            self.assertEqual(told[what][:2], ["CacheError", reason], what)
            self.assertRegex(told[what][2], says)
        if numpy is not None:
            self.assertEqual(told["load_file"], [f"{self.model}: not shared: {told['why_not']}"])
            self.assertEqual(told["refused"], ["CacheError", reason])

    def no_program(self):
        """The package's own `lodic` is gone."""
        (self.package / "lodic" / "lodic").unlink()

    def test_no_folder_for_the_socket(self):
        self.without("no-folder", "folder", LODIC_SOCKET="/proc/none/x")

    def test_no_program(self):
        self.no_program()
        self.without("no-program", "`lodic`", PATH="/usr/bin:/bin")

    def test_no_library(self):
        """An empty file in the place of libjansson, or of liburing."""
        libraries = [line.split()[2] for line in
                     run(["ldd", self.package / "lodic" / "lodic"]).stdout.decode().splitlines()
                     if "libjansson" in line or "liburing" in line]
        if not libraries:
            self.skipTest("lodic has the libraries within it")
        empty = self.folder / "empty"
        empty.touch()
        unshare = ["unshare", "-m", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"',
                   "sh", empty]
        if run([*unshare, libraries[0], "true"]).returncode:
            self.skipTest("this user may not mount")
        for library in libraries:
            told, _ = self.use(*unshare, library)
            name = pathlib.Path(library).name.split(".")[0]
            self.assertEqual(told["Cache"][0], "CacheError")
            self.assertRegex(told["why_not"], name)
            self.assertEqual(len(told["reads"]), 1)

    def test_small_control_group(self):
        """With less memory than a cache has as a rule: it has its data, with a cache or without."""
        mount = next((mount for mount in (pathlib.Path("/sys/fs/cgroup/memory"),
                                          pathlib.Path("/sys/fs/cgroup"))
                      if (mount / "cgroup.procs").exists()), None)
        group = mount and mount / f"lodic-without-{os.getpid()}"
        try:
            group.mkdir()
            self.addCleanup(until, lambda: removed(group), "the group is gone")
            limit = next(group / name for name in ("memory.limit_in_bytes", "memory.max")
                         if (group / name).exists())
            limit.write_text(str(150 << 20))
        except (AttributeError, OSError, StopIteration) as error:
            self.skipTest(f"no control group here: {error}")
        told, _ = self.use("sh", "-c", 'echo 0 >"$1/cgroup.procs" && shift && exec "$@"', "sh",
                           group)
        self.assertLessEqual(len(told["reads"]), 1)
        self.assertEqual(told["cached"], not told["reads"])
        print(f"in 150 MiB: {told['why_not'] or 'with a cache'}", file=sys.stderr)

    def test_program_that_fails_is_tried_once(self):
        """Files do not start it anew each time: the fallback is as quick as a plain read."""
        self.no_program()
        (self.folder / "bin").mkdir()
        log, program = self.folder / "log", self.folder / "bin" / "lodic"
        program.write_text(f"#!/bin/sh\necho >>{log}\necho 'lodic: the moon is full' >&2\nexit 1\n")
        program.chmod(0o755)
        told, _ = self.use(rounds=60, PATH=f"{self.folder}/bin:/usr/bin:/bin")
        self.assertEqual(told["Cache"][0], "CacheError")
        self.assertEqual(len(told["reads"]), 1)
        # Once for all files; lodic.Cache and lodic.shared ask for it by name.
        self.assertEqual(log.read_text().count("\n"), 3)

    def test_script_does_not_start_itself(self):
        """`lodic` on PATH is the wheel's script, which looks for the program on PATH."""
        self.no_program()
        (self.folder / "bin").mkdir()
        script = self.folder / "bin" / "lodic"
        script.write_text(f"#!{PYTHON}\nfrom lodic.__main__ import main\nmain()\n")
        script.chmod(0o755)
        path = f"{self.folder}/bin:/usr/bin:/bin"
        done = run([script, "--version"], env=dict(self.environment, PATH=path), timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"has no program", done.stderr)
        told, _ = self.use(PATH=path)
        self.assertEqual(told["Cache"][0], "CacheError")

    def test_forked_child_without(self):
        """Its parent has a cache, and the child can get none."""
        done = run([PYTHON, "-c", """
import os, signal, sys, time, warnings
import lodic
warnings.simplefilter("ignore")
file = lodic.File(sys.argv[1])
assert file.cached or file.reason != "no-service", file.reason
os.kill(lodic.shared().stat()["service_pid"], signal.SIGKILL)
os.environ["LODIC_SOCKET"] = "/proc/none/x"
os.unlink(sys.argv[2])
if os.fork() == 0:
    assert file.read() == open(sys.argv[1], "rb").read()
    os._exit(0 if not file.cached and file.reason else 1)
sys.exit(os.wait()[1] != 0)
""", self.data, self.package / "lodic" / "lodic"],
                   env=dict(self.environment, PATH="/usr/bin:/bin"))
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def test_error_is_an_oserror_and_pickles(self):
        with self.assertRaises(lodic.CacheError) as caught:
            lodic.Cache("/proc/none/x")
        error = caught.exception
        self.assertIs(type(error), lodic.CacheError)
        self.assertIsInstance(error, OSError)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((again.errno, again.strerror, again.reason),
                         (error.errno, error.strerror, error.reason))


if __name__ == "__main__":
    main()
