#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic serve` under a service manager: this test stands in for systemd.

Usage: test_manager.py LODIC READER UNITS

READER is look_reader; UNITS is the folder with the unit files of this build.
"""

import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

LODIC, READER, UNITS = (os.path.abspath(word) for word in sys.argv[1:4])
SECONDS = 30
# It has the lock, as a service has.
OTHER_VERSION = """
import fcntl, os, signal, socket, sys
def end(*_):
    os.unlink(sys.argv[1])
    os.unlink(sys.argv[1] + ".lock")
    os._exit(0)
signal.signal(signal.SIGTERM, end)
lock = open(sys.argv[1] + ".lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listening.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o600)
listening.listen()
print("ready", flush=True)
while True:
    client = listening.accept()[0]
    if client.recv(4096):
        client.send(b"x" * 64)
"""
END_SECONDS = 10  # a service's end may take, whatever its programs do


def wait_until(true):
    deadline = time.monotonic() + SECONDS
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen")
        time.sleep(0.02)


class Manager(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-manager-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.socket = self.folder / "cache.sock"
        self.told = self.hear(str(self.folder / "notify"))

    def hear(self, name):
        """A manager's socket."""
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(told.close)
        told.bind(name.replace("@", "\0", 1))
        told.settimeout(SECONDS)
        return told

    def next(self, told=None):
        """The next message, as a dictionary."""
        text = (told or self.told).recv(4096).decode()
        return dict(line.split("=", 1) for line in text.split("\n"))

    def wait_for(self, key, value=None, told=None):
        """The first message with this variable; the others are lost."""
        while True:
            message = self.next(told)
            if key in message and value in (None, message[key]):
                return message

    def passed(self, kind=socket.SOCK_SEQPACKET, listens=True, path=None):
        """A socket as a manager makes it before there is a service."""
        made = socket.socket(socket.AF_UNIX, kind)
        self.addCleanup(made.close)
        made.bind(str(path or self.socket))
        if listens:
            made.listen()
        return made

    def serve(self, *words, fd=None, nr_fds=1, pid="$$", **variables):
        """Runs it as a manager does: the socket that is passed in is descriptor 3."""
        variables.setdefault("NOTIFY_SOCKET", str(self.folder / "notify"))
        passes = f"exec 3<&{fd.fileno()}; LISTEN_PID={pid} LISTEN_FDS={nr_fds}" if fd else ""
        process = subprocess.Popen(
            ["sh", "-c", f'{passes} exec "$0" serve -m 4M --pressure off "$@"', LODIC, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **variables}, pass_fds=[fd.fileno()] if fd else [])
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        process.kill()
        process.communicate()

    def ask(self, socket_path=None):
        return subprocess.run([LODIC, "stat", "-s", socket_path or self.socket], text=True,
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=SECONDS)

    def read(self):
        """A program that reads a file through the cache, and pins some of it."""
        data = self.folder / "data"
        data.write_bytes(os.urandom(1 << 20))
        reader = subprocess.Popen([READER, self.socket, "1", "3", data], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, reader)
        self.assertEqual(reader.stdout.readline(), "read\n")
        return reader


class Notify(Manager):
    def test_ready_then_stopping(self):
        served = self.serve("-s", self.socket)
        self.assertEqual(self.wait_for("READY"), {"READY": "1"})
        self.assertEqual(self.next(), {"STATUS": f"serving 4 MiB at {self.socket}"})
        self.assertEqual(self.ask().returncode, 0)
        served.terminate()
        self.assertEqual(self.next()["STOPPING"], "1")
        self.assertEqual(served.wait(SECONDS), 0)
        self.assertFalse(self.socket.exists())

    def test_abstract_socket(self):
        told = self.hear(f"@lodic-test-{os.getpid()}")
        self.serve("-s", self.socket, NOTIFY_SOCKET=f"@lodic-test-{os.getpid()}")
        self.assertEqual(self.wait_for("READY", told=told), {"READY": "1"})

    def test_start_that_takes_long_asks_for_more_time_with_each_line(self):
        self.serve("-s", self.socket)
        self.assertGreater(int(self.next()["EXTEND_TIMEOUT_USEC"]), 2000000)

    def test_manager_that_has_gone_is_not_waited_for(self):
        self.told.close()
        served = self.serve("-s", self.socket)
        self.assertIn("serving", served.stdout.readline())
        served.terminate()
        self.assertEqual(served.wait(SECONDS), 0)

    def test_manager_that_takes_nothing_is_not_waited_for(self):
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(sender.close)
        sender.setblocking(False)
        with self.assertRaises(BlockingIOError):
            while True:
                sender.sendto(b"FULL=1", str(self.folder / "notify"))
        served = self.serve("-s", self.socket)
        self.assertIn("serving", served.stdout.readline())
        served.terminate()
        self.assertEqual(served.wait(SECONDS), 0)

    def test_failed_start_says_why(self):
        self.socket.write_text("in the way")
        served = self.serve("-s", self.socket)
        message = self.wait_for("ERRNO")
        self.assertIn("not a socket", message["STATUS"])
        self.assertEqual(served.wait(SECONDS), 1)

    def test_sighup_reloads(self):
        served = self.serve("-s", self.socket)
        self.wait_for("READY")
        served.send_signal(signal.SIGHUP)
        self.assertTrue(int(self.wait_for("RELOADING")["MONOTONIC_USEC"]) > 0)
        self.assertEqual(self.wait_for("READY"), {"READY": "1"})

    def test_watchdog_hears_of_it_while_it_is_idle(self):
        served = self.serve("-s", self.socket, WATCHDOG_USEC="2000000")
        end, in_time = time.monotonic() + SECONDS, 0
        while in_time < 2:  # on a busy machine one may be late
            begun = time.monotonic()
            self.assertLess(begun, end)
            self.wait_for("WATCHDOG", "1")
            in_time += time.monotonic() - begun < 2
        served.send_signal(signal.SIGSTOP)
        self.told.settimeout(2.5)
        with self.assertRaises(TimeoutError):
            while True:
                self.next()

    def test_watchdog_of_another_process_is_not_fed(self):
        self.serve("-s", self.socket, WATCHDOG_USEC="200000", WATCHDOG_PID="1")
        self.wait_for("STATUS")
        self.told.settimeout(2.5)
        with self.assertRaises(TimeoutError):
            self.next()


class Passed(Manager):
    def test_socket_is_used_and_stays(self):
        passed = self.passed()
        for _ in range(2):  # the manager starts it again when it has ended
            served = self.serve(fd=passed)
            self.wait_for("READY")
            self.assertEqual(self.ask().returncode, 0)
            served.terminate()
            self.assertEqual(served.wait(SECONDS), 0)
            self.assertTrue(self.socket.exists())

    def test_program_that_came_before_the_service_is_served(self):
        passed = self.passed()
        data = self.folder / "data"
        data.write_bytes(os.urandom(1 << 20))
        reader = subprocess.Popen([READER, self.socket, "1", "0", data], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end, reader)
        self.serve(fd=passed)
        self.assertEqual(reader.stdout.readline(), "read\n")

    def test_programs_see_the_service_at_the_other_end(self):
        """Not the manager that made the socket: `lodic serve --replace` would end that."""
        passed = self.passed()
        served = self.serve(fd=passed)
        self.wait_for("READY")
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(client.close)
        client.connect(str(self.socket))
        peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        self.assertEqual(int.from_bytes(peer[:4], "little"), served.pid)

    def test_variables_for_another_process_do_not_count(self):
        other = self.folder / "other"
        served = self.serve("-s", other, fd=self.passed(), pid="1")
        self.assertIn(str(other), served.stdout.readline())

    def refused(self, text, *words, **more):
        served = self.serve(*words, **more)
        self.assertEqual(served.wait(SECONDS), 1)
        error = served.stderr.read()
        self.assertIn(text, error)
        self.assertEqual(error.count("\n"), 1)

    def test_wrong_socket_refused(self):
        self.refused("ListenSequentialPacket=", fd=self.passed(socket.SOCK_STREAM))
        other = self.folder / "other"
        self.refused("Accept=no", fd=self.passed(listens=False, path=other))
        with open(other.with_name("file"), "w", encoding="ascii") as file:
            self.refused("it is no socket", fd=file)
        self.refused("there must be one", fd=self.passed(path=self.folder / "a"), nr_fds=2)

    def test_options_that_do_not_go_with_it_refused(self):
        passed = self.passed()
        self.refused("remove --socket", "-s", self.folder / "other", fd=passed)
        self.refused("neither --daemon", "--daemon", fd=passed)


class Restart(Manager):
    """What ExecReload= of the units does."""

    def test_service_that_has_a_successor_does_not_say_that_the_unit_stops(self):
        served = self.serve(fd=self.passed())
        self.wait_for("READY")
        done = self.reload()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.end_by_pid, int(self.wait_for("MAINPID")["MAINPID"]))
        self.assertEqual(served.wait(SECONDS), 0)
        self.told.settimeout(0)
        with self.assertRaises(BlockingIOError):
            while True:
                self.assertNotIn("STOPPING", self.next())

    def stat(self):
        done = subprocess.run([LODIC, "stat", "--json", "-s", self.socket], text=True, check=True,
                              stdout=subprocess.PIPE, timeout=SECONDS)
        return json.loads(done.stdout)

    def reload(self, *words):
        return subprocess.run(
            [LODIC, "serve", "--replace", "--daemon", "-s", self.socket, *words], text=True,
            check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS,
            env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")})

    def end_by_pid(self, pid):
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + SECONDS
        # /proc/PID/fd of such a service is root's.
        state = pathlib.Path(f"/proc/{pid}/stat")
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while state.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] != "Z" and \
                    time.monotonic() < deadline:
                time.sleep(0.01)

    def test_manager_hears_of_the_successor_before_the_old_one_ends(self):
        passed = self.passed()
        served = self.serve(fd=passed)
        self.wait_for("READY")
        reader = self.read()
        before = self.stat()
        done = self.reload("-m", "6M")
        self.assertEqual(done.returncode, 0, done.stderr)
        pid = int(self.wait_for("MAINPID")["MAINPID"])
        self.addCleanup(self.end_by_pid, pid)
        self.assertEqual(self.wait_for("READY"), {"READY": "1"})
        self.assertEqual(served.wait(SECONDS), 0)
        after = self.stat()
        self.assertEqual(after["service_pid"], pid)
        self.assertEqual((after["cached"], after["admitted"]), (before["cached"], 0))
        self.assertTrue(self.socket.exists())
        reader.stdin.write("x")
        reader.stdin.flush()
        self.assertEqual(reader.stdout.readline(), "read\n")

    def test_successor_that_finds_no_memory_leaves_the_old_one(self):
        served = self.serve("-s", self.socket)
        self.wait_for("READY")
        # With fast memory the whole cache is made at once.
        done = self.reload("-m", "7T", "--fast-memory", "1G")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Alodic: cannot serve at .*MiB are free.*"
                                      r"the other service goes on.*\n\Z")
        self.assertEqual(self.stat()["service_pid"], served.pid)

    def test_service_of_another_version_is_ended_and_the_cache_starts_empty(self):
        """A stand-in that answers everything by nonsense, and ends on SIGTERM."""
        other = subprocess.Popen(
            [sys.executable, "-c", OTHER_VERSION, self.socket], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end, other)
        other.stdout.readline()
        served = self.serve("--replace", "-s", self.socket)
        self.assertIn("serving", served.stdout.readline())
        self.assertIn("starts empty: the other service is of another version",
                      served.stderr.readline())
        self.assertEqual(other.wait(SECONDS), 0)
        self.assertEqual(self.stat()["service_pid"], served.pid)


class Metrics(Manager):
    LINE = re.compile(r'(lodic_[a-z_]+)(?:\{le="([^"]+)"\})? (-?[0-9.]+)')

    def parse(self, text):
        """({name: value}, {name: [(upper bound, value)]}); the format must be right."""
        values, buckets, types = {}, {}, {}
        for line in text.rstrip("\n").split("\n"):
            if line.startswith("# TYPE "):
                name, kind = line.split(" ")[2:]
                self.assertNotIn(name, types)
                self.assertIn(kind, ("counter", "gauge", "histogram"))
                self.assertEqual(name.endswith("_total"), kind == "counter", name)
                types[name] = kind
            elif not line.startswith("# HELP "):
                found = self.LINE.fullmatch(line)
                self.assertTrue(found, line)
                name, bound, value = found.groups()
                base = re.sub("_(bucket|sum|count)$", "", name) if "_seconds" in name else name
                self.assertIn(base, types, line)
                if bound:
                    buckets.setdefault(base, []).append((float(bound), float(value)))
                else:
                    self.assertNotIn(name, values)
                    values[name] = float(value)
        return values, buckets

    def check_times(self, times):
        """Those of `lodic stat --json`: the quantiles are the buckets' upper bounds."""
        nr = times["count"]
        self.assertGreater(nr, 0)
        self.assertEqual(sum(times["buckets"]), nr)
        self.assertEqual(len(times["buckets"]), 24)
        for percent in 50, 90, 99:
            bound = times[f"p{percent}_us"]
            bucket = bound.bit_length() - 1
            self.assertGreaterEqual(sum(times["buckets"][:bucket + 1]) * 100, nr * percent)
            self.assertLess(sum(times["buckets"][:bucket]) * 100, nr * percent)
        highest = sum((1000 << i) * n for i, n in enumerate(times["buckets"]))
        self.assertTrue(0 < times["sum_ns"] <= highest)

    def written(self, path, after=0):
        """The file's text, as soon as it is newer."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if path.exists() and path.stat().st_mtime_ns > after:
                return path.read_text(encoding="ascii"), path.stat().st_mtime_ns
            time.sleep(0.05)
        self.fail("no metrics are written")

    def test_numbers_and_histograms(self):
        path = self.folder / "lodic.prom"
        self.serve("-s", self.socket, "--metrics", path)
        self.wait_for("READY")
        before, _ = self.written(path)
        self.read()
        asked = json.loads(subprocess.run([LODIC, "stat", "--json", "-s", self.socket], text=True,
                                          check=True, stdout=subprocess.PIPE).stdout)
        for _ in range(2):  # the next one's numbers may be older than these
            text, _ = self.written(path, path.stat().st_mtime_ns)
        values, buckets = self.parse(text)
        self.assertEqual(values["lodic_cached"], asked["cached"])
        self.assertEqual(values["lodic_admitted_total"], asked["admitted"])
        self.assertEqual(self.parse(before)[0]["lodic_admitted_total"], 0)
        numbers = [name for name in asked if name != "socket" and not name.endswith("_times")]
        for name in numbers:
            self.assertTrue(f"lodic_{name}" in values or f"lodic_{name}_total" in values, name)
        for name in "lodic_fill_seconds", "lodic_miss_seconds":
            bounds, counts = zip(*buckets[name])
            self.assertEqual(list(bounds), sorted(bounds))
            self.assertEqual(list(counts), sorted(counts))
            self.assertEqual(bounds[-1], float("inf"))
            self.assertEqual(counts[-1], values[f"{name}_count"])
            self.assertGreater(counts[-1], 0)
            self.assertGreater(values[f"{name}_sum"], 0)
            self.check_times(asked[name.replace("lodic_", "").replace("seconds", "times")])
        table = self.ask().stdout
        self.assertRegex(
            table, r"\nfill: \d+, mean \d+ us, half within \d+ us, 99 % within \d+ us ")
        self.assertRegex(table, r"\nmiss: \d+, mean")
        # A miss waits for its fill.
        self.assertGreaterEqual(values["lodic_miss_seconds_sum"],
                                values["lodic_fill_seconds_sum"])

    def test_link_of_another_user_is_not_followed(self):
        path, precious = self.folder / "lodic.prom", self.folder / "precious"
        precious.write_text("mine", encoding="ascii")
        path.symlink_to(precious)
        served = self.serve("-s", self.socket, "--metrics", path)
        self.wait_for("READY")
        wait_until(lambda: not path.is_symlink())
        self.assertIn("# TYPE lodic_cached gauge", path.read_text(encoding="ascii"))
        # The name under which it writes is known as well. A FIFO there would hold it up.
        place = path.with_name(f"lodic.prom.{served.pid}.new")
        place.symlink_to(precious)
        _, when = self.written(path)
        _, when = self.written(path, when)
        self.assertFalse(place.is_symlink())
        os.mkfifo(place)
        self.written(path, when)
        self.assertEqual(precious.read_text(encoding="ascii"), "mine")

    def test_other_users_may_read_them_also_of_a_daemon(self):
        path = self.folder / "lodic.prom"
        self.serve("-s", self.socket, "--metrics", path, "--daemon")
        self.wait_for("READY")
        self.written(path)
        pid = json.loads(subprocess.run([LODIC, "stat", "--json", "-s", self.socket], check=True,
                                        stdout=subprocess.PIPE).stdout)["service_pid"]
        self.addCleanup(os.kill, pid, signal.SIGTERM)
        self.assertEqual(path.stat().st_mode & 0o777, 0o644)

    def test_full_disk_leaves_the_old_file_and_no_part_of_a_new_one(self):
        path = self.folder / "lodic.prom"
        served = self.serve("-s", self.socket, "--metrics", path)
        self.wait_for("READY")
        self.written(path)
        resource.prlimit(served.pid, resource.RLIMIT_FSIZE, (512, 512))
        self.heard(served, f"cannot write the metrics to {path}: File too large")
        old = path.read_text(encoding="ascii")
        self.assertGreater(len(old), 512)
        self.parse(old)
        when = path.stat().st_mtime_ns
        # It tries again each second, so a part may be there for a moment.
        wait_until(lambda: not list(self.folder.glob("lodic.prom.*")))
        self.assertEqual((path.read_text(encoding="ascii"), path.stat().st_mtime_ns), (old, when))
        self.assertEqual(self.ask().returncode, 0)

    def heard(self, served, text):
        too_late = threading.Timer(SECONDS, served.kill)
        too_late.start()
        self.addCleanup(too_late.cancel)
        for line in served.stderr:
            if text in line:
                return
        self.fail("nothing is said")

    def test_file_that_cannot_be_written_is_said_once(self):
        served = self.serve("-s", self.socket, "--metrics", "/nonexistent/lodic.prom")
        self.wait_for("READY")
        self.heard(served, "cannot write the metrics to /nonexistent/lodic.prom")
        self.assertEqual(self.ask().returncode, 0)
        done = self.serve("--metrics", "relative")
        self.assertEqual(done.wait(SECONDS), 1)


class Ends(Manager):
    def ends(self, served):
        begun = time.monotonic()
        served.terminate()
        self.assertEqual(served.wait(SECONDS), 0)
        self.assertLess(time.monotonic() - begun, END_SECONDS)

    def test_program_that_is_stopped_keeps_nobody(self):
        served = self.serve("-s", self.socket)
        self.wait_for("READY")
        reader = self.read()
        reader.send_signal(signal.SIGSTOP)
        self.ends(served)
        reader.send_signal(signal.SIGCONT)
        # It reads from the kernel now, and still has what it has pinned.
        reader.stdin.write("x")
        reader.stdin.flush()
        self.assertEqual(reader.stdout.readline(), "read\n")

    def test_programs_that_never_read_an_answer_keep_nobody(self):
        served = self.serve("-s", self.socket)
        self.wait_for("READY")
        clients = []
        for _ in range(100):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self.addCleanup(client.close)
            client.connect(str(self.socket))
            client.send(b"no request")
            clients.append(client)
        self.ends(served)
        for client in clients:
            client.settimeout(SECONDS)
            try:
                while client.recv(4096):
                    pass
            except ConnectionResetError:
                pass


class Units(unittest.TestCase):
    def test_units_name_the_program_and_verify(self):
        for name, folder in ("lodic", "user"), ("lodic@", "system"):
            text = pathlib.Path(UNITS, f"{name}.service").read_text(encoding="ascii")
            self.assertRegex(text, r"\nExecStart=/\S+/lodic serve\n")
            self.assertNotIn("@bindir@", text)
            verify = shutil.which("systemd-analyze")
            if not verify:
                self.skipTest("there is no systemd-analyze")
            self.verify(verify, name, folder, text)

    def verify(self, program, name, scope, text):
        """In a copy that names a program that is there."""
        with tempfile.TemporaryDirectory(prefix="lodic-units-") as folder:
            place = pathlib.Path(folder)
            instance = name + "daemon" if name.endswith("@") else name
            for kind in "service", "socket":
                unit = pathlib.Path(UNITS, f"{name}.{kind}").read_text(encoding="ascii")
                unit = "\n".join(
                    line if not line.startswith("Exec") else
                    line.split("=")[0] + f'="{LODIC}" ' + line.split(" ", 1)[1]
                    for line in unit.split("\n"))
                place.joinpath(f"{instance}.{kind}").write_text(unit, encoding="ascii")
            done = subprocess.run(
                [program, f"--{scope}", "--man=no", "verify", place / f"{instance}.service",
                 place / f"{instance}.socket"], text=True, check=False, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, timeout=SECONDS,
                env={**os.environ, "XDG_RUNTIME_DIR": folder})
            ours = [line for line in done.stdout.split("\n") if "lodic" in line]
            self.assertEqual(ours, [], text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
