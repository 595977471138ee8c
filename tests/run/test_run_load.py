#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How soon the cache serves: `lodic load`, `lodic stop`, and what it does by itself for programs
that read a file for the first time.

    test_run_load.py LODIC
    test_run_load.py LODIC Sqlite.by_hand_three_times_at_once   # nothing waits: a quiet machine's
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "bench")]

import nginx  # pylint: disable=C0413
from run_case import KIB, MIB, PYTHON, Case, run, until, \
    without_privileges  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
SQLITE = "/usr/bin/sqlite3"
BLOCK = 4 * KIB
SHARE = {"second": 0.60, "third": 0.95, "loaded": 0.99, "twice": 0.80}

# Reads each of the files, a block of each; says so, and waits for a line before the next round.
ROUNDS = """
import os, sys
rounds, files = int(sys.argv[1]), [os.open(path, os.O_RDONLY) for path in sys.argv[2:]]
for i in range(rounds):
    for fd in files:
        os.pread(fd, 4096, 0)
    print("read", flush=True)
    sys.stdin.readline()
"""


class Load(Case):
    def load(self, *words, status=0, **more):
        done = run([self.lodic, "load", "--socket", self.socket, "--json", *words], **more)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return json.loads(done.stdout), done.stderr.decode()

    def cached(self):
        return self.ask("stat")["cached"]

    def database(self):
        path = self.folder / "data.db"
        chosen = random.Random(7)
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            db.execute("create table t(a, b)")
            db.executemany("insert into t values(?, ?)",
                           ((i, chosen.randbytes(200)) for i in range(120000)))
        return path

    def query(self, path):
        """The part of its reads that is served."""
        _, reports = self.reports([SQLITE, "-readonly", path, "select count(*) from t"])
        found = [r for r in reports if r["path"] == str(path)]
        self.assertEqual(len(found), 1, reports)
        self.assertGreater(found[0]["reads"], 6000)
        print("served", found[0]["served"], "of", found[0]["reads"])
        return found[0]["served"] / found[0]["reads"]


@unittest.skipUnless(os.path.exists(SQLITE), "no sqlite3 here: install it")
class Sqlite(Load):
    def test_readme_line_three_times(self):
        path = self.database()
        blocks = path.stat().st_size // BLOCK
        self.query(path)
        # All that was missed comes in. Its first blocks were read before the service had it.
        until(lambda: self.cached() >= 0.95 * blocks, "what was missed is cached")
        self.assertGreaterEqual(self.query(path), SHARE["second"])
        self.assertGreaterEqual(self.query(path), SHARE["third"])

    def by_hand_three_times_at_once(self):
        path = self.database()
        self.query(path)
        self.assertGreaterEqual(self.query(path), SHARE["second"])
        self.assertGreaterEqual(self.query(path), SHARE["third"])

    def test_after_load_first_run_is_served(self):
        path = self.database()
        done, said = self.load(path)
        self.assertEqual((said, done["not_loaded"]), ("", []))
        self.assertEqual(done["loaded_bytes"], path.stat().st_size)
        self.assertEqual(self.cached(), (path.stat().st_size + BLOCK - 1) // BLOCK)
        self.assertGreaterEqual(self.query(path), SHARE["loaded"])


class Twice(Load):
    FILES = 50

    def test_each_file_was_read_twice(self):
        """The second read of a descriptor tells the service of its file and of the block, also if
        the service answers nothing meanwhile. So all third reads are served."""
        files = [self.file(f"f{i}", BLOCK, i) for i in range(self.FILES)]
        program = self.start(self.under([PYTHON, "-c", ROUNDS, "3", *files],
                                        f"--report={self.report}", "--json"),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(program.stdout.close)
        service = self.service_pid()
        self.addCleanup(os.kill, service, signal.SIGCONT)
        for turn in range(3):
            self.assertEqual(program.stdout.readline(), b"read\n")
            if turn == 0:
                os.kill(service, signal.SIGSTOP)
            elif turn == 1:
                os.kill(service, signal.SIGCONT)
                until(lambda: self.cached() >= SHARE["twice"] * self.FILES, "they are cached")
            program.stdin.write(b"\n")
            program.stdin.flush()
        program.stdin.close()
        self.assertEqual(program.wait(20), 0)
        names = {str(path) for path in files}
        reports = [json.loads(line) for line in self.report.read_text().splitlines()]
        served = sum(r["served"] for r in reports if r["path"] in names)
        self.assertGreaterEqual(served, SHARE["twice"] * self.FILES)

    @unittest.skipUnless(os.path.exists(nginx.NGINX), "no nginx here: install it")
    def test_nginx_as_documented(self):
        www = self.folder / "www"
        www.mkdir()
        chosen = random.Random(3)
        for i in range(self.FILES):
            (www / f"f{i}").write_bytes(chosen.randbytes(600 + i * 7919 % BLOCK))
        with socket.create_server(("127.0.0.1", 0), backlog=100) as listens:
            listens.setblocking(False)
            port = listens.getsockname()[1]
            command = nginx.command(self.folder, f"127.0.0.1:{port}", www, 1, "60s")
            server = self.start(self.under(command, f"--report={self.report}", "--json"),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, pass_fds=[listens.fileno()],
                                env=dict(os.environ, NGINX=f"{listens.fileno()};"))
        blocks = sum((path.stat().st_size + BLOCK - 1) // BLOCK for path in www.iterdir())
        with contextlib.closing(socket.create_connection(("127.0.0.1", port), 60)) as client, \
                client.makefile("rb") as answers:
            for turn in range(4):
                for i in range(self.FILES):
                    client.sendall(b"GET /f%d HTTP/1.1\r\nHost: a\r\n\r\n" % i)
                    bytes_ = 0
                    while (line := answers.readline()) not in (b"\r\n", b""):
                        if line.lower().startswith(b"content-length:"):
                            bytes_ = int(line.split(b":")[1])
                    self.assertEqual(answers.read(bytes_), (www / f"f{i}").read_bytes())
                if turn == 1:
                    until(lambda: self.cached() >= SHARE["twice"] * blocks, "they are cached")
        server.send_signal(signal.SIGQUIT)
        self.assertEqual(server.wait(20), 0)
        reports = [json.loads(line) for line in self.report.read_text().splitlines()]
        of_files = [r for r in reports if r["path"].startswith(str(www))]
        late = sum(r["reads"] for r in of_files) / 2  # two of four rounds
        self.assertGreaterEqual(sum(r["served"] for r in of_files), SHARE["twice"] * late)


class Words(Load):
    """What `lodic load` takes, and what it says."""

    def test_folders_patterns_links(self):
        folder = self.folder / "d"
        (folder / "e").mkdir(parents=True)
        one, two = folder / "one.bin", folder / "e" / "two.bin"
        one.write_bytes(b"1" * (BLOCK + 1))
        two.write_bytes(b"2" * BLOCK)
        (folder / "empty").write_bytes(b"")
        (folder / "e" / "link").symlink_to("../one.bin")
        (folder / "e" / "up").symlink_to("..")
        os.link(two, folder / "hard")
        os.mkfifo(folder / "fifo")
        done, said = self.load(folder)
        self.assertEqual((said, done["files"], done["loaded_files"]), ("", 3, 3))
        self.assertEqual((done["bytes"], done["loaded_bytes"]), (2 * BLOCK + 1,) * 2)
        self.assertEqual(self.cached(), 3)
        done, _ = self.load(str(folder / "*.bin"), one)  # each file once
        self.assertEqual((done["files"], done["loaded_bytes"]), (1, BLOCK + 1))
        text = run([self.lodic, "load", "--socket", self.socket, one]).stdout.decode()
        self.assertRegex(text, r"^1 of 1 file, .* in the cache at .*socket \(")

    def test_names_what_it_cannot_load_and_loads_the_others(self):
        good, written = self.file("good", BLOCK), self.file("written", BLOCK)
        fifo = self.folder / "fifo\x1b[31m"
        os.mkfifo(fifo)
        with open(written, "ab"):
            done, said = self.load(written, good, fifo, self.folder / "none",
                                   str(self.folder / "x*"), "/proc/self/status", status=1)
        self.assertEqual((done["files"], done["loaded_files"]), (6, 1))
        why = {pathlib.Path(f["path"]).name: f["why"] for f in done["not_loaded"]}
        self.assertIn("open for writing", why["written"])
        self.assertEqual(why["none"], "No such file or directory")
        self.assertEqual(why["x*"], "no file matches")
        self.assertEqual(why[r"fifo\x1b[31m"], "it is neither a file nor a folder")
        self.assertIn("status", why)
        self.assertEqual(len(said.splitlines()), 5, said)
        self.assertNotIn("\x1b", said)
        self.assertIn(r"/fifo\x1b[31m: it is neither", said)  # escaped once
        for words in [], ["--memory", "x", good], ["--frob", good]:
            self.assertEqual(run([self.lodic, "load", *words]).returncode, 2, words)

    def test_nothing_to_load_starts_no_service(self):
        other = self.folder / "other.sock"
        done = run([self.lodic, "load", "--socket", other, self.folder / "none"])
        self.assertEqual((done.returncode, done.stdout, other.exists()), (1, b"", False))
        self.assertIn(b"none: No such file", done.stderr)

    def test_waits_for_a_writer(self):
        path = self.file("written", BLOCK)
        with open(path, "ab"):
            loads = self.start([self.lodic, "load", "--wait", "--json", "--socket", self.socket,
                                path], stdout=subprocess.PIPE)
            self.addCleanup(loads.stdout.close)
            until(lambda: [f["errno"] for f in self.ask("files")["not_cached"]], "it has tried")
        done = json.loads(loads.stdout.read())
        self.assertEqual((loads.wait(20), done["loaded_bytes"]), (0, BLOCK))

    def test_stops_and_says_what_is_done(self):
        good, written = self.file("good", BLOCK), self.file("written", BLOCK)
        with open(written, "ab"):
            loads = self.start([self.lodic, "load", "--wait", "--json", "--socket", self.socket,
                                good, written], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.addCleanup(loads.stdout.close)
            self.addCleanup(loads.stderr.close)
            until(lambda: [f["errno"] for f in self.ask("files")["not_cached"]], "it has tried")
            loads.send_signal(signal.SIGINT)
            done = json.loads(loads.stdout.read())
        self.assertEqual((loads.wait(20), done["stopped"], done["loaded_bytes"]),
                         (130, True, BLOCK))
        self.assertIn(b"stopped before the end", loads.stderr.read())

    def test_more_than_there_is_room_for(self):
        path = self.folder / "large"
        with open(path, "wb") as f:
            f.truncate(100 * MIB)
        done, said = self.load(path, status=1)
        self.assertGreater(done["loaded_bytes"], 40 * MIB)
        self.assertLess(done["loaded_bytes"], 64 * MIB)
        self.assertIn("`lodic resize' makes it larger", said)

    def test_a_cache_that_begins_small_gets_room_first(self):
        """Blocks have 64 MiB in the beginning, of the much that they may have."""
        files = [self.file(f"g{i}", 40 * MIB, i) for i in range(2)]
        self.assertEqual(run([self.lodic, "stop", "--socket", self.socket]).returncode, 0)
        done, said = self.load("--memory", "1G", *files)
        self.assertEqual((said, done["not_loaded"]), ("", []))
        self.assertEqual((done["loaded_bytes"], self.ask("stat")["evicted"]), (80 * MIB, 0))
        frames = self.ask("stat")["frames"]
        self.load(*files)  # what is there needs no room of its own
        self.assertEqual(self.ask("stat")["frames"], frames)

    def test_holds_that_nobody_has_go_with_a_smaller_cache(self):
        self.load("--hold", self.file("large", 20 * MIB))
        self.assertEqual(self.ask("stat")["hold_bytes"], 20 * MIB)
        done = run([self.lodic, "resize", "--socket", self.socket, "16M"])
        self.assertEqual(done.returncode, 0, done.stderr)
        until(lambda: self.ask("stat")["hold_bytes"] == 0, "the hold has gone")

    def test_hold_is_there_for_who_asks(self):
        large, small = self.file("large", 2 * MIB), self.file("small", BLOCK)
        done, _ = self.load("--hold", large, small)
        self.assertEqual(done["loaded_bytes"], 2 * MIB + BLOCK)
        stat = self.ask("stat")
        self.assertEqual((stat["holds"], stat["hold_bytes"], stat["cached"]), (1, 2 * MIB, 1))
        read = stat["holds_read"]
        self.assertEqual(run(self.under([PYTHON, "-c", """
import mmap, sys
with open(sys.argv[1], "rb") as f:
    m = mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ)
""", large], "--mmap")).returncode, 0)
        stat = self.ask("stat")
        self.assertEqual((stat["holds_given"], stat["holds_read"]), (2, read))


class Kept(Load):
    def left(self):
        return "keep = 1\n"

    def held(self):
        return sorted(f["path"] for f in self.ask("files")["files"])

    def one_comes_and_goes(self, name):
        """A file that a program has had open, and that nobody has loaded."""
        path = self.file(name, BLOCK)
        program = self.start(self.under([PYTHON, "-c", ROUNDS, "4", path]),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(program.stdout.close)
        for _ in range(3):
            program.stdout.readline()
            program.stdin.write(b"\n")
            program.stdin.flush()
        until(lambda: str(path) in self.held(), "it is held")
        program.stdin.close()
        self.assertEqual(program.wait(20), 0)
        until(lambda: str(path) not in self.held(), "it has gone")

    def test_loaded_files_stay_and_others_go(self):
        paths = [self.file("one", BLOCK), self.file("two", BLOCK)]
        names = sorted(map(str, paths))
        self.load(*paths)
        self.one_comes_and_goes("before")
        self.assertEqual(self.held(), names)
        self.assertEqual(run([self.lodic, "resize", "--socket", self.socket, "32M"]).returncode, 0)
        self.one_comes_and_goes("after")
        self.assertEqual(self.held(), names)
        self.assertEqual(run([self.lodic, "drop", "--socket", self.socket, paths[0]]).returncode,
                         0)
        self.assertEqual(self.held(), names[1:])


class Stop(Load):
    def stop(self, *words):
        return run([self.lodic, "stop", "--socket", self.socket, *words])

    def test_ends_the_service_and_waits(self):
        self.load(self.file("f", BLOCK))
        pid = self.service_pid()
        done = self.stop()
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertRegex(done.stdout.decode(), rf"^ended the service at .*: process {pid}, up ")
        self.assertFalse(self.socket.exists())
        self.assertFalse(pathlib.Path(f"{self.socket}.lock").exists())
        done = self.stop()
        self.assertEqual((done.returncode, done.stdout.decode()),
                         (0, f"no cache runs at {self.socket}\n"))
        self.assertEqual(json.loads(self.stop("--json").stdout),
                         {"socket": str(self.socket), "ended": False})
        self.serve()
        done = json.loads(self.stop("--json").stdout)
        self.assertEqual((done["ended"], done["clients"]), (True, 0))

    def test_programs_go_on(self):
        path = self.file("f", BLOCK)
        program = self.start(self.under([PYTHON, "-c", ROUNDS, "4", path]),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(program.stdout.close)
        self.addCleanup(program.stdin.close)
        for turn in range(4):
            self.assertEqual(program.stdout.readline(), b"read\n")
            if turn == 2:
                self.assertEqual(json.loads(self.stop("--json").stdout)["clients"], 1)
            program.stdin.write(b"\n")
            program.stdin.flush()
        self.assertEqual(program.wait(20), 0)

    def test_stopped_service_is_named(self):
        pid = self.service_pid()
        os.kill(pid, signal.SIGSTOP)
        try:
            done = self.stop("--timeout", "1")
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"kill -CONT", done.stderr)
        self.assertEqual(self.stop("--timeout", "x").returncode, 2)


if __name__ == "__main__":
    without_privileges(Case.lodic)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
