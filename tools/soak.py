#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs the cache's stress and crash tests for longer, in both barrier modes.

`make soak-cache` calls this. In each mode it kills 10,000 readers, at least 2,500 of them with
pins, and 500 services. It also stops readers while their frames are wanted, between any two
instructions of a pin and at random. In both modes together it verifies 10^9 reads and pins
byte for byte: whole blocks of 4096 bytes, but for one read in 200. The work is cut into
rounds, and each round prints its seed. The build has no debug checks, as users have none:
their extra steps could hide a race.

The last lines are the totals. The exit status is 0 only if no byte was wrong, no frame was
lost, and nothing hung or failed. All that was asked for must have been done, too. What the
programs said is kept in BUILD/soak.log.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPTIONS = ["-Dbuildtype=debugoptimized", "-Dtests=enabled"]
MODES = ("light", "lock")
TAIL_LINES = 30
SKIP = 77
# No program of one round takes a tenth of this on two idle CPUs.
LIMIT_S = 1200

# What all rounds of one mode must come to. Of the reads and pins, 10^9 in both modes, some go
# through the whole library and a real service.
ASKED = {"kills": 10000, "with_pins": 2500, "service_kills": 500, "checked": 500_000_000,
         "checked_by_cache": 20_000_000}

# What the programs say, and what is summed of it. A name that is said twice is added up.
SAID = {
    "stress_arena": [r"(?P<reads>\d+) reads, (?P<pins>\d+) pins verified; \d+ misses, "
                     r"(?P<evictions>\d+) evictions, \d+ refused; (?P<wrong>\d+) wrong"],
    "stress_cache": [r"(?P<reads>\d+) reads and (?P<pins>\d+) pins verified from the cache, "
                     r"\d+ reads from the kernel; (?P<evictions>\d+) evictions; "
                     r"(?P<wrong>\d+) wrong"],
    "crash_readers": [r"(?P<kills>\d+) readers killed \(lodic\), (?P<with_pins>\d+) of them",
                      r"(?P<stops>\d+) stops of readers",
                      r"pinned by the dead: (?P<pinned>\d+) frames; evicted: (?P<evicted>\d+) "
                      r"of (?P<frames>\d+); left when revoked: (?P<left>\d+)"],
    "crash_service": [r"(?P<service_kills>\d+) kills of the service",
                      r"; (?P<wrong>\d+) wrong"],
    "crash_steps": [r"(?P<step_stops>\d+) stops and (?P<step_kills>\d+) kills, "
                    r"(?P<between>\d+) stops between .* (?P<wrong>\d+) wrong, "
                    r"(?P<leaked>\d+) leaked"],
    "never_waits": [],
}
SAID["crash_steps_inline"] = SAID["crash_steps"]


def path_of(program):
    """Below the build folder."""
    return f"tests/{'crash' if program.startswith('crash_') else 'stress'}/{program}"


def programs_of(mode, asked, rounds):
    """What one round runs in a mode: (program, arguments)."""
    each = {name: -(-number // rounds) for name, number in asked.items()}
    half = -(-(each["checked"] - each["checked_by_cache"]) // 2)
    half_by_cache = -(-each["checked_by_cache"] // 2)
    barrier = ["--barrier", mode]
    large = ["--frames", "320", "--blocks", "400"] if mode == "light" else []
    return [
        ("crash_steps", barrier),
        ("crash_steps_inline", barrier),
        ("crash_readers", [*barrier, "--kills", each["kills"],
                           "--with-pins", each["with_pins"]]),
        ("crash_service", [*barrier, "--kills", each["service_kills"]]),
        ("never_waits", [*barrier, "--reads", 20000]),
        ("stress_cache", [*barrier, "--reads", half_by_cache, "--pins", half_by_cache,
                          *large]),
        ("stress_arena", ["--reads", half, "--pins", half,
                          *(["--light"] if mode == "light" else [])]),
    ]


def seed_of(program, seed):
    return [] if program.startswith("crash_steps") else ["--seed", seed]  # nothing is random there


class Soak:
    """The sums, and one line per program."""

    def __init__(self, folder, scratch):
        self.folder = folder
        self.env = dict(os.environ, TMPDIR=scratch)
        self.started = time.monotonic()
        self.sums = {mode: {} for mode in MODES}
        self.hung = self.failed = 0
        self.child = None

    def add(self, mode, name, number):
        self.sums[mode][name] = self.sums[mode].get(name, 0) + number

    def total(self, name):
        return sum(self.sums[mode].get(name, 0) for mode in MODES)

    def run(self, command):
        """Returns (output, status); the status is None when the program hung."""
        with subprocess.Popen(command, cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", start_new_session=True) as child:
            self.child = child
            try:
                text, _ = child.communicate(timeout=LIMIT_S)
                status = child.returncode
            except subprocess.TimeoutExpired:
                self.kill()
                text, status = child.communicate()[0], None
            finally:
                self.kill()
                self.child = None
        with open(self.folder / "soak.log", "a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{text}")
        return text, status

    def kill(self):
        """Ends the program that runs now with its readers and services, if one does."""
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except (AttributeError, ProcessLookupError):
            pass

    def count(self, mode, program, text):
        """Adds up what the program said; returns that."""
        said = {}
        for pattern in SAID[program]:
            found = re.search(pattern, text)
            for name, number in (found.groupdict() if found else {}).items():
                said[name] = said.get(name, 0) + int(number)
        if "frames" in said:
            said["leaked"] = (said.pop("pinned") + said.pop("left") +
                              said.pop("frames") - said.pop("evicted"))
        for name, number in said.items():
            self.add(mode, name, number)
        return said

    def step(self, what, mode, program, arguments):
        before = time.monotonic()
        command = [str(self.folder / path_of(program)), *map(str, arguments)]
        text, status = self.run(command)
        said = self.count(mode, program, text)
        failures = [line for line in text.splitlines() if line.startswith("FAILED")]
        # A reader's own count dies with it: its parent says it in words.
        if not said.get("wrong") and any("wrong bytes" in line for line in failures):
            self.add(mode, "wrong", 1)
        hangs = status is None or any(word in line for line in failures
                                      for word in ("hang", "come back"))
        self.hung += hangs
        self.failed += status != 0 and not hangs
        verdict = ("ok" if status == 0 else "HUNG" if hangs else
                   "SKIPPED" if status == SKIP else "FAILED")
        now = time.monotonic()
        detail = ", ".join(f"{name} {number}" for name, number in said.items())
        print(f"[{now - self.started:5.0f} s] {what} {program:<18} {now - before:6.1f} s  "
              f"{verdict}{': ' if detail else ''}{detail}", flush=True)
        if status != 0:
            for line in [" ".join(command), *text.rstrip().splitlines()[-TAIL_LINES:]]:
                print(f"    | {line}", flush=True)

    def report(self, asked):
        """Prints the totals; returns what is missing."""
        missing = []
        for mode in MODES:
            def of(name, sums=self.sums[mode]):
                return sums.get(name, 0)
            print(f"{mode}: {of('kills')} readers killed, {of('with_pins')} of them with pins; "
                  f"{of('service_kills')} services killed; {of('stops')} readers stopped at "
                  f"random")
            print(f"{mode}: {of('step_stops')} readers stopped at a chosen instruction of a pin "
                  f"or an unpin, {of('between')} of them seen between the count and the look; "
                  f"{of('step_kills')} of them killed there")
            print(f"{mode}: {of('reads')} reads and {of('pins')} pins verified, "
                  f"{of('evictions')} evictions meanwhile")
            done = dict(self.sums[mode], checked=of("reads") + of("pins"))
            for name in ("kills", "with_pins", "service_kills", "checked"):
                if done.get(name, 0) < asked[name]:
                    missing.append(f"{mode}: {name} {done.get(name, 0)} of {asked[name]}")
            if not of("between"):
                missing.append(f"{mode}: nobody was stopped between the count and the look")
        checked = self.total("reads") + self.total("pins")
        print(f"both: {checked} reads and pins verified; {self.total('kills')} readers and "
              f"{self.total('service_kills')} services killed")
        print(f"both: {self.total('wrong')} wrong bytes, {self.total('leaked')} frames leaked, "
              f"{self.hung} hung, {self.failed} failed, in "
              f"{time.monotonic() - self.started:.0f} s")
        return missing


def build(folder):
    for command in (["sh", "tools/setup.sh", str(folder), *OPTIONS],
                    ["ninja", "-C", str(folder), *map(path_of, SAID)]):
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def soak(folder, asked, rounds, seed):
    (folder / "soak.log").unlink(missing_ok=True)
    scratch = tempfile.mkdtemp(prefix="lodic-soak-")
    run = Soak(folder, scratch)
    try:
        for i in range(rounds):
            print(f"round {i + 1} of {rounds}: seed={seed + i}", flush=True)
            for mode in MODES:
                for program, arguments in programs_of(mode, asked, rounds):
                    run.step(f"{i + 1}/{rounds} {mode:<5}", mode, program,
                             [*arguments, *seed_of(program, seed + i)])
        missing = run.report(asked)
        for line in missing:
            print(f"missing: {line}")
        bad = run.total("wrong") + run.total("leaked") + run.hung + run.failed
        return 1 if bad or missing else 0
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def stop(_signal, _frame):
    raise KeyboardInterrupt


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/soak", help="where the build goes")
    parser.add_argument("--rounds", type=int, default=5,
                        help="into how many rounds the work is cut (5)")
    parser.add_argument("--part", type=int, default=1, metavar="N",
                        help="do only one Nth of it, for a quick look")
    parser.add_argument("--seed", type=int, default=int(time.time()),
                        help="of the first round; the next one's is 1 more")
    options = parser.parse_args()
    if options.rounds < 1 or options.part < 1:
        parser.error("--rounds, --part: 1 or more")
    asked = {name: number // options.part for name, number in ASKED.items()}
    signal.signal(signal.SIGTERM, stop)
    folder = (ROOT / options.build).resolve()
    try:
        build(folder)
    except subprocess.CalledProcessError as err:
        print(f"soak: {' '.join(err.cmd)} failed", file=sys.stderr)
        return 1
    return soak(folder, asked, options.rounds, options.seed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nsoak: stopped")
        sys.exit(130)
