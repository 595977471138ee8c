#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What `make check` runs: rules, headers, builds, tests, the checker, the recipes.

Each step prints a line when it is done; all output is kept in build/check/*.log. The last
line is `N passed, N failed`, and the exit status is 0 only when nothing failed.
"""

import argparse
import itertools
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
TAIL_LINES = 30

# Strict where the compilers can be trusted; all with DCHECK. Mutants once: they test the
# tests, not the code.
STRICT = ["-Dwerror=true", "-Ddebug_checks=true", "-Dtests=enabled"]
# To compile less under a sanitizer: rooms as units, fewer passes, and lines without variables.
SANITIZED = ["-Dunits=true", "-Doptimization=1", "-Dc_args=-g1", "-Dcpp_args=-g1"]
BUILDS = {
    "gcc": {
        "cc": "gcc",
        "options": ["-Dmutants=true", "-Dbench=true"],
        "suites": ["unit", "cli", "stress", "crash", "mutant"],
        "proves": "logic under load, killed peers; mutants are caught",
    },
    "clang": {
        "cc": "clang",
        "options": ["-Dunits=true", "-Dbench=true"],
        "suites": ["unit"],
        "proves": "the other compiler; sources compiled as units, as in releases",
    },
    "asan": {
        "cc": "gcc",
        "options": [*SANITIZED, "-Db_sanitize=address,undefined"],
        "suites": ["unit", "cli", "stress", "crash", "fuzz"],
        "proves": "lifetime, leaks, undefined behaviour",
        "slow": 4,
    },
    "tsan": {
        "cc": "gcc",
        "options": [*SANITIZED, "-Db_sanitize=thread"],
        "suites": ["unit", "stress"],
        "proves": "data races between threads",
        "slow": 6,
    },
}

# Most tests wait for what they have started, so several of them share a CPU. Those that want the
# cores for themselves run alone.
TESTS_A_CPU = 2

STEPS = ["rules", "headers", "guest", *BUILDS, "checker", "recipes"]

# What `make check` asks of the checker; `make soak` asks for more.
SCHEDULES = 2000
SCHEDULES_WEAK = 10000  # weak memory, with movers
SCHEDULES_FLIPPED = 30  # random ones
MUTANT_SEEDS = 3
WHOLE_SCHEDULES = 5000
WHOLE_COMPARED = 500  # by two compilers

HEADERS = ["lodic/counter.h", "lodic/counter.hpp", "lodic/inline.h", "lodic/lodic.h",
           "lodic/lodic.hpp", "lodic/reason.h"]  # in include/
HEADER_WAYS = [
    ("gcc", "c11", "c"),
    ("clang", "c11", "c"),
    ("g++", "c++17", "c++"),
    ("clang++", "c++17", "c++"),
]

TEST_LINE = re.compile(r"^\s*\d+/\d+\s+(\S.*?)\s+(OK|FAIL|SKIP|TIMEOUT|ERROR|EXPECTEDFAIL|"
                       r"UNEXPECTEDPASS|INTERRUPT)\s+([\d.]+)s")
# What ninja says that is not about an error: its progress, and the commands.
BUILD_NOISE = re.compile(r"^(\[\d+/\d+\] |FAILED: |ninja: |"
                         r"(ccache )?(gcc|clang|cc|[gc]\+\+|clang\+\+) -).*\n", re.MULTILINE)
CASE_LINE = re.compile(r"^\[\s*(OK|FAILED|SKIPPED)\s*\] (\w+)$", re.MULTILINE)
SEED = re.compile(r"\bseed[= ]+(0x[0-9a-f]+|\d+)", re.IGNORECASE)


class Check:
    """Counts, and one line per step."""

    def __init__(self, folder):
        self.folder = folder
        self.started = time.monotonic()
        self.passed = self.failed = self.skipped = 0
        self.failures = []

    def line(self, what, seconds, verdict):
        total = time.monotonic() - self.started
        print(f"[{total:5.0f} s] {what:<56} {seconds:6.1f} s  {verdict}", flush=True)

    def count(self, passed, failed, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def fail(self, what, text):
        """Shows the end of what a failed step said, at once."""
        self.failures.append(what)
        for line in text.rstrip().splitlines()[-TAIL_LINES:]:
            print("    | " + line)
        sys.stdout.flush()

    def run(self, what, command, log, env=None):
        """A step that is one command and one test."""
        before = time.monotonic()
        text, status = run_logged(command, self.folder / log, env)
        ok = status == 0
        self.count(int(ok), int(not ok))
        self.line(what, time.monotonic() - before, "ok" if ok else "FAILED")
        if not ok:
            self.fail(what, text)
        return ok


def run_logged(command, log, env=None):
    """Runs command, adds its output to log; returns (output, status)."""
    try:
        done = subprocess.run(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        text, status = done.stdout.decode(errors="replace"), done.returncode
    except OSError as err:
        text, status = f"{command[0]}: {err.strerror}\n", 127
    with open(log, "a", encoding="utf-8") as f:
        f.write(f"$ {' '.join(map(str, command))}\n{text}")
    return text, status


def check_rules(check):
    check.run("rules: self-test", [PYTHON, "tools/tidy.py", "--self-test"], "tidy.log")
    check.run("rules: tree", [PYTHON, "tools/tidy.py"], "tidy.log")


def check_headers(check):
    """Each installed header alone, in its languages, by both compilers."""
    for name, (compiler, standard, language) in itertools.product(HEADERS, HEADER_WAYS):
        if name.endswith(".hpp") and language == "c":
            continue
        source = check.folder / ("header.c" if language == "c" else "header.cc")
        # Twice: the include guard is part of it.
        source.write_text(f"#include <{name}>\n#include <{name}>\n")
        check.run(f"header: {name} as {standard}, {compiler}",
                  [compiler, f"-std={standard}", "-x", language, "-Wall", "-Wextra",
                   "-Werror", "-pedantic", "-Iinclude", "-fsyntax-only", str(source)],
                  "headers.log")


PROBES = {"asan": "-fsanitize=address,undefined", "tsan": "-fsanitize=thread"}


def probe_sanitizer(check, name, env):
    """Does this sanitizer run here at all? Returns (why not or None, wrapper, env)."""
    if name not in PROBES:
        return None, [], env
    source, program = check.folder / "probe.c", check.folder / f"probe-{name}"
    source.write_text("#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n")
    text, status = run_logged(["gcc", PROBES[name], str(source), "-o", str(program)],
                              check.folder / "probe.log")
    if status != 0:
        return f"gcc {PROBES[name]} does not link here: {text.strip()[-200:]}", [], env
    quiet = dict(env, ASAN_OPTIONS=env.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    # Newer kernels randomize more than TSan's runtime bears; leaks need ptrace.
    ways = [([], env), (["setarch", "-R"], env), ([], quiet)]
    for wrapper, way_env in ways:
        text, status = run_logged(wrapper + [str(program)], check.folder / "probe.log",
                                  way_env)
        if status == 0:
            if way_env is quiet:
                print(f"    | {name}: no leak detection here (it needs ptrace)")
            return None, wrapper, way_env
    return f"its runtime does not start here: {text.strip()[-200:]}", [], env


def build_env(build):
    env = dict(os.environ, CC=build["cc"], CXX={"gcc": "g++", "clang": "clang++"}[build["cc"]],
               PYTHONUNBUFFERED="1")
    env["ASAN_OPTIONS"] = "strict_string_checks=1:detect_stack_use_after_return=1"
    env["UBSAN_OPTIONS"] = "print_stacktrace=1"
    env["TSAN_OPTIONS"] = "halt_on_error=1:second_deadlock_stack=1"
    return env


def cases_of(test):
    """(passed, failed, skipped) of one entry of testlog.json: cmocka's cases, else 1."""
    cases = {}
    for verdict, case in CASE_LINE.findall(test.get("stdout", "") + "\n" +
                                           test.get("stderr", "")):
        cases[case] = verdict
    passed = sum(v == "OK" for v in cases.values())
    failed = sum(v == "FAILED" for v in cases.values())
    skipped = sum(v == "SKIPPED" for v in cases.values())
    if test["result"] == "EXPECTEDFAIL":  # a mutant: that a case fails is the test
        return 1, 0, 0
    if test["result"] == "OK":
        return (passed, failed, skipped) if cases else (1, 0, 0)
    if test["result"] == "SKIP":
        return 0, 0, 1
    return passed, max(failed, 1), skipped


def report_tests(check, name, folder):
    """Counts what meson wrote down; shows the seeds, the skips and the failures."""
    log = folder / "meson-logs" / "testlog.json"
    tests = [json.loads(line) for line in log.read_text().splitlines()]
    for test in tests:
        said = test.get("stdout", "") + test.get("stderr", "")
        check.count(*cases_of(test))
        if test["result"] == "SKIP":
            reason = (said.strip().splitlines() or ["it did not say why"])[-1]
            print(f"    | {name}: {test['name']} skipped: {reason}")
        elif test["result"] not in ("OK", "EXPECTEDFAIL"):
            check.fail(f"{name}: {test['name']}", said + f"\n{test['result']}; again: " +
                       " ".join(test.get("command", [])))
    seeds = sorted({seed for test in tests
                    for seed in SEED.findall(test.get("stdout", ""))})
    if seeds:
        print(f"    | {name}: seeds {', '.join(seeds[:8])}"
              f"{' ...' if len(seeds) > 8 else ''}")


def run_tests(check, name, build, env, wrapper):
    """`meson test`, its lines passed on as they come."""
    folder = check.folder / name
    command = ["meson", "test", "-C", str(folder), "--no-rebuild",
               "--timeout-multiplier", str(TESTS_A_CPU * build.get("slow", 1)),
               "--num-processes", str(TESTS_A_CPU * (os.cpu_count() or 1))]
    for suite in build["suites"]:
        command += ["--suite", suite]
    if wrapper:
        command += ["--wrapper", " ".join(wrapper)]
    json_log = folder / "meson-logs" / "testlog.json"
    json_log.unlink(missing_ok=True)
    said = ""
    with open(check.folder / f"{name}.log", "a", encoding="utf-8") as log, \
            subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace") as child:
        for line in child.stdout:
            log.write(line)
            said += line
            found = TEST_LINE.match(line)
            if found:
                test = found[1].removeprefix("lodic:")
                verdict = "ok" if found[2] in ("OK", "EXPECTEDFAIL") else found[2]
                check.line(f"{name}: {test}", float(found[3]), verdict)
    known = len(check.failures)
    if json_log.exists():
        report_tests(check, name, folder)
    if child.returncode != 0 and len(check.failures) == known:
        check.count(0, 1)
        check.fail(f"{name}: meson test", said)


def targets(build, folder):
    """What ninja makes: everything, or under a sanitizer ("slow") what the suites run."""
    if "slow" not in build:
        return []
    info = folder / "meson-info"
    files = {target["id"]: target["filename"]
             for target in json.loads((info / "intro-targets.json").read_text())}
    return sorted({"lodic"} | {
        os.path.relpath(path, folder)
        for test in json.loads((info / "intro-tests.json").read_text())
        if any(suite.split(":")[-1] in build["suites"] for suite in test["suite"])
        for target in test["depends"] for path in files[target]})


def check_build(check, name):
    build = BUILDS[name]
    why_not, wrapper, env = probe_sanitizer(check, name, build_env(build))
    if why_not:
        check.count(0, 0, 1)
        check.line(f"{name}: skipped", 0, why_not)
        return
    log = f"{name}.log"
    folder = check.folder / name
    before = time.monotonic()
    text, status = run_logged(["sh", "tools/setup.sh", str(folder), *STRICT,
                               *build["options"]], check.folder / log, env)
    if status == 0:
        text, status = run_logged(["ninja", "-C", str(folder), "-k", "0", *targets(build, folder)],
                                  check.folder / log, env)
    check.count(int(status == 0), int(status != 0))
    check.line(f"{name}: build", time.monotonic() - before, "ok" if status == 0 else "FAILED")
    if status != 0:
        check.fail(f"{name}: build", BUILD_NOISE.sub("", text[max(text.find("FAILED: "), 0):]))
        return
    run_tests(check, name, build, env, wrapper)


def check_searches(check, program, name, schedules, *options):
    before = time.monotonic()
    command = [str(program), "--all", "--schedules", str(schedules), "--json", *options]
    text, status = run_logged(command, check.folder / "checker.log")
    try:
        # A violation, if any, is told beside it.
        start = text.index('{\n "results"')
        results = json.JSONDecoder().raw_decode(text, start)[0]["results"]
    except ValueError:
        results = []
    bad = sum(r["violations"] > 0 for r in results)
    ok = results and status == 0
    check.count(len(results) - bad, bad if bad else int(not ok))
    check.line(f"checker: {schedules} schedules of {name}", time.monotonic() - before,
               f"{len(results)} searches ok" if ok else "FAILED")
    if not ok:
        check.fail("checker", text)


def check_checker(check):
    """The searched protocols, and the mutants that the search must find."""
    program = check.folder / "gcc" / "lodic-check"
    if not program.exists():
        check.count(0, 1)
        check.fail("checker", f"{program} is not there: the build `gcc` makes it")
        return
    # Weak memory with movers has a search of its own, with more schedules.
    for memory in ("sc", "tso", "pso"):
        check_searches(check, program, f"each, {memory}", SCHEDULES, "--memory", memory)
    check_searches(check, program, "each, weak, without movers", SCHEDULES,
                   "--memory", "weak", "--no-movers")
    check_searches(check, program, "each, weak, with movers", SCHEDULES_WEAK,
                   "--memory", "weak", "--movers")
    check_searches(check, program, "each, flipped", SCHEDULES_FLIPPED,
                   "--flip", "all", "--strategy", "random")
    check.run("checker: every mutant is found",
              [str(program), "--mutants", "--seeds", str(MUTANT_SEEDS)], "checker.log")
    check.run(f"checker: {WHOLE_SCHEDULES} schedules of the whole product",
              [str(program), "--whole", "--schedules", str(WHOLE_SCHEDULES), "--coverage"],
              "checker.log")
    check_whole_hash(check)


def check_whole_hash(check):
    """One seed gives one schedule of the whole product, whichever compiler made it."""
    before, hashes = time.monotonic(), []
    for name in ("gcc", "clang"):
        program = check.folder / name / "lodic-whole"
        if not program.exists():
            continue
        text, status = run_logged([str(program), "--schedules", str(WHOLE_COMPARED), "--json"],
                                  check.folder / "checker.log")
        hashes.append(json.loads(text)["hash"] if status == 0 else text)
    ok = len(set(hashes)) == 1
    check.count(int(ok), int(not ok))
    check.line("checker: the whole product, by both compilers", time.monotonic() - before,
               "the same" if ok else "FAILED")
    if not ok:
        check.fail("checker", "\n".join(hashes))


def check_guest(check):
    """The guest's programs link parts of lib/ and core/. `make kernel-check` runs them."""
    if platform.machine() != "x86_64":
        check.count(0, 0, 1)
        check.line("guest: skipped", 0, "the series is for x86_64")
        return
    check.run("guest: its programs", [PYTHON, "kernel/run", "--work", str(check.folder / "kernel"),
                                      "programs"], "guest.log")


def check_recipes(check):
    """The page that tells how to change something, followed in a copy of the tree."""
    check.run("recipes: doc/recipes.md, 2, 3, 5 to 8", [PYTHON, "tests/recipes/test_recipes.py"],
              "recipes.log")


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="builds:\n" + "\n".join(
            f"  {name:<6} {', '.join(build['suites']):<28} {build['proves']}"
            for name, build in BUILDS.items()))
    parser.add_argument("--build", default="build/check", help="where the builds go")
    parser.add_argument("--only", action="append",
                        choices=STEPS,
                        help="only this step; may be given again")
    return parser.parse_args()


def main():
    options = parse_options()
    folder = (ROOT / options.build).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    steps = options.only or STEPS
    for log in folder.glob("*.log"):
        log.unlink()

    check = Check(folder)
    for step in steps:
        if step == "rules":
            check_rules(check)
        elif step == "headers":
            check_headers(check)
        elif step == "guest":
            check_guest(check)
        elif step == "checker":
            check_checker(check)
        elif step == "recipes":
            check_recipes(check)
        else:
            check_build(check, step)
    if check.failures:
        print("\nfailed:")
        for what in check.failures:
            print(f"  {what}")
        print(f"logs: {os.path.relpath(folder, ROOT)}/*.log")
    print()
    tail = f", {check.skipped} skipped" if check.skipped else ""
    print(f"{check.passed} passed, {check.failed} failed{tail}")
    return 1 if check.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ncheck: stopped")
        sys.exit(130)
