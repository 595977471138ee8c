#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Readers of more bytes than their memory holds, in one memory cgroup, by turns.

Each way has the same limit for everything: its readers, their caches, the kernel's pages of the
files, and lodic's service. What was read from the disk is what the kernel counts for the readers
and the service. Figures are medians over the rounds. A spread in the results is the interquartile
range, and what stands behind +- is half of it.
Needs root, and a memory cgroup of version 1 or 2.
"""

import csv
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from apps import MIB, RESULTS, ROOT, Failed, Service, parse_options, spread, statistics

LIMIT_MIB = 512
# Of lodic, or of the four caches together. A db_bench needs some 20 MiB beside its cache.
CACHE_MIB = 384
READERS = 4
DB_KEYS = 12000000  # about 1.4 GB
DB_READS = 60000
FILE_MIB = 2048
FIO_SECONDS = 6
COLUMNS = ["case", "way", "per_second", "per_second_spread", "p99_us", "p99_us_spread",
           "disk_bytes_each", "rounds"]


class Group:
    """A memory cgroup of its own, where this machine has them mounted."""

    def __init__(self):
        one, two = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
        first = (one / "memory.limit_in_bytes").exists()
        self.path = (one if first else two) / f"lodic-bench-{os.getpid()}"
        try:
            self.path.mkdir()
            limit = "memory.limit_in_bytes" if first else "memory.max"
            (self.path / limit).write_text(str(LIMIT_MIB * MIB))
            for name in ("memory.swappiness", "memory.swap.max"):
                if (self.path / name).exists():
                    (self.path / name).write_text("0")
        except OSError as error:
            raise Failed(f"no memory cgroup: {error}") from error

    def enter(self):
        """For a child, before exec."""
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def end(self):
        """Whatever still runs there ends, too."""
        for _ in range(200):
            try:
                self.path.rmdir()
                return
            except OSError:
                for pid in (self.path / "cgroup.procs").read_text().split():
                    try:
                        os.kill(int(pid), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                time.sleep(0.05)


def forget(folder):
    """The kernel's pages of the files go, so that no way finds those of another."""
    for path in folder.rglob("*"):
        if path.is_file():
            fd = os.open(path, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


class Reader:
    """A program that runs in the group; what it prints is kept."""

    def __init__(self, command, group, folder):
        self.out = tempfile.TemporaryFile()
        self.command = [str(word) for word in command]
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self.out, stderr=subprocess.STDOUT,
            cwd=folder, preexec_fn=group.enter)  # pylint: disable=W1509

    def wait(self):
        """(what it printed, bytes from the disk)"""
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.out.seek(0)
        text = self.out.read().decode(errors="replace")
        if self.process.returncode != 0:
            raise Failed(f"`{' '.join(self.command)}` failed:\n{text[-2000:]}")
        return text, used.ru_inblock * 512

    def kill(self):
        self.process.kill()
        self.process.wait()


def disk_bytes(process):
    if not process:
        return 0
    text = pathlib.Path(f"/proc/{process.pid}/io").read_text()
    return int(re.search(r"^read_bytes: (\d+)", text, re.MULTILINE)[1])


class Database:
    """Four processes read one database at random, some keys more than others."""

    ways = ["own caches", "page cache", "lodic"]
    base = ["db_bench", "--db=db", f"--num={DB_KEYS}", "--compression_type=none",
            "--value_size=100"]

    def prepare(self, folder):
        done = subprocess.run([*self.base, "--benchmarks=fillseq,compact", "--seed=1"],
                              cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        if done.returncode != 0:
            raise Failed(done.stdout.decode(errors="replace")[-2000:])

    def measure(self, way, folder, group, service):
        """(operations a second, p99 in us, bytes from the disk for each operation)"""
        before = disk_bytes(service)
        readers = []
        for number in range(READERS):
            own = way == "own caches"
            command = [*self.base, "--benchmarks=readrandom,readrandom", "--use_existing_db=1",
                       "--readonly", f"--reads={DB_READS}", f"--seed={number + 2}",
                       "--read_random_exp_range=15", "--histogram=1", "--open_files=-1",
                       f"--cache_size={CACHE_MIB * MIB // READERS if own else 4096}",
                       f"--use_direct_reads={int(own)}"]
            readers.append(Reader(service.under(command) if service else command, group, folder))
        answers = [reader.wait() for reader in readers]
        # The second pass counts: the first one has filled the caches.
        rates = [float(re.findall(r"([\d.]+) ops/sec", text)[-1]) for text, _ in answers]
        p99 = [float(re.findall(r"P(?:99): ([\d.]+)", text)[-1]) for text, _ in answers]
        read = sum(n for _, n in answers) + disk_bytes(service) - before
        return sum(rates), max(p99), read / (2 * DB_READS * READERS)


class Zipf:
    """Two threads read a file four times as large as the limit, 4 KiB each, by zipf. With a scan,
    another program reads that file or another one in order, again and again."""

    ways = ["pread", "mmap", "lodic"]

    def __init__(self, scan=None):
        self.scan = scan

    def prepare(self, folder):
        for name in {"data", self.scan or "data"}:
            with open(folder / name, "wb") as f:
                for _ in range(FILE_MIB // 16):
                    f.write(os.urandom(16 * MIB))

    def job(self, way):
        engine = "mmap" if way == "mmap" else "psync"
        return ["fio", "--name=a", "--filename=data", "--readonly", "--rw=randread", "--bs=4096",
                f"--size={FILE_MIB}M", "--thread", "--numjobs=2", "--group_reporting",
                "--norandommap", "--random_distribution=zipf:1.1", "--time_based",
                f"--runtime={FIO_SECONDS}", f"--ramp_time={FIO_SECONDS}", f"--ioengine={engine}",
                "--invalidate=0", "--lat_percentiles=1", "--clat_percentiles=0",
                "--output-format=json"]

    def measure(self, way, folder, group, service):
        command = self.job(way)
        scan = ["sh", "-c", f"while :; do cat {self.scan} >/dev/null; done"]
        beside = Reader(scan, group, folder) if self.scan else None
        try:
            reader = Reader(service.under(command) if service else command, group, folder)
            time.sleep(FIO_SECONDS)
            before = disk_bytes(service) + disk_bytes(reader.process)
            text, read = reader.wait()
        finally:
            if beside:
                beside.kill()
        done = json.loads(text[text.index("{"):])["jobs"][0]["read"]
        return (done["iops"], done["lat_ns"]["percentile"]["99.000000"] / 1000,
                (read + disk_bytes(service) - before) / done["total_ios"])


CASES = {
    "four db_bench": Database(),
    "zipf": Zipf(),
    "zipf and a scan": Zipf("data"),
    "zipf and a scan elsewhere": Zipf("other"),
}


def measure_once(options, case, way, folder):
    """A group, and for lodic a service, of its own: nothing is left of what ran before."""
    forget(folder)
    group = Group()
    service, place = None, None
    try:
        if way == "lodic":
            place = pathlib.Path(tempfile.mkdtemp(prefix="lodic-bench-"))
            service = Service(options.lodic, place, f"{CACHE_MIB}M", group.enter)
        return case.measure(way, folder, group, service)
    finally:
        if service:
            service.end()
        if place:
            shutil.rmtree(place, ignore_errors=True)
        group.end()


def rows_of(name, case, rounds):
    for way in case.ways:
        rates, p99, read = zip(*(r[way] for r in rounds))
        yield dict(zip(COLUMNS, [
            name, way, statistics.median(rates), spread(rates), statistics.median(p99),
            spread(p99), statistics.median(read), len(rounds)]))


def measure(options, folder):
    rows = []
    for name, case in CASES.items():
        if options.only and not any(word in name for word in options.only):
            continue
        place = folder / name.replace(" ", "-")
        place.mkdir()
        print(f"limited: {name}: preparing", file=sys.stderr, flush=True)
        case.prepare(place)
        rounds = []
        for i in range(options.rounds):
            print(f"limited: {name}: round {i + 1} of {options.rounds}", file=sys.stderr,
                  flush=True)
            ways = case.ways[i % len(case.ways):] + case.ways[:i % len(case.ways)]
            rounds.append({way: measure_once(options, case, way, place) for way in ways})
        rows += rows_of(name, case, rounds)
        for row in rows[-len(case.ways):]:
            print(f"{row['case']:25} {row['way']:10} {row['per_second']:10.0f} +- "
                  f"{row['per_second_spread'] / 2:.0f} a second   p99 {row['p99_us']:9.1f} us   "
                  f"{row['disk_bytes_each']:7.0f} bytes from the disk each", flush=True)
        shutil.rmtree(place)
    return rows


def keep(options, rows):
    with open(RESULTS / "limited.csv", "w", newline="", encoding="utf-8") as f:
        f.write(f"# {os.cpu_count()} CPUs, {os.uname().release}; limit {LIMIT_MIB} MiB; "
                f"{options.rounds} rounds\n")
        writer = csv.DictWriter(f, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main():
    options = parse_options(__doc__, rounds=7, needs=("fio", "db_bench"))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-limited-", dir=options.lodic.parent))
    try:
        rows = measure(options, folder)
        if rows and not options.only:
            keep(options, rows)
            print("results in bench/results/limited.csv")
    except Failed as error:
        sys.exit(f"limited: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
