#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Does the search over the whole product find the mutants that it should?

    check/mutants/whole.py --build DIR [--run COMMAND] [--schedules N] [--scenario S]
                           [--seconds N] [NAME...]

It takes each row with `whole N`, or those named. It compiles the changed files as
compile_commands.json of DIR says, and links them with the other objects of the product. Then the
search runs N schedules from seed 1 with that product. A row is found if the search fails, and its
line has the seed and the rule. A seed that fails without the mutant as well does not count: the
search goes on behind it. A search that fails and names no seed counts only if the same one ends
well without the mutant. One that takes more than --seconds of CPU time counts as found: its mutant
never ends. One that `lacks` something is looked for as well. Exit status: 1 if one was not
found that lacks nothing.

COMMAND is the search. It runs in DIR. {schedules} in it becomes their number.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile

import rows

PRODUCTS = ("lodic-whole", "lodic-whole-shim") # shared objects; clients are in both
SEARCH = "./lodic-whole --jobs 1 --schedules {schedules}"
SEED = re.compile(r", seed (\d+)")
SECONDS = 900 # of CPU time: 20,000 schedules take less


def products(build):
    """{name: {source below the root: (its command, its object)}}"""
    found = {name: {} for name in PRODUCTS}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        name = next((name for name in PRODUCTS if f"{name}.so" in entry["output"]), None)
        if not name: # it is the program
            continue
        file = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        words = entry.get("arguments") or shlex.split(entry["command"])
        found[name][str(file.relative_to(rows.ROOT))] = (words, entry["output"])
    for name, files in found.items():
        if not files:
            sys.exit(f"whole: no file of {build} is part of {name}")
    return found


def sources_of(row, found):
    """What must be compiled: changed sources, and those that include a changed header."""
    wanted = [path for path in rows.paths_of(row) if path.endswith(".c")] + row.sources
    missing = [path for path in wanted if not any(path in files for files in found.values())]
    if missing:
        sys.exit(f"whole: {row.name}: {missing[0]} is no part of the product")
    return wanted


def link(row, found, build, out):
    """The shared objects with the row's change, in out."""
    rows.write(row, out)
    wanted = sources_of(row, found)
    for name, files in found.items():
        changed = [path for path in wanted if path in files]
        if changed:
            link_one(name, files, changed, build, out)


def link_one(name, files, wanted, build, out):
    objects = {path: build / output for path, (_, output) in files.items()}
    for path in wanted:
        words, output = files[path]
        there = out / path if (out / path).exists() else rows.ROOT / path
        changed = out / (name + pathlib.Path(output).name + ".o")
        command = [word for word in words if not word.endswith(path)]
        command = [str(changed) if word == output else word for word in command]
        first = next(i for i, word in enumerate(command) if word.startswith("-"))
        command[first:first] = ["-I" + str(out), "-I" + str(rows.ROOT)]
        subprocess.run([*command, str(there)], cwd=build, check=True)
        objects[path] = changed
    library = next(file for file in (f"{name}.so", f"lib{name}.so") if list(build.rglob(file)))
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-Wl,-Bsymbolic", "-o", out / library,
                    *objects.values()], check=True)


class Search:
    """How the search is run: COMMAND, in its folder."""

    def __init__(self, command, build, seconds):
        self.command, self.build, self.seconds = command, build, seconds

    def limit(self):
        resource.setrlimit(resource.RLIMIT_CPU, (self.seconds, self.seconds))

    def fails(self, schedules, first, scenario, folder=None):
        """What the search says if it fails; None: it does not."""
        environment = dict(os.environ)
        if folder:
            environment["LD_LIBRARY_PATH"] = str(folder)
        words = shlex.split(self.command.format(schedules=schedules)) + ["--seed", str(first)]
        words += ["--scenario", scenario] if scenario else []
        run = subprocess.run(words, cwd=self.build, env=environment, preexec_fn=self.limit,
                             capture_output=True, text=True)
        if run.returncode == 0:
            return None
        said = [line for line in run.stdout.splitlines() if ", seed " in line]
        ends = f"signal {-run.returncode}" if run.returncode < 0 else f"status {run.returncode}"
        said = (said or run.stdout.splitlines() or [f"it ends by {ends}"])[0]
        if f"signal {int(signal.SIGKILL)}" in said:
            seed, colon, _ = said.partition(": ")
            said = f"{seed if colon else 'it'}: no end in {self.seconds} s of CPU time"
        return said

    def finds(self, schedules, scenario, folder):
        """The same, of a seed that does not fail without the change."""
        first = 1
        while first <= schedules:
            said = self.fails(schedules + 1 - first, first, scenario, folder)
            if not said:
                return None
            seed = SEED.search(said)
            if not seed:
                unchanged = self.fails(schedules + 1 - first, first, scenario)
                return None if unchanged else said
            if not self.fails(1, int(seed[1]), scenario):
                return said
            first = int(seed[1]) + 1
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--run", default=SEARCH, metavar="COMMAND")
    parser.add_argument("--schedules", type=int, metavar="N", help="for each row")
    parser.add_argument("--scenario", metavar="S", help="another one than the row names")
    parser.add_argument("--seconds", type=int, metavar="N", default=SECONDS,
                        help="of CPU time for each search (default: %(default)s)")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    build = options.build.resolve()
    wanted = [row for row in rows.parse() if row.whole and
              (not options.names or row.name in options.names)]
    found = products(build)
    search = Search(options.run, build, options.seconds)
    bad = nr_found = 0
    for row in wanted:
        with tempfile.TemporaryDirectory(prefix="lodic-whole-") as out:
            link(row, found, build, pathlib.Path(out))
            said = search.finds(options.schedules or row.whole, options.scenario or row.scenario,
                                pathlib.Path(out))
        bad += said is None and not row.lacks
        nr_found += said is not None
        missed = f"not yet: {row.lacks}" if row.lacks else "NOT FOUND"
        print(f"{row.name:28} {said or missed}", flush=True)
    print(f"{len(wanted)} mutants, {nr_found} found, {bad} not found that should be")
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
