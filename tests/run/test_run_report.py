#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic run --report`: which files it names, its sums over processes, and that its reasons are
true.

    test_run_report.py LODIC
"""

import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import KIB, MIB, PYTHON, WARM, Case, forbid, run, until  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
FILES = 25
# Reads (file N is N + 1 times 64 KiB) of each file, by two reads each.
READ_ALL = """
import os, sys
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDONLY)
    os.pread(fd, os.fstat(fd).st_size // 2, 0)
    os.pread(fd, os.fstat(fd).st_size // 2, os.fstat(fd).st_size // 2)
"""
OPEN_THEN = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.pread(fd, 1000, 0)
%s
for i in range(3000):
    os.pread(fd, 1000, 0)
"""
# A name with a line end, an order for a terminal, bytes that are not UTF-8, and one that stays.
HOSTILE = b"a\nlodic run: forged\x1b[2J\xff\\\xc2\x9b\xe2\x80\xae\xc3\xa9"
ESCAPED = r"a\x0alodic run: forged\x1b[2J\xff\\\xc2\x9b\xe2\x80\xae" + "\u00e9"


def segments():
    """The System V segments that nobody has attached."""
    lines = pathlib.Path("/proc/sysvipc/shm").read_text(encoding="ascii").splitlines()
    names = lines[0].split()
    rows = [dict(zip(names, line.split())) for line in lines[1:]]
    return {row["shmid"] for row in rows if row["nattch"] == "0" and
            int(row["uid"]) == os.geteuid()}


class Ranked(Case):
    def files(self):
        return [self.file(f"file{i:02}", (i + 1) * 64 * KIB) for i in range(FILES)]

    def lines(self, *options):
        done = run(self.under([PYTHON, "-I", "-S", "-c", READ_ALL, *self.files()],
                              "--report", *options))
        self.assertEqual(done.returncode, 0)
        return done.stderr.decode().splitlines()

    def test_text_has_the_ten_files_with_most_bytes(self):
        lines = self.lines()
        named = [re.search(r"/file(\d+): ", line) for line in lines]
        self.assertEqual([int(n[1]) for n in named if n], list(range(24, 14, -1)))
        self.assertRegex(lines[-1], r"\]: and (\d+) other files: 0 of \d+ reads served, .*"
                         r"-- --all prints them\Z")
        self.assertEqual(len(lines), 12)

    def test_all_and_json_have_every_file(self):
        named = [line for line in self.lines("--all") if re.search(r"/file\d\d: ", line)]
        self.assertEqual(len(named), FILES)
        _, reports = self.reports([PYTHON, "-c", READ_ALL, *self.files()])
        self.assertEqual(len([r for r in reports if "/file" in r["path"]]), FILES)

    def test_all_without_report_is_wrong(self):
        done = run([self.lodic, "run", "--all", "true"])
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--report", done.stderr)

    def test_file_says_what_to_do(self):
        data = self.file("data", 8 * KIB)
        for flag, hint in ("O_RDWR", "open it read-only"), ("O_RDONLY | os.O_DIRECT",
                                                            "open it without O_DIRECT"):
            script = OPEN_THEN.replace("O_RDONLY", flag).replace("os.pread(fd, 1000, 0)",
                                                                 "os.preadv(fd, [page], 0)")
            script = "import mmap\npage = mmap.mmap(-1, 4096)\n" + script % ""
            _, reports = self.reports([PYTHON, "-c", script, data])
            [one] = [r for r in reports if r["path"] == str(data)]
            self.assertEqual(one["hint"], hint)

    def test_names_are_escaped_as_files_does(self):
        path = os.fsencode(self.folder) + b"/" + HOSTILE
        with open(path, "wb") as f:
            f.write(b"x" * 8192)
        script = WARM + "fd = os.open(os.fsencode(sys.argv[1]), os.O_RDONLY)\nwarm(fd)"
        program = self.folder / "x\ny"
        shutil.copy(PYTHON, program)
        done = run(self.under([program, "-c", script, os.fsdecode(path)], "--report"))
        self.assertEqual(done.returncode, 0)
        text = done.stderr.decode()  # it is UTF-8
        self.assertIn(f"/{ESCAPED}: ", text)
        self.assertIn(r"lodic run: x\x0ay[", text)
        for line in text.splitlines():
            self.assertTrue(line.isprintable(), line)
            self.assertTrue(line.startswith("lodic run: x"), line)
        _, reports = self.reports([PYTHON, "-c", script, os.fsdecode(path)])
        self.assertIn(f"{self.folder}/{ESCAPED}", [r["path"] for r in reports])
        self.assertIn(f"{self.folder}/{ESCAPED}", [f["path"] for f in self.ask("files")["files"]])


class Together(Case):
    SCRIPT = '"$0" -c "$1" "$2"; "$0" -c "$1" "$2"; :'

    def test_first_process_adds_up_what_others_have_read(self):
        data = self.file("data", MIB)
        before = segments()
        done = run(self.under(["sh", "-c", self.SCRIPT, PYTHON, READ_ALL, data], "--report"))
        lines = done.stderr.decode().splitlines()
        own = [re.search(r"python3\[\d+\]: (\d+) of (\d+) reads served", line) for line in lines]
        reads = [int(n[2]) for n in own if n]
        self.assertEqual(len(reads), 2)
        found = re.search(r"sh\[\d+\]: all 2 processes together: \d+ of (\d+) reads served",
                          lines[-1])
        self.assertTrue(found, lines)
        self.assertEqual(int(found[1]), sum(reads))
        self.assertEqual(segments() - before, set())

    def test_first_process_may_become_another_program(self):
        data = self.file("data", MIB)
        script = "import subprocess, sys\nsubprocess.run([*sys.argv[1:]], check=True)"
        done = run(self.under(["sh", "-c", 'cd /; exec "$0" -c "$1" "$0" -c "$2" "$3"', PYTHON,
                               script, READ_ALL, data], "--report"))
        self.assertRegex(done.stderr.decode().splitlines()[-1], "all 2 processes together")

    def test_alone_it_says_nothing_of_others(self):
        done = run(self.under([PYTHON, "-c", READ_ALL, self.file("data", MIB)], "--report"))
        self.assertNotIn(b"together", done.stderr)

    def test_segment_of_a_killed_program_goes_with_the_next(self):
        before = segments()
        program = subprocess.Popen(self.under(["sleep", "100"], "--report"))
        # `lodic run` is connected before, and as the same process.
        until(lambda: [r for r in self.readers() if r["pid"] == program.pid and
                       r["program"] == "sleep"], "it is connected")
        program.kill()
        program.wait()
        left = segments() - before
        self.assertEqual(len(left), 1)
        run(self.under(["true"], "--report"))
        self.assertEqual(segments() - before, set())


    @unittest.skipIf(platform.machine() != "x86_64", "the number of shmat() is that of x86-64")
    def test_no_sums_nothing_left(self):
        """A filter forbids the memory that the sums are in. Then there is none, and no wrong word
        of a child that has read something."""
        program = self.start(self.under(["sh", "-c", f"{PYTHON} -c 1; :"], "--report"),
                             stderr=subprocess.PIPE, preexec_fn=forbid("shmat"))
        said = program.communicate()[1].decode()
        self.assertRegex(said, r"python3\[\d+\]: 0 of \d+ reads served")
        self.assertRegex(said, r"sh\[\d+\]: saw no read: this process reads no file")
        lines = pathlib.Path("/proc/sysvipc/shm").read_text(encoding="ascii").splitlines()
        makers = [int(line.split()[4]) for line in lines[1:]]
        self.assertNotIn(program.pid, makers)


class Reasons(Case):
    def whys(self, then):
        """What the report says of a file, when something happens to the service before most of its
        reads."""
        data = self.file("data", 8 * KIB)
        pid = self.service_pid()
        _, reports = self.reports([PYTHON, "-c", OPEN_THEN % then.format(pid=pid), data])
        [one] = [r for r in reports if r["path"] == str(data)]
        return one

    def test_service_that_has_not_answered_is_not_away(self):
        self.addCleanup(os.kill, self.service_pid(), signal.SIGCONT)
        one = self.whys("import signal; os.kill({pid}, signal.SIGSTOP)")
        self.assertEqual(one["service_away"], 0)
        self.assertGreater(one["not_answered_yet"], 0)

    def test_refusal_is_that_of_lodic_files(self):
        data = self.file("data", 8 * KIB)

        def refused():
            _, reports = self.reports([PYTHON, "-c", OPEN_THEN % "" + """
import time
end = time.monotonic() + 0.3
while time.monotonic() < end:
    os.pread(fd, 1000, 0)
""", data])
            return [r for r in reports if r["path"] == str(data) and r["refused"]]
        with open(data, "r+b"):
            until(refused, "the service has said so in time")
            [one] = refused()
            [there] = [f for f in self.ask("files")["not_cached"] if f["path"] == str(data)]
        self.assertEqual((one["refused_reason"], one["refused_why"], one["refused_errno"]),
                         (there["reason"], there["why"], there["errno"]))

    def test_service_that_is_gone_is_away(self):
        one = self.whys("os.pread(fd, 1000, 0)\n" # it is asked, and may not have answered
                        "import signal; os.kill({pid}, signal.SIGKILL)\n"
                        "try:\n"
                        "    while ') Z' not in open('/proc/{pid}/stat').read(): pass\n"
                        "except OSError: pass\n"
                        # The next try to connect finds nobody.
                        "import time\n"
                        "end = time.monotonic() + 1\n"
                        "while time.monotonic() < end: os.pread(fd, 1000, 0)")
        self.assertGreater(one["service_away"], 0)

    def test_idle_service_is_never_away(self):
        one = self.whys("")
        self.assertEqual(one["service_away"], 0)


class Unwritten(Case):
    def test_full_disk_says_so_and_program_is_as_before(self):
        data = self.file("data", 8 * KIB)
        for options in [], ["--json"]:
            done = run(self.under([PYTHON, "-c", READ_ALL + "\nsys.exit(7)", data],
                                  "--report=/dev/full", *options))
            self.assertEqual(done.returncode, 7)
            self.assertRegex(done.stderr.decode(),
                             r"\Alodic: python3\[\d+\]: the report in /dev/full is not complete: "
                             r"No space left on device\n\Z")

    def test_file_at_its_limit_says_so(self):
        data = self.file("data", 8 * KIB)
        done = run(["prlimit", "--fsize=300", *self.under([PYTHON, "-c", READ_ALL, data],
                                                           f"--report={self.report}")])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr.decode(), r"\A.*is not complete: File too large\n\Z")
        self.assertEqual(self.report.stat().st_size, 300)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
