#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The Debian packages: built from a copy of the tree, looked at, and used as they are unpacked.

`make deb-check` installs them by apt as well, and `make deb ARGS=--twice` compares two builds.

    test_deb.py SOURCE
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1]).resolve()
SECONDS = 600
SKIP = 77
PACKAGES = ["liblodic-dev", "liblodic0", "lodic", "python3-lodic"]
# What a user of each package looks for. TRIPLET is the machine's.
FILES = {
    "lodic": ["usr/bin/lodic", "usr/bin/lodic-check", "usr/bin/lodic-sim",
              "usr/lib/TRIPLET/lodic/liblodic-preload.so", "usr/libexec/lodic/lodic-bench",
              "./lib/systemd/system/lodic@.service",
              "usr/lib/systemd/user/lodic.socket", "usr/share/man/man1/lodic-run.1.gz",
              "usr/share/man/man5/lodic.conf.5.gz", "usr/share/doc/lodic/doc/hazards.md",
              "usr/share/bash-completion/completions/lodic",
              "usr/share/zsh/vendor-completions/_lodic", "usr/share/lodic/sim/topologies/8x15"],
    "liblodic0": ["usr/lib/TRIPLET/liblodic.so.0"],
    "liblodic-dev": ["usr/include/lodic/lodic.h", "usr/include/lodic/counter.hpp",
                     "usr/lib/TRIPLET/liblodic.so", "usr/lib/TRIPLET/liblodic.a",
                     "usr/lib/TRIPLET/pkgconfig/lodic.pc", "usr/share/man/man3/lodic_pinv.3.gz",
                     "usr/share/doc/liblodic-dev/examples/example.c"],
    "python3-lodic": ["usr/lib/python3/dist-packages/lodic/__init__.py",
                      "usr/lib/python3/dist-packages/lodic/_lodic.abi3.so"],
}


def run(*command, **more):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False, timeout=SECONDS, **more)


def field(package, name):
    return run("dpkg-deb", "-f", package, name).stdout.strip()


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-deb-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        done = run("/usr/bin/python3", SOURCE / "packaging" / "deb.py", "--output",
                   cls.folder / "deb", "--quick")
        if done.returncode:
            raise AssertionError(done.stderr)
        cls.said = done.stderr
        found = sorted((cls.folder / "deb").glob("*.deb"))
        cls.packages = {field(path, "Package"): path for path in found}
        cls.root = cls.folder / "root"
        for path in found:
            run("dpkg-deb", "-x", path, cls.root)
        cls.triplet = run("dpkg-architecture", "-qDEB_HOST_MULTIARCH").stdout.strip()
        cls.lib = cls.root / "usr" / "lib" / cls.triplet

    def test_build_tells_how_far_it_is(self):
        self.assertRegex(self.said, r"(?m)^deb: \d+ of \d+ build steps, \d+ s$")

    def test_files_are_where_users_look(self):
        self.assertEqual(sorted(self.packages), PACKAGES)
        for package, names in FILES.items():
            own = self.folder / package
            run("dpkg-deb", "-x", self.packages[package], own)
            for name in names:
                path = own / name.replace("TRIPLET", self.triplet)
                self.assertTrue(os.path.lexists(path), f"{package} has no {name}")

    def test_dependencies_come_from_the_programs(self):
        self.assertRegex(field(self.packages["lodic"], "Depends"), r"libc6 .*liburing2 ")
        self.assertRegex(field(self.packages["liblodic0"], "Depends"), r"^libc6 \(>= [\d.]+\)$")
        version = field(self.packages["lodic"], "Version")
        self.assertEqual(field(self.packages["liblodic-dev"], "Depends"),
                         f"liblodic0 (= {version})")

    def test_symbols_are_all_that_the_library_exports(self):
        exported = {line.split()[-1].split("@")[0] for line in
                    run("nm", "-D", "--defined-only", self.lib / "liblodic.so.0")
                    .stdout.splitlines()}
        control = run("dpkg-deb", "-I", self.packages["liblodic0"], "symbols").stdout
        self.assertTrue(control.startswith("liblodic.so.0 liblodic0 #MINVER#\n"), control)
        self.assertEqual(set(re.findall(r"(?m)^ (\S+)@", control)), exported)
        kept = (SOURCE / "packaging" / "debian" / "liblodic0.symbols").read_text(encoding="ascii")
        self.assertEqual(set(re.findall(r"(?m)^ (\S+)@", kept)), exported)

    def test_shim_asks_nobody_for_thread_local_words(self):
        """A release's shim has objects of the library's, which were not compiled for it."""
        shim = self.lib / "lodic" / "liblodic-preload.so"
        self.assertNotIn("__tls_get_addr", run("nm", "-D", "--undefined-only", shim).stdout)

    def test_nothing_is_enabled_or_started(self):
        for package, path in self.packages.items():
            if package == "python3-lodic":  # Debian's tool compiles its modules
                continue
            names = run("dpkg-deb", "-I", path).stdout
            self.assertNotRegex(names, r"postinst|preinst|prerm|postrm", path.name)

    def test_nothing_names_the_folder_of_the_build(self):
        for path in self.root.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            for place in SOURCE, self.folder:
                self.assertNotIn(os.fsencode(place), content, path)

    def test_program_says_its_commit(self):
        said = run(self.root / "usr" / "bin" / "lodic", "--version").stdout
        version = field(self.packages["lodic"], "Version")
        number, commit = re.fullmatch(r"lodic (\S+) \((\S+)\)\n", said).groups()
        self.assertTrue(version.startswith(f"{number}+git"), (version, said))
        self.assertTrue(version.endswith("." + commit.replace("-", ".")), (version, said))

    def test_program_compiled_by_pkg_config_reads_in_place(self):
        (self.folder / "data").write_bytes(b"\1" * 10000)
        example = self.root / "usr/share/doc/liblodic-dev/examples/example.c"
        flags = run("pkg-config", "--cflags", "--libs", "lodic", env={
            **os.environ, "PKG_CONFIG_LIBDIR": str(self.lib / "pkgconfig"),
            "PKG_CONFIG_SYSROOT_DIR": str(self.root)}).stdout.split()
        done = run("cc", "-o", self.folder / "sum", example, *flags)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        socket = self.folder / "sock"
        done = run(self.folder / "sum", self.folder / "data", socket,
                   env={**os.environ, "LD_LIBRARY_PATH": str(self.lib)})
        stat = run(self.root / "usr/bin/lodic", "stat", "--json", "--socket", socket).stdout
        pid = re.search(r'"service_pid": *(\d+)', stat)[1]
        program = os.readlink(f"/proc/{pid}/exe")
        os.kill(int(pid), 15)
        self.assertEqual((done.stdout, done.stderr),
                         ("sum 10000; 3 blocks in place, 0 copied\n", ""))
        self.assertEqual(program, str(self.root / "usr" / "bin" / "lodic"))

    def test_python_reads_through_the_service_of_the_package(self):
        (self.folder / "bytes").write_bytes(b"\2" * 5000)
        modules = self.root / "usr" / "lib" / "python3" / "dist-packages"
        socket = self.folder / "python-sock"
        program = ("import lodic, sys\n"
                   "with lodic.Cache(socket=sys.argv[1], idle_exit=1) as cache:\n"
                   "    with cache.open(sys.argv[2]) as f, f.hold() as hold:\n"
                   "        print(lodic.__file__, sum(memoryview(hold)))\n")
        done = run("/usr/bin/python3", "-c", program, socket, self.folder / "bytes", env={
            "PYTHONPATH": str(modules), "PATH": f"{self.root}/usr/bin:/usr/bin:/bin"})
        self.assertEqual((done.stdout, done.stderr), (f"{modules}/lodic/__init__.py 10000\n", ""))
        info = list(modules.glob("lodic-*.dist-info"))
        self.assertIn("lodic.fs:LodicFileSystem",
                      (info[0] / "entry_points.txt").read_text(encoding="ascii"))

    def test_lintian_finds_nothing(self):
        if not shutil.which("lintian"):
            self.skipTest("there is no lintian")
        root = ["--allow-root"] if os.geteuid() == 0 else []
        done = run("lintian", *root, "--fail-on", "error,warning", *self.packages.values())
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)


if __name__ == "__main__":
    for needed, of in (("dpkg-buildpackage", "dpkg-dev"), ("dh", "debhelper"),
                       ("dh_python3", "dh-python"), ("py3versions", "python3-dev")):
        if not shutil.which(needed):
            print(f"skipped: there is no {needed} (package {of})")
            sys.exit(SKIP)
    unittest.main(argv=sys.argv[:1], verbosity=0)
