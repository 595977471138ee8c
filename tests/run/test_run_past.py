#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic run` and what goes past libc's functions: rings, other loaders, other languages.

    test_run_past.py LODIC READER RING_LIBRARY GO_READER

READER is tests/run/run_reader.c, RING_LIBRARY is tests/run/run_ring.c, and GO_READER is READER with
the note of a program in Go.
"""

import json
import os
import pathlib
import shutil
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import PYTHON, WARM, Case, run  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
Case.reader = str(pathlib.Path(sys.argv[2]).resolve()) if len(sys.argv) > 2 else ""
RING_LIBRARY = str(pathlib.Path(sys.argv[3]).resolve()) if len(sys.argv) > 3 else ""
GO_READER = str(pathlib.Path(sys.argv[4]).resolve()) if len(sys.argv) > 4 else ""
SKIPPED = 77
PT_INTERP = 3
LIBRARY = "liblodic-preload.so"


class Ways(Case):
    """Each way of the reader, without the cache and with it."""

    def test_closed_inside_libc_not_served(self):
        self.way("closed_inside")

    def test_left_alone_inside_libc_served(self):
        self.way("left_inside")

    def test_login_tty_terminal_there(self):
        self.way("login_tty")

    def test_replaced_by_bare_calls_other_file(self):
        self.way("replaced_bare")

    def test_opened_by_bare_calls_other_file(self):
        self.way("opened_bare")

    def test_clone_by_its_other_name_not_served(self):
        self.way("clone_inner")

    def test_bad_pointers_are_errors(self):
        self.way("bad_pointers")

    def test_clone3_unreadable_is_an_error(self):
        self.way("clone3_unreadable")


class Rings(Case):
    """A library with liburing comes into the process, and closes and opens by a ring."""

    def ring(self, way, **variables):
        folder = self.folder / variables.get("RING_HOW", way)
        folder.mkdir()
        variables = [f"{name}={value}" for name, value in variables.items()]
        done = run(self.under(["env", f"RING_LIBRARY={RING_LIBRARY}", *variables, self.reader, way,
                               folder, "cached"]))
        if done.returncode == SKIPPED:
            self.skipTest(done.stdout.decode())
        self.assertEqual((done.returncode, done.stderr), (0, b""), variables)

    def ring_library(self):
        """Where the loader takes it: in a path without a space."""
        return shutil.copy(RING_LIBRARY, self.place)

    def test_library_loaded_later(self):
        for how in ("init", "params", "setup"):
            self.ring("ring", RING_HOW=how)

    def test_library_linked(self):
        preload = run(self.under(["sh", "-c", "echo $LD_PRELOAD"])).stdout.decode().strip()
        for how in ("init", "params", "setup"):
            self.ring("ring", RING_HOW=how, LD_PRELOAD=f"{preload}:{self.ring_library()}")

    def test_made_by_constructor(self):
        preload = run(self.under(["sh", "-c", "echo $LD_PRELOAD"])).stdout.decode().strip()
        self.ring("ring_early", RING_EARLY="1", LD_PRELOAD=f"{preload}:{self.ring_library()}")

    def test_child_inherits(self):
        self.ring("ring_inherited")


def loader_of(program):
    """Where in the program (a 64-bit ELF file) its loader's name stands, and the name."""
    parts, = struct.unpack_from("<Q", program, 32)
    size, nr = struct.unpack_from("<HH", program, 54)
    for i in range(nr):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", program, parts + i * size)
        if kind == PT_INTERP:
            return offset, program[offset:offset + length]
    raise AssertionError("it has no loader")


class Exec(Case):
    """The programs that a program runs."""

    def with_other_loader(self):
        """The reader, with a loader that is another file than the usual one."""
        program = bytearray(pathlib.Path(self.reader).read_bytes())
        offset, name = loader_of(program)
        short = str(self.place / "l").encode()
        self.assertLess(len(short), len(name))
        shutil.copy(name[:-1].decode(), self.place / "l")
        program[offset:offset + len(name)] = short.ljust(len(name), b"\0")
        path = self.place / "with_other_loader"  # "#!" takes no path with a space
        path.write_bytes(program)
        path.chmod(0o755)
        return path

    def exec(self, program, expected, way="exec", mode="cached"):
        folder = self.folder / f"{way}-{program.name}"
        folder.mkdir()
        places = f"/no/such:{program.parent}:/usr/bin:/bin:/no/such"
        return run(self.under(["env", f"PATH={places}", f"PROGRAM={program}",
                               f"EXPECTED={expected}", self.reader, way, folder, mode]),
                   env=dict(os.environ, LD_PRELOAD="libm.so.6"))

    def preloaded(self):
        return run(self.under(["sh", "-c", "echo $LD_PRELOAD"]),
                   env=dict(os.environ, LD_PRELOAD="libm.so.6")).stdout.decode().strip()

    def test_other_loader_gets_no_shim(self):
        done = self.exec(self.with_other_loader(), "libm.so.6")
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_script_of_other_loader_gets_no_shim(self):
        script = self.folder / "script"
        script.write_text(f"#! {self.with_other_loader()} preloaded\n")
        script.chmod(0o755)
        done = run(self.under(["sh", "-c", f"'{script}' plain; :"]),
                   env=dict(os.environ, LD_PRELOAD="libm.so.6"))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"libm.so.6", b""))

    def test_same_loader_keeps_the_shim(self):
        program = pathlib.Path(shutil.copy(self.reader, self.folder / "copy"))
        done = self.exec(program, self.preloaded())
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(LIBRARY, self.preloaded())

    def test_alone_in_ld_preload_variable_goes(self):
        done = run(self.under([self.with_other_loader(), "preloaded", self.folder, "plain"]))
        self.assertEqual((done.returncode, done.stdout), (0, b"none"))
        done = run(self.under(["sh", "-c",
                               f"{self.with_other_loader()} preloaded '{self.folder}' plain; :"]))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"none", b""))

    def test_locks_on_the_program_stay(self):
        done = self.exec(self.with_other_loader(), "", way="exec_locked")
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_confined_no_system_call(self):
        done = self.exec(self.with_other_loader(), "", way="exec_confined")
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_child_with_musl_lives(self):
        if not shutil.which("musl-gcc"):
            self.skipTest("there is no musl-gcc")
        source, program = self.folder / "musl.c", self.folder / "musl"
        source.write_text("int main(void) { return 7; }\n")
        self.assertEqual(run(["musl-gcc", source, "-o", program]).returncode, 0)
        done = run(self.under(["sh", "-c", f"'{program}'; echo $?"]))
        self.assertEqual((done.stdout, done.stderr), (b"7\n", b""))
        done = run(self.under([program]))
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.stderr.decode(), "has the loader .*musl.* runs as without")

    def test_static_child_hands_the_shim_on(self):
        busybox = shutil.which("busybox")
        if not busybox:
            self.skipTest("there is no busybox")
        done = run(self.under(["sh", "-c", f"{busybox} env"]))
        self.assertIn(LIBRARY, done.stdout.decode())


class LeftAlone(Case):
    """Programs that the shim is of no use for run, and one line says why."""

    def test_go_not_served(self):
        done = run(self.under([GO_READER, "left_alone", self.folder, "plain"],
                              f"--report={self.report}", "--json"))
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertRegex(done.stderr.decode(), r"\Alodic: .*run_go_reader is written in Go, which "
                         r"calls the kernel past libc: it runs as without `lodic run'\n\Z")
        [one] = [json.loads(line) for line in self.report.read_text().splitlines()]
        self.assertEqual((one["program"], one["reads"]), ("run_go_reader", 0))
        self.assertIn("Go", one["note"])

    def test_go_child_not_a_word_but_in_the_report(self):
        script = f"'{GO_READER}' left_alone '{self.folder}' plain; :"
        done = run(self.under(["sh", "-c", script]))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        done = run(self.under(["sh", "-c", script], "--report"))
        self.assertRegex(done.stderr.decode(), r"lodic run: run_go_reader\[\d+\]: saw no read: Go")

    def test_without_the_note_served(self):
        """So the cases above do not pass for another reason."""
        done = run(self.under([self.reader, "left_alone", self.folder, "plain"]))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), "is_served")

    def test_no_read_says_so(self):
        done = run(self.under(["true"], "--report"))
        self.assertRegex(done.stderr.decode(), r"\Alodic run: true\[\d+\]: saw no read: .*\n\Z")
        done = run(self.under(["sh", "-c", "true; :"], "--report"))
        self.assertRegex(done.stderr.decode(), r"\Alodic run: sh\[\d+\]: .*\n\Z")

    def test_static_program_runs(self):
        busybox = shutil.which("busybox")
        if not busybox:
            self.skipTest("there is no busybox")
        line = (r"\Alodic: .+ is linked statically, .*: it runs as without "
                r"`lodic run'\n\Z")
        done = run(self.under([busybox, "sh", "-c", "echo hello; exit 42"]))
        self.assertEqual((done.returncode, done.stdout), (42, b"hello\n"))
        self.assertRegex(done.stderr.decode(), line)
        script = self.folder / "script"
        script.write_text(f"#!{busybox} sh\nexit 43\n")
        script.chmod(0o755)
        done = run(self.under([script]))
        self.assertEqual(done.returncode, 43)
        self.assertRegex(done.stderr.decode(), line)
        # Its children are served.
        data = self.file("data", 8192)
        read = WARM + "warm(os.open(sys.argv[1], os.O_RDONLY))"
        done, reports = self.reports([busybox, "sh", "-c", 'exec "$@"', "-", PYTHON, "-c", read,
                                      data])
        self.assertGreater(sum(r["served"] for r in reports if r["path"] == str(data)), 0)

    def test_setuid_program_runs(self):
        if os.getuid() != 0 or os.statvfs(self.folder).f_flag & os.ST_NOSUID:
            self.skipTest("no setuid program can be made here")
        program = pathlib.Path(shutil.copy(shutil.which("true"), self.folder / "setuid"))
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        done = run(self.under([program], f"--report={self.report}"))
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr.decode(), r"\Alodic: .+ is setuid .*: it runs as without "
                         r"`lodic run', and so do its children\n\Z")
        self.assertEqual(self.report.read_text(), "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
