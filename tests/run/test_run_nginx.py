#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""nginx under `lodic run`, on loopback: right answers while its files change, and after kills.

    test_run_nginx.py LODIC

tools/deps.sh does not install nginx, because its package starts a server; .ci/run tries to.
Without it these tests are skipped.
"""

import bisect
import collections
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

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "bench")]

import nginx  # pylint: disable=C0413
from run_case import KIB, Case, kill_all, until, without_privileges  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
FILES = 1000
REQUESTS = 100000

# body: what came of it, until nginx had sent all or closed the connection.
Answer = collections.namedtuple("Answer", "status length body")


def page(number, version):
    """A version of a file: each piece of it says which one it is."""
    word = b"%d.%d;" % (number, version)
    size = 600 + number * 7919 % (16 * KIB)
    return (word * (size // len(word) + 1))[:size]


class Client:
    """A connection to nginx."""

    def __init__(self, port):
        self.port = port
        self.stream = self.input = None

    def close(self):
        if self.stream:
            self.input.close()
            self.stream.close()
        self.stream = None

    def ask(self, numbers):
        if not self.stream:
            self.stream = socket.create_connection(("127.0.0.1", self.port), 60)
            self.input = self.stream.makefile("rb")
        self.stream.sendall(b"".join(b"GET /f%d HTTP/1.1\r\nHost: a\r\n\r\n" % number
                                     for number in numbers))

    def answer(self):
        """The next one. After one that was cut short there is no other."""
        status, length = self.input.readline(), 0
        while (line := self.input.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        answer = Answer(status, length, self.input.read(length))
        if len(answer.body) < length or not status:
            self.close()
        return answer


class Answers(threading.Thread):
    """A client that asks many requests ahead, and looks whether each answer is one version."""

    AHEAD = 40

    def __init__(self, port, requests, seed):
        super().__init__(daemon=True)
        self.client = Client(port)
        self.chosen = random.Random(seed)
        self.left = requests
        self.sums = list(itertools.accumulate(1 / (i + 1) for i in range(FILES)))
        self.versions = 0
        self.wrong = "the client has not come to its end"

    def choose(self):
        return bisect.bisect_left(self.sums, self.chosen.random() * self.sums[-1])

    def right(self, number):
        status, length, body = self.client.answer()
        found = re.match(rb"(\d+)\.(\d+);", body)
        if b" 200 " not in status or not found or int(found[1]) != number or \
                body != page(number, int(found[2])):
            self.wrong = f"file {number}: {status} {length} {body[:60]}"
            return False
        self.versions += found[2] != b"0"
        return True

    def run(self):
        try:
            while self.left > 0:
                asked = [self.choose() for _ in range(min(self.AHEAD, self.left))]
                self.client.ask(asked)
                if not all(self.right(number) for number in asked):
                    return
                self.left -= len(asked)
            self.wrong = ""
        finally:
            self.client.close()


class Server(Case):
    """Starts nginx."""

    def setUp(self):
        super().setUp()
        self.www = self.folder / "www"
        self.www.mkdir()

    def serve_files(self, workers, valid, under=None):
        """Returns (nginx, its port). It gets the socket from here, so nobody else has the port."""
        with socket.create_server(("127.0.0.1", 0), backlog=100) as listens:
            listens.setblocking(False)
            port = listens.getsockname()[1]
            command = nginx.command(self.folder, f"127.0.0.1:{port}", self.www, workers, valid)
            server = self.start((under or self.under)(command), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                pass_fds=[listens.fileno()],
                                env=dict(os.environ, NGINX=f"{listens.fileno()};"))
        return server, port


class Replaced(Server):
    """Files are replaced by rename(2): each answer is one version."""

    def served(self):
        """The hits of each worker that has any."""
        return [r["hits"] for r in self.readers() if r["program"] == "nginx" and r["hits"]]

    def ask_all(self, workers):
        for number in range(FILES):
            (self.www / f"f{number}").write_bytes(page(number, 0))
        server, port = self.serve_files(workers, "1s")
        clients = [Answers(port, REQUESTS // (4 * workers), seed) for seed in range(4 * workers)]
        for client in clients:
            client.start()
        version, served = 0, []
        chosen = random.Random(3)
        while any(client.is_alive() for client in clients):
            if len(served) < 2: # the first worker takes each connection, unless it is busy
                clients.append(Answers(port, Answers.AHEAD, version + 100))
                clients[-1].run()
                served = self.served()
            version += 1
            number = chosen.randrange(40) # among those that are asked for most
            (self.folder / "new").write_bytes(page(number, version))
            (self.folder / "new").rename(self.www / f"f{number}")
            clients[0].join(0.02)
        served = self.served()
        self.assertEqual({client.wrong for client in clients}, {""})
        # nginx shows a new version after a second, and a fast machine may be done by then.
        late = Answers(port, 0, 4)
        end = time.monotonic() + 20
        while not late.versions and time.monotonic() < end:
            late.left = Answers.AHEAD
            late.run()
        self.assertEqual(late.wrong, "")
        self.assertGreater(late.versions, 0)
        # Each request is a read of one to five blocks.
        self.assertGreater(sum(served), REQUESTS / 2)
        self.assertGreater(len(served), 1, "workers")
        return server, port

    def test_two_workers(self):
        server, _ = self.ask_all(2)
        server.send_signal(signal.SIGQUIT)
        self.assertEqual(server.wait(20), 0)
        self.nothing_left()

    def test_four_workers_killed_and_without_service(self):
        server, port = self.ask_all(4)
        # The service dies: answers stay right.
        os.kill(self.service_pid(), signal.SIGKILL)
        client = Answers(port, 4000, 5)
        client.run()
        self.assertEqual(client.wrong, "")
        # nginx is killed, workers and all: nothing stays in the next service.
        self.serve()
        # It looks for one every 2 s at least, and 4000 requests take less.
        end = time.monotonic() + 20
        while not self.hits("nginx") and time.monotonic() < end:
            client = Answers(port, 4000, 6)
            client.run()
            self.assertEqual(client.wrong, "")
        self.assertGreater(self.hits("nginx"), 0)
        kill_all(server)
        self.nothing_left()


def cut(path, size):
    os.truncate(path, size)


def rewrite(path, size):
    """As a shell's `>` does it: the file is empty, and then it is another version."""
    with open(path, "wb", 0) as f:
        f.write((b"%d;" % size * size)[:size])


def overwrite(path, offset):
    with open(path, "r+b", 0) as f:
        f.seek(offset)
        f.write(b"over" * 500)


class Changing(threading.Thread):
    """Changes a file in place, again and again, and knows what it may have been when."""

    SIZE = 15000

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = path
        self.chosen = random.Random(7)
        self.states = [page(0, 0) * 20]
        path.write_bytes(self.states[0])
        self.done = 0 # the last state that is complete
        self.ends = threading.Event()

    def run(self):
        while not self.ends.wait(self.chosen.random() * 0.04):
            if self.chosen.random() < 0.5 and self.states[-1]:
                size = self.chosen.randrange(len(self.states[-1]))
                self.states.append(self.states[-1][:size])
                os.truncate(self.path, size)
            else:
                size = self.chosen.randrange(1, self.SIZE)
                new = b"%d;" % len(self.states) * self.SIZE
                self.states += [b"", new[:size]]
                self.path.write_bytes(new[:size])
            self.done = len(self.states) - 1

    def stop(self):
        self.ends.set()
        self.join()

    def outcome(self, answer, first):
        """What the answer is, if first was done before it was asked for."""
        if not answer.status:
            return "closed"
        cut = "cut, " if len(answer.body) < answer.length else ""
        states = self.states[first:]
        if answer.body in states:
            return cut + "one state"
        if any(state.startswith(answer.body) for state in states):
            return cut + "the begin of one"
        # A read of the kernel may mix them, and what lies behind the end may come as zeros.
        mixed = all(any(byte == (state[i] if i < len(state) else 0) for state in states)
                    for i, byte in enumerate(answer.body))
        return cut + ("mixed" if mixed else "of no such state")


class InPlace(Server):
    """Files are truncated and rewritten in place: what nginx answers is what nginx alone may."""

    SIZE = 15000
    ANSWERS = 3000
    CHANGES = [(cut, 7000), (rewrite, 12000), (cut, 0), (cut, 9000), (rewrite, SIZE),
               (overwrite, 5000), (rewrite, 16000)]

    def plainly(self, command):
        return command

    def warm(self, client, under):
        """Asks until the cache has served an answer, or three times where there is none."""
        before = self.hits("nginx")

        def asked():
            client.ask([0])
            client.answer()
            return self.hits("nginx") > before
        if under == self.under:
            until(asked, "the cache serves the file")
        else:
            for _ in range(3):
                asked()

    def steps(self, valid, under):
        """What nginx answers after each change, once and again."""
        path = self.www / "f0"
        rewrite(path, self.SIZE)
        server, port = self.serve_files(1, valid, under)
        client = Client(port)
        answers = []
        for change, number in self.CHANGES:
            # Nothing is read of an empty file.
            if path.stat().st_size:
                self.warm(client, under)
            change(path, number)
            for _ in range(2):
                client.ask([0])
                answers.append(client.answer())
        client.close()
        kill_all(server)
        return answers

    def test_each_change_as_nginx_alone(self):
        # How long nginx believes the size that it has seen. It cannot send all of that then.
        for valid in ("0s", "1h"):
            with self.subTest(valid=valid):
                alone = self.steps(valid, self.plainly)
                self.assertEqual(self.steps(valid, self.under), alone)
                cuts = [not a.status or len(a.body) < a.length for a in alone]
                self.assertEqual(any(cuts), valid == "1h", [a[:2] for a in alone])

    def outcomes(self, under, wanted=frozenset()):
        """What nginx answers while a file changes. It goes on until it has given all that are
        wanted, for 100 s at most."""
        changing = Changing(self.www / "f0")
        server, port = self.serve_files(2, "1s", under)
        client = Client(port)
        seen = collections.Counter()
        end = time.monotonic() + 100
        changing.start()
        try:
            while sum(seen.values()) < self.ANSWERS or \
                    (wanted - set(seen) and time.monotonic() < end):
                first = changing.done
                client.ask([0])
                seen[changing.outcome(client.answer(), first)] += 1
        finally:
            changing.stop()
            client.close()
        if under == self.under:
            self.assertGreater(self.hits("nginx"), 0)
        print(dict(seen), len(changing.states), "states,", self.hits("nginx"), "hits")
        kill_all(server)
        return seen

    def test_while_it_changes_only_what_nginx_alone_gives(self):
        served = self.outcomes(self.under)
        alone = self.outcomes(self.plainly, set(served))
        self.assertLessEqual(set(served), set(alone))
        self.assertGreater(len(alone), 1)


if __name__ == "__main__":
    if not os.path.exists(nginx.NGINX):
        print("no nginx here: install it, and stop the server that its package starts")
        sys.exit(77)
    without_privileges(Case.lodic)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
