#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Measures how counting scales on this machine, from one CPU to all of them.

It measures every scheme by itself (bench_count): with threads, with processes and with all
threads in one process. It also measures liblodic's pins between processes (lodic bench pin).
One file comes out: bench/results/scale-<cpus>.csv, or with --quick build/scale-<cpus>.csv.
The picture is build/figures/scale.png. We have that file from 16 CPUs of one socket, and would
like to have it from more. It names the processor and the kernel, not the machine.
"""

import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["source", "workers", "per_user", "scheme", "walk", "objects", "cpus", "ns", "mops",
           "mops_q1", "mops_q3", "ratio", "slots", "slots_tried", "failed",
           # how the row came about, as its program says
           "version", "commit", "parameters", "seed"]
# Schemes that the file has and the printed table leaves out.
HIDDEN = {"null", "template"}
# The most that the programs take: numbers in a list, and workers.
COUNT_MAX_CPUS = 1024
PIN_MAX_NUMBERS = 6
PIN_MAX_PROCESSES = 16
# With fewer CPUs there is little to see of what these schemes are for.
FEW_CPUS = 8
TOPOLOGY = ["Socket(s)", "Core(s) per socket", "Thread(s) per core", "NUMA node(s)"]


class Failed(Exception):
    pass


def run(command):
    """Runs command, which prints JSON; its progress goes to our stderr."""
    print("bench-scale:", " ".join(command), flush=True)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise Failed(f"`{' '.join(command)}` failed with status {done.returncode}")
    return done.stdout.decode()


def numbers_up_to(most):
    """1, 2, 4 ... and most itself."""
    numbers, n = [], 1
    while n < most:
        numbers.append(n)
        n *= 2
    return numbers + [most]


def topology():
    """["2 sockets", ...] as far as lscpu tells."""
    try:
        text = subprocess.run(["lscpu"], stdout=subprocess.PIPE, check=True,
                              env={**os.environ, "LC_ALL": "C"}).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return []
    found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return [f"{name}: {found[name].strip()}" for name in TOPOLOGY if name in found]


def read_rows(path):
    with open(path, newline="") as f:
        return list(csv.DictReader(line for line in f if not line.startswith("#")))


def count_rows(options, cpus, extra, work):
    """(what the program says of the machine, rows)"""
    path = work / "scale-count.csv"
    command = [str(options.build / "bench" / "bench_count"), "--json", "--csv", str(path),
               "--cpus", ",".join(map(str, cpus)), "--objects", "1,512",
               "--walk", "hot,random", "--rounds", str(options.rounds)] + extra
    said = json.loads(run(command))
    return said, [{**row, "source": "count"} for row in read_rows(path)]


def pin_rows(options, cpus, work):
    """liblodic's pins of one hot block, 64 bytes; a reader is a process."""
    path = work / "scale-pin.csv"
    numbers = [n for n in cpus if n <= PIN_MAX_PROCESSES][-PIN_MAX_NUMBERS:]
    command = [str(options.build / "lodic"), "bench", "pin", "--json", "--csv", str(path),
               "--processes", ",".join(map(str, numbers)), "--access", "hot",
               "--bytes", "64", "--rounds", str(options.rounds)]
    run(command)
    for row in read_rows(path):
        if row["method"].startswith("pin_") or row["method"] in ("lodic_pin", "private"):
            mops = row["mops"]
            yield {**row, "source": "pin", "workers": "processes", "per_user": "1",
                   "scheme": row["method"], "walk": row["access"], "objects": "1",
                   "cpus": row["processes"],
                   "ns": f"{int(row['processes']) * 1e3 / float(mops):.4g}" if mops else "",
                   "mops": mops, "mops_q1": row["mops_q1"], "mops_q3": row["mops_q3"],
                   "ratio": "", "slots": row["slots"], "slots_tried": row["slots_tried"],
                   "failed": ""}


def write_csv(path, said, rows, options):
    machine = said["machine"]
    with open(path, "w", newline="") as f:
        facts = [f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['kernel']}",
                 f"commit {said['commit']}", f"seed {said['seed']}", f"{options.rounds} rounds"]
        f.write(f"# {'; '.join(facts)}\n")
        f.write(f"# {'; '.join(topology()) or 'topology unknown'}\n")
        writer = csv.DictWriter(f, fieldnames=COLUMNS, extrasaction="ignore",
                                lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def say_results(rows):
    """One line per scheme and kind of worker: the rate on one CPU and on all."""
    hot = [row for row in rows
           if row["mops"] and row["source"] == "count" and row["walk"] == "hot" and
           row["scheme"] not in HIDDEN]
    for workers, per_user in dict.fromkeys((r["workers"], r["per_user"]) for r in hot):
        chosen = [r for r in hot if (r["workers"], r["per_user"]) == (workers, per_user)]
        most = max(int(row["cpus"]) for row in chosen)
        rates = {(row["scheme"], int(row["cpus"])): float(row["mops"]) for row in chosen}
        print(f"\none hot object, {workers}"
              f"{f', {per_user} of one user' if per_user != '1' else ''}: "
              f"10^6/s on 1 CPU and on {most}")
        for scheme in dict.fromkeys(row["scheme"] for row in chosen):
            one, all_of_them = rates.get((scheme, 1)), rates.get((scheme, most))
            if one and all_of_them:
                print(f"  {scheme:<12} {one:8.1f} {all_of_them:9.1f}   "
                      f"{all_of_them / one:6.2f} times")


def say_limits(cpus, path):
    if cpus < FEW_CPUS:
        print(f"\nWhat {cpus} CPU{'s' if cpus > 1 else ''} cannot show: where a shared "
              "counter collapses (a line has few that\nwant it), what a second socket "
              "costs, and how the cost of a query grows. Those curves are\nsimulated by "
              "`make figures`; only a larger machine can measure them.")
    else:
        print(f"\nPlease send us {path}, if it has more CPUs or sockets than "
              "bench/results/scale-16.csv.")


def progress(step, steps, what, started):
    print(f"[{step}/{steps}] {what} ({time.monotonic() - started:.0f} s so far)", flush=True)


def measure(options, cpus):
    """(what the programs say of the machine, all rows)"""
    started = time.monotonic()
    work = options.build / "scale"
    work.mkdir(parents=True, exist_ok=True)
    rows = []
    ways = [("threads", []), ("processes", ["--processes"])]
    if cpus[-1] > 1:
        ways.append((f"{cpus[-1]} threads of one user", ["--per-user", str(cpus[-1])]))
    for step, (what, extra) in enumerate(ways, 1):
        progress(step, len(ways) + 1, f"every scheme, {what}", started)
        said, more = count_rows(options, cpus, extra, work)
        rows += more
    progress(len(ways) + 1, len(ways) + 1, "pins between processes", started)
    try:
        rows += pin_rows(options, cpus, work)
    except Failed as failed:
        # It needs a file that can be cached. The other rows are worth keeping without it.
        print(f"bench-scale: {failed}; the result has no rows of it", file=sys.stderr)
    return said, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0],
                                     epilog=__doc__.split("\n", 2)[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", type=pathlib.Path,
                        help="where lodic was built")
    parser.add_argument("--rounds", type=int, help="default: 60, with --quick 8")
    parser.add_argument("--quick", action="store_true",
                        help="a short run, kept in the build folder only")
    parser.add_argument("--no-plot", action="store_true", help="draw nothing")
    options = parser.parse_args()
    options.build = (ROOT / options.build).resolve()
    if options.rounds is None:
        options.rounds = 8 if options.quick else 60

    nr_cpus = min(len(os.sched_getaffinity(0)), COUNT_MAX_CPUS)
    folder = options.build if options.quick else ROOT / "bench" / "results"
    path = folder / f"scale-{nr_cpus}.csv"
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise Failed(f"cannot write {path}")
    said, rows = measure(options, numbers_up_to(nr_cpus))
    write_csv(path, said, rows, options)
    say_results(rows)
    say_limits(nr_cpus, path)
    if not options.no_plot:
        subprocess.run(["/usr/bin/python3", "bench/plot.py", str(path),
                        str(options.build / "figures" / "scale.png")], cwd=ROOT, check=True)
    print(f"results in {path}")


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(f"bench-scale: {failed}")
    except KeyboardInterrupt:
        print("bench-scale: stopped; nothing was kept", file=sys.stderr)
        sys.exit(130)
