#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""lodic-check, lodic-sim and the scripts as a user meets them: help, wrong usage, output.

Usage: test_programs.py LODIC_CHECK LODIC_SIM SOURCE [--no-scripts]
"""

import csv
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

CHECK, SIM, SOURCE = sys.argv[1:4]
NO_SCRIPTS = sys.argv[4:] == ["--no-scripts"] # no build makes a difference to them
PYTHON = "/usr/bin/python3"
SECONDS = 60  # a run may take
SIM_COMMANDS = ["drbh", "table", "fit", "figure", "micro", "tier", "cache"]
SHORT = ["drbh", "--cpus", "1,2", "--schemes", "atomic", "--no-band"]
TIER = ["tier", "--workload", "redis", "--scale", "4096"]
TIER_ROW = {"workload", "policy", "throughput", "migrations", "slow_allocations",
            "small_objects", "metadata_bytes", "parameters"}
CACHE_SCHEMES = {"lodic", "lodic-lock", "hazard", "percpu", "paygo", "frozen", "atomic", "private"}
CACHE_ROW = {"scheme", "cpus", "contexts", "what", "blocks", "mops", "low", "high",
             "transfers_per_op", "hottest", "of_private", "lines"}
SCRIPTS = ["bench/run.py", "bench/scale.py", "bench/plot.py", "bench/recordings.py",
           "sim/validate.py", "sim/tiers.py", "sim/figures/figures.py", "kernel/run",
           "tools/check.py", "tools/tidy.py", "tools/install.py"]
FULL = "/dev/full"
REFUSED_SECONDS = 1  # of CPU time; the simulation itself takes several


def run(*words, **more):
    """Without the lines of progress, which a busy machine may bring."""
    more.setdefault("stdout", subprocess.PIPE)
    done = subprocess.run(list(words), stdin=subprocess.DEVNULL, text=True, check=False,
                          stderr=subprocess.PIPE, timeout=SECONDS, **more)
    done.stderr = re.sub(r"(?m)^lodic-sim: \d+ (of \d+ )?points, \d+ s\n", "", done.stderr)
    return done


class Help(unittest.TestCase):
    def same(self, expected, *forms):
        self.assertEqual((expected.returncode, expected.stderr), (0, ""))
        for form in forms:
            done = run(*form)
            self.assertEqual((done.returncode, done.stdout, done.stderr),
                             (0, expected.stdout, ""), form)

    def test_help_every_form_same(self):
        self.same(run(CHECK, "--help"), [CHECK, "help"], [CHECK, "-h"])
        self.same(run(SIM, "--help"), [SIM, "help"], [SIM, "-h"])
        for name in SIM_COMMANDS:
            self.assertIn(f"\n  {name} ", run(SIM, "help").stdout)
            self.same(run(SIM, name, "--help"), [SIM, "help", name], [SIM, name, "-h"])

    def test_version_every_form_says_version_and_commit(self):
        for form in [CHECK, "--version"], [CHECK, "-V"], [SIM, "--version"], [SIM, "-V"], \
                [SIM, "drbh", "--version"]:
            done = run(*form)
            self.assertEqual((done.returncode, done.stderr), (0, ""), form)
            self.assertRegex(done.stdout, r"\Alodic-(check|sim) \d+\.\d+\.\d+ \(\w+.*\)\n\Z")

    @unittest.skipIf(NO_SCRIPTS, "another build has run them")
    def test_scripts_help_and_wrong_usage(self):
        for name in SCRIPTS:
            path = str(pathlib.Path(SOURCE, name))
            done = run(PYTHON, path, "--help")
            if "no matplotlib" in done.stderr:
                continue
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertIn("usage: ", done.stdout)
            done = run(PYTHON, path, "--no-such-option")
            self.assertEqual((done.returncode, done.stdout), (2, ""), name)


class Usage(unittest.TestCase):
    def refused(self, words, *texts):
        done = run(*words)
        self.assertEqual((done.returncode, done.stdout), (2, ""), words)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_wrong_usage_refused(self):
        self.refused([SIM], "Usage: lodic-sim", *SIM_COMMANDS)
        self.refused([SIM, "nothing"], "no command 'nothing'", *SIM_COMMANDS)
        self.refused([SIM, "drbh", "--no-such-option"], "no-such-option")
        self.refused([SIM, "drbh", "--topology", "none"], "8x15")
        self.refused([SIM, "drbh", "--cpus", "0"], "'0'")
        self.refused([SIM, "figure", "none"], "'none'")
        self.refused([SIM, "cache", "--what", "none"], "'none'", "evict")
        self.refused([SIM, "cache", "--schemes", "none"], "'none'")
        self.refused([SIM, "cache", "--cpus", "121"], "8x15 has 120 CPUs, not 121")
        self.refused([SIM, "cache", "--blocks", "0"], "'0'")
        self.refused([SIM, "tier"], "--workload")
        self.refused([SIM, "tier", "--workload", "none"], "'none'", "--list")
        self.refused([SIM, "tier", "--trace", "/nonexistent/x"], "/nonexistent/x")
        self.refused([SIM, *TIER, "--policy", "none"], "'none'", "--list")
        self.refused([SIM, *TIER, "--fast", "8x"], "'8x'")
        self.refused([SIM, *TIER, "--fast", "1"], "--fast")
        self.refused([SIM, *TIER, "--segment", "1"], "--segment")
        self.refused([SIM, *TIER, "--replay", "/dev/null"], "--replay")
        self.refused([SIM, *TIER, "--parameters", "none"], "tier-two")
        self.refused([SIM, *TIER, "--parameters", "xeon-ex"], "table_cycle_ps")
        self.refused([CHECK], "--all")
        self.refused([CHECK, "--no-such-option"], "no-such-option")
        self.refused([CHECK, "--all", "--schedules", "many"], "'many'")

    def test_unknown_name_says_which_and_names_those_there_are(self):
        self.refused([CHECK, "--scheme", "foo"], "no scheme 'foo'", "  lodic\n", "  atomic\n")
        self.refused([CHECK, "--scenario", "foo"], "no scenario 'foo'", "  fold\n")
        self.refused([CHECK, "--scenario", "fold", "--scheme", "atomic"],
                     "'fold' is not for scheme 'atomic'", "  lodic\n")


class Output(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def test_stdout_full_fails_with_one_message(self):
        for words in [SIM, *SHORT], [SIM, "help"], [SIM, "--version"], [CHECK, "--list"], \
                [CHECK, "--scenario", "fold", "--schedules", "6"], [CHECK, "help"], \
                [CHECK, "--version"]:
            with open(FULL, "w", encoding="ascii") as full:
                done = run(*words, stdout=full)
            self.assertEqual(done.returncode, 1, words)
            self.assertRegex(done.stderr, r"\Alodic-(check|sim): .*: No space left.*\n\Z")

    def test_result_file_unwritable_fails_before_simulating(self):
        for words in ["drbh"], ["figure", "threads"]:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            done = run(SIM, *words, "--csv", "/nonexistent/x")
            spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"\Alodic-sim: /nonexistent/x: .*\n\Z")
            self.assertLess(spent, REFUSED_SECONDS)

    def test_cache_json_has_a_row_per_scheme_and_use(self):
        words = [SIM, "cache", "--cpus", "1,4", "--blocks", "32", "--batch", "4"]
        done = run(*words, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, run(*words, "--json").stdout)
        said = json.loads(done.stdout)
        self.assertEqual((said["simulated"], said["topology"]), (True, "8x15"))
        rows = {(r["scheme"], r["cpus"], r["what"], r["blocks"]): r for r in said["results"]}
        self.assertEqual(len(rows), len(said["results"]))
        self.assertEqual({key[2:] for key in rows},
                         {("read", 1), ("read", 32), ("pin", 1), ("pin", 32), ("pair", 1),
                          ("evict", 32)})
        self.assertEqual({key[0] for key in rows}, CACHE_SCHEMES)
        for row in rows.values():
            self.assertLessEqual(CACHE_ROW, set(row))
            self.assertEqual("service" in row, row["what"] == "evict")
        self.assertEqual(rows["atomic", 4, "pin", 1]["hottest"], "counter")
        self.assertEqual(rows["lodic", 4, "pin", 1]["hottest"], "none")
        self.assertGreater(rows["lodic", 4, "evict", 32]["service"]["frame_ns"], 0)
        table = run(*words).stdout
        for head in "simulated: topology 8x15", "pin: one hot block", "evict: pins of":
            self.assertIn(head, table)

    def test_tier_json_has_a_row_per_policy(self):
        done = run(SIM, *TIER, "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        rows = {row["policy"]: row for row in json.loads(done.stdout)["results"]}
        self.assertLessEqual({"all_slow", "all_fast", "naive", "nimble", "nimble++", "kloc",
                              "kloc_nomigration", "oracle"}, set(rows))
        for row in rows.values():
            self.assertLessEqual(TIER_ROW, set(row))
            self.assertEqual(set(row["migrations"]), {"down", "up"})
        self.assertEqual(rows["all_slow"]["throughput"], 1)
        self.assertGreater(rows["all_fast"]["throughput"], 1)
        self.assertEqual(rows["naive"]["migrations"], {"down": 0, "up": 0})

    def test_tier_file_unwritable_fails_with_one_message(self):
        for words in ["--record", "/nonexistent/x"], ["--log", "/nonexistent/x"], \
                ["--record", FULL]:
            done = run(SIM, *TIER, "--policy", "kloc", *words)
            self.assertEqual((done.returncode, done.stdout), (1, ""), words)
            self.assertRegex(done.stderr, rf"\Alodic-sim: {words[1]}: .*\n\Z")

    def test_tier_trace_that_is_none_refused(self):
        head = self.folder / "head.csv"
        head.write_text("filename,file_offset,op_type,request_io_size_bytes\n", encoding="ascii")
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        for path, why in ((head, "no event"), (self.folder, "regular file"),
                          ("/dev/null", "regular file"), ("/dev/stdin", "regular file"),
                          (fifo, "regular file")):
            done = run(SIM, "tier", "--trace", str(path))
            self.assertEqual((done.returncode, done.stdout), (2, ""), path)
            self.assertRegex(done.stderr, rf"\Alodic-sim: {path}: .*{why}.*\n\Z")

    def test_tier_never_writes_onto_what_it_reads(self):
        trace, link = self.folder / "trace", self.folder / "link"
        record = [SIM, *TIER, "--policy", "naive", "--record", str(trace)]
        self.assertEqual(run(*record).returncode, 0)
        os.link(trace, link)
        before = trace.read_bytes()
        for words in (["--record", str(link)], ["--log", str(trace)]):
            done = run(SIM, "tier", "--trace", str(trace), "--scale", "4096", *words)
            self.assertEqual((done.returncode, done.stdout), (2, ""), words)
            self.assertEqual(trace.read_bytes(), before)
        self.assertEqual(run(*record, "--log", str(trace)).returncode, 2)

    def test_tier_trace_of_a_record_gives_the_same(self):
        path, log = str(self.folder / "redis.trace"), self.folder / "log"
        words = ["--policy", "kloc", "--json", "--log", str(log), "--scale", "4096"]
        recorded = run(SIM, *TIER, *words, "--record", path)
        decisions = log.read_text(encoding="ascii")
        replayed = run(SIM, "tier", "--trace", path, *words)
        self.assertEqual((recorded.returncode, replayed.returncode), (0, 0))
        self.assertGreater(len(decisions.splitlines()), 1000)
        self.assertEqual(decisions, log.read_text(encoding="ascii"))
        same = [json.loads(done.stdout)["results"][0] for done in (recorded, replayed)]
        for row in same:
            del row["workload"]
        self.assertEqual(*same)

    def test_tier_replay_tells_kernel_from_service(self):
        knode = "dev=8:1 ino=5 knode=1"
        kernel = "".join(f"  sh-1 [000] ..... 1: {line} now=0\n" for line in (
            "kloc_rules: policy=kloc on=1 promote=0 age_limit=16 ping_pong=8 forgive=64",
            f"kloc_input: input=new {knode} n=0", f"kloc_input: input=open {knode} n=1",
            f"kloc_decision: what=activate {knode} why=state fast=0 slow=0"))
        service = "begin kloc 16384 16384 16 4 2 00\nmap 0 7 0\nopen 0 1\n"
        for text, said in (kernel, "kloc: 2 calls give the same 1 decisions again, of 1 knodes;"), \
                (service, "kloc: 2 calls give the same 0 decisions again\n"):
            path = self.folder / "record"
            path.write_text(text, encoding="ascii")
            done = run(SIM, "tier", "--replay", str(path))
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout[:len(said)], said)
            json.loads(run(SIM, "tier", "--json", "--replay", str(path)).stdout)
        for text in kernel.replace("what=activate", "what=demote"), "":
            path.write_text(text, encoding="ascii")
            done = run(SIM, "tier", "--replay", str(path))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, rf"\Alodic-sim: {path}: line \d.*\n")

    def test_csv_row_says_version_commit_parameters_seed(self):
        path = self.folder / "drbh.csv"
        self.assertEqual(run(SIM, *SHORT, "--seed", "7", "--csv", str(path)).returncode, 0)
        rows = list(csv.DictReader(path.read_text(encoding="ascii").splitlines()))
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertRegex(row["version"], r"\A\d+\.\d+\.\d+\Z")
            self.assertTrue(row["commit"])
            self.assertRegex(row["parameters"], r"\Axeon-ex [0-9a-f]{16}\Z")
            self.assertEqual(row["seed"], "7")

    def test_trace_of_mutant_is_on_stdout(self):
        done = run(CHECK, "--mutant", "fold-after-clear")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("# BREAKS A RULE", done.stdout)


class Progress(unittest.TestCase):
    def test_fit_tells_how_far_it_is(self):
        with subprocess.Popen([SIM, "fit"], text=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as fit:
            said = fit.stderr.readline()
            fit.kill()
        self.assertRegex(said, r"\Alodic-sim: [1-9]\d* points, \d+ s\n\Z")


class Search(unittest.TestCase):
    def test_schedules_are_shared_as_help_says(self):
        deep = dict(re.findall(r"^(\S+) +lodic(  \(deep: 10 times.*)?$",
                               run(CHECK, "--list").stdout, re.MULTILINE))
        self.assertIn("", deep.values())
        self.assertGreater(len(set(deep.values())), 1)
        done = run(CHECK, "--scheme", "lodic", "--schedules", "30", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        sums = {}
        for row in json.loads(done.stdout)["results"]:
            key = row["scenario"], row["memory"], row["movers"]
            sums[key] = sums.get(key, 0) + row["schedules"]
        for (scenario, *how), schedules in sums.items():
            self.assertEqual(schedules, 300 if deep[scenario] else 30, (scenario, how))
        self.assertEqual({movers for _, _, movers in sums}, {False, True})
        words = " ".join(run(CHECK, "--help").stdout.split())
        self.assertIn("A deep scenario (--list) gets 10 times as many", words)

    def test_movers_are_searched_as_asked(self):
        words = ["--scheme", "paygo", "--scenario", "reclaim", "--schedules", "6", "--json"]
        for more, wanted in [["--movers"], {True}], [["--no-movers"], {False}], \
                [["--strategy", "exhaustive"], {False}]:
            done = run(CHECK, *words, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual({r["movers"] for r in json.loads(done.stdout)["results"]}, wanted)
        for more in ["--movers", "--no-movers"], ["--movers", "--strategy", "exhaustive"]:
            done = run(CHECK, *words, *more)
            self.assertEqual((done.returncode, done.stdout), (2, ""))

    def test_flipped_scenarios_hold_and_are_replayed_so(self):
        words = ["--scheme", "paygo", "--scenario", "reclaim", "--schedules", "6"]
        self.assertEqual(run(CHECK, *words, "--flip", "all").returncode, 0)
        self.assertEqual(run(CHECK, *words, "--flip", "nothing").returncode, 2)
        shown = run(CHECK, "--mutant", "fold-after-clear", "--flip", "cpu", "--flip", "order")
        again = re.search(r"^  lodic-check (.* --flip cpu --flip order .*)$", shown.stdout,
                          re.MULTILINE)
        self.assertEqual(run(CHECK, *again[1].split()).returncode, 1)
        other = again[1].replace(" --flip cpu", "")
        self.assertNotEqual(run(CHECK, *other.split()).stdout, run(CHECK, *again[1].split()).stdout)

    def test_stopped_search_counts_what_it_left_out(self):
        with subprocess.Popen([CHECK, "--mutants", "--jobs", "1"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as check:
            self.assertEqual(check.stdout.readline(), "seed=1\n")
            children = pathlib.Path(f"/proc/{check.pid}/task/{check.pid}/children")
            while not children.read_text(encoding="ascii"):
                self.assertIsNone(check.poll())
            check.send_signal(signal.SIGINT)
            said = check.communicate(timeout=SECONDS)[0]
        self.assertEqual(check.returncode, 130)
        nr, found, survived, left = map(int, re.search(
            r"(\d+) mutants: (\d+) found, (\d+) survived, (\d+) not searched to the end\n\Z",
            said).groups())
        self.assertEqual((survived, found + left), (0, nr))
        self.assertGreater(left, 0)

    def interrupt(self, *words):
        """What it says when Ctrl-C comes in its first search."""
        with subprocess.Popen([CHECK, "--all", "--schedules", "100000000", "--jobs", "1", *words],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as check:
            children = pathlib.Path(f"/proc/{check.pid}/task/{check.pid}/children")
            while not children.read_text(encoding="ascii"):
                self.assertIsNone(check.poll())
            check.send_signal(signal.SIGINT)
            said = check.communicate(timeout=SECONDS)[0]
        self.assertEqual(check.returncode, 130)
        return said

    def test_stopped_search_concludes_nothing(self):
        said = self.interrupt()
        last = re.search(r"^stopped: 0 of (\d+) searches came to their end, with 0 schedules, 0 "
                         r"steps and 0 violations. The other (\d+) say nothing.\n\Z", said, re.M)
        self.assertTrue(last, said[-300:])
        self.assertEqual(last[1], last[2])
        self.assertEqual(len(said.splitlines()), 3)  # the seed, the head, that line
        whole = json.loads(self.interrupt("--json"))
        self.assertEqual((whole["results"], whole["stopped"]), ([], int(last[1])))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
