#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs the crash tests of holds for longer.

`make soak-holds` calls this. It kills 2,000 holders and services, and sends a service 10^6 random
requests. It does both in a build as users have it, and both under ASan and UBSan. Each program
prints its seed, and how far it is. The exit status is 0 only if none of them failed. The last
line says what was done.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPTIONS = ["-Dbuildtype=debugoptimized", "-Dtests=enabled"]
BUILDS = {"soak": [], "soak-asan": ["-Doptimization=1", "-Db_sanitize=address,undefined"]}
KILLS, REQUESTS = 2000, 1_000_000
LIMIT_S = 3600
DONE = {"crash_holds": r"(\d+) kills,", "fuzz_holds": r"(\d+) requests: 0 crashes"}


def build(folder, options, targets):
    for command in (["sh", "tools/setup.sh", str(folder), *OPTIONS, *options],
                    ["ninja", "-C", str(folder), *targets]):
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def run(command, limit_s):
    """Shows each line at once. Returns the text and whether the program has succeeded."""
    said = []
    with subprocess.Popen(["timeout", str(limit_s), *command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace") as child:
        for line in child.stdout:
            print(f"    {line}", end="", flush=True)
            said.append(line)
    return "".join(said), child.returncode == 0


def parse_options(description):
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="the folder of the builds")
    parser.add_argument("--part", type=int, default=1, metavar="N",
                        help="do only one Nth of it, for a quick look")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    return parser.parse_args()


def main():
    options = parse_options(__doc__)
    started = time.monotonic()
    done = {name: 0 for name in DONE}
    failed = 0
    for name, more in BUILDS.items():
        folder = (ROOT / options.build / name).resolve()
        build(folder, more, [f"tests/crash/{name}" for name in DONE])
        for program, wanted in (("crash_holds", ["--kills", KILLS]),
                                ("fuzz_holds", ["--requests", REQUESTS])):
            number = max(1, wanted[1] // options.part)
            command = [str(folder / "tests/crash" / program), wanted[0], str(number),
                       "--seed", str(options.seed)]
            print(f"[{time.monotonic() - started:5.0f} s] {name} {program} {number}",
                  flush=True)
            text, good = run(command, LIMIT_S)
            found = re.search(DONE[program], text)
            done[program] += int(found.group(1)) if found else 0
            failed += not (good and found)
    print(f"soak-holds: {done['crash_holds']} kills, {done['fuzz_holds']} requests, {failed} of "
          f"{len(BUILDS) * len(DONE)} programs failed, in {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
