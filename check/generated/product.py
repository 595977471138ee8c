# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Mutants of lib/: a copy of the tree in which lib/ has them all, its lodic-whole and unit tests.

The search over the whole product judges them. Many schedules run once without a mutant, and for
each of them it is noted which mutants it reaches. A mutant then runs in schedules that reach it:
first a few, then more. So a rare one costs no more than another. Then unit tests that reach it run,
and at last all schedules that come.

The door's headers, and what stands behind it, have no mutants: a machine is there instead. Orders
have none either: the machine's memory is sequentially consistent.
"""

import array
import collections
import itertools
import json
import math
import re

import run
import text
import tree
import unit

ROOT = tree.ROOT
DECISIVE = ["core", "lib", "check/whole", "host/whole", "host/fiber", "host/random.h",
            "include/lodic", "preload", "host/posix", "cli", "tests/unit", "tests/outside",
            "tests/support"]
OUTSIDE = ["check", "include", "core", "sim", "preload", "bench", "cli", "host", "tests"]
NO_MUTANTS = ("lib/posix/", "lib/port.h", "lib/port/")
NOT_COPIED = {"build", ".git", "lib", "host", "check"}
# Folders that the copy has as such, and what their meson.build says besides.
FOLDERS = {
    "check/whole":
        "\ncheck_whole_sources += files('../generated/points.c', '../generated/seeds.c')\n",
    "host/whole": "",
    "host/posix": "\nhost_posix_sources += files('../../check/generated/points.c')\n"}
PROGRAMS = ["lodic", "lodic-sim"]  # that unit tests start
POINTS = ROOT / "check/generated/points.h"
SCHEDULES = 2000    # that note what they reach
MOST_KEPT = 400     # of these, for each mutant
FIRST, MORE = 40, 400
# A run of so many seconds at most, so that a slow mutant is noticed.
RUN_S = 5
MEMORY = "sc"


def read_lib():
    return {str(path.relative_to(ROOT)): path.read_text()
            for path in sorted((ROOT / "lib").rglob("*.[ch]"))
            if not str(path.relative_to(ROOT)).startswith(NO_MUTANTS)}


def write(copy, changed):
    """The copy, brought up to date: links, but for lib/ and lists of sources."""
    for path in ROOT.iterdir():
        if path.name not in NOT_COPIED:
            tree.link(copy, path.name)
    for top in ("check", "host"):
        for path in (ROOT / top).iterdir():
            if path.name != "mutants" and f"{top}/{path.name}" not in FOLDERS:
                tree.link(copy, f"{top}/{path.name}")
    for folder, more in FOLDERS.items():
        tree.be_folder(copy / folder)
        for path in (ROOT / folder).iterdir():
            if path.name != "meson.build":
                tree.link(copy, f"{folder}/{path.name}")
        tree.put(copy / folder / "meson.build",
                 (ROOT / folder / "meson.build").read_text() + more)
    for path in (ROOT / "check/mutants").iterdir():
        if path.is_file():
            tree.put(copy / "check/mutants" / path.name, path.read_text())
    for path in (ROOT / "lib").rglob("*"):
        name = str(path.relative_to(ROOT))
        if path.is_file():
            tree.put(copy / name, changed.get(name) or path.read_text())


def build(folder, jobs):
    """Makes folder/tree and folder/ninja; returns what there is to run."""
    copy, ninja = folder / "tree", folder / "ninja"
    changed, mutants, unread = text.generate(read_lib(), tree.words_of(OUTSIDE), orders=False)
    tree.check_room(mutants)
    write(copy, changed)
    units = tree.build_all(folder, jobs, "lodic-whole", f"{tree.FLAGS} -include {POINTS}", PROGRAMS)
    there = tree.compiled(ninja, "lib")
    mutants = [m for m in mutants if m.file in there]
    tree.put(folder / "mutants.json", json.dumps([m._asdict() for m in mutants], indent=0))
    return tree.Built(ninja, ninja / "lodic-whole", units, mutants, unread,
                      tree.state_of(DECISIVE))


class Program(run.Program):
    """lodic-whole with generated mutants."""

    def search(self, seed, schedules, cpu_limit, **environment):
        """Its JSON; None: it ended without."""
        words = [self.path, "--seed", str(seed), "--schedules", str(schedules), "--jobs", "1",
                 "--json"]
        said, cpu, hung = self.start(words, cpu_limit, environment)
        try:
            return run.Ended(json.loads(said), cpu, hung)
        except ValueError:
            return run.Ended(None, cpu, hung)


class Seen:
    """Which schedules reach each mutant, and what a schedule costs."""

    def __init__(self, folder, state):
        self.path = folder / f"seen-{state}.json"
        self.scratch = folder
        self.seeds, self.cpu = {}, 0.0

    def load(self):
        if not self.path.exists():
            return False
        rows = json.loads(self.path.read_text())
        self.cpu = rows["cpu"]
        self.seeds = {int(n): seeds for n, seeds in rows["seeds"].items()}
        return True

    def look(self, program):
        path = self.scratch / "seen.tmp"
        ended = program.search(1, SCHEDULES, 3600, LODIC_GENERATED_EACH=path)
        if not ended.rows or ended.rows["violated"]:
            raise tree.Failed(f"lodic-whole fails without a mutant: {ended.rows}")
        self.cpu = ended.cpu / SCHEDULES
        numbers, at = array.array("I", path.read_bytes()), 0
        seeds = collections.defaultdict(list)
        while at < len(numbers):
            seed, nr = numbers[at:at + 2]
            for number in numbers[at + 2:at + 2 + nr]:
                if len(seeds[number]) < MOST_KEPT:
                    seeds[number].append(seed)
            at += 2 + nr
        path.unlink()
        self.seeds = dict(seeds)

    def save(self):
        for old in self.path.parent.glob("seen-*.json"):
            old.unlink()
        run.put_whole(self.path, json.dumps({"cpu": self.cpu, "seeds": self.seeds}))

    def reached(self):
        return set(self.seeds)


def known(seeds, nr_run):
    """(first seed, schedules, only these) to run, one after another."""
    for part in (seeds[:FIRST], seeds[FIRST:MORE]):
        for i in range(0, len(part), nr_run):
            some = part[i:i + nr_run]
            yield some[0], some[-1] - some[0] + 1, some


def others(nr_run):
    """As known(), without end: what is not among those reaches a mutant less often."""
    for at in itertools.count(SCHEDULES + 1, nr_run):
        yield at, nr_run, None


def bad_of(ended):
    """How a run caught its mutant; None: it did not."""
    how = None
    if ended.rows is None:
        how = what = "hang" if ended.hung else "crash"
    elif ended.rows["violated"]:
        what = ended.rows["what"]
        how = "rule"
        if what.startswith("the program ends by signal"):
            how = "hang" if ended.hung else "crash"
    if how is None:
        return None
    seed, scenario = ((ended.rows["seed"], ended.rows["scenario"]) if ended.rows else (0, ""))
    return {"what": what, "how": how, "memory": MEMORY, "strategy": "-", "seed": seed,
            "case": [scenario, ""]}


class Library:
    """Mutants of lib/ for check/mutate.py: see class Core there."""

    kinds = ("logic", "flow")

    def __init__(self, folder, jobs):
        self.folder = folder / "lib"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.jobs = jobs
        self.built = build(self.folder, jobs)
        self.program = Program(self.built.program)
        self.seen = Seen(self.folder, self.built.state)
        self.journal = run.Journal(self.folder, self.built.state)
        self.units = unit.Units(self.folder, self.built, self.program)

    def look(self, progress):
        if self.seen.load():
            return
        tell = progress("what each schedule reaches", SCHEDULES)
        self.seen.look(self.program)
        self.seen.save()
        tell.tell(SCHEDULES)

    def reached(self):
        return self.seen.reached()

    def judge(self, mutant, seconds):
        """The journal's row. seconds: of the CPU at most; unit tests have as many."""
        seeds = self.seen.seeds[mutant.number]
        nr_run = max(FIRST, int(RUN_S / self.seen.cpu))
        row = {"key": run.key_of(mutant), "verdict": "escaped", "seconds": seconds,
               "cases": len(seeds), "cpu": 0.0, "runs": 0, "schedules": 0}
        bad = (self.search(mutant, known(seeds, nr_run), row) or
               self.units.catch(mutant.number, seconds) or
               self.search(mutant, others(nr_run), row))
        row["cpu"] = round(row["cpu"], 2)
        return {**row, **bad, "verdict": "caught"} if bad else row

    def search(self, mutant, portions, row):
        """How the first bad one of these portions caught the mutant; None: none did. Adds to the
        row, and ends with its seconds."""
        path = self.folder / f"seeds-{mutant.number}.tmp"
        bad = None
        for first, nr, some in portions:
            if bad or row["cpu"] >= row["seconds"]:
                break
            cost = (len(some) if some else nr) * self.seen.cpu
            more = {"LODIC_GENERATED": mutant.number}
            if some:
                path.write_text("\n".join(map(str, some)))
                more["LODIC_GENERATED_SEEDS"] = path
            limit = math.ceil(run.HANG_LEAST_S + run.HANG_TIMES * cost)
            ended = self.program.search(first, nr, limit, **more)
            row["cpu"] += ended.cpu
            row["runs"] += 1
            row["schedules"] += nr
            bad = bad_of(ended)
        path.unlink(missing_ok=True)
        return bad

    def show(self, mutant):
        """How to run it by hand."""
        for seed in self.seen.seeds.get(mutant.number, [])[:5]:
            yield (f"LODIC_GENERATED={mutant.number} {self.built.program} --seed {seed} "
                   "--schedules 1 --trace")
