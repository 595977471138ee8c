#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Real programs, recorded, and what each policy of two tiers would make of them.

Each program runs once under `lodic run --record`, with a service that has two tiers and the
policy kloc. Then `lodic-sim tier --replay` makes the service's calls again: all decisions must be
the same. And `lodic-sim tier --trace` runs the program's opens, closes and reads with every
policy. A third of the bytes that the program reads fits into fast memory. What was read from slow
memory is an exact count. Throughput comes from the model, with the program's own time and without.
Takes about three minutes, half a gigabyte of disk, and no privileges. The results go to
bench/results/recordings.json, from which sim/tiers.py writes doc/tiers.md.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import apps
import nginx
from apps import MIB, RESULTS, ROOT, Failed, Service

FAST_SHARE = 3  # a third of what is read is fast
TIERS = ["--policy", "kloc", "--fast-memory", "64M"]
MEMORY = "512M"
POLICIES = "naive,nimble,nimble++,kloc_nomigration,kloc,oracle,all_fast"
IN_NEED = ["--policy", "kloc", "--lazy", "--piecemeal"]
SEED = 1

# It reads all of its files three times over, each time in another order.
LOADER = """
import pathlib, random, sys
files = sorted(pathlib.Path(sys.argv[1]).iterdir())
for epoch in range(3):
    random.Random(epoch).shuffle(files)
    for path in files:
        with open(path, "rb", buffering=0) as f:
            while f.read(65536):
                pass
"""
# Rows of a database by their key, some keys more often.
QUERIES = """
import random, sqlite3, sys
base = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True)
base.execute("PRAGMA cache_size = -256")
chance = random.Random(1)
for i in range(40000):
    key = int(100000 * chance.random() ** 4)
    base.execute("SELECT value FROM rows WHERE key = ?", (key,)).fetchone()
"""


def many_files(folder, nr, least, most):
    """Files of random sizes; they stay for the next case that wants the same."""
    if folder.exists():
        return
    chance = random.Random(SEED)
    folder.mkdir()
    for i in range(nr):
        (folder / f"{i:04}").write_bytes(os.urandom(chance.randrange(least, most)))


class Program:
    """One that ends by itself. words: its command, in a folder that prepare() has filled."""

    def __init__(self, needs, words, prepare):
        self.needs, self.words, self.prepare = needs, words, prepare

    def run(self, folder, under):
        done = subprocess.run([str(w) for w in under(self.words(folder))], cwd=folder, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise Failed(f"{self.words(folder)[0]}: {done.stdout.decode(errors='replace')[-1000:]}")


class Nginx:
    """A server of small files, some of which are asked for more often. Unless it keeps them open,
    it opens one for each request: so does nginx by itself."""

    needs = nginx.NGINX
    requests = 20000

    def __init__(self, keeps):
        self.keeps = keeps

    def prepare(self, folder):
        many_files(folder / "www", 2000, 1000, 60000)

    def run(self, folder, under):
        place = pathlib.Path(tempfile.mkdtemp(prefix="lodic-rec-"))
        server = subprocess.Popen(
            under(nginx.command(place, f"unix:{place}/nginx", folder / "www",
                                keeps=self.keeps)),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        asks = apps.Nginx(1, self.requests)
        try:
            stream = asks.connect(server, place / "nginx")[0]
            chance = random.Random(SEED)
            for _ in range(self.requests):
                self.ask(stream, int(2000 * chance.random() ** 3))
            # It ends by itself, so that its record is whole.
            os.kill(int((place / "pid").read_text()), signal.SIGTERM)
            server.wait(timeout=20)
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()
            shutil.rmtree(place, ignore_errors=True)

    def ask(self, stream, i):
        stream.sendall(f"GET /{i:04} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        got = b""
        while b"\r\n\r\n" not in got:
            got += self.more(stream)
        head, body = got.split(b"\r\n\r\n", 1)
        rest = int(head.lower().split(b"content-length: ")[1].split(b"\r")[0]) - len(body)
        while rest > 0:
            rest -= len(self.more(stream))

    def more(self, stream):
        part = stream.recv(65536)
        if not part:
            raise Failed("nginx has closed a connection")
        return part


def db_words(*more):
    return lambda folder: ["db_bench", f"--db={folder}/db", "--num=1000000", "--value_size=100",
                           "--compression_type=none", "--benchmarks=readrandom",
                           "--use_existing_db=1", "--readonly", "--reads=100000", "--threads=4",
                           "--seed=2", "--cache_size=4096", *more]


def make_db(folder):
    """A database of about 120 MB in files of 2 MB."""
    if not (folder / "db").exists():
        subprocess.run(["db_bench", f"--db={folder}/db", "--num=1000000", "--value_size=100",
                        "--compression_type=none", "--benchmarks=fillrandom,compact", "--seed=1",
                        "--target_file_size_base=2097152"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def fio_words(*more):
    return lambda folder: ["fio", "--name=a", f"--directory={folder}", "--readonly", "--thread",
                           "--rw=randread", "--bs=4k", "--norandommap", "--ioengine=psync",
                           "--invalidate=0", "--randseed=1", "--random_distribution=zipf:0.9",
                           *more]


def make_rows(folder):
    """A table of about 60 MB."""
    import sqlite3
    base = sqlite3.connect(folder / "rows.db")
    chance = random.Random(SEED)
    base.execute("CREATE TABLE IF NOT EXISTS rows (key INTEGER PRIMARY KEY, value BLOB)")
    base.executemany("INSERT OR REPLACE INTO rows VALUES (?, ?)",
                     ((i, chance.randbytes(500)) for i in range(100000)))
    base.commit()
    base.close()


def fio_files(folder):
    """fio's own names, so that it finds its files and need not write any."""
    many_files(folder / "unused", 1, 1, 2)
    for i in range(128):
        (folder / f"a.0.{i}").write_bytes(os.urandom(2 * MIB))


CASES = {
    "db_bench, files stay open": Program("db_bench", db_words("--open_files=-1"), make_db),
    "db_bench, few files open": Program("db_bench", db_words("--open_files=20"), make_db),
    "nginx": Nginx(keeps=False),
    "nginx, files stay open": Nginx(keeps=True),
    "fio, one file": Program("fio", fio_words("--filename=one", f"--size={256 * MIB}",
                                              "--io_size=1200m"),
                             lambda folder: (folder / "one").write_bytes(os.urandom(256 * MIB))),
    "fio, 128 files": Program("fio", fio_words("--nrfiles=128", "--openfiles=16",
                                               f"--size={256 * MIB}", "--io_size=1200m",
                                               "--file_service_type=random:64"), fio_files),
    "python, a loader": Program(sys.executable, lambda folder:
                                [sys.executable, "-c", LOADER, folder / "many"],
                                lambda folder: many_files(folder / "many", 800, 20000, 250000)),
    "python, sqlite": Program(sys.executable, lambda folder:
                              [sys.executable, "-c", QUERIES, folder / "rows.db"], make_rows),
}


def simulate(program, *words):
    """What lodic-sim answers, as JSON."""
    done = subprocess.run([program, "tier", "--json", *map(str, words)], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise Failed(f"lodic-sim tier {' '.join(map(str, words))}: {done.stderr.decode()}")
    if b"ends before" in done.stderr:
        raise Failed(done.stderr.decode())
    return json.loads(done.stdout)


def row_of(result, memory_only):
    frames = result["kinds"]["frame"]
    return {"throughput": result["throughput"], "memory_only": memory_only["throughput"],
            "slow_percent": 100 * frames["slow_touched_bytes"] / frames["touched_bytes"],
            "down": result["migrations"]["down"], "up": result["migrations"]["up"]}


def judge(sim, record):
    """Every policy on the record: {policy: row}, and what the record is like."""
    first = simulate(sim, "--trace", record, "--policy", "all_slow", "--scale", 1,
                     "--slow", "8g")["results"][0]
    footprint = first["kinds"]["frame"]["added_bytes"]
    tiers = ["--trace", record, "--scale", 1, "--fast", footprint // FAST_SHARE,
             "--slow", 4 * footprint]
    rows = {}
    for name, words in (("", ["--policy", POLICIES]), ("kloc, in need", IN_NEED)):
        real = simulate(sim, *tiers, *words)["results"]
        alone = simulate(sim, *tiers, *words, "--memory-only")["results"]
        for one, other in zip(real, alone):
            rows[name or one["policy"]] = row_of(one, other)
    return {"footprint_bytes": footprint, "events": first["events"],
            "touched_bytes": first["kinds"]["frame"]["touched_bytes"], "reuse": first["reuse"],
            "policies": rows}


def record(case, options, folder):
    """Runs the program once; returns the service's replay and the verdicts on the record."""
    files = pathlib.Path(tempfile.mkdtemp(prefix="records-", dir=folder))
    place = pathlib.Path(tempfile.mkdtemp(prefix="lodic-rec-"))
    service = None
    try:
        service = Service(options.lodic, place, MEMORY,
                          more=[*TIERS, "--policy-record", files / "policy"])
        began = time.monotonic()
        case.run(folder, lambda words: service.under(words, "--record", files / "run"))
        seconds = time.monotonic() - began
        end(service)
        service = None
        replay = simulate(options.sim, "--replay", files / "policy")
        result = {"seconds": seconds, "replay": replay, **judge(options.sim, files / "run")}
        if options.keep:
            shutil.copytree(files, options.keep, dirs_exist_ok=True)
        return result
    finally:
        if service:
            service.end()
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(files, ignore_errors=True)


def end(service):
    """The policy's record is complete when the service has gone."""
    service.end()
    until = time.monotonic() + 20
    while pathlib.Path(f"/proc/{service.pid}").exists():
        if time.monotonic() > until:
            raise Failed("the service does not end")
        time.sleep(0.05)


def show(name, result):
    kloc, naive = result["policies"]["kloc"], result["policies"]["naive"]
    print(f"{name:26} {result['replay']['decisions']} decisions agree; a frame is used "
          f"{result['reuse']:.2f} times while its file is open; from slow memory: naive "
          f"{naive['slow_percent']:.1f} %, kloc {kloc['slow_percent']:.1f} %", flush=True)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="where lodic was built")
    parser.add_argument("--only", action="append", metavar="WORD",
                        help="only programs with this word in their name; keeps no results")
    parser.add_argument("--keep", metavar="FOLDER", help="leave the last program's records there")
    options = parser.parse_args()
    options.lodic = (ROOT / options.build / "lodic").resolve()
    options.sim = options.lodic.parent / "lodic-sim"
    for needed in (options.lodic, options.sim):
        if not shutil.which(needed):
            parser.error(f"{needed} is not there: run make build")
    return options


def main():
    options = parse_options()
    results, missing = {}, []
    chosen = {name: case for name, case in CASES.items()
              if not options.only or any(word in name for word in options.only)}
    folder = pathlib.Path(tempfile.mkdtemp(prefix="recordings-", dir=options.lodic.parent))
    try:
        for i, (name, case) in enumerate(chosen.items()):
            if not shutil.which(case.needs):
                print(f"recordings: {name}: {case.needs} is not installed", file=sys.stderr)
                missing.append(name)
                continue
            print(f"\rrecordings: {i + 1} of {len(chosen)}: {name} ", end="", file=sys.stderr,
                  flush=True)
            case.prepare(folder)
            results[name] = record(case, options, folder)
            print("\r\033[K", end="", file=sys.stderr)
            show(name, results[name])
    except Failed as error:
        sys.exit(f"recordings: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if results and not options.only and not missing:
        machine = {"cpus": os.cpu_count(), "kernel": os.uname().release}
        (RESULTS / "recordings.json").write_text(
            json.dumps({"machine": machine, "programs": results}, indent=1) + "\n")
        print("results in bench/results/recordings.json")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
