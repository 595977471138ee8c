#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Four processes that only read one RocksDB database, in one memory cgroup, by turns.

Three ways are RocksDB's own: a block cache of a quarter each (by O_DIRECT), the kernel's page
cache, and mappings. Three are lodic's: `lodic run`, and lodic:// by copies and by slices. The limit
holds for all of it: the readers, their caches, the kernel's pages and lodic's service. One database
is larger than the limit. Another fits in the shared cache, but not in a quarter of it. Figures are
medians over the rounds, with quartiles.
Needs root, and a memory cgroup of version 1 or 2.
"""

import csv
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import limited
from apps import MIB, RESULTS, ROOT, Failed, Service, parse_options, statistics
from limited import Group, Reader, disk_bytes, forget

READERS = 4
BYTES_OF_KEY = 120  # a value of 100 bytes, and what comes with it
# What of the limit is for caches, and how large the databases are, over the limit.
CACHE_SHARE = 0.6875
SIZES = {"larger than the limit": 2.75, "fits in the shared cache": 0.6}
COLUMNS = ["case", "way", "per_second", "q1", "q3", "p99_us", "p99_q1", "p99_q3",
           "disk_bytes_each", "rounds"]
CSV = RESULTS / "rocksdb.csv"
PAGE = ROOT / "doc" / "use" / "rocksdb.md"
MARKERS = ("<!-- rocksdb -->\n", "<!-- /rocksdb -->")


class Way:
    """How db_bench reads."""

    def __init__(self, what, *words, serve=None, through=None):
        self.what, self.words = what, words
        self.serve, self.through = serve, through  # options of `lodic serve`, run or fs

    def command(self, base, service, cache_bytes):
        words = [word.format(quarter=cache_bytes // READERS) for word in self.words]
        if self.through == "run":
            return service.under([*base, *words])
        if self.through == "fs":
            library = service.lodic.parent / "liblodic-rocksdb.so"
            return ["env", f"LD_PRELOAD={library}", *base, *words,
                    f"--fs_uri=lodic://{service.socket}"]
        return [*base, *words]


SMALL = "--cache_size=4096"
WAYS = {
    "own caches": Way("four block caches of a quarter each", "--cache_size={quarter}",
                      "--use_direct_reads=1"),
    "page cache": Way("the kernel's page cache", SMALL),
    "mmap": Way("RocksDB's mappings", SMALL, "--mmap_read=1"),
    "lodic run": Way("`lodic run`", SMALL, serve=["--holds", "0"], through="run"),
    "copies": Way("lodic://, copies", SMALL, serve=["--holds", "0"], through="fs"),
    # Almost all for holds. What finds no room there is mapped.
    "slices": Way("lodic://, slices", SMALL, "--mmap_read=1", serve=["--holds", "{holds}"],
                  through="fs"),
}


def base_command(keys):
    return ["db_bench", "--db=db", f"--num={keys}", "--compression_type=none",
            "--value_size=100"]


def prepare(folder, keys):
    done = subprocess.run([*base_command(keys), "--benchmarks=fillseq,compact", "--seed=1"],
                          cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Failed(done.stdout.decode(errors="replace")[-2000:])


def measure_once(options, way, folder, keys):
    """(reads a second of all, p99 in us, bytes from the disk for each read). The group, and for
    lodic the service, is new: nothing is left of what ran before."""
    forget(folder)
    cache_bytes = int(options.limit * CACHE_SHARE) * MIB
    limited.LIMIT_MIB = options.limit
    group, place = Group(), pathlib.Path(tempfile.mkdtemp(prefix="lodic-bench-"))
    service, readers = None, []
    try:
        if way.serve:
            more = [word.format(holds=cache_bytes * 15 // 16) for word in way.serve]
            service = Service(options.lodic, place, str(cache_bytes), group.enter, more)
        before = disk_bytes(service)
        base = [*base_command(keys), "--benchmarks=readrandom,readrandom", "--use_existing_db=1",
                "--readonly", f"--reads={options.reads}", "--read_random_exp_range=15",
                "--histogram=1", "--open_files=-1"]
        for number in range(READERS):
            command = way.command([*base, f"--seed={number + 2}"], service, cache_bytes)
            readers.append(Reader(command, group, folder))
        answers = [reader.wait() for reader in readers]
        readers = []
        # The second pass counts: the first one has filled the caches.
        rates = [float(re.findall(r"([\d.]+) ops/sec", text)[-1]) for text, _ in answers]
        p99 = [float(re.findall(r"P(?:99): ([\d.]+)", text)[-1]) for text, _ in answers]
        read = sum(n for _, n in answers) + disk_bytes(service) - before
        return sum(rates), max(p99), read / (2 * options.reads * READERS)
    finally:
        for reader in readers:
            reader.kill()
        if service:
            service.end()
        group.end()
        shutil.rmtree(place, ignore_errors=True)


def quartiles(values):
    return statistics.quantiles(values, n=4, method="inclusive")


def rows_of(name, rounds):
    for way in WAYS:
        rates, p99, read = zip(*(r[way] for r in rounds))
        low, middle, high = quartiles(rates)
        p99_low, p99_middle, p99_high = quartiles(p99)
        yield dict(zip(COLUMNS, [name, way, middle, low, high, p99_middle, p99_low, p99_high,
                                 statistics.median(read), len(rounds)]))


def measure(options, folder):
    rows = []
    for name, size in SIZES.items():
        if options.only and not any(word in name for word in options.only):
            continue
        place = folder / name.replace(" ", "-")
        place.mkdir()
        keys = int(options.limit * size * MIB / BYTES_OF_KEY)
        print(f"rocksdb: {name}: preparing {keys} keys", file=sys.stderr, flush=True)
        prepare(place, keys)
        rounds = []
        for i in range(options.rounds):
            print(f"rocksdb: {name}: round {i + 1} of {options.rounds}", file=sys.stderr,
                  flush=True)
            names = list(WAYS)[i % len(WAYS):] + list(WAYS)[:i % len(WAYS)]
            rounds.append({way: measure_once(options, WAYS[way], place, keys)
                           for way in names})
        rows += rows_of(name, rounds)
        for row in rows[-len(WAYS):]:
            print(f"{row['case']:25} {row['way']:10} {row['per_second']:10.0f} "
                  f"({row['q1']:.0f} to {row['q3']:.0f}) a second   p99 {row['p99_us']:9.1f} us   "
                  f"{row['disk_bytes_each']:7.0f} bytes from the disk each", flush=True)
        shutil.rmtree(place)
    return rows


def table(options, rows):
    """What doc/use/rocksdb.md shows."""
    lines = [f"{os.cpu_count()} CPUs, {options.limit} MiB for all, {options.rounds} rounds; median "
             "and quartiles:", "",
             "| database | way | reads a second | p99, us | bytes from the disk each |",
             "|---|---|---|---|---|"]
    for row in rows:
        lines.append(f"| {row['case']} | {WAYS[row['way']].what} | {row['per_second']:,.0f} "
                     f"({row['q1']:,.0f} to {row['q3']:,.0f}) | {row['p99_us']:,.0f} "
                     f"({row['p99_q1']:,.0f} to {row['p99_q3']:,.0f}) | "
                     f"{row['disk_bytes_each']:,.0f} |")
    return "\n".join(lines) + "\n"


def keep(options, rows):
    with open(CSV, "w", newline="", encoding="utf-8") as f:
        f.write(f"# {os.cpu_count()} CPUs, {os.uname().release}; limit {options.limit} MiB; "
                f"{options.rounds} rounds; {options.reads} reads of each process and pass\n")
        writer = csv.DictWriter(f, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    page = PAGE.read_text(encoding="utf-8")
    head, rest = page.split(MARKERS[0])
    PAGE.write_text(head + MARKERS[0] + table(options, rows) + MARKERS[1] +
                    rest.split(MARKERS[1])[1], encoding="utf-8")


def more_options(parser):
    parser.add_argument("--limit", type=int, default=512, metavar="MIB",
                        help="of the memory cgroup (default: %(default)s)")
    parser.add_argument("--reads", type=int, default=60000,
                        help="of each process, twice (default: %(default)s)")


def main():
    options = parse_options(__doc__, rounds=7, needs=("db_bench",), more=more_options)
    if not (options.lodic.parent / "liblodic-rocksdb.so").exists():
        sys.exit("rocksdb: liblodic-rocksdb.so was not built: run make deps-bench build")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-rocksdb-", dir=options.lodic.parent))
    try:
        rows = measure(options, folder)
        if rows and not options.only:
            keep(options, rows)
            print(f"results in {CSV.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")
    except Failed as error:
        sys.exit(f"rocksdb: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
