#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic map`: programs behave under it as without it, and the report is true.

The test runs this system's tools and tests/map/map_reader.c. Usage: test_map.py LODIC READER
"""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

LODIC, READER = sys.argv[1:3] if len(sys.argv) > 2 else ("", "")
SECONDS = 100  # a run may take
PYTHON = "/usr/bin/python3"
KIB, MIB = 1 << 10, 1 << 20
PAGE = 4 * KIB
# What the line on stderr says at its end, on this kernel.
KERNEL = "" if "\nlodic_" in pathlib.Path("/proc/vmstat").read_text(encoding="ascii") else \
    "; this kernel has no LODIC, so mapping gains nothing"


def run(command, **more):
    more.setdefault("timeout", SECONDS)
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, **more)


class Case(unittest.TestCase):
    """A folder of its own, on a file system that is not tmpfs if there is one."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-map-", dir="."))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.report = self.folder / "report"

    def file(self, name, size, seed=1):
        path = self.folder / name
        path.write_bytes(random.Random(seed).randbytes(size))
        return path

    def map(self, command, *options, **more):
        return run([LODIC, "map", *options, "--", *command], **more)

    def reports(self, command, *options, status=0, **more):
        """Returns the reports of all processes, by program; the program must end with status."""
        done = self.map(command, "--json", "--report", self.report, *options, **more)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return [json.loads(line) for line in self.report.read_text().splitlines()]

    def same(self, command, *options, **more):
        """The program must do the same under it; returns what the reports say."""
        plain = run(command, **more)
        done = self.map(command, "--json", "--report", self.report, *options, **more)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (plain.returncode, plain.stdout, plain.stderr))
        return [json.loads(line) for line in self.report.read_text().splitlines()]

    def reader(self, way, *more, options=(), name="data"):
        """Runs the reader plainly and mapped; returns the one report of the latter."""
        path = self.folder / name
        plain = run([READER, way, path, "plain", *more])
        self.assertEqual((plain.returncode, plain.stderr), (0, b""))
        return self.reports([READER, way, path, "mapped", *more], *options)


class Tools(Case):
    """Programs of this system."""

    def test_cat_many_times_same_bytes(self):
        data = self.file("data", 300 * KIB)
        [report] = self.same(["cat"] + [data] * 12)
        self.assertEqual(report["program"], "cat")
        self.assertEqual(report["files"], 1)
        self.assertGreater(report["reads_of_mapped"], 0)

    def test_one_pass_maps_nothing(self):
        data = self.file("data", MIB)
        [report] = self.same(["dd", f"if={data}", "bs=512", "status=none"])
        self.assertEqual(report["mappings"], 0)
        self.assertEqual(report["reads_other"], 2048)

    def test_grep_same_lines(self):
        data = self.folder / "lines"
        data.write_text("".join(f"line {i * 7919 % 1000}\n" for i in range(30000)))
        self.same(["grep", "-n", "line 77"] + [data] * 20)
        self.same(["grep", "-c", "nothing"] + [data] * 20)

    def test_shell_children_report_each(self):
        data = self.file("data", 300 * KIB)
        reports = self.same(["sh", "-c", 'cat "$@" | md5sum; tac "$1" | md5sum', "sh"]
                            + [data] * 12)
        self.assertIn("cat", [report["program"] for report in reports])

    def test_python_random_reads_same(self):
        data = self.file("data", 8 * MIB)
        [report] = self.same([PYTHON, "-c", """
import hashlib, os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
r, h = random.Random(3), hashlib.md5()
for i in range(5000):
    h.update(os.pread(fd, 4096, r.randrange(8 << 20)))
    os.lseek(fd, r.randrange(8 << 20), os.SEEK_SET)
    h.update(os.read(fd, 100))
print(h.hexdigest())
""", data])
        self.assertEqual(report["files"], 1)
        self.assertEqual(report["bytes_at_once"], 8 * MIB)
        self.assertEqual(report["table_bytes_at_once"], 4 * PAGE)
        # Four whole tables, and perhaps the page above them.
        self.assertIn(report["measured_table_bytes"], (4 * PAGE, 5 * PAGE, 6 * PAGE))

    def test_sqlite_reads_and_writes_same(self):
        sqlite = shutil.which("sqlite3")
        if not sqlite:
            self.skipTest("no sqlite3 here")
        data = self.folder / "db"
        run([sqlite, data, "create table a(b, c); with recursive n(i) as (values(1) union all "
             "select i + 1 from n where i < 50000) insert into a select i, i * i from n"])
        question = ["-readonly", data, "pragma cache_size = 5;"
                    + "select sum(c) from a where b % 7 = 3;" * 5]
        [report] = self.same([sqlite, *question])
        self.assertEqual(report["files"], 1)
        # Opened for writing: left alone.
        [report] = self.same([sqlite, data, "pragma cache_size = 5; update a set c = 1;"
                              "select count(*), sum(c) from a; pragma integrity_check"])
        self.assertEqual(report["files"], 0)
        self.assertGreater(report["skipped"]["opened_for_writing"], 0)


class Behaviour(Case):
    """tests/map/map_reader.c looks at itself; here is what the report says of it."""

    def test_plain_mapped_measured_unmapped(self):
        [report] = self.reader("plain")
        self.assertEqual((report["files"], report["mappings"]), (1, 1))
        self.assertEqual(report["bytes_at_once"], 100 * PAGE)
        self.assertEqual(report["measured_mappings"], 1)
        self.assertLessEqual(report["measured_table_bytes"], 4 * PAGE)
        self.assertEqual(report["ask_failed"], 0)
        # All but the first few reads.
        self.assertGreater(report["reads_of_mapped"], 3900)

    def test_ways_to_read_and_to_close(self):
        [report] = self.reader("ways")
        self.assertEqual(report["mappings"], 6)

    def test_pass_maps_nothing(self):
        [report] = self.reader("pass")
        self.assertEqual(report["skipped"]["mmap_failed"], 0)

    def test_errno_kept(self):
        [report] = self.reader("errno")
        self.assertEqual(report["mappings"], 1)
        self.assertGreater(report["skipped"]["not_regular"], 0)

    def test_fork_each_process_maps_for_itself(self):
        reports = self.reader("fork")
        self.assertEqual([report["mappings"] for report in reports], [1, 1])
        self.assertEqual(len({report["pid"] for report in reports}), 2)

    def test_truncate_no_signal_right_bytes(self):
        [report] = self.reader("short")
        self.assertEqual(report["mappings"], 2)  # once more when it had grown

    def test_locks_go_with_their_descriptors(self):
        self.reader("locks")

    def test_standard_descriptors_report_elsewhere(self):
        self.reader("standard")
        self.assertEqual((self.folder / "data.out").read_bytes(), b"data")
        # And without a report's file: stderr is gone, so the shim must write nothing.
        done = self.map([READER, "standard", self.folder / "data", "mapped"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual((self.folder / "data.out").read_bytes(), b"data")

    def test_limited_address_space_not_mapped(self):
        [report] = self.reader("limited")
        self.assertEqual(report["skipped"]["address_space_limited"], 1)

    def test_fadvise_and_mlockall_unmap(self):
        [report] = self.reader("dropped")
        self.assertEqual(report["mappings"], 2)

    def test_threads_signals_eviction(self):
        seed = random.randrange(1 << 32)
        # 4 files of 3 MiB, room for 2: opened, closed, thrown out.
        reports = self.reader("threads", 8, 30000, seed, options=["--budget", "6M"])
        report = next(r for r in reports if r["reads_of_mapped"])
        self.assertGreater(report["mappings"], 4, seed)
        self.assertLessEqual(report["bytes_at_once"], 6 * MIB, seed)
        self.assertGreater(report["reads_of_mapped"], 10000, seed)


class Budget(Case):
    """What is mapped at once stays within the budget."""

    def test_many_files_least_used_go(self):
        # 20 KiB each: 10 fit.
        [report] = self.reader("many", 60, options=["--budget", "200K"])
        self.assertEqual(report["files_at_once"], 10)
        self.assertEqual(report["bytes_at_once"], 10 * 5 * PAGE)
        self.assertEqual(report["files"], 60)
        self.assertGreater(report["evicted"], 50)

    def test_hot_file_stays(self):
        [report] = self.reader("hot", 50, options=["--budget", "200K"])
        self.assertEqual(report["files_at_once"], 10)
        self.assertEqual((report["mappings"], report["evicted"]), (51, 41))

    def test_many_files_room_for_all(self):
        [report] = self.reader("many", 60)
        self.assertEqual((report["files_at_once"], report["evicted"]), (60, 0))
        # Small ones share tables: that is what the measurement is for.
        self.assertLess(report["measured_table_bytes"], 60 * PAGE)

    def test_more_files_than_the_table_has(self):
        [report] = self.reader("many", 900)
        self.assertGreater(report["files"], 800)

    def test_large_file_part_of_it(self):
        data = self.file("data", 16 * MIB)
        command = [PYTHON, "-c", """
import os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
r = random.Random(3)
for i in range(20000):
    os.pread(fd, 64, r.randrange(16 << 20))
""", data]
        [report] = self.reports(command, "--budget", "5M")
        self.assertEqual(report["bytes_at_once"], 4 * MIB)  # two spans of 2 MiB
        self.assertEqual(report["table_bytes_at_once"], 2 * PAGE)
        self.assertGreater(report["skipped"]["budget_full"], 0)
        [report] = self.reports(command, "--budget", "1M")
        self.assertEqual(report["bytes_at_once"], 0)


class Choice(Case):
    """Which files are mapped."""

    def test_include_exclude(self):
        for name in ("a.one", "b.two"):
            self.file(name, 300 * KIB)
        command = ["cat"] + [self.folder / "a.one", self.folder / "b.two"] * 12
        for options, files in (([], 2), (["--include", "*.one"], 1),
                               (["--include", "?.[a-o]ne", "--include", "b*"], 2),
                               (["--exclude", f"{self.folder.resolve()}/*"], 0),
                               (["--include", "*", "--exclude", "[!b].*"], 1),
                               (["--include", "*.on"], 0)):
            [report] = self.reports(command, *options)
            self.assertEqual(report["files"], files, options)

    def test_min_reads(self):
        data = self.file("data", MIB)
        command = [PYTHON, "-c", "import os, sys\nfd = os.open(sys.argv[1], os.O_RDONLY)\n"
                   "for i in range(100): os.pread(fd, 10, i * 7919)", data]
        for least, reads in ((1, 100), (50, 51), (101, 0)):
            [report] = self.reports(command, "--min-reads", least, "--include", "data")
            self.assertEqual(report["reads_of_mapped"], reads, least)


class Command(Case):
    """What `lodic map` itself says and returns."""

    def refused(self, status, text, *command):
        done = run([LODIC, "map", *command])
        self.assertEqual((done.returncode, done.stdout), (status, b""))
        self.assertIn(text, done.stderr.decode())
        self.assertNotIn("ERROR: ld.so", done.stderr.decode())

    def test_usage_errors(self):
        self.refused(2, "name the program")
        self.refused(2, "name the program", "--json", "--")
        self.refused(2, "not a size", "--budget", "x", "--", "true")
        self.refused(2, "above 0", "--min-reads", "0", "--", "true")
        self.refused(2, "not a glob", "--include", "", "--", "true")
        self.refused(1, "cannot write", "--report", "/nowhere/at/all", "--", "true")

    def test_programs_that_cannot_be_run(self):
        self.refused(127, "not found", "--", "no-such-program-anywhere")
        self.refused(127, "not found", "--", "./no-such-program")
        self.refused(126, "not a program", "--", str(self.folder.resolve()))
        data = self.file("data", 100).resolve()
        self.refused(126, "not a program", "--", str(data))

    def test_static_program_runs(self):
        if not pathlib.Path("/sbin/ldconfig").exists():
            self.skipTest("there is no static program")
        script = self.file("script", 0).resolve()
        script.write_bytes(b"#!/sbin/ldconfig --version\n")
        script.chmod(0o755)
        for words in (["/sbin/ldconfig", "--version"], [script]):
            done = run([LODIC, "map", "--", *words])
            self.assertEqual(done.returncode, 0)
            self.assertIn(b"ldconfig", done.stdout)
            self.assertRegex(done.stderr.decode(), r"\Alodic: .+ is linked statically, .*: it "
                             r"runs as without `lodic map'\n\Z")

    def test_status_and_signal_are_the_programs(self):
        for code, status in (("exit 7", 7), ("exit 0", 0), ("kill -9 $$", -signal.SIGKILL),
                             ("kill -TERM $$", -signal.SIGTERM)):
            self.assertEqual(self.map(["sh", "-c", code]).returncode, status)

    def test_text_on_stderr_only_when_mapped(self):
        data = self.file("data", 300 * KIB)
        done = self.map(["cat"] + [data] * 12)
        self.assertEqual(done.stdout, data.read_bytes() * 12)
        self.assertRegex(done.stderr.decode(), "; ".join([
            r"\Alodic map: cat\[\d+\]: 1 file mapped, 300\.0 KiB at once",
            r"\d+ of \d+ reads were of mapped files",
            r"page tables: [48]\.0 KiB at once, VmPTE fell by \d.* on unmapping "
            r"\d+\.0 KiB of them" + KERNEL + r"\n\Z"]))
        done = self.map(["cat", data])
        self.assertEqual(done.stderr, b"")
        done = self.map(["cat"] + [data] * 12, "--verbose")
        self.assertIn(f"maps {data.resolve()}", done.stderr.decode())

    def test_budget_that_leaves_a_file_out_is_said(self):
        data = self.file("data", 4 * MIB)
        done = self.map(["cat"] + [data] * 4, "--budget", "1M")
        self.assertEqual(done.stdout, data.read_bytes() * 4)
        self.assertRegex(done.stderr.decode(), r"\Alodic map: cat\[\d+\]: 0 files mapped, .*"
                         r"; skipped \d+ budget full; --budget is 1\.0 MiB" + KERNEL + r"\n\Z")

    def test_kernel_without_lodic_is_said(self):
        data = self.file("data", 300 * KIB)
        [report] = self.reports(["cat"] + [data] * 12)
        self.assertEqual(report["kernel_has_lodic"], int(not KERNEL))

    def test_stderr_broken_pipe_no_signal(self):
        data = self.file("data", 300 * KIB)
        ends = os.pipe()
        os.close(ends[0])
        done = subprocess.run([LODIC, "map", "cat"] + [data] * 12, stdout=subprocess.DEVNULL,
                              stderr=ends[1], check=False, timeout=SECONDS)
        os.close(ends[1])
        self.assertEqual(done.returncode, 0)

    def test_environment_handed_on(self):
        # A lodic that was built with ASan would say that it comes second.
        bare = dict(os.environ, ASAN_OPTIONS="verify_asan_link_order=0")
        done = self.map(["sh", "-c", "echo $LD_PRELOAD; echo $LODIC_MAP_BUDGET"],
                        env=dict(bare, LD_PRELOAD="libm.so.6"))
        preload, budget = done.stdout.decode().splitlines()
        self.assertRegex(preload, r"/liblodic-preload\.so:libm\.so\.6\Z")
        self.assertEqual(budget, str(1 << 30))
        # Twice under it is as once.
        done = self.map([LODIC, "map", "--", "sh", "-c", "echo $LD_PRELOAD"], env=bare)
        self.assertEqual(done.stdout.decode().count("liblodic-preload.so"), 1)

    def test_listed_in_help(self):
        self.assertRegex(run([LODIC, "--help"]).stdout.decode(), r"\n  map +Run a program")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
