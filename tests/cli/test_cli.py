#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic` as a user meets it: help, wrong usage, output that cannot be written, Ctrl-C.

Usage: test_cli.py LODIC
"""

import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LODIC = sys.argv[1] if len(sys.argv) > 1 else ""
SECONDS = 60  # a run may take
COMMANDS = ["demo", "serve", "stat", "files", "who", "load", "drop", "resize", "stop", "bench",
            "map", "doctor"]
LEAVES = [["demo"], ["serve"], ["stat"], ["files"], ["who"], ["load"], ["drop"], ["resize"],
          ["stop"],
          ["map"], ["doctor"],
          ["bench", "pin"], ["bench", "memory"], ["bench", "service"]]
FILE_BYTES = 4 << 20
NR_CACHES = 7  # of the comparison


def run(*words, **more):
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([LODIC, *words], stdin=subprocess.DEVNULL, text=True, check=False,
                          stderr=subprocess.PIPE, timeout=SECONDS, **more)


class Help(unittest.TestCase):
    def test_help_every_form_lists_commands(self):
        expected = run("--help")
        for command in COMMANDS:
            self.assertRegex(expected.stdout, rf"\n  {command} +[A-Z]")
        for form in ["help"], ["-h"], ["help", "help"]:
            done = run(*form)
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (0, expected.stdout, ""), form)

    def test_help_of_command_every_form_same(self):
        for leaf in LEAVES + [["bench"]]:
            expected = run(*leaf, "--help")
            self.assertIn("Usage: lodic " + " ".join(leaf), expected.stdout)
            for form in ["help", *leaf], [*leaf, "-h"]:
                done = run(*form)
                self.assertEqual((done.returncode, done.stdout, done.stderr),
                                 (0, expected.stdout, ""), form)

    def test_version_says_version_and_commit(self):
        for form in ["--version"], ["-V"], ["demo", "--version"]:
            done = run(*form)
            self.assertEqual((done.returncode, done.stderr), (0, ""), form)
            self.assertRegex(done.stdout, r"^lodic \d+\.\d+\.\d+ \(\w+.*\)\n$")


class Usage(unittest.TestCase):
    def refused(self, words, *texts):
        done = run(*words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), words)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_no_command_prints_help(self):
        self.refused([], "Usage: lodic", "Commands:")
        self.refused(["bench"], "Usage: lodic bench", "Measurements:")

    def test_unknown_command_names_those_there_are(self):
        for words in ["nothing"], ["help", "nothing"]:
            self.refused(words, "no command 'nothing'", *COMMANDS)
        self.refused(["bench", "nothing"], "no measurement 'nothing'", "pin", "memory")

    def test_wrong_option_or_value_refused(self):
        for leaf in LEAVES:
            self.refused([*leaf, "--no-such-option"], "no-such-option", "--help")
        self.refused(["demo", "--seconds", "0"], "'0'")
        self.refused(["demo", "file"], "'file'", "--file")
        self.refused(["bench", "pin", "--bytes", "100"], "'100'")
        self.refused(["bench", "pin", "--access", "hot,cold"], "'hot,cold'")
        self.refused(["bench", "pin", "--rounds", "0"], "'0'")
        self.refused(["bench", "memory", "--memory", "much"], "'much'")
        self.refused(["bench", "memory", "--seed", "-1"], "'-1'")

    def test_serve_value_no_cache_has_refused_with_limits(self):
        for size in "1K", "0", "8T", "99999999999999999999":
            self.refused(["serve", "--memory", size], f"--memory: '{size}' is too", "32K", "8T")
        self.refused(["serve", "--memory", "much"], "'much' is not a size", "256M")
        self.refused(["serve", "--scheme", "foo"], "'foo'", "lodic, atomic, frozen or hazard")

    def test_serve_glob_that_matches_no_file_refused(self):
        for glob in "gdb", "./*", "*/gdb":
            self.refused(["serve", "--immutable", glob], f"--immutable: '{glob}'", "begins with /")
        self.refused(["serve", "--immutable", ""], "--immutable: the glob is empty")


class Output(unittest.TestCase):
    def test_stdout_full_fails_with_one_message(self):
        for words in ["help"], ["--version"], ["demo", "--help"], ["help", "bench", "pin"]:
            with open("/dev/full", "w", encoding="ascii") as full:
                done = run(*words, stdout=full)
            self.assertEqual(done.returncode, 1, words)
            self.assertRegex(done.stderr, r"\Alodic: cannot write the output.*\n\Z")

    def test_result_file_unwritable_fails_before_measuring(self):
        for words in (["demo", "--json-out", "/nonexistent/x"], ["demo", "--json-out", "/"],
                      ["bench", "pin", "--csv", "/nonexistent/x"]):
            done = run(*words)
            self.assertEqual((done.returncode, done.stdout), (1, ""), words)
            self.assertRegex(done.stderr, rf"\Alodic: cannot write {words[-1]}: .*\n\Z")


class Interrupted(unittest.TestCase):
    """A file that a process has open for writing cannot be cached, so the demo copies it."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.work = self.folder / "work"
        self.work.mkdir()
        self.data = self.folder / "data"
        self.data.write_bytes(os.urandom(FILE_BYTES))
        with open(self.data, "rb") as f:
            try:
                fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            except OSError:
                self.skipTest("no leases where temporary files are: set TMPDIR")

    def stopped(self, signals, after="verified"):
        """The status of the demo, which gets these signals after it has said so much."""
        with open(self.data, "r+b"), subprocess.Popen(
                [LODIC, "demo", "--file", self.data, "--workdir", self.work,
                 "--json-out", self.folder / "result"], text=True,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": str(self.work)}) as demo:
            for line in demo.stdout:
                if line.startswith(after):
                    break
            else:
                self.fail("the demo has ended by itself")
            if after == "verified":
                self.assertEqual(len(list(self.work.glob("lodic-corpus-*"))), 1)
                self.assertEqual(len(self.services()), NR_CACHES)
            for number in signals:
                demo.send_signal(number)
                time.sleep(0.002)  # two at once would be one
            status = demo.wait(SECONDS)
        self.assertFalse((self.folder / "result").exists())
        return status

    def services(self):
        """The services with a socket in our folder, by their command lines."""
        found = []
        for place in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = place.read_bytes()
            except OSError:
                continue
            if os.fsencode(self.work) in line and b"\0serve\0" in line:
                found.append(line)
        return found

    def nothing_stays(self):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            left = list(self.work.iterdir()) + self.services()
            if not left:
                return
            time.sleep(0.01)
        self.fail(f"the demo has left {left}")

    def test_demo_stopped_leaves_nothing(self):
        self.assertEqual(self.stopped([signal.SIGINT]), 130)
        self.assertEqual(list(self.work.iterdir()), [])
        self.assertEqual(self.services(), [])

    def test_demo_stopped_twice_leaves_nothing(self):
        self.assertIn(self.stopped([signal.SIGINT] * 2), (130, -signal.SIGINT))
        self.nothing_stays()

    def test_demo_killed_leaves_nothing(self):
        self.assertEqual(self.stopped([signal.SIGKILL]), -signal.SIGKILL)
        self.nothing_stays()

    def test_demo_killed_while_services_start_leaves_nothing(self):
        for after in "file: ", "a process has the file open":
            self.assertEqual(self.stopped([signal.SIGKILL], after), -signal.SIGKILL)
            self.nothing_stays()


class Apart(unittest.TestCase):
    """A second program has the benchmarks and the demo. Where it is missing, lodic says so."""

    def test_without_lodic_bench_names_it_and_fails(self):
        with tempfile.TemporaryDirectory(prefix="lodic-cli-") as folder:
            alone = shutil.copy(LODIC, folder)
            for words in ["demo"], ["bench"], ["bench", "pin", "--json"], ["help", "bench", "pin"]:
                done = subprocess.run([alone, *words], stdin=subprocess.DEVNULL, text=True,
                                      capture_output=True, check=False, timeout=SECONDS)
                self.assertEqual((done.returncode, done.stdout), (1, ""), words)
                self.assertRegex(done.stderr, r"\Alodic: .* lodic-bench, which is not installed; "
                                              r".* the Debian package lodic install it\n\Z")


class Bench(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.data = self.folder / "data"
        self.data.write_bytes(os.urandom(FILE_BYTES))

    def bench(self, *words):
        done = run("bench", "pin", "--file", self.data, "--access", "hot", "--bytes", "64",
                   "--workdir", self.folder, *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_few_undisturbed_slots_give_rough_numbers(self):
        few = ["--processes", "1", "--rounds", "5"]  # all of them may be too few
        said = self.bench(*few)
        self.assertRegex(said, r"\npread +~\d")
        self.assertRegex(said, r"\n~: rough\. Only \d+ of these \d+ slots")
        self.assertNotIn("MISSED", said)  # rough numbers judge nothing
        row = json.loads(self.bench(*few, "--json"))["results"][0]
        self.assertIsNone(row["mops"])
        self.assertGreater(row["rough_mops"], 0)

    def test_demo_that_is_disturbed_says_so_and_concludes_nothing(self):
        done = run("demo", "--file", self.data, "--workdir", self.folder, "--seconds", "0.01",
                   "--json-out", self.folder / "result")  # one round: all slots are too few
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cannot say what the cache is worth", done.stdout)
        self.assertNotIn("times as fast", done.stdout)

    def test_more_processes_than_a_default_cache_lets_pin(self):
        rows = json.loads(self.bench("--processes", "120", "--rounds", "1", "--json"))["results"]
        shares = {row["method"]: row["hit_ratio"] for row in rows}
        for method in "lodic_read", "lodic_pin", "pin_atomic", "pin_frozen", "pin_hazard":
            self.assertGreater(shares[method], 0.9, method)

    def test_two_processes_pin_apart_too(self):
        said = json.loads(self.bench("--processes", "1,2", "--rounds", "3", "--json"))
        apart = [row for row in said["results"] if row["method"] == "lodic_pin_apart"]
        self.assertEqual([row["processes"] for row in apart], [2])
        self.assertEqual(apart[0]["hit_ratio"], 1)
        whats = [goal["what"] for goal in said["goals"]]
        self.assertIn("lodic_pin over lodic_pin_apart, hot, 64 B, 2 processes", whats)
        self.assertIn("lodic_pin, 2 processes over 1, over private's, hot, 64 B", whats)

    def test_too_many_processes_name_the_limit(self):
        done = run("bench", "pin", "--processes", "100000")
        self.assertEqual(done.returncode, 2)
        self.assertIn("from 1 to 512", done.stderr)
        done = run("bench", "pin", "--file", self.data, "--processes", "512",
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300)))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Alodic: 512 processes need \d+ open files, and this user "
                                      r"may have 300 .*\n\Z")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
