#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Weights of a model in 1, 2 and 4 Python workers: lodic beside mmap, numpy.memmap and read().

    bench/faces.py [--build build] [--size 1G] [--rounds 7] [--workers 1,2,4] [--page] [--quick]

Each slot starts N workers, which have imported all and then load at once. A worker tells when it
has summed up the first tensor, and the last one. It then tells its share of memory (PSS), less
what it had before. Slots of all ways alternate, in each round in another order. The states are:

    warm    the page cache has the file, and so has the service, where lodic is measured
    cold    neither has it: POSIX_FADV_DONTNEED, and a new service
    scan    warm, while another process reads another file of the size, over and over

The rows go to bench/results/faces-<cpus>.csv. With --page the table goes into doc/use/python.md.
"""

import argparse
import csv
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PYTHON = "/usr/bin/python3"
ROOT = pathlib.Path(__file__).resolve().parent.parent
WHEELS = pathlib.Path(os.environ.get("LODIC_WHEELS") or ROOT / "build" / "wheels")
PAGE = ROOT / "doc" / "use" / "python.md"
MARKERS = "<!-- faces -->\n", "<!-- /faces -->"
WAYS = {"lodic": "lodic", "safetensors": "safetensors, mmap", "memmap": "numpy.memmap",
        "read": "read()"}
STATES = ("warm", "cold", "scan")
TENSORS = 64
FIELDS = ("way", "state", "workers", "round", "first_s", "last_s", "pss_bytes")


def load(way, path):
    """The tensors, as each way's users have them."""
    import numpy
    if way == "lodic":
        import lodic.safetensors
        return lodic.safetensors.load_file(path, fallback=False)
    if way == "safetensors":
        import safetensors.numpy
        return safetensors.numpy.load_file(path)
    with open(path, "rb") as f:
        n = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(n))
        flat = numpy.memmap(path, numpy.uint8, "r") if way == "memmap" else \
            numpy.frombuffer(f.read(), numpy.uint8)
    begin = 8 + n if way == "memmap" else 0
    return {name: flat[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]
            .view(numpy.float32).reshape(entry["shape"]) for name, entry in header.items()}


def proportional():
    """This process's share of the memory that it has mapped."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("Pss:"))


def worker(way, path):
    """Loads when a line comes, tells the times, measures at a second line, ends at a third."""
    import numpy  # noqa: F401
    if way == "lodic":
        import lodic.safetensors
        lodic.shared()
    elif way == "safetensors":
        import safetensors.numpy  # noqa: F401
    before = proportional()
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    tensors, first, total = load(way, path), None, 0.0
    for name in sorted(tensors):
        total += float(tensors[name].sum(dtype="float64"))
        first = first or time.perf_counter() - start
    print(json.dumps([first, time.perf_counter() - start, total]), flush=True)
    sys.stdin.readline()
    print(proportional() - before, flush=True)
    sys.stdin.readline()


def scan(path):
    """Reads a file over and over."""
    with open(path, "rb", 0) as f:
        while True:
            f.seek(0)
            while f.read(1 << 20):
                pass


class Faces:
    """A model, a file to scan, and a service."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.model, self.other = folder / "model.safetensors", folder / "other"
        self.socket = str(folder / "s")
        self.sum = None
        package = folder / "package" / "lodic"
        package.mkdir(parents=True)
        build = options.build.resolve()
        for path in (*(ROOT / "python" / "lodic").glob("*.py"),
                     build / "python" / "_lodic.abi3.so", build / "lodic"):
            if not path.exists():
                sys.exit(f"faces: {path} is not there")
            (package / path.name).symlink_to(path)
        self.environment = dict(os.environ, PYTHONPATH=f"{package.parent}:{WHEELS}",
                                LODIC_SOCKET=self.socket, PYTHONDONTWRITEBYTECODE="1")

    def make(self):
        """Writes the files, and gets them to the disk, so that the kernel may drop them."""
        sys.path.insert(0, str(WHEELS))
        import numpy
        import safetensors.numpy
        places, n = numpy.random.default_rng(1), self.options.size // TENSORS // 4 // 256
        safetensors.numpy.save_file({f"layer.{i:02}": places.random((n, 256), numpy.float32)
                                     for i in range(TENSORS)}, self.model)
        with open(self.other, "wb") as f:
            for _ in range(self.options.size >> 20):
                f.write(places.bytes(1 << 20))
        os.sync()

    def end_service(self):
        lodic = self.options.build / "lodic"
        done = subprocess.run([lodic, "stat", "--socket", self.socket, "--json"],
                              capture_output=True, check=False)
        if done.returncode == 0:
            pid = json.loads(done.stdout)["service_pid"]
            os.kill(pid, signal.SIGKILL)
            while os.path.exists(f"/proc/{pid}"):
                time.sleep(0.01)

    def service(self):
        size = (self.options.size >> 20) * 5 // 4 + 64
        subprocess.run([self.options.build / "lodic", "serve", "--daemon", "--idle-exit", "600",
                        "--socket", self.socket, "--memory", f"{size}M", "--holds",
                        f"{size - 32}M"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def prepare(self, way, state):
        """Brings the file to where the state wants it."""
        fd = os.open(self.model, os.O_RDONLY)
        if state == "cold":
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        else:
            while os.read(fd, 1 << 22):
                pass
        os.close(fd)
        self.end_service()
        if way == "lodic":
            self.service()
            if state != "cold":
                self.slot(way, 1)

    def slot(self, way, workers):
        """(first, last, PSS) of the slowest worker, and of all together."""
        running = [subprocess.Popen([PYTHON, __file__, "--worker", way, str(self.model)],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                    env=self.environment) for _ in range(workers)]

        def tell():
            for process in running:
                process.stdin.write("\n")
                process.stdin.flush()

        def answers():
            lines = [process.stdout.readline() for process in running]
            if not all(lines):
                sys.exit(f"faces: a worker of {way} has failed")
            return lines

        answers()
        tell()
        times = [json.loads(line) for line in answers()]
        tell()
        memory = sum(int(line) for line in answers())
        tell()
        for process in running:
            process.communicate()
        sums = {round(one[2], 3) for one in times} | ({self.sum} if self.sum else set())
        if len(sums) != 1:
            sys.exit(f"faces: {way}: the sums differ: {sums}")
        self.sum = sums.pop()
        return max(one[0] for one in times), max(one[1] for one in times), memory

    def measure(self):
        """All slots, in rounds."""
        order = [(way, state, n) for way in WAYS for state in STATES for n in self.options.workers]
        chosen = random.Random(1)
        for i in range(self.options.rounds):
            chosen.shuffle(order)
            for way, state, n in order:
                self.prepare(way, state)
                beside = subprocess.Popen([PYTHON, __file__, "--scan", str(self.other)]) \
                    if state == "scan" else None
                try:
                    row = (way, state, n, i, *self.slot(way, n))
                finally:
                    if beside:
                        beside.kill()
                        beside.wait()
                print(f"round {i}: {WAYS[way]:<18} {state} {n}: first {row[4]:.3f} s, "
                      f"last {row[5]:.3f} s, {row[6] >> 20} MiB", file=sys.stderr)
                yield row


def table(rows, workers):
    """The page's table: medians, with the quartiles of the time."""
    def of(way, state, n, field):
        return [row[FIELDS.index(field)] for row in rows if row[:3] == (way, state, n)]

    def quartiles(values):
        if len(values) < 2:
            return f"{values[0]:.2f}"
        low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
        return f"{middle:.2f} ({low:.2f}-{high:.2f})"

    lines = ["| | workers | " + " | ".join(WAYS.values()) + " |", "|---|---|" + "---|" * len(WAYS)]
    for state in STATES:
        for what, field in (("first tensor, s", "first_s"), ("last tensor, s", "last_s")):
            for n in workers:
                cells = [quartiles(of(way, state, n, field)) for way in WAYS]
                lines.append(f"| {state}: {what} | {n} | " + " | ".join(cells) + " |")
    for n in workers:
        cells = [f"{statistics.median(of(way, 'warm', n, 'pss_bytes')) / 2 ** 20:.0f}"
                 for way in WAYS]
        lines.append(f"| memory of all workers, MiB | {n} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        model = re.search(r"model name\s*: (.*)", f.read())
    return f"{model[1] if model else os.uname().machine}, {os.cpu_count()} CPUs, " \
        f"Linux {os.uname().release.split('-')[0]}"


def size_of(text):
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--size", type=size_of, default=1 << 30)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", default="1,2,4",
                        type=lambda text: [int(n) for n in text.split(",")])
    parser.add_argument("--output", type=pathlib.Path,
                        default=ROOT / "bench" / "results" / f"faces-{os.cpu_count()}.csv")
    parser.add_argument("--page", action="store_true", help="write the table into the page")
    parser.add_argument("--quick", action="store_true", help="64 MiB and one round: a trial")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--scan", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse_options()
    if options.worker:
        worker(*options.worker)
        return
    if options.scan:
        scan(options.scan)
    if options.quick:
        options.size, options.rounds = 64 << 20, 1
    options.build.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="faces-", dir=options.build))
    faces = Faces(options, folder)
    rows = []
    try:
        faces.make()
        rows.extend(faces.measure())
    finally:
        faces.end_service()
        shutil.rmtree(folder, ignore_errors=True)
    with open(options.output, "w", newline="", encoding="utf-8") as f:
        csv.writer(f).writerows([FIELDS, *rows])
    text = f"{machine()}. The file has {options.size >> 20} MiB. The table has the medians of " \
        f"{options.rounds} rounds, and the quartiles in brackets.\n\n" \
        f"{table(rows, options.workers)}"
    print(text, end="")
    if options.page:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(MARKERS[0])
        PAGE.write_text(before + MARKERS[0] + text + MARKERS[1] + rest.split(MARKERS[1])[1],
                        encoding="utf-8")


if __name__ == "__main__":
    main()
