#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Is `lodic doctor` right? Its forecast beside the gain that `lodic run` then brings.

    bench/doctor.py [--lodic build/lodic] [--rounds 7] [--folder build] [--json FILE] [NAME...]

Each program runs without and with `lodic run` in turn, in each round in another order. The gain of
a round is the ratio of CPU times, of the program with all its processes. One run before fills the
cache. In every third round it also runs under the doctor. So forecasts and gains are of the same
minutes, and the table has the medians of both. A program that is not installed is left out.
The table goes to stdout as Markdown.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import nginx

PYTHON = "/usr/bin/python3"
WEB_FILES, WEB_REQUESTS = 500, 240000
PREAD = """
import os, random, sys
fd, at = os.open(sys.argv[1], os.O_RDONLY), random.Random(1)
places = [at.randrange(8 << 20) for _ in range(10000)]
for i in range(80):
    for place in places:
        os.pread(fd, 4096, place)
"""
READ = """
import sys
with open(sys.argv[1], "rb", 0) as f:
    for i in range(400000):
        f.seek(i * 7919 * 4096 % (15 << 20))
        f.read(4096)
"""
COMPUTE = "print(sum(i * i % 7 for i in range(20 * 10**6)))"


class Program:
    """A command that runs to its end."""

    def __init__(self, name, command, folder, **more):
        self.name, self.command, self.folder, self.more = name, command, folder, more

    def use(self, _process):
        """What the program must be asked to do, until it is told to end."""

    def run(self, words=()):
        """Runs it behind these words; returns its CPU seconds, and those of its children."""
        process = subprocess.Popen([*words, *map(str, self.command)], cwd=self.folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.use(process)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        if status:
            sys.exit(f"{self.name}: {words} {self.command}: status {status}")
        return used.ru_utime + used.ru_stime


class Server(Program):
    """nginx answers requests for files that it reads by pread()."""

    def use(self, process):
        end = time.monotonic() + 20
        with socket.socket(socket.AF_UNIX) as stream:
            while stream.connect_ex(str(self.folder / "listens")) != 0 and time.monotonic() < end:
                time.sleep(0.02)
            answers, chosen = stream.makefile("rb"), random.Random(1)
            for _ in range(WEB_REQUESTS // 50):
                stream.sendall(b"".join(b"GET /f%d HTTP/1.1\r\nHost: a\r\n\r\n" %
                                        chosen.randrange(WEB_FILES) for _ in range(50)))
                for _ in range(50):
                    size = 0
                    while (line := answers.readline()) not in (b"\r\n", b""):
                        if line.lower().startswith(b"content-length:"):
                            size = int(line.split(b":")[1])
                    answers.read(size)
        process.send_signal(signal.SIGQUIT)

    def run(self, words=()):
        (self.folder / "listens").unlink(missing_ok=True)
        return super().run(words)


def programs(folder):
    """The programs that are installed, and their data."""
    data = folder / "data"
    data.write_bytes(random.Random(1).randbytes(16 << 20))
    yield Program("python, pread", [PYTHON, "-c", PREAD, data], folder)
    if shutil.which("fio"):
        yield Program("fio psync 4 KiB", [
            "fio", "--name=a", f"--filename={data}", "--readonly", "--size=16M", "--bs=4k",
            "--ioengine=psync", "--rw=randread", "--invalidate=0", "--thread", "--loops=200"],
            folder)
    if shutil.which("db_bench"):
        base = ["db_bench", f"--db={folder}/db", "--num=200000", "--compression_type=none"]
        subprocess.run([*base, "--benchmarks=fillrandom,compact", "--seed=1"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        yield Program("db_bench readrandom", [
            *base, "--benchmarks=readrandom", "--use_existing_db=1", "--readonly",
            "--reads=300000", "--seed=2", "--cache_size=0", "--open_files=-1"], folder)
    if os.path.exists(nginx.NGINX):
        web = pathlib.Path(tempfile.mkdtemp(prefix="lodic-web-", dir=folder)).resolve()
        (web / "www").mkdir()
        for number in range(WEB_FILES):
            size = 600 + number * 7919 % 16384
            (web / "www" / f"f{number}").write_bytes(random.Random(number).randbytes(size))
        yield Server("nginx", nginx.command(web, f"unix:{web}/listens", web / "www"), web)
    yield Program("python, read", [PYTHON, "-c", READ, data], folder)
    yield Program("python, computes", [PYTHON, "-c", COMPUTE], folder)


def forecast(lodic, program, folder):
    report = folder / "doctor.json"
    program.run([lodic, "doctor", f"--json={report}", "--"])
    return json.loads(report.read_text())


def measure(lodic, program, rounds, folder):
    """The gains of the rounds, and what the doctor said in every third one."""
    at = pathlib.Path(tempfile.mkdtemp(prefix="lodic-doctor-")) / "socket"
    under = [lodic, "run", "--socket", str(at), "--memory", "512M", "--"]
    gains, said = [], []
    try:
        program.run(under)
        for number in range(rounds):
            if number % 3 == 0:
                said.append(forecast(lodic, program, folder))
            used = {}
            for served in (number % 2 == 0, number % 2 == 1):
                used[served] = program.run(under if served else ())
            gains.append(used[False] / used[True])
    finally:
        asked = subprocess.run([lodic, "stat", "--socket", str(at), "--json"], check=False,
                               capture_output=True)
        if asked.returncode == 0:
            os.kill(json.loads(asked.stdout)["service_pid"], signal.SIGTERM)
        shutil.rmtree(at.parent, True)
    return gains, said


def row(program, gains, said):
    """A line of the table."""
    gain = statistics.median(gains)
    low, _, high = statistics.quantiles(gains * 2 if len(gains) == 1 else gains, n=4,
                                        method="inclusive")
    least, most = (statistics.median(s["gain"][end] for s in said) for end in ("low", "high"))
    covered = statistics.median(s["covered_bytes"] / max(s["io_bytes"], 1) for s in said)
    nr_right = sum(s["gain"]["low"] <= gain <= s["gain"]["high"] for s in said)
    advice = ", ".join(dict.fromkeys(s["advice"] for s in said))
    return (f"| {program.name} | {100 * covered:.0f} % | {least:.2f} to {most:.2f} | {gain:.2f} | "
            f"{low:.2f} to {high:.2f} | {'yes' if least <= gain <= most else 'no'} | "
            f"{nr_right} of {len(said)} | {advice} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lodic", default="build/lodic", help="the program lodic")
    parser.add_argument("--rounds", type=int, default=7, help="pairs of runs (default: 7)")
    parser.add_argument("--folder", default="build", help="where the data goes; it needs leases")
    parser.add_argument("--json", help="also write all numbers to this file")
    parser.add_argument("name", nargs="*", help="only programs whose name has this word")
    options = parser.parse_args()
    lodic = str(pathlib.Path(options.lodic).resolve())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="doctor-", dir=options.folder)).resolve()
    results = []
    print("| program | covered | forecast | measured | quartiles | in the range "
          "| forecasts that have it | advice |")
    print("|---|---|---|---|---|---|---|---|")
    try:
        for program in programs(folder):
            if options.name and not any(word in program.name for word in options.name):
                continue
            gains, said = measure(lodic, program, options.rounds, folder)
            print(row(program, gains, said), flush=True)
            results.append({"program": program.name, "doctor": said, "gains": gains})
    finally:
        shutil.rmtree(folder, True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
