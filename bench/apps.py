#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Programs as people have them, with and without `lodic run`, by turns.

In each round every way of a case runs once, and the first one changes from round to round. The
CPU time is that of the program and of lodic's service together. A share says how much of the CPU
time that mmap saves over pread is saved by lodic, in the same round. mmap is the bound: it copies
and counts nothing. Figures are medians over the rounds. A spread in the results is the
interquartile range, and what stands behind +- is half of it.
"""

import argparse
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import duck
import nginx

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
MIB = 1 << 20
FILE_MIB = 256
DB_KEYS = 1000000
DUCK_ROWS = 2000000
COLUMNS = ["case", "way", "cpu_us", "spread", "per_second", "ratio", "ratio_spread", "share",
           "share_spread", "rounds"]
# case -> the least share of mmap's saving that lodic must have, or the most of nginx's own CPU
# time that it may take
LEAST_SHARE = {"fio 4 KiB": 0.5, "fio 512 B": 0.6, "db_bench readrandom": 0.5}
MOST_RATIO = 1.03


class Failed(Exception):
    """What went wrong, in words for the user."""


def cpu_ns(pids):
    """The CPU time of all threads of the processes so far."""
    total = 0
    for pid in pids:
        for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            total += int(task.read_text().split()[0])
    return total


class Service:
    """lodic's service, with a socket of its own."""

    def __init__(self, lodic, place, memory, before_exec=None, more=()):
        self.lodic, self.socket = lodic, place / "lodic"
        done = subprocess.run([lodic, "serve", "--daemon", "--idle-exit", "600", "--memory",
                               memory, "--socket", self.socket, *more], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False,
                              preexec_fn=before_exec)  # pylint: disable=W1509
        if done.returncode != 0:
            raise Failed(f"lodic serve: {done.stderr.decode().strip()}")
        self.pid = self.stat()["service_pid"]

    def stat(self):
        return json.loads(subprocess.run([self.lodic, "stat", "--json", "--socket", self.socket],
                                         stdout=subprocess.PIPE, check=True).stdout)

    def under(self, command, *more):
        return [self.lodic, "run", "--socket", self.socket, *more, "--", *command]

    def end(self):
        os.kill(self.pid, signal.SIGTERM)


def run(command, service, folder, asks=os.devnull):
    """One run to its end, which reads the file asks: (CPU ns with the service's, seconds, what it
    printed)."""
    before, began = cpu_ns([service.pid]), time.monotonic()
    with tempfile.TemporaryFile() as out, open(asks, "rb") as stdin:
        process = subprocess.Popen([str(word) for word in command], stdin=stdin,
                                   stdout=out, stderr=subprocess.STDOUT, cwd=folder)
        try:
            _, status, used = os.wait4(process.pid, 0)
        except KeyboardInterrupt:
            process.kill()
            raise
        seconds = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
    if process.returncode != 0:
        raise Failed(f"`{' '.join(map(str, command))}` failed:\n{text[-2000:]}")
    own = int((used.ru_utime + used.ru_stime) * 1e9)
    return own + cpu_ns([service.pid]) - before, seconds, text


class Fio:
    """Random reads (zipf) of one file of 256 MiB."""

    ways = ["pread", "lodic", "mmap"]

    def __init__(self, block, reads):
        self.block, self.reads = block, reads

    def prepare(self, folder, _service):
        path = folder / "fio-data"
        if not path.exists():
            with open(path, "wb") as f:
                for _ in range(FILE_MIB // 16):
                    f.write(os.urandom(16 * MIB))

    def measure(self, way, folder, service):
        engine = "mmap" if way == "mmap" else "psync"
        command = ["fio", "--name=a", "--filename=fio-data", "--readonly", "--rw=randread",
                   f"--bs={self.block}", f"--size={FILE_MIB}M", "--thread", "--norandommap",
                   "--random_distribution=zipf:0.9", f"--io_size={self.block * self.reads}",
                   f"--ioengine={engine}", "--invalidate=0", "--gtod_reduce=1",
                   "--output-format=json"]
        cpu, seconds, text = run(service.under(command) if way == "lodic" else command,
                                 service, folder)
        done = json.loads(text[text.index("{"):])["jobs"][0]["read"]["total_ios"]
        return cpu / done, done / seconds


class DbBench:
    """RocksDB's tool on a database that is only read, of about 120 MB."""

    base = ["db_bench", "--db=db", f"--num={DB_KEYS}", "--compression_type=none",
            "--value_size=100"]

    def __init__(self, benchmark, reads, ways):
        self.benchmark, self.reads, self.ways = benchmark, reads, ways

    def prepare(self, folder, service):
        if not (folder / "db").exists():
            run([*self.base, "--benchmarks=fillseq,compact", "--seed=1"], service, folder)

    def measure(self, way, folder, service):
        command = [*self.base, f"--benchmarks={self.benchmark}", "--use_existing_db=1",
                   "--readonly", f"--reads={self.reads}", "--seed=2",
                   f"--cache_size={256 * MIB if way == 'own cache' else 4096}",
                   f"--mmap_read={int(way == 'mmap')}", "--open_files=-1"]
        cpu, seconds, text = run(service.under(command) if way == "lodic" else command,
                                 service, folder)
        found = re.search(r"\((\d+) of (\d+) found\)", text)
        done = int(found[2]) if found else self.reads
        if found and found[1] != found[2]:
            raise Failed(f"db_bench has not found every key: {found[0]}")
        return cpu / done, done / seconds


class DuckDb:
    """A table of 41 MB, asked again and again in one process, whose start counts as well."""

    ways = ["pread", "lodic", "own memory"]

    def __init__(self, statements):
        self.asks = "\n".join(statements) + "\n"
        self.times = len(statements)

    def prepare(self, folder, service):
        if not (folder / "duck").exists():
            run(duck.words("duck", "make", str(DUCK_ROWS)), service, folder)
        (folder / "asks").write_text(self.asks)

    def measure(self, way, folder, service):
        command = duck.words("duck", "memory", "1GB" if way == "own memory" else duck.MEMORY)
        cpu, seconds, _ = run(service.under(command) if way == "lodic" else command, service,
                              folder, folder / "asks")
        return cpu / self.times, self.times / seconds


class Nginx:
    """A page of 612 bytes, asked for over connections that stay, on a Unix socket."""

    ways = ["alone", "lodic"]

    def __init__(self, connections, requests):
        self.connections, self.requests = connections, requests
        self.folder = None

    def prepare(self, folder, _service):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-bench-"))
        (folder / "page").write_bytes(b"x" * 612)

    def ask(self, streams, requests):
        for _ in range(requests // len(streams)):
            for stream in streams:
                stream.sendall(b"GET /page HTTP/1.1\r\nHost: a\r\n\r\n")
            for stream in streams:
                got = b""
                while not got.endswith(b"x" * 612):
                    part = stream.recv(4096)
                    if not part:
                        raise Failed("nginx has closed a connection")
                    got += part

    def measure(self, way, folder, service):
        listens = self.folder / "nginx"
        listens.unlink(missing_ok=True)
        command = nginx.command(folder, f"unix:{listens}", folder)
        server = subprocess.Popen(service.under(command) if way == "lodic" else command,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True)
        try:
            streams = self.connect(server, listens)
            self.ask(streams, 2000)
            pids = [service.pid] + [int(pid) for pid in subprocess.run(
                ["pgrep", "-s", str(server.pid)], stdout=subprocess.PIPE,
                check=True).stdout.split()]
            before, began = cpu_ns(pids), time.monotonic()
            self.ask(streams, self.requests)
            done = self.requests // len(streams) * len(streams)
            return (cpu_ns(pids) - before) / done, done / (time.monotonic() - began)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

    def connect(self, server, listens):
        end = time.monotonic() + 20
        streams = []
        while len(streams) < self.connections:
            stream = socket.socket(socket.AF_UNIX)
            stream.settimeout(20)
            try:
                stream.connect(str(listens))
                streams.append(stream)
            except (FileNotFoundError, ConnectionRefusedError) as error:
                if server.poll() is not None or time.monotonic() > end:
                    raise Failed("nginx does not start") from error
                time.sleep(0.01)
        return streams


CASES = {
    "fio 4 KiB": Fio(4096, 1500000),
    "fio 512 B": Fio(512, 2500000),
    "db_bench readrandom": DbBench("readrandom", 1000000, ["pread", "lodic", "mmap", "own cache"]),
    "db_bench readseq": DbBench("readseq", DB_KEYS, ["pread", "lodic", "mmap"]),
    "duckdb scan": DuckDb([duck.SCAN] * 40),
    "duckdb lookup": DuckDb([duck.lookup(i * 31337 % DUCK_ROWS) for i in range(1000)]),
    "nginx 612 B, 1 connection": Nginx(1, 20000),
    "nginx 612 B, 10 connections": Nginx(10, 20000),
    "nginx 612 B, 50 connections": Nginx(50, 20000),
}
# What is needed for a case, and whether it is there.
NEEDS = {
    Fio: ("fio", shutil.which("fio")),
    DbBench: ("db_bench", shutil.which("db_bench")),
    DuckDb: ("duckdb", duck.installed()),
    Nginx: (nginx.NGINX, shutil.which(nginx.NGINX)),
}


def spread(values):
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def rows_of(name, case, rounds):
    """One row a way. rounds: [{way: (CPU ns an operation, operations a second)}]"""
    first = case.ways[0]
    for way in case.ways:
        cpu = [r[way][0] / 1000 for r in rounds]
        ratios = [r[way][0] / r[first][0] for r in rounds]
        shares = [(r["pread"][0] - r["lodic"][0]) / (r["pread"][0] - r["mmap"][0])
                  for r in rounds] if way == "lodic" and "mmap" in case.ways else []
        yield dict(zip(COLUMNS, [
            name, way, statistics.median(cpu), spread(cpu),
            statistics.median(r[way][1] for r in rounds), statistics.median(ratios),
            spread(ratios), statistics.median(shares) if shares else None,
            spread(shares) if shares else None, len(rounds)]))


def measure(options, folder, service):
    rows = []
    for name, case in CASES.items():
        if options.only and not any(word in name for word in options.only):
            continue
        needed, there = NEEDS[type(case)]
        if not there:
            print(f"apps: {name}: {needed} is not installed", file=sys.stderr)
            continue
        case.prepare(folder, service)
        case.measure("lodic", folder, service)  # the cache has the blocks afterwards
        rounds = []
        for i in range(options.rounds):
            print(f"\rapps: {name}: round {i + 1} of {options.rounds} ", end="", file=sys.stderr,
                  flush=True)
            ways = case.ways[i % len(case.ways):] + case.ways[:i % len(case.ways)]
            rounds.append({way: case.measure(way, folder, service) for way in ways})
        print("\r\033[K", end="", file=sys.stderr)
        rows += rows_of(name, case, rounds)
        print_table(rows[-len(case.ways):])
    return rows


def print_table(rows):
    for row in rows:
        goal = goal_of(row)
        share = "" if row["share"] is None else \
            f"  {row['share']:.2f} +- {row['share_spread'] / 2:.2f} of what mmap saves"
        print(f"{row['case']:28} {row['way']:10} {row['cpu_us']:8.3f} us  {row['ratio']:5.3f} "
              f"+- {row['ratio_spread'] / 2:.3f}{share}{goal}", flush=True)


def goal_of(row):
    """What was wanted of this row, and whether it is so."""
    if row["way"] != "lodic":
        return ""
    if row["case"] in LEAST_SHARE:
        least = LEAST_SHARE[row["case"]]
        return f" (at least {least}: {'met' if row['share'] >= least else 'missed'})"
    if row["case"].startswith("nginx"):
        return f" (at most {MOST_RATIO}: {'met' if row['ratio'] <= MOST_RATIO else 'missed'})"
    return ""


def keep(options, rows):
    machine = {"cpus": os.cpu_count(), "kernel": os.uname().release}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    result = {"machine": machine, "commit": commit.strip() or "unknown",
              "rounds": options.rounds, "results": rows}
    (RESULTS / "apps.json").write_text(json.dumps(result, indent=1) + "\n")
    with open(RESULTS / "apps.csv", "w", newline="", encoding="utf-8") as f:
        f.write(f"# {machine['cpus']} CPUs, {machine['kernel']}; commit {result['commit']}\n")
        writer = csv.DictWriter(f, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def parse_options(doc, rounds, needs=(), more=None):
    """The options of this script, of limited.py and of rocksdb.py, which adds more.
    options.lodic is the program."""
    parser = argparse.ArgumentParser(description=doc, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="where lodic was built")
    parser.add_argument("--rounds", type=int, default=rounds,
                        help="of each case, 2 at least (default: %(default)s)")
    parser.add_argument("--only", action="append", metavar="WORD",
                        help="only cases with this word in their name; keeps no results")
    if more:
        more(parser)
    options = parser.parse_args()
    options.lodic = (ROOT / options.build / "lodic").resolve()
    for needed in (options.lodic, *needs):
        if not shutil.which(needed):
            parser.error(f"{needed} is not there: run make deps build")
    if options.rounds < 2:
        parser.error("--rounds must be 2 at least")
    return options


def main():
    options = parse_options(__doc__, rounds=9)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-apps-", dir=options.lodic.parent))
    service = None
    try:
        place = pathlib.Path(tempfile.mkdtemp(prefix="lodic-bench-"))
        service = Service(options.lodic, place, "512M")
        rows = measure(options, folder, service)
        if rows and not options.only:
            keep(options, rows)
            print("results in bench/results/apps.csv and apps.json")
    except Failed as error:
        sys.exit(f"apps: {error}")
    finally:
        if service:
            service.end()
            shutil.rmtree(service.socket.parent, ignore_errors=True)
        for case in CASES.values():
            if getattr(case, "folder", None):
                shutil.rmtree(case.folder, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
