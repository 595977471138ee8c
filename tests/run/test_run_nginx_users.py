#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""nginx with Debian's users under root's `lodic run`: its master is root, its workers are www-data.

    test_run_nginx_users.py LODIC [REQUESTS]

The users are those of the package's unit: its master is root's, and `user www-data' stands in the
configuration. No service manager starts it here, so it stays in the foreground. The files are
root's. See run_inside.py for where this runs; without root or nginx it is skipped.
"""

import json
import os
import pathlib
import pwd
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "bench")]

import nginx  # pylint: disable=C0413
import run_inside  # pylint: disable=C0413
from run_case import kill_all, run, until  # pylint: disable=C0413

LODIC = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
REQUESTS = 2000
FILES = 100
WORKERS = 2
USER = "www-data"
LEASE = 1 << 28 # CAP_LEASE


def page(number):
    word = b"%d;" % number
    size = 600 + number * 7919 % (16 << 10)
    return (word * (size // len(word) + 1))[:size]


class Users(unittest.TestCase):
    """Root's nginx, and another user's workers and service."""

    def setUp(self):
        self.user = pwd.getpwnam(USER)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-users-"))
        self.www = run_inside.FILES # of root, where there are leases
        for number in range(FILES):
            (self.www / f"f{number}").write_bytes(page(number))
        self.folder.chmod(0o755)
        self.report = self.folder / "report"
        self.socket = run_inside.default_socket(self.user.pw_uid)
        for uid in (0, self.user.pw_uid):
            self.addCleanup(run_inside.end_service, self.stat, uid)

    def stat(self, path):
        done = run([LODIC, "stat", "--socket", path, "--json"])
        return json.loads(done.stdout) if done.returncode == 0 else None

    def start(self, *options):
        with socket.create_server(("127.0.0.1", 0), backlog=100) as listens:
            listens.setblocking(False)
            port = listens.getsockname()[1]
            command = nginx.command(self.folder, f"127.0.0.1:{port}", self.www, WORKERS, "60s",
                                    user=USER)
            server = subprocess.Popen(
                [LODIC, "run", "--memory", "64M", *options, "--", *command],
                start_new_session=True, stdin=subprocess.DEVNULL, pass_fds=[listens.fileno()],
                env=dict(os.environ, NGINX=f"{listens.fileno()};"))
        self.addCleanup(kill_all, server)
        return server, port

    def ask(self, port, numbers):
        """A connection; the answers must be right."""
        with socket.create_connection(("127.0.0.1", port), 60) as stream:
            for some in (numbers[i:i + 20] for i in range(0, len(numbers), 20)):
                stream.sendall(b"".join(b"GET /f%d HTTP/1.1\r\nHost: a\r\n\r\n" % number
                                        for number in some))
                with stream.makefile("rb") as answers:
                    for number in some:
                        self.one(answers, number)

    def one(self, answers, number):
        status, length = answers.readline(), 0
        while (line := answers.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        self.assertIn(b" 200 ", status)
        self.assertEqual(answers.read(length), page(number))

    def end(self, server):
        """It ends; returns the sums of its workers, each with all its files."""
        server.send_signal(signal.SIGQUIT)
        self.assertEqual(server.wait(60), 0)
        lines = [json.loads(line) for line in self.report.read_text().splitlines()]
        return [r for r in lines if not r["path"] and r["reads"]]

    def hits(self):
        done = run([LODIC, "who", "--socket", self.socket, "--json"])
        rows = json.loads(done.stdout)["readers"] if done.returncode == 0 else []
        return sum(r["hits"] for r in rows)

    def test_workers_of_another_user_served(self):
        server, port = self.start(f"--report={self.report}", "--json")
        # The first passes: each worker must have read each file twice, and the service reads them.
        first = 0

        def warm():
            nonlocal first
            before = self.hits()
            for _ in range(4): # connections, so that each worker gets some
                self.ask(port, list(range(FILES)))
            first += 4 * FILES
            return self.hits() - before >= 4 * FILES * 0.95
        until(warm, "the cache serves a pass", 60)
        service = run_inside.status(self.stat(self.socket)["service_pid"])
        second = 0
        while second < REQUESTS:
            self.ask(port, list(range(FILES)))
            second += FILES
        sums = self.end(server)
        reads, served = (sum(r[key] for r in sums) for key in ("reads", "served"))
        print(f"{reads} preads, {second} of them in second passes, {served} served")
        self.assertGreaterEqual(reads, first + second)
        self.assertGreaterEqual(served, second * 0.9)
        # Whose service it is, and what it may do.
        self.assertEqual(service["Uid"].split(), [str(self.user.pw_uid)] * 4)
        self.assertEqual(service["Gid"].split(), [str(self.user.pw_gid)] * 4)
        self.assertEqual([int(service[key], 16) for key in
                          ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd")],
                         [LEASE, LEASE, 0, 0, 0])

    def test_service_without_lease_is_named(self):
        # That user has started one.
        done = run([LODIC, "serve", "--memory", "32M", "--daemon", "--user", USER])
        self.assertEqual(done.returncode, 0, done.stderr)
        caps = run_inside.status(self.stat(self.socket)["service_pid"])["CapEff"]
        self.assertEqual(int(caps, 16), 0)
        server, port = self.start(f"--report={self.report}", "--json")
        for _ in range(30):
            self.ask(port, list(range(FILES)))
        sums = self.end(server)
        self.assertEqual([r["served"] for r in sums], [0] * len(sums))
        self.assertGreater(sum(r["refused"] for r in sums), 0)
        text = self.report.read_text()
        self.assertIn("its owner is another user, and the service lacks CAP_LEASE", text)


if __name__ == "__main__":
    if not os.path.exists(nginx.NGINX):
        print("no nginx here: install it, and stop the server that its package starts")
        sys.exit(77)
    run_inside.enter()
    if len(sys.argv) > 2:
        REQUESTS = int(sys.argv.pop(2))
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
