# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Which scenarios reach a mutant, and does one of them show it broken?

The program is the lodic-check of the changed copy. It runs once for a case, a mutant and a number
of schedules, under all memory models that it has. A run that breaks a rule catches the mutant. So
does one that crashes, and one that needs far more of the CPU than it should.
"""

import array
import collections
import concurrent.futures
import json
import math
import os
import signal
import subprocess
import threading
import time

import tree

LIVELOCKS = ("livelock", "deadlock")
SEEN_SCHEDULES = 600   # of each case, to see what it reaches
ROUNDS = (200, 2000, 20000)  # schedules of each case and memory model
# A run is a hang when it needs so many times the CPU that it needs without a mutant.
HANG_TIMES, HANG_LEAST_S = 20, 4
MEMORY_KIB = 8 << 20

Case = collections.namedtuple("Case", "scenario scheme")
# cpu: seconds. rows: of the program's JSON; None: it ended without.
Ended = collections.namedtuple("Ended", "rows cpu hung")


class Stopped(Exception):
    """By Ctrl-C."""


def key_of(mutant):
    """What stays the same when lines move."""
    return "|".join((mutant.file, mutant.function, mutant.kind, mutant.change,
                     str(mutant.nth)))


class Program:
    """lodic-check with generated mutants. Several threads may use it."""

    def __init__(self, path):
        self.path = str(path)
        self.children = set()
        self.lock = threading.Lock()
        self.stopping = False

    def stop(self):
        with self.lock:
            self.stopping = True
            for pid in self.children:
                os.kill(pid, signal.SIGKILL)

    def cases(self):
        done = subprocess.run([self.path, "--list"], stdout=subprocess.PIPE, check=True)
        lines = done.stdout.decode().split("\n\n", maxsplit=1)[0].splitlines()[1:]
        return [Case(*line.split()[:2]) for line in lines]

    def start(self, words, cpu_limit, environment):
        """What it prints of its JSON, its seconds of CPU, and whether these were too many."""
        limits = (f"ulimit -c 0; ulimit -t {cpu_limit}; ulimit -v {MEMORY_KIB}; "
                  "exec \"$@\"")
        with self.lock:
            if self.stopping:
                raise Stopped
            # pylint: disable-next=consider-using-with
            child = subprocess.Popen(["sh", "-c", limits, "sh", *words],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, start_new_session=True,
                                     env=tree.environment(**environment))
            self.children.add(child.pid)
        text = b""
        for line in child.stdout:
            text += line
            if line.startswith(b"}"):  # after this it shows an interleaving
                break
        with self.lock:
            self.children.discard(child.pid)
            os.kill(child.pid, signal.SIGKILL)
        child.stdout.close()
        _, status, usage = os.wait4(child.pid, 0)  # Popen does not say what it used
        child.returncode = os.waitstatus_to_exitcode(status)
        if self.stopping:
            raise Stopped
        cpu = usage.ru_utime + usage.ru_stime
        return text, cpu, cpu >= 0.9 * cpu_limit

    def run(self, case, schedules, seed, cpu_limit, memory="all", **environment):
        words = [self.path, "--scenario", case.scenario, "--scheme", case.scheme, "--schedules",
                 str(schedules), "--seed", str(seed), "--jobs", "1", "--json", "--memory",
                 memory]
        text, cpu, hung = self.start(words, cpu_limit, environment)
        try:
            rows = json.loads(text)["results"]
        except ValueError:
            rows = None
        return Ended(rows, cpu, hung)


class Seen:
    """How often each case reaches each mutant, and what the case costs."""

    def __init__(self, folder, state):
        self.path = folder / f"seen-{state}.json"
        self.scratch = folder
        self.times, self.cpu = {}, {}

    def load(self):
        if not self.path.exists():
            return False
        whole = json.loads(self.path.read_text())
        for row in whole:
            case = Case(*row["case"])
            self.cpu[case] = row["cpu"]
            self.times[case] = {int(n): times for n, times in row["times"].items()}
        return True

    def look(self, program, case):
        path = self.scratch / f"seen-{case.scenario}-{case.scheme}.tmp"
        path.unlink(missing_ok=True)
        ended = program.run(case, SEEN_SCHEDULES, 1, 3600, LODIC_GENERATED_SEEN=path)
        numbers = array.array("I", path.read_bytes())
        path.unlink()
        if not ended.rows or any(row["violations"] for row in ended.rows):
            raise tree.Failed(f"{case.scenario} for {case.scheme} fails without a mutant")
        self.cpu[case] = ended.cpu
        self.times[case] = {n: times for n, times in enumerate(numbers) if times}

    def save(self):
        rows = [{"case": case, "cpu": round(self.cpu[case], 4), "times": times}
                for case, times in sorted(self.times.items())]
        for old in self.path.parent.glob("seen-*.json"):
            old.unlink()
        put_whole(self.path, json.dumps(rows))

    def cases(self, number):
        """The cases that reach it: first those that do so most often for their cost."""
        found = [case for case, times in self.times.items() if number in times]
        return sorted(found, key=lambda case: (-self.times[case][number] / self.cpu[case], case))

    def reached(self):
        return set().union(*self.times.values())


def put_whole(path, text):
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def in_threads(jobs, program, work, items, tell):
    """work(item) for all of them, tell(nr done, result) after each. Ctrl-C ends it cleanly."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(work, item) for item in items]
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            for nr, done in enumerate(concurrent.futures.as_completed(waiting), 1):
                tell(nr, done.result())
        except BaseException:
            program.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            signal.signal(signal.SIGTERM, before)


class Journal:
    """One line for each mutant that was run; later lines count more."""

    def __init__(self, folder, state):
        self.path = folder / "journal.jsonl"
        self.state = state
        self.verdicts = {}
        if not self.path.exists():
            return
        for line in self.path.read_text().splitlines():
            try:
                row = json.loads(line)
            except ValueError:  # the machine went away while it was written
                continue
            if row["state"] == state:
                self.verdicts[row["key"]] = row

    def add(self, row):
        row = {"state": self.state, **row}
        self.verdicts[row["key"]] = row
        with open(self.path, "a", encoding="utf-8") as f:
            f.write(json.dumps(row) + "\n")

    def settled(self, mutant, seconds):
        """Is there nothing more to find out in so many seconds?"""
        row = self.verdicts.get(key_of(mutant))
        return row is not None and (row["verdict"] == "caught" or row["seconds"] >= seconds)


def first_bad(ended):
    """How a run caught its mutant: what it says, under which memory. None: it did not."""
    if ended.rows is None:
        return {"what": "hang" if ended.hung else "crash", "how": "hang" if ended.hung
                else "crash", "memory": "-", "strategy": "-"}
    for row in ended.rows:
        if not row["violations"]:
            continue
        what = row.get("what", "hang" if ended.hung else "crash")
        how = "rule" if "what" in row else what
        if what.startswith(LIVELOCKS):
            how = "livelock"
        return {"what": what, "how": how, "memory": row["memory"],
                "strategy": row["strategy"]}
    return None


def judge(program, seen, units, mutant, seconds):
    """The journal's row for one mutant. seconds: of the CPU, at most, for all of its cases. Unit
    tests come after the first round, because they are quick, and have as many seconds."""
    cases = seen.cases(mutant.number)
    memory = "weak" if mutant.kind == "order" else "all"  # what others show, it shows, too
    used, nr_runs, schedules_done = 0.0, 0, 0
    row = {"key": key_of(mutant), "verdict": "escaped", "seconds": seconds, "cases": len(cases)}
    for schedules in ROUNDS:
        for case in cases:
            if used >= seconds:
                break
            usual = seen.cpu[case] * max(schedules / SEEN_SCHEDULES, 1)
            patience = math.ceil(HANG_LEAST_S + HANG_TIMES * usual)
            limit = min(patience, math.ceil(HANG_LEAST_S + 2 * usual + seconds - used))
            ended = program.run(case, schedules, schedules, limit, memory,
                                LODIC_GENERATED=mutant.number)
            used += ended.cpu
            nr_runs += 1
            if ended.hung and limit < patience:
                break  # it is slower, and there is no time to see by how much
            bad = first_bad(ended)
            if bad:
                return {**row, **bad, "verdict": "caught", "case": case, "schedules": schedules,
                        "cpu": round(used, 2), "runs": nr_runs}
        else:
            schedules_done = schedules
        bad = schedules == ROUNDS[0] and units.catch(mutant.number, seconds)
        if bad:
            return {**row, **bad, "verdict": "caught", "cpu": round(used, 2), "runs": nr_runs}
    return {**row, "cpu": round(used, 2), "runs": nr_runs, "schedules": schedules_done}


def now():
    return time.monotonic()
