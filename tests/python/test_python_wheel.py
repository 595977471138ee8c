#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The wheel: made twice it is the same, and an ordinary user installs and uses it.

    LODIC_BUILD=FOLDER test_python_wheel.py
"""

import os
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from py_case import BUILD, EXTENSION, PYTHON, SOURCE, run, skip  # pylint: disable=C0413

NOBODY = 65534
# What glibc 2.28 has in other libraries or under other names, and what host/posix/ does without.
OLDER = re.compile(r"_*pthread_\w+|sem_\w+|dl\w+|[fl]?stat(at)?(64)?|pow|exp|log|__libc_start_main|"
                   r"__isoc23_\w+|__rseq_\w+|strerrordesc_np|strerrorname_np|gettid")
PROGRAM = """
import os, subprocess, sys, tempfile, lodic
folder = tempfile.mkdtemp(dir=sys.argv[1])
path = folder + "/data"
with open(path, "wb") as file:
    file.write(bytes(range(256)) * 8192)
cache = lodic.Cache(folder + "/s", memory=16 << 20, holds=5 << 20,
                    idle_exit=0.2)
assert cache.stat()["hold_limit"] == 5 << 20
service = os.readlink(f"/proc/{cache.stat()['service_pid']}/exe")
hold = cache.open(path).hold()
assert bytes(hold) == bytes(range(256)) * 8192
assert cache.stat()["holds"] == 1
ran = subprocess.run([service, "run", "--socket", folder + "/s", "--", "echo", "ran"],
                     stdout=subprocess.PIPE, check=True)
assert ran.stdout == b"ran\\n"
print(os.path.dirname(lodic.__file__), service)
"""


class Wheel(unittest.TestCase):
    """A folder, as the wheel's user."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-wheel-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.user = {}
        if os.getuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
            self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def ask(self, *words, **more):
        done = run(words, cwd=self.folder, **self.user, **more)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode().strip()

    def make(self, name, *words):
        output = self.folder / name
        done = run([PYTHON, SOURCE / "tools" / "wheel.py", "--build", BUILD, "--output", output,
                    *words])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        path = pathlib.Path(done.stdout.decode().strip())
        output.chmod(0o755)
        return path

    def test_wheel_installs_and_works(self):
        wheel = self.make("a")
        self.assertEqual(wheel.read_bytes(), self.make("b").read_bytes())
        place = self.folder / "site"
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        # In a copy, so that nothing leads to the build.
        self.ask(PYTHON, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target",
                 place, wheel, env=environment)
        environment["PYTHONPATH"] = str(place)
        package, service = self.ask(PYTHON, "-c", PROGRAM, self.folder, env=environment).split()
        self.assertEqual((package, service), (f"{place}/lodic", f"{place}/lodic/lodic"))
        version = self.ask(PYTHON, "-c", "import lodic; print(lodic.__version__)", env=environment)
        for words in ([place / "bin" / "lodic"], [PYTHON, "-m", "lodic"]):
            self.assertIn(version, self.ask(*words, "--version", env=environment))
        # What numpy.load() becomes with LODIC_AUTO, where the place is one of Python's own.
        asks = ["-c", "import site, sys; site.addsitedir(sys.argv[1]); "
                "print([type(f).__module__ for f in sys.meta_path])", place]
        self.assertNotIn("_lodic_auto", self.ask(PYTHON, *asks, env=environment))
        self.assertNotIn("_lodic_auto", self.ask(PYTHON, "-E", *asks, env=environment |
                                                 {"LODIC_AUTO": "1"}))
        self.assertIn("_lodic_auto", self.ask(PYTHON, *asks, env=environment |
                                              {"LODIC_AUTO": "1"}))
        # What fsspec looks for.
        self.assertIn("lodic.fs:LodicFileSystem", self.ask(
            PYTHON, "-c", "from importlib.metadata import entry_points; "
            "print(entry_points(group='fsspec.specs'))", env=environment))

    def test_make_compiles_what_the_wheel_needs(self):
        def make(goal):
            return run(["make", "-n", "-C", SOURCE, f"BUILD={BUILD}", goal],
                       env=dict(os.environ, LODIC_DEPS="skip")).stdout.decode().splitlines()

        wheel, build = make("wheel"), make("build")
        # With other options each goal would compile anew what the other one has made.
        self.assertEqual([line for line in wheel if "setup.sh" in line],
                         [line for line in build if "setup.sh" in line])
        target, = [line.split()[-1] for line in wheel if line.startswith("ninja -C")]
        inputs = run(["ninja", "-C", BUILD, "-t", "inputs", target]).stdout.decode().splitlines()
        sources = {line.split("/")[0] for line in (os.path.relpath(BUILD / i, SOURCE)
                                                   for i in inputs if i.endswith(".c")
                                                   and not i.startswith("tools/units/"))}
        self.assertEqual(sources, {"cli", "core", "host", "lib", "preload", "python"})

    def test_wheel_for_other_systems_says_so(self):
        notice = self.folder / "notice"
        notice.write_text("a licence\n")
        wheel = self.make("a", "--platform", "manylinux_2_28_x86_64", "--notice", f"some={notice}")
        self.assertTrue(wheel.name.endswith("-cp311-abi3-manylinux_2_28_x86_64.whl"), wheel.name)
        shutil.unpack_archive(wheel, self.folder / "open", "zip")
        info, = (self.folder / "open").glob("*.dist-info")
        self.assertIn("\nTag: cp311-abi3-manylinux_2_28_x86_64\n", (info / "WHEEL").read_text())
        self.assertEqual((info / "licenses" / "some.txt").read_text(), "a licence\n")

    def test_calls_nothing_that_glibc_2_28_lacks(self):
        """Else `make wheel-manylinux` fails, which needs a network to find that out."""
        for path in (BUILD / "lodic", BUILD / "liblodic-preload.so", EXTENSION):
            names = run(["nm", "-D", "--undefined-only", path]).stdout.decode()
            newer = {name for name, minor in re.findall(r" U (\w+)@GLIBC_2\.(\d+)", names)
                     if int(minor) > 28 and not OLDER.fullmatch(name)}
            self.assertIn("@GLIBC_2.", names)
            self.assertEqual(newer, set(), f"{path}: host/posix/older.c can have them")

    def test_nothing_of_this_machine_in_it(self):
        wheel = self.make("a")
        for place in (str(SOURCE), str(BUILD)):
            self.assertNotIn(place.encode(), wheel.read_bytes())
        shutil.unpack_archive(wheel, self.folder / "open", "zip")
        found = [path.name for path in (self.folder / "open").rglob("*") if path.is_file()
                 for place in (SOURCE, BUILD) if str(place).encode() in path.read_bytes()]
        self.assertEqual(found, [])


if __name__ == "__main__":
    if not EXTENSION.exists():
        skip("no extension here: it needs Python.h (Debian: python3-dev)")
    if run([PYTHON, "-m", "pip", "--version"]).returncode:
        skip("no pip here (Debian: python3-pip)")
    unittest.main(verbosity=2)
