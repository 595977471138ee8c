#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic run --mmap`: a mapping behaves under it as without it, and nothing is left of it.

    test_run_maps.py LODIC READER

READER is tests/run/run_reader.c, with the ways of run_maps.c. The programs are Debian's sqlite3,
git and python3.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import MIB, PYTHON, SECONDS, Case, run, until  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
Case.reader = str(pathlib.Path(sys.argv[2]).resolve()) if len(sys.argv) > 2 else ""

MMAP = "--mmap=big9*" # the files that run_maps.c has as promised


def mappings(reports, program, end=""):
    """The sums over the files of a program whose path has this end; "": over all files."""
    sums = {}
    for report in reports:
        if report["program"] == program and report["path"].endswith(end) and \
                bool(report["path"]) == bool(end):
            for key, n in report["mappings"].items():
                sums[key] = sums.get(key, 0) + n
    return sums


class Ways(Case):
    """Each way of the reader, without the cache and with it."""

    def test_bytes(self):
        self.way("map_bytes", MMAP)

    def test_parts(self):
        self.way("map_parts", MMAP)

    def test_fixed(self):
        self.way("map_fixed", MMAP)

    def test_write(self):
        self.way("map_write", MMAP)

    def test_advice(self):
        self.way("map_advice", MMAP)

    def test_errors(self):
        self.way("map_errors", MMAP)

    def test_children(self):
        self.way("map_children", MMAP)

    def test_rewritten_never_stale(self):
        self.way("map_rewritten", MMAP)

    def test_threads_and_signals(self):
        self.way("map_threads", MMAP)

    def test_jumped_out(self):
        self.way("map_jumped", MMAP)

    def test_address_space_limited_not_served(self):
        self.way("map_limited", MMAP)

    def test_replaced_unseen_right_file(self):
        self.way("map_unseen", MMAP)

    def test_descriptors_used_up(self):
        self.way("map_descriptors", MMAP)

    def test_confined_no_system_call(self):
        self.way("map_confined", MMAP, reports=True)

    def test_not_served_reasons(self):
        self.way("map_not_served", MMAP, reports=True)
        found = [json.loads(line) for line in self.report.read_text().splitlines()]
        sums = mappings(found, "run_reader")
        self.assertEqual(sums["all"], sum(n for why, n in sums.items()
                                          if why not in ("all", "served_bytes")))
        whys = ("opened_for_writing", "other_kind_of_mapping", "beyond_the_end", "too_small",
                "shared_not_promised", "locked")
        self.assertEqual([sums.get(why, 0) for why in whys], [1, 3, 3, 1, 1, 1], sums)
        self.assertGreaterEqual(sums["served"], 3)
        self.assertEqual(mappings(found, "run_reader", "big2").get("locked"), 1, found)


class Left(Case):
    """What the service has, while a program has mappings and afterwards."""

    def start(self, *options):
        reader = subprocess.Popen(
            self.under([self.reader, "map_told", self.folder, "cached"], *options),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(reader.communicate)
        self.addCleanup(reader.kill)
        line = reader.stdout.readline()
        self.assertEqual(line, b"ready\n", line or reader.communicate())
        return reader

    def tell(self, reader, order):
        """Returns (how many mappings were served, how many took long)."""
        reader.stdin.write(order)
        reader.stdin.flush()
        line = reader.stdout.readline()
        self.assertTrue(line, reader.poll())
        return tuple(int(word) for word in line.split())

    def used(self):
        return self.ask("stat")["hold_used_bytes"]

    def held_by(self, pid):
        return sum(r["hold_bytes"] for r in self.readers() if r["pid"] == pid)

    def test_unmapped_nothing_held(self):
        reader = self.start("--mmap")
        self.assertGreater(self.used(), 2 * MIB)
        self.assertGreater(self.held_by(reader.pid), 2 * MIB)
        self.tell(reader, b"u")
        until(lambda: self.used() == 0, "nothing is held after munmap()")
        until(lambda: self.held_by(reader.pid) == 0, "who says so")
        self.assertEqual(self.ask("stat")["holds"], 1) # it stays warm
        self.tell(reader, b"m")
        self.assertEqual(self.ask("stat")["holds_read"], 1)
        reader.communicate(timeout=SECONDS)
        until(lambda: self.used() == 0, "nothing is held after the end")
        self.assertEqual(self.readers(), [])

    def test_killed_nothing_held(self):
        reader = self.start("--mmap")
        self.assertGreater(self.used(), 2 * MIB)
        reader.kill()
        reader.communicate()
        until(lambda: self.used() == 0, "nothing is held after SIGKILL")
        until(lambda: not self.readers(), "the reader is gone")

    def test_service_killed_mapping_stays_successor_serves(self):
        reader = self.start("--mmap")
        os.kill(self.service_pid(), signal.SIGKILL)
        self.tell(reader, b"l")
        self.serve()
        self.tell(reader, b"m")
        self.assertGreater(self.used(), 2 * MIB)

    def test_service_stopped_mmap_waits_once(self):
        reader = self.start("--mmap")
        pid = self.service_pid()
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        os.kill(pid, signal.SIGSTOP)
        self.assertEqual(self.tell(reader, b"t"), (0, 1))
        os.kill(pid, signal.SIGCONT)
        self.tell(reader, b"m")

    def test_without_option_nothing_mapped(self):
        path = self.file("data", 2 * MIB)
        script = ("import mmap, sys\n"
                  "f = open(sys.argv[1], 'rb')\n"
                  "for i in range(20):\n"
                  "    m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)\n"
                  "    print(m[-1], m[5000])\n")
        reports = self.same([PYTHON, "-c", script, path])
        self.assertFalse(any("mappings" in report for report in reports))
        self.assertEqual(self.ask("stat")["holds_given"], 0)

    def test_no_room_reason(self):
        """Holds have 16 MiB here."""
        path = self.file("large", MIB)
        os.truncate(path, 20 * MIB)
        script = ("import mmap, sys, zlib\n"
                  "f = open(sys.argv[1], 'rb')\n"
                  "for i in range(3):\n"
                  "    m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)\n"
                  "    print(zlib.crc32(m))\n")
        plain = run([PYTHON, "-c", script, path])
        done = run(self.under([PYTHON, "-c", script, path], "--mmap", "--json",
                              f"--report={self.report}"))
        self.assertEqual((done.returncode, done.stdout), (0, plain.stdout), done.stderr)
        found = [json.loads(line) for line in self.report.read_text().splitlines()]
        self.assertEqual(mappings(found, "python3", "large"),
                         {"all": 3, "served": 0, "served_bytes": 0, "no_room": 3})


class Programs(Case):
    """Programs of this system that map their files."""

    def same_mapped(self, command, option, end):
        """The program must do the same with and without, until its mappings are served. Returns
        what the last report says of files with this end."""
        plain = run(command)
        self.assertEqual((plain.returncode, plain.stderr), (0, b""))
        sums = {}

        def served():
            self.report.unlink(missing_ok=True)
            done = run(self.under(command, *option, f"--report={self.report}", "--json"))
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, plain.stdout, b""))
            found = [json.loads(line) for line in self.report.read_text().splitlines()]
            sums.update(mappings(found, pathlib.Path(command[0]).name, end))
            return sums.get("served")
        if option != ["--mmap"] or end != ".db":
            until(served, f"{command[0]} has its mappings served")
        else:
            self.assertFalse(served())
        return sums

    def test_sqlite(self):
        path = self.folder / "t.db"
        done = run(["sqlite3", path, "create table t(a integer primary key, b text);"
                    "with recursive n(i) as (select 1 union all select i + 1 from n "
                    "where i < 20000) insert into t select i, printf('%060d', i * 7919 % 20011) "
                    "from n; create index i on t(b);"])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        command = ["sqlite3", "-readonly", path, "pragma mmap_size=268435456;"
                   "select count(*), sum(a), max(b) from t where b > '" + "0" * 55 + "10000';"
                   "pragma integrity_check;"]
        self.assertEqual(self.same_mapped(command, ["--mmap"], ".db").get("shared_not_promised"),
                         1)
        sums = self.same_mapped(command, ["--mmap=*.db"], ".db")
        self.assertGreater(sums["served_bytes"], 2 * MIB)

    def test_git(self):
        place = self.folder / "git"
        place.mkdir()
        self.file("git/data", 3 * MIB)
        git = ["git", "-C", place, "-c", "user.name=a", "-c", "user.email=a@b",
               "-c", "core.bigFileThreshold=512m"]
        for words in (["init", "-q"], ["add", "data"], ["commit", "-qm", "a"],
                      ["repack", "-qad"]):
            done = run([*git, *words])
            self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.same_mapped([*git, "cat-file", "blob", "HEAD:data"], ["--mmap"], ".pack")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
