#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What N workers of Python take that load the same weights, with nothing configured.

    bench/share.py [--build build] [--size 1G] [--workers 8] [--group 3G] [--rounds 5] [--json FILE]

Workers are processes of their own (spawned). Ways: lodic.safetensors.load_file, safetensors' own
load_file and safe_open (numpy), and load_file once more, which shows what two equal ways differ by
(A/A). A slot is one way. One load warms the page cache and the service. Then N workers import all,
are idle, and load at once. Slots of all ways alternate, in each round in another order.
They run without a control group, and in a new one of the given size: that needs root. A baseline
whose workers together need more than there is does not run, or is killed; then the row says so.

What it cannot show: the time of a load on an idle machine, if this one is busy. Look at ratios, and
at the A/A row first.
"""

import argparse
import json
import os
import pathlib
import random
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
MIB = 1 << 20
TENSORS = 64
WAYS = {"lodic": "lodic", "load_file": "safetensors load_file",
        "safe_open": "safetensors safe_open", "again": "load_file again (A/A)"}
PARTS = "load_s", "used_s", "pss_bytes", "idle_bytes", "group_bytes", "not_shared"
MOST_PSS, MOST_GROUP = 1.05, 1.1


class Failed(Exception):
    """The text says what is wrong."""


# ---- a worker ----

def load(way, path):
    """The tensors, as each way's users have them."""
    if way == "lodic":
        import lodic.safetensors
        return lodic.safetensors.load_file(path)
    import safetensors.numpy
    if way != "safe_open":
        return safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, "np") as f:
        return {name: f.get_tensor(name) for name in f.keys()}


def worker(way, path):
    """Loads when a line comes, tells the times, and ends at the next line."""
    import warnings

    import numpy  # noqa: F401
    import safetensors.numpy  # noqa: F401
    import lodic.safetensors
    print("ready", flush=True)
    sys.stdin.readline()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        tensors = load(way, path)
        loaded = time.perf_counter() - start
        total = sum(int(tensors[name].view("uint64").sum(dtype="uint64")) for name in tensors)
        used = time.perf_counter() - start
    nr = sum(issubclass(one.category, lodic.NotShared) for one in caught)
    print(json.dumps([loaded, used, nr, total % (1 << 64)]), flush=True)
    sys.stdin.readline()


# ---- around the workers ----

def share_of(pid):
    """What a process has of memory, in proportion."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("Pss:"))


class Group:
    """A memory control group of its own; with limit 0 none."""

    def __init__(self, limit):
        self.path = None
        if limit == 0:
            return
        one, two = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
        first = (one / "memory.limit_in_bytes").exists()
        path = (one if first else two) / f"lodic-share-{os.getpid()}-{time.monotonic_ns()}"
        try:
            path.mkdir()
            self.path, self.first = path, first
            (path / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit))
        except OSError as error:
            self.end()
            raise Failed(f"no memory control group can be made: {error}") from error

    def enter(self):
        """For a child, before exec."""
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def bytes(self):
        """Its pages of files, and shared memory. 0: there is no group."""
        if not self.path:
            return 0
        name = "total_cache" if self.first else "file" # both have the shared memory in it
        for line in (self.path / "memory.stat").read_text().splitlines():
            if line.split()[0] == name:
                return int(line.split()[1])
        raise Failed(f"{self.path}/memory.stat has no {name}")

    def end(self):
        """What still runs there ends, too."""
        deadline = time.monotonic() + 30
        while self.path and self.path.exists() and time.monotonic() < deadline:
            try:
                self.path.rmdir()
            except OSError:
                for pid in (self.path / "cgroup.procs").read_text().split():
                    try:
                        os.kill(int(pid), signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                time.sleep(0.05)


class Workers:
    """Some of one way."""

    def __init__(self, share, way, nr, group):
        self.all = [subprocess.Popen([PYTHON, __file__, "--worker", way, str(share.model)],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, text=True, env=share.environment,
                                     preexec_fn=group.enter) for _ in range(nr)]
        self.answers()

    def tell(self):
        for process in self.all:
            try:
                process.stdin.write("\n")
                process.stdin.flush()
            except BrokenPipeError:
                pass

    def answers(self):
        """One line of each; ChildProcessError if one has been killed."""
        lines = [process.stdout.readline() for process in self.all]
        if not all(lines):
            raise ChildProcessError
        return lines

    def shares(self):
        return sum(share_of(process.pid) for process in self.all)

    def end(self):
        for process in self.all:
            process.kill()
            process.communicate()


class Share:
    """A model, and the package as the wheel has it."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.model = folder / "model.safetensors"
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="lodic-share-")) # a short path
        self.socket = str(self.place / "s")
        self.sum = None
        package = folder / "package" / "lodic"
        package.mkdir(parents=True)
        build = options.build.resolve()
        for path in (*(ROOT / "python" / "lodic").glob("*.py"),
                     build / "python" / "_lodic.abi3.so", build / "lodic"):
            if not path.exists():
                raise Failed(f"{path} is not there: build with -Dpython=enabled")
            (package / path.name).symlink_to(path)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("LODIC_")}
        self.environment.update(PYTHONPATH=f"{package.parent}:{WHEELS}", LODIC_SOCKET=self.socket,
                                PYTHONDONTWRITEBYTECODE="1")

    def make(self):
        sys.path.insert(0, str(WHEELS))
        try:
            import numpy
            import safetensors.numpy
        except ImportError as error:
            raise Failed(f"{error}: tools/wheels.sh installs it") from error
        print(f"share: writes {self.options.size >> 20} MiB", file=sys.stderr)
        places, n = numpy.random.default_rng(1), self.options.size // TENSORS // 8 // 256
        safetensors.numpy.save_file({f"layer.{i:02}": places.integers(0, 1 << 62, (n, 256))
                                     for i in range(TENSORS)}, self.model)
        os.sync()

    def end_service(self):
        done = subprocess.run([self.options.build / "lodic", "stat", "--socket", self.socket,
                               "--json"], capture_output=True, check=False)
        if done.returncode == 0:
            pid = json.loads(done.stdout)["service_pid"]
            os.kill(pid, signal.SIGKILL)
            while os.path.exists(f"/proc/{pid}"):
                time.sleep(0.01)

    def slot(self, way, limit):
        """One way's numbers, by their names in PARTS."""
        fd = os.open(self.model, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED) # its pages count for this group
        os.close(fd)
        group, workers = Group(limit), []
        try:
            workers.append(Workers(self, way, 1, group))
            workers[0].tell() # warm: it stays, as a first worker does
            workers[0].answers()
            workers[0].end()
            workers = [Workers(self, way, self.options.workers, group)]
            idle = workers[0].shares()
            workers[0].tell()
            said = [json.loads(line) for line in workers[0].answers()]
            if {one[3] for one in said} | {self.sum or said[0][3]} != {said[0][3]}:
                raise Failed(f"{way}: the sums differ")
            self.sum = said[0][3]
            return {"load_s": statistics.mean(one[0] for one in said),
                    "used_s": statistics.mean(one[1] for one in said),
                    "pss_bytes": workers[0].shares(), "idle_bytes": idle,
                    "group_bytes": group.bytes(), "not_shared": sum(one[2] for one in said)}
        finally:
            for one in workers:
                one.end()
            self.end_service()
            group.end()

    def fits(self, way, limit):
        """Can copies for all workers be there at once?"""
        with open("/proc/meminfo", encoding="ascii") as f:
            available = next(int(line.split()[1]) << 10 for line in f
                             if line.startswith("MemAvailable:"))
        need = self.options.size * (self.options.workers + 1)
        return way == "lodic" or need < min(available * 3 // 4, limit or available)

    def measure(self):
        """{limit: {way: [slot]}}; a way that did not fit has none."""
        limits = [0] + [self.options.group] * bool(self.options.group)
        found = {limit: {way: [] for way in WAYS} for limit in limits}
        order = [(limit, way) for limit in limits for way in WAYS if self.fits(way, limit)]
        chosen = random.Random(1)
        for i in range(self.options.rounds):
            chosen.shuffle(order)
            for limit, way in order:
                try:
                    one = self.slot(way, limit)
                except ChildProcessError:
                    print(f"round {i}: {WAYS[way]}: a worker was killed", file=sys.stderr)
                    continue
                found[limit][way].append(one)
                print(f"round {i}: {WAYS[way]:<22} {place_of(limit):<12} load "
                      f"{one['load_s']:.3f} s, {one['pss_bytes'] >> 20} MiB", file=sys.stderr)
        return found


# ---- what it says ----

def place_of(limit):
    return f"group {limit / (1 << 30):.1f}G" if limit else "no group"


def summary(slots):
    if not slots:
        return None
    return {part: statistics.median(one[part] for one in slots) for part in PARTS}


def ratio(slots, others):
    """Of times in the same rounds."""
    both = [a["load_s"] / b["load_s"] for a, b in zip(slots, others)]
    return statistics.median(both) if both else None


def row(limit, way, ways, size):
    """What JSON and the table have of one way in one place."""
    found = summary(ways[way])
    if not found:
        return {"group": limit, "way": way, "runs": 0}
    whole = found["idle_bytes"] + (size if way == "lodic" else 0)
    return {"group": limit, "way": way, "runs": len(ways[way]), **found,
            "pss_of_bound": found["pss_bytes"] / whole if way == "lodic" else None,
            "group_of_file": found["group_bytes"] / size if limit else None,
            "load_ratio": {other: ratio(ways[way], ways[other])
                           for other in WAYS if other != way and ways[other]}}


def table(rows):
    lines = [f"{'place':<12} {'way':<22} {'load s':>8} {'used s':>8} {'Pss MiB':>8} {'idle':>6} "
             f"{'group':>6} {'NotShared':>9} {'load/load_file':>14}"]
    for r in rows:
        start = f"{place_of(r['group']):<12} {WAYS[r['way']]:<22} "
        if not r["runs"]:
            lines.append(start + "does not fit, or was killed")
            continue
        beside = r["load_ratio"].get("load_file")
        group = f"{r['group_of_file']:>6.2f}" if r["group"] else f"{'-':>6}"
        lines.append(f"{start}{r['load_s']:>8.3f} {r['used_s']:>8.3f} {r['pss_bytes'] / MIB:>8.0f} "
                     f"{r['idle_bytes'] / MIB:>6.0f} {group} {r['not_shared']:>9.0f} " +
                     (f"{beside:>14.2f}" if beside is not None else f"{'-':>14}"))
    return "\n".join(lines)


def verdicts(rows):
    """(what, value, bound) of lodic's rows."""
    for r in rows:
        if r["way"] != "lodic" or not r["runs"]:
            continue
        place = place_of(r["group"])
        yield f"{place}: Pss of file and idle workers", r["pss_of_bound"], MOST_PSS
        if r["group"]:
            yield f"{place}: file and shmem of the file's size", r["group_of_file"], MOST_GROUP
        yield f"{place}: NotShared", r["not_shared"], 0
        for other in ("load_file", "safe_open"):
            if other in r["load_ratio"]:
                yield f"{place}: load, of {other}'s", r["load_ratio"][other], 1


def size_of(text):
    try:
        return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]
    except (KeyError, ValueError, IndexError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write it as 512M or 1G") from error


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--size", type=size_of, default=1 << 30)
    parser.add_argument("--group", type=size_of, default=3 << 30, help="0K: none")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path, help="write all of it there")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def run(options):
    options.build.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="share-", dir=options.build))
    share = None
    try:
        share = Share(options, folder)
        share.make()
        found = share.measure()
        size = share.model.stat().st_size
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if share:
            shutil.rmtree(share.place, ignore_errors=True)
    rows = [row(limit, way, ways, size) for limit, ways in found.items() for way in ways]
    judged = [{"what": what, "value": value, "most": most, "met": value <= most}
              for what, value, most in verdicts(rows)]
    print(table(rows) + "\n")
    for one in judged:
        print(f"{'met' if one['met'] else 'NOT MET':<8} {one['value']:.3f} (at most {one['most']}) "
              f"{one['what']}")
    if options.json:
        options.json.write_text(json.dumps({"size": size, "workers": options.workers, "rows": rows,
                                            "bounds": judged}, indent=1) + "\n", encoding="utf-8")
    return 0 if all(one["met"] for one in judged) else 1


def main():
    options = parse_options()
    if options.worker:
        worker(*options.worker)
        return 0
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT)) # cleans up after either
    try:
        return run(options)
    except Failed as error:
        print(f"share: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("share: interrupted: there is no result", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
