#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs the fuzzers for longer.

`make soak-fuzz` calls this. Each fuzzer does 10^6 executions, in a build with ASan and UBSan. The
shim of `lodic run` has no sanitizer there, because it runs in programs without one. A fuzzer prints
its seed. A crash, a hang or a wrong answer also tells the execution, and the two repeat it. The
exit status is 0 only if none of them failed. The last line says what was done.
"""

import re
import sys
import time

from soak_holds import BUILDS, LIMIT_S, ROOT, build, parse_options, run

EXECUTIONS = 1_000_000
PYTHON = "/usr/bin/python3"
DONE = re.compile(r"(\d+) (?:executions|requests): 0 crashes")
FUZZERS = ["fuzz_client", "fuzz_look", "fuzz_settings"]
TARGETS = [*(f"tests/fuzz/{name}" for name in FUZZERS), "tests/crash/fuzz_holds",
           "tests/run/run_reader", "lodic", "liblodic-preload.so"]


def commands(folder, number, seed):
    """What is run, by name."""
    tests = folder / "tests"
    for name in FUZZERS:
        yield name, [tests / "fuzz" / name, "--executions", number, "--seed", seed]
    yield "fuzz_holds", [tests / "crash/fuzz_holds", "--requests", number, "--seed", seed]
    yield "fuzz_run", [PYTHON, ROOT / "tests/run/test_run_random.py", folder / "lodic",
                       tests / "run/run_reader", number, seed]


def main():
    options = parse_options(__doc__)
    started = time.monotonic()
    folder = (ROOT / options.build / "soak-asan").resolve()
    build(folder, BUILDS["soak-asan"], TARGETS)
    done = nr = failed = 0
    for name, command in commands(folder, max(1, EXECUTIONS // options.part), options.seed):
        print(f"[{time.monotonic() - started:5.0f} s] {name}", flush=True)
        text, good = run([str(word) for word in command], LIMIT_S)
        found = DONE.search(text)
        done += int(found.group(1)) if found else 0
        nr += 1
        failed += not (good and found)
    print(f"soak-fuzz: {done} executions, {failed} of {nr} fuzzers failed, in "
          f"{time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
