#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Small changes of core/ or lib/, thousands of them: does a search or a unit test see each one?

    make mutants                                  of core/: all orders, and 400 other changes
    make mutants ARGS='--file lib/'               of lib/: 400
    make mutants ARGS='--sample 100 --seed 7'     fewer, and others
    make mutants ARGS='--kind order --file core/cache/'
    make mutants ARGS='--open --seconds 300'      longer, without those that are known to escape
    make mutants ARGS='--report --unreached'      runs nothing: what is known so far
    check/mutate.py --show 322                    one mutant, and how to run it by hand

It changes a copy of core/ below build/mutants, and builds one lodic-check and unit tests that have
all mutants. It sees once what each scenario and each unit test reaches, and runs each mutant there.
With --file lib/... it does the same with lib/ and lodic-whole.
Ctrl-C ends it at any time. The next call goes on there, as long as no source has changed. Escaped
mutants that change nothing stand in check/equivalent.toml, each with the reason.
"""

import argparse
import hashlib
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WHEELS = os.environ.get("LODIC_WHEELS") or str(ROOT / "build" / "wheels")
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "check" / "generated"), WHEELS]

try:
    import product
    import report
    import run
    import tree
    import unit
except ImportError as error:
    sys.exit(f"mutate: {error}: tools/wheels.sh installs it")

TELL_EVERY = 25  # results, where nobody watches


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="where mutants/ is made")
    parser.add_argument("--kind", choices=report.KINDS, help="only these")
    parser.add_argument("--file", default="", metavar="START",
                        help="only of files whose path begins so")
    parser.add_argument("--sample", type=int, default=400, metavar="N",
                        help="so many mutants, besides orders; 0: all (default: 400)")
    parser.add_argument("--seed", type=int, default=1, metavar="N",
                        help="which ones (default: 1)")
    parser.add_argument("--seconds", type=int, default=60, metavar="N",
                        help="of CPU for each mutant at most (default: 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N",
                        help="processes (default: as many as CPUs)")
    parser.add_argument("--open", action="store_true",
                        help="run none that check/equivalent.toml lists")
    parser.add_argument("--report", action="store_true", help="run nothing, tell what is known")
    parser.add_argument("--unreached", action="store_true",
                        help="also list what no scenario reaches")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="only tell of one mutant")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args()


class Progress:
    """A line that stays where it is on a terminal; elsewhere some lines."""

    def __init__(self, what, nr):
        self.what, self.nr, self.began = what, nr, run.now()
        self.watched = sys.stderr.isatty()

    def tell(self, done, more=""):
        if not self.watched and done % TELL_EVERY and done != self.nr:
            return
        seconds = run.now() - self.began
        print(f"{chr(13) + chr(27) + '[K' if self.watched else ''}{self.what}: {done} of "
              f"{self.nr}, {seconds:.0f} s{more}", end="" if self.watched else "\n",
              file=sys.stderr, flush=True)
        if self.watched and done == self.nr:
            print(file=sys.stderr)


def drawn(mutants, options, reached):
    """What to run: mutants that are reached, and of the logic a sample. A change of the tree
    changes few of the sample, because each mutant has a number of its own that decides."""
    def chance(mutant):
        return hashlib.sha256(f"{options.seed}|{run.key_of(mutant)}".encode()).digest()

    chosen = [m for m in mutants if m.number in reached and m.file.startswith(options.file) and
              options.kind in (None, m.kind)]
    orders = [m for m in chosen if m.kind == "order"]
    logic = sorted((m for m in chosen if m.kind != "order"), key=chance)
    listed = report.read_equivalent() if options.open else ()
    return [m for m in orders + logic[:options.sample or None]
            if report.name_of(m) not in listed]


class Core:
    """Mutants of core/, for lodic-check and unit tests."""

    kinds = report.KINDS

    def __init__(self, folder, jobs):
        self.jobs = jobs
        self.built = tree.build(folder, jobs)
        self.program = run.Program(self.built.program)
        self.seen = run.Seen(folder, self.built.state)
        self.journal = run.Journal(folder, self.built.state)
        self.units = unit.Units(folder, self.built, self.program)

    def look(self, progress):
        """What each scenario reaches."""
        if not self.seen.load():
            cases = self.program.cases()
            tell = progress("what each scenario reaches", len(cases)).tell
            run.in_threads(self.jobs, self.program,
                           lambda case: self.seen.look(self.program, case), cases,
                           lambda nr, _: tell(nr))
            self.seen.save()

    def reached(self):
        return self.seen.reached()

    def judge(self, mutant, seconds):
        return run.judge(self.program, self.seen, self.units, mutant, seconds)

    def show(self, mutant):
        for case in self.seen.cases(mutant.number)[:5]:
            yield (f"LODIC_GENERATED={mutant.number} {self.built.program} --scenario "
                   f"{case.scenario} --scheme {case.scheme}")


def run_all(subject, mutants, options):
    journal = subject.journal
    todo = [m for m in mutants if not journal.settled(m, options.seconds)]
    progress = Progress("mutants", len(todo))
    nr = {"caught": 0, "escaped": 0}

    def tell(done, row):
        journal.add(row)
        nr[row["verdict"]] += 1
        progress.tell(done, f"; {nr['caught']} caught, {nr['escaped']} escaped")

    run.in_threads(options.jobs, subject.program,
                   lambda m: subject.judge(m, options.seconds), todo, tell)


def show_one(subject, number):
    mutant = next((m for m in subject.built.mutants if m.number == number), None)
    if mutant is None:
        sys.exit(f"mutate: there is no mutant {number}")
    print(f"{mutant.file}:{mutant.line}: {mutant.function}: {mutant.change}")
    for line in (*subject.show(mutant), *subject.units.show(number)):
        print(f"  {line}")
    print(report.entry_of(mutant))


def main():
    options = parse_options()
    folder = pathlib.Path(options.build).resolve() / "mutants"
    folder.mkdir(parents=True, exist_ok=True)
    kind_of = product.Library if options.file.startswith("lib/") else Core
    subject = kind_of(folder, options.jobs)
    built = subject.built
    for function in built.unread:
        print(f"mutate: not read, so without mutants: {function}", file=sys.stderr)
    subject.look(Progress)
    subject.units.look(options.jobs, Progress)
    if options.show is not None:
        show_one(subject, options.show)
        return
    reached = subject.reached()
    mutants = drawn(built.mutants, options, reached)
    if not options.report:
        run_all(subject, mutants, options)
    told = [m for m in built.mutants if m.file.startswith(options.file) and
            options.kind in (None, m.kind)]
    report.show(told, built.mutants, subject.journal, reached, options.json, options.unreached)


if __name__ == "__main__":
    try:
        main()
    except tree.Failed as error:
        sys.exit(f"mutate: {error}")
    except (KeyboardInterrupt, run.Stopped):
        sys.exit("\nmutate: stopped; the next call goes on from here")
