#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic run`: its options, its errors, exit statuses and signals, and the report's text.

    test_run_command.py LODIC
"""

import fcntl
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import KIB, PYTHON, WARM, Case, run, until  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
READS = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for i in range(3000):
    os.pread(fd, 1000, 0)
"""
SERVED = WARM + """
fd = os.open(sys.argv[1], os.O_RDONLY)
warm(fd)
"""


class Command(Case):
    """The command before it becomes the program, and what it hands on."""

    def fails(self, words, status, pattern):
        done = run([self.lodic, "run", *words])
        self.assertEqual(done.returncode, status, done.stderr.decode())
        self.assertRegex(done.stderr.decode(), pattern)
        self.assertEqual(done.stdout, b"")

    def test_wrong_use(self):
        self.fails([], 2, "name the program to run")
        self.fails(["--memory", "lots", "true"], 2, "is not a size")
        self.fails(["--mmap=", "true"], 2, "is not a glob")
        for seconds in ("soon", "-1", "nan", "1s", "86401", ""):
            self.fails(["--mmap", f"--mmap-wait={seconds}", "true"], 2, "is not a number of")
        self.fails(["--mmap-wait", "true"], 2, "ask for --mmap too")
        self.fails(["--json", "true"], 2, "--report")
        self.fails(["--no-such", "true"], 2, "unrecognized option")

    def test_programs_that_cannot_be_run(self):
        self.fails(["no-such-program"], 127, "not found")
        self.fails([self.folder], 126, "not a program that you may run")
        self.fails([self.file("data", 100)], 126, "not a program that you may run")

    @unittest.skipIf(platform.machine() != "x86_64", "the program is one for x86-64")
    def test_many_headers_still_64_bit(self):
        """A static program of 300 headers, which the kernel runs. With --require nobody does."""
        code = bytes.fromhex("bf07000000b83c0000000f05") # exits with 7
        at, n = 64 + 300 * 56, 64 + 300 * 56 + len(code)
        head = struct.pack("<4sBBBxxxxxxxxxHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 2, 62, 1,
                           0x400000 + at, 64, 0, 0, 64, 56, 300, 0, 0, 0)
        load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0x400000, 0x400000, n, n, 0x1000)
        program = pathlib.Path(self.file("program", 0))
        program.write_bytes(head + bytes(299 * 56) + load + code)
        program.chmod(0o755)
        done = run([self.lodic, "run", "--socket", self.socket, program.resolve()])
        self.assertEqual(done.returncode, 7, done.stderr.decode())
        self.assertRegex(done.stderr.decode(), r"\Alodic: .* is linked statically, .* runs as ")
        self.fails(["--require", "--socket", self.socket, program.resolve()], 1,
                   r"\Alodic: no cache for .*, and so it is not run: it is linked statically")

    def test_no_cache(self):
        """test_run_missing.py has all the causes."""
        here = ["--socket", "/no/such/folder/socket"]
        done = run([self.lodic, "run", *here, "sh", "-c", "echo ran; exit 42"])
        self.assertEqual((done.returncode, done.stdout), (42, b"ran\n"))
        self.assertRegex(done.stderr, rb"\Alodic: sh runs without a cache: .*/no/such.*\n\Z")
        self.fails(["--require", *here, "echo", "ran"], 1, r"\Alodic: no cache for echo, and so ")

    def test_no_cache_report_and_record_all_the_same(self):
        """They need the shim, and no service."""
        path, report = str(self.file("unserved", 10000)), f"{self.folder}/report"
        program = [PYTHON, "-c", f"import os\nfd = os.open({path!r}, 0)\n"
                   "for _ in range(3): os.pread(fd, 100, 0)"]
        done = run([self.lodic, "run", "--socket", "/no/such/folder/socket", f"--report={report}",
                    f"--record={self.folder}/record", *program])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        with open(report, encoding="utf-8") as f:
            self.assertRegex(f.read(), f"{path}: 0 of 3 reads served")
        self.assertGreater(os.path.getsize(f"{self.folder}/record"), 1000)

    def test_path_that_the_loader_does_not_take(self):
        """Two builds whose paths have what the loader reads otherwise."""
        for name in "a b", "a:$ORIGIN b":
            folder = self.folder / name
            folder.mkdir()
            for part in "lodic", "liblodic-preload.so":
                shutil.copy(pathlib.Path(self.lodic).parent / part, folder)
            data = self.file("data", 8 * KIB)
            done = run([folder / "lodic", "run", "--socket", self.socket, "--report", "--", "sh",
                        "-c", 'echo $LD_PRELOAD; "$0" -c "$1" "$2"; :', PYTHON, SERVED, data])
            link = pathlib.Path(done.stdout.decode().rstrip("\n"))
            link.unlink()
            link.parent.rmdir()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr.decode(), r"/data: [1-9]\d* of \d+ reads served")
            self.assertNotIn(b"ERROR: ld.so", done.stderr)

    def test_slow_start_of_the_service_is_told(self):
        """Somebody has the lock of the socket for a while, as a service that ends."""
        socket = self.place / "slow"
        with open(f"{socket}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with subprocess.Popen([self.lodic, "run", "--socket", socket, "--memory", "16M",
                                   "true"], stderr=subprocess.PIPE) as program:
                said = program.stderr.readline()
                fcntl.flock(lock, fcntl.LOCK_UN)
                self.assertEqual(program.wait(timeout=30), 0)
        self.assertEqual(said, b"lodic: waiting for the cache's service: 2 s so far\n")
        pid = json.loads(run([self.lodic, "stat", "--socket", socket, "--json"]).stdout)
        os.kill(pid["service_pid"], signal.SIGKILL)

    def test_report_that_cannot_be_written(self):
        self.fails(["--socket", self.socket, "--report=/no/such/folder/r", "true"], 1,
                   "cannot write /no/such")

    def test_exit_status_and_signal(self):
        self.assertEqual(run(self.under(["sh", "-c", "exit 42"])).returncode, 42)
        self.assertEqual(run(self.under(["sh", "-c", "kill -TERM $$"])).returncode,
                         -signal.SIGTERM)

    def test_signal_reaches_program_process_id_kept(self):
        program = subprocess.Popen(self.under(["sh", "-c", "trap 'echo got; exit 3' USR1; "
                                               "echo $$; while :; do sleep 0.05; done"]),
                                   stdout=subprocess.PIPE)
        self.assertEqual(int(program.stdout.readline()), program.pid)
        program.send_signal(signal.SIGUSR1)
        self.assertEqual((program.communicate(timeout=20)[0], program.returncode), (b"got\n", 3))

    def test_connected_from_the_start(self):
        program = subprocess.Popen(self.under(["sleep", "100"]))
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        until(lambda: [r for r in self.readers() if r["pid"] == program.pid], "it is connected")

    def test_relative_socket(self):
        os.symlink(self.place, self.folder / "at")
        done = run([self.lodic, "run", "--socket", "at/socket", "--report", "--", "sh", "-c",
                    f"cd /; exec {PYTHON} -c '{SERVED}' '{self.file('data', 8 * KIB)}'"],
                   cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertRegex(done.stderr.decode(), r"/data: [1-9]\d* of \d+ reads served")

    def test_environment_handed_on_once(self):
        words = self.under([self.lodic, "run", "--socket", self.socket, "--", "sh", "-c",
                            "echo $LD_PRELOAD; echo $LODIC_RUN_SOCKET"],)
        done = run(words, env=dict(os.environ, LD_PRELOAD="libm.so.6"))
        preload, at = done.stdout.decode().splitlines()
        self.assertRegex(preload, r"\A\S+/liblodic-preload\.so:libm\.so\.6\Z")
        self.assertEqual(at, str(self.socket))

    def test_map_and_run_the_last_counts(self):
        data = self.file("data", 300 * KIB)
        done = run(self.under([self.lodic, "map", "--", "cat"] + [data] * 12, "--report"))
        self.assertIn(b"lodic map: cat[", done.stderr)
        self.assertNotIn(b"lodic run: cat[", done.stderr)

    def test_listed_in_help(self):
        self.assertRegex(run([self.lodic, "--help"]).stdout.decode(), r"\n  run +Run an unmod")
        text = run([self.lodic, "run", "--help"]).stdout.decode()
        self.assertIn("doc/hazards.md", text)


class Report(Case):
    """What --report says."""

    def test_text_each_file_and_reason(self):
        data = self.file("data", 8 * KIB)
        done = run(self.under([PYTHON, "-c", SERVED + "os.read(fd, 10)", data], "--report"))
        text = done.stderr.decode()
        found = re.search(rf"lodic run: python3\[\d+\]: {data}: (\d+) of \d+ reads served, .*; the "
                          r"kernel read 1 \(read keeps offset\), 1 \(first read", text)
        self.assertTrue(found, text)
        self.assertGreater(int(found[1]), 0)

    def test_no_report_not_a_word(self):
        done = run(self.under([PYTHON, "-c", SERVED, self.file("data", 8 * KIB)]))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))

    def test_refused_says_why(self):
        data = self.file("data", 8 * KIB)
        script = READS + """
import time
end = time.monotonic() + 2
while time.monotonic() < end:
    os.pread(fd, 1000, 0)
"""

        def refused():
            _, reports = self.reports([PYTHON, "-c", script, data])
            [one] = [r for r in reports if r["path"] == str(data)]
            self.assertEqual(one["served"], 0)
            self.assertEqual(one["refused_errno"], 26 if one["refused"] else 0)  # ETXTBSY
            return one["refused"]
        with open(data, "r+b"):
            until(refused, "the service has said so in time")

    def test_writable_and_direct_say_so(self):
        data = self.file("data", 8 * KIB)
        _, reports = self.reports([PYTHON, "-c", READS.replace("O_RDONLY", "O_RDWR"), data])
        [one] = [r for r in reports if r["path"] == str(data)]
        self.assertEqual((one["reads"], one["opened_for_writing"]), (3000, 2999))

    def test_nobody_reads_stderr_program_ends(self):
        """The pipe is full, so that the report has no room."""
        data = self.file("data", 8 * KIB)
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        os.set_blocking(writer, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
        with subprocess.Popen(self.under([PYTHON, "-c", SERVED, data], "--report"),
                              stderr=writer) as program:
            os.close(writer)
            try:
                self.assertEqual(program.wait(timeout=30), 0)
            finally:
                program.kill()

    def test_slow_reader_gets_all_lines(self):
        """600 files are more lines than a pipe has room for."""
        script = """
import os, sys
for i in range(600):
    path = f"{sys.argv[1]}/file{i}"
    open(path, "w").write("x" * 100)
    fd = os.open(path, os.O_RDONLY)
    os.pread(fd, 10, 0)
    os.pread(fd, 10, 0)
"""

        def read_slowly():
            lines = 0
            with subprocess.Popen(self.under([PYTHON, "-c", script, self.folder], "--report",
                                             "--all"),
                                  stderr=subprocess.PIPE) as program:
                for line in program.stderr:
                    lines += b"/file" in line
                    time.sleep(0.0005)
            self.assertEqual(program.returncode, 0)
            return lines
        # A line waits for half a second. A busy machine may stop this reader for longer.
        found = []
        while 600 not in found and len(found) < 5:
            found.append(read_slowly())
        self.assertIn(600, found)

    def test_stderr_closed_nothing_written_elsewhere(self):
        data = self.file("data", 8 * KIB)
        script = READS + "os.close(2)\nassert os.open('out', os.O_WRONLY | os.O_CREAT) == 2"
        done = run(self.under([PYTHON, "-c", script, data], "--report"), cwd=self.folder)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"reads served", done.stderr)
        self.assertEqual((self.folder / "out").read_bytes(), b"")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
