#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures what huge pages are worth: `lodic bench pin` with and without them, by turns.

Each pair is two runs on the same file, one after the other, and which comes first alternates.
A figure is the median over the pairs of the rate with huge pages over the rate without.
`private` and `mmap` use none of lodic's memory: how far they are from 1 is how much the
machine's noise may have changed the others. Prints JSON.
"""

import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys

MIB = 1 << 20
BLOCK = 4096
METHODS = ["lodic_read", "lodic_pin", "pin_atomic", "pin_hazard", "private", "mmap"]
COLUMNS = ["method", "access", "bytes", "processes", "huge_mops", "small_mops", "ratio",
           "spread", "pairs"]


def run(options, path, setting):
    """The rates of one run: (method, bytes, processes) -> 10^6 a second."""
    command = [options.lodic, "bench", "pin", "--json", "--access", "random",
               "--rounds", str(options.rounds), "--file", str(path),
               "--huge-pages", setting]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"bench: `{' '.join(command)}` failed with status {done.returncode}")
    result = json.loads(done.stdout)
    rates = {(row["method"], row["bytes"], row["processes"]): row["mops"]
             for row in result["results"] if row["method"] in METHODS}
    return result, rates


def quartiles_apart(values):
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def compare(pairs):
    """One row for each method, size and number of processes."""
    for key in pairs[0]["auto"]:
        both = [(pair["auto"][key], pair["off"].get(key)) for pair in pairs]
        both = [(huge, small) for huge, small in both if huge and small]
        if not both:
            continue
        ratios = [huge / small for huge, small in both]
        yield dict(zip(COLUMNS, [
            key[0], "random", key[1], key[2],
            statistics.median(huge for huge, _ in both),
            statistics.median(small for _, small in both),
            statistics.median(ratios), quartiles_apart(ratios), len(both)]))


def measure(options, path):
    pairs, last = [], None
    for i in range(options.pairs):
        pair = {}
        for setting in (["auto", "off"] if i % 2 == 0 else ["off", "auto"]):
            last, pair[setting] = run(options, path, setting)
        pairs.append(pair)
    rows = sorted(compare(pairs), key=lambda row: (row["bytes"], row["processes"],
                                                   METHODS.index(row["method"])))
    return {"machine": last["machine"], "version": last["version"],
            "commit": last["commit"], "cache_bytes": options.memory * MIB,
            "rounds": options.rounds, "pairs": options.pairs, "results": rows}


def make_file(options):
    """A file that lodic bench gives a cache of the wanted size: it adds a quarter."""
    path = pathlib.Path(options.workdir) / f"bench-huge-{os.getpid()}"
    left = options.memory * MIB * 4 // 5 // BLOCK * BLOCK
    with open(path, "wb") as f:
        while left > 0:
            left -= f.write(os.urandom(min(left, 16 * MIB)))
    return path


def write_csv(result, path):
    machine = result["machine"]
    with open(path, "w", newline="") as f:
        f.write(f"# {machine['cpu']}, {machine['cpus']} CPUs, {machine['kernel']}; "
                f"commit {result['commit']}; cache {result['cache_bytes']} bytes; "
                f"{result['rounds']} rounds\n")
        writer = csv.DictWriter(f, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(result["results"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--lodic", default="build/lodic", help="the program to measure")
    parser.add_argument("--memory", type=int, default=512, help="MiB of cache (default: 512)")
    parser.add_argument("--pairs", type=int, default=7, help="pairs of runs (default: 7)")
    parser.add_argument("--rounds", type=int, default=20,
                        help="rounds of each run (default: 20)")
    parser.add_argument("--workdir", default="build", help="where the file is written")
    parser.add_argument("--csv", help="write the rows there, too")
    options = parser.parse_args()
    path = make_file(options)
    try:
        result = measure(options, path)
    finally:
        path.unlink()
    if options.csv:
        write_csv(result, options.csv)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
