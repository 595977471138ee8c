#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Programs of this system under `lodic run`: right answers, and the cache serves them.

    test_run_programs.py LODIC

The programs are Debian's nginx, fio, db_bench (rocksdb-tools), sqlite3, python3, perl, tar, grep
and rsync. tools/deps.sh installs them for `make check`, all but nginx, whose package starts a
server, and .ci/run tries to. A program that is missing is a failure, but nginx is not.
"""

import bisect
import itertools
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import KIB, MIB, PYTHON, Case, of_all_files, run, until  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
NGINX = "/usr/sbin/nginx"
FILES = 1000
CONFIGURATION = """
daemon off; worker_processes {workers}; pid {folder}/pid; error_log {folder}/errors; {user}
events {{ worker_connections 64; }}
http {{
  access_log off; sendfile off; output_buffers 1 64k; keepalive_requests 1000000;
  open_file_cache max=2000 inactive=60s; open_file_cache_valid 1s;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2;
  fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen unix:{socket}; root {folder}/www; }}
}}
"""


def page(number, version):
    """A version of a file: each piece of it says which one it is."""
    word = b"%d.%d;" % (number, version)
    size = 600 + number * 7919 % (16 * KIB)
    return (word * (size // len(word) + 1))[:size]


class Answers(threading.Thread):
    """A client that asks many requests ahead, and looks whether each answer is one version."""

    AHEAD = 40

    def __init__(self, path, requests, seed):
        super().__init__(daemon=True)
        self.stream = socket.socket(socket.AF_UNIX)
        self.stream.settimeout(60)
        self.stream.connect(str(path))
        self.input = self.stream.makefile("rb")
        self.chosen = random.Random(seed)
        self.left = requests
        self.sums = list(itertools.accumulate(1 / (i + 1) for i in range(FILES)))
        self.versions = 0
        self.wrong = "the client has not come to its end"

    def choose(self):
        return bisect.bisect_left(self.sums, self.chosen.random() * self.sums[-1])

    def answer(self, number):
        status = self.input.readline()
        size = 0
        while (line := self.input.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                size = int(line.split(b":")[1])
        body = self.input.read(size)
        found = re.match(rb"(\d+)\.(\d+);", body)
        if b" 200 " not in status or not found or int(found[1]) != number or \
                body != page(number, int(found[2])):
            self.wrong = f"file {number}: {status} {size} {body[:60]}"
            return False
        self.versions += found[2] != b"0"
        return True

    def run(self):
        while self.left > 0:
            asked = [self.choose() for _ in range(min(self.AHEAD, self.left))]
            self.stream.sendall(b"".join(b"GET /f%d HTTP/1.1\r\nHost: a\r\n\r\n" % number
                                         for number in asked))
            if not all(self.answer(number) for number in asked):
                return
            self.left -= len(asked)
        self.wrong = ""


class Server(Case):
    """nginx serves files that are replaced meanwhile."""

    @staticmethod
    def kill_all(server):
        try:
            os.killpg(server.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def nginx(self, workers, requests):
        if not os.path.exists(NGINX):
            self.skipTest("install nginx, and stop the server that its package starts")
        www = self.folder / "www"
        www.mkdir()
        for number in range(FILES):
            (www / f"f{number}").write_bytes(page(number, 0))
        listens = self.place / "nginx"
        (self.folder / "conf").write_text(CONFIGURATION.format(
            workers=workers, folder=self.folder, socket=listens,
            user="user root;" if os.getuid() == 0 else ""))
        server = subprocess.Popen(self.under([NGINX, "-c", self.folder / "conf"]),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True)
        self.addCleanup(server.wait)
        self.addCleanup(self.kill_all, server)
        until(listens.exists, "nginx listens")
        clients = [Answers(listens, requests // 2, seed) for seed in (1, 2)]
        for client in clients:
            client.start()
        version = 0
        chosen = random.Random(3)
        while any(client.is_alive() for client in clients):
            version += 1
            number = chosen.randrange(40) # among those that are asked for most
            (self.folder / "new").write_bytes(page(number, version))
            (self.folder / "new").rename(www / f"f{number}")
            clients[0].join(0.02)
        hits = self.hits("nginx")
        self.assertEqual([client.wrong for client in clients], ["", ""])
        # nginx shows a new version after a second, and a fast machine may be done by then.
        late = Answers(listens, Answers.AHEAD, 4)
        end = time.monotonic() + 20
        while not late.versions and time.monotonic() < end:
            late.left = Answers.AHEAD
            late.run()
        self.assertEqual(late.wrong, "")
        self.assertGreater(late.versions, 0)
        # Each request is a read of one to five blocks.
        self.assertGreater(hits, requests / 2)
        return server

    def test_nginx_two_workers(self):
        server = self.nginx(2, 100000)
        server.send_signal(signal.SIGQUIT)
        self.assertEqual(server.wait(20), 0)
        until(lambda: not self.readers(), "nobody is left")

    def test_nginx_four_workers_killed_and_without_service(self):
        server = self.nginx(4, 20000)
        # The service dies: answers stay right.
        os.kill(self.service_pid(), signal.SIGKILL)
        client = Answers(self.place / "nginx", 4000, 5)
        client.run()
        self.assertEqual(client.wrong, "")
        # nginx is killed, workers and all: nothing stays in the next service.
        self.serve()
        # It looks for one every 2 s at least, and 4000 requests take less.
        end = time.monotonic() + 20
        while not self.hits("nginx") and time.monotonic() < end:
            client = Answers(self.place / "nginx", 4000, 6)
            client.run()
            self.assertEqual(client.wrong, "")
        self.assertGreater(self.hits("nginx"), 0)
        self.kill_all(server)
        server.wait(20)
        until(lambda: not self.readers(), "nobody is left")
        self.assertEqual(self.ask("stat")["contexts"], 0)


class Databases(Case):
    """Programs that read a database."""

    def test_db_bench_checksums(self):
        place = f"--db={self.folder}/db"
        base = ["db_bench", place, "--num=50000", "--compression_type=none"]
        made = run([*base, "--benchmarks=fillrandom,compact", "--write_buffer_size=1048576",
                    "--seed=1"])
        self.assertEqual(made.returncode, 0, made.stderr.decode())

        def found(text):
            return re.findall(rb"\w+ +:|\d+ of \d+ found", text)
        words = [*base, "--benchmarks=readrandom,multireadrandom,readseq", "--use_existing_db=1",
                 "--readonly", "--reads=50000", "--seed=2", "--cache_size=4096",
                 "--verify_checksum=1"]
        plain = run(words)
        run(self.under(words)) # so that the blocks are there
        done, reports = self.reports(words)
        self.assertIn(b" of 50000 found", plain.stdout)
        self.assertEqual(found(done.stdout), found(plain.stdout))
        self.assertNotIn(b"orruption", done.stdout + done.stderr)
        sums = of_all_files(reports, "db_bench")
        self.assertGreater(sums["served"], 0.2 * sums["reads"])

    def test_fio_psync_verify(self):
        data = self.folder / "data"
        job = ["fio", "--name=a", f"--filename={data}", "--size=8M", "--bs=4k",
               "--ioengine=psync", "--verify=crc32c", "--invalidate=0",
               f"--aux-path={self.folder}", "--output-format=terse"]
        made = run([*job, "--rw=randwrite", "--do_verify=0"], cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr.decode())
        done, reports = self.reports([*job, "--rw=randread", "--readonly", "--time_based",
                                      "--runtime=2"], cwd=self.folder)
        self.assertEqual(done.stdout.split(b";")[4], b"0") # errors
        sums = of_all_files(reports, "fio")
        self.assertGreater(sums["served"], 0.2 * sums["reads"], reports)
        # It would have seen a wrong block.
        with open(data, "r+b") as f:
            f.seek(5 * MIB + 100)
            f.write(b"wrong")
        done = run(self.under([*job, "--rw=randread", "--readonly"]), cwd=self.folder)
        self.assertNotEqual(done.returncode, 0)

    def test_sqlite_read_only(self):
        data = self.folder / "db"
        made = run(["sqlite3", data, "create table a(b, c); with recursive n(i) as (values(1) "
                    "union all select i + 1 from n where i < 50000) insert into a "
                    "select i, i * i from n; create index d on a(c)"])
        self.assertEqual(made.returncode, 0, made.stderr.decode())
        question = "select sum(c) from a where b % 7 = 3;" * 60
        reports = self.same(["sqlite3", "-readonly", data, "pragma cache_size = 5;"
                             "pragma integrity_check;" + question])
        sums = of_all_files(reports, "sqlite3")
        self.assertGreater(sums["served"], 0.2 * sums["reads"], reports)

    def test_sqlite_writes_left_alone(self):
        data = self.folder / "db"
        reports = self.same(["sqlite3", data, "drop table if exists a; create table a(b);"
                             "insert into a values (1), (2); update a set b = b + 1;"
                             "select sum(b) from a; pragma integrity_check"])
        self.assertEqual(of_all_files(reports, "sqlite3")["served"], 0)

    def test_python_threads(self):
        data = self.file("data", 2 * MIB)
        reports = self.same([PYTHON, "-c", """
import concurrent.futures, hashlib, os, random, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
def part(seed):
    r, h = random.Random(seed), hashlib.md5()
    for i in range(3000):
        h.update(os.pread(fd, r.randrange(20000), r.randrange(3 << 20)))
        to = [bytearray(100), bytearray(5000)]
        n = os.preadv(fd, to, r.randrange(3 << 20))
        h.update(b"".join(to)[:n])
    return h.hexdigest()
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(list(pool.map(part, range(4))))
""", data])
        sums = of_all_files(reports, "python3")
        self.assertGreater(sums["served"], 3000, reports)


class Trees(Case):
    """Programs that read by read(2): the kernel does it all, and the report says so."""

    def setUp(self):
        super().setUp()
        chosen = random.Random(1)
        for number in range(60):
            path = self.folder / "tree" / str(number % 7) / f"f{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"line {chosen.randrange(10**6)}\n" for _ in range(500)))

    def tree(self, program, command):
        reports = self.same(command, cwd=self.folder)
        sums = of_all_files(reports, program)
        self.assertGreaterEqual(sums["read_keeps_offset"], 60, reports)
        self.assertEqual(sums["served"], 0)
        [one] = [r for r in reports if r["program"] == program and r["path"].endswith("/f17")][:1]
        self.assertEqual((one["read_keeps_offset"], one["served"]), (one["reads"], 0))

    def test_grep(self):
        self.tree("grep", ["grep", "-rn", "77", "tree"])

    def test_tar(self):
        self.tree("tar", ["tar", "-cf", "-", "--sort=name", "tree"])

    def test_perl(self):
        self.tree("perl", ["perl", "-e", "for (sort glob 'tree/*/*') { open F, $_; while (<F>) "
                           "{ print if /7.*7/ } }"])

    def test_python(self):
        self.tree("python3", [PYTHON, "-c", """
import hashlib, pathlib
for path in sorted(pathlib.Path("tree").rglob("f*")):
    print(path, hashlib.md5(path.read_bytes()).hexdigest())
"""])

    def test_rsync(self):
        self.same(["rsync", "-r", "--checksum", "tree/", "copy/"], cwd=self.folder)
        done = run(["diff", "-r", "tree", "copy"], cwd=self.folder)
        self.assertEqual((done.returncode, done.stdout), (0, b""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
