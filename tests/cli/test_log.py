#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The log of `lodic serve`: its forms, its levels, and readers that do not read.

Usage: test_log.py LODIC WIRE_H

WIRE_H is lib/wire.h: the test speaks to the service by itself, which is quick.
"""

import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

LODIC = os.path.abspath(sys.argv[1])
VERSION = int(re.search(r"#define WIRE_VERSION (\d+)u",
                        pathlib.Path(sys.argv[2]).read_text(encoding="ascii")).group(1))
HELLO, FILE_OPEN, STAT = 1, 4, 7  # enum wire_op
SECONDS = 30
SAME = "the configuration says what it said before"  # a SIGHUP's line
BURST, QUEUE = 100, 128  # cli/log.h
PERIOD_SECONDS = 10


class Log(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-log-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.socket = self.folder / "s"
        self.served = []

    def serve(self, *words, stderr=subprocess.PIPE, **variables):
        process = subprocess.Popen(
            [LODIC, "serve", "-m", "4M", "--pressure", "off", "-s", self.socket, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True,
            env={**os.environ, **variables})
        self.served.append(process)
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        process.kill()
        process.communicate()

    def ended(self, process):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(SECONDS), 0)

    def connect(self):
        """As soon as the service accepts programs."""
        deadline = time.monotonic() + SECONDS
        while True:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            client.settimeout(SECONDS)
            try:
                client.connect(str(self.socket))
                return client
            except OSError:
                client.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def ask(self, client, what, fds=()):
        socket.send_fds(client, [struct.pack("=IIQQQQ", VERSION, what, 0, 0, 0, 0)], list(fds))
        answer, got, _, _ = socket.recv_fds(client, 65536, 8)
        for fd in got:
            os.close(fd)
        self.assertEqual(struct.unpack_from("=i", answer)[0], 0)

    def answers(self):
        with self.connect() as client:
            self.ask(client, STAT)

    def hang_up(self, process):
        """A SIGHUP, and the service has seen it: it has made a turn between two answers."""
        process.send_signal(signal.SIGHUP)
        self.answers()
        self.answers()

    def find(self, stream, text):
        too_late = threading.Timer(SECONDS, lambda: [one.kill() for one in self.served])
        too_late.start()
        self.addCleanup(too_late.cancel)
        for line in stream:
            if text in line:
                return line
        self.fail(f"the log does not say '{text}'")


class Forms(Log):
    def test_text_is_a_line_for_each_event(self):
        served = self.serve()
        self.assertRegex(served.stdout.readline(), r"\Alodic: serving 4 MiB at .*\n\Z")
        served.send_signal(signal.SIGHUP)
        self.assertEqual(self.find(served.stderr, SAME), f"lodic: {SAME}\n")

    def test_json_is_an_object_in_each_line_and_nothing_else(self):
        served = self.serve("--log", "json", "--log-level", "debug")
        begun = time.time()
        seen = {}
        for line in served.stderr:
            event = json.loads(line)
            self.assertEqual(set(event), {"time", "level", "event", "pid", "message"})
            self.assertRegex(event["time"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
            self.assertEqual(event["pid"], served.pid)
            seen[event["event"]] = event
            if event["event"] == "serving":
                served.send_signal(signal.SIGHUP)
            if event["event"] == "settings":
                break
        self.assertEqual((seen["settings"]["level"], seen["settings"]["message"]), ("info", SAME))
        year = time.strftime("%Y-", time.gmtime(begun))
        self.assertTrue(seen["serving"]["time"].startswith(year))
        self.ended(served)
        self.assertEqual(served.stdout.read(), "")

    def test_failed_start_is_an_error_in_either_form(self):
        self.socket.write_text("in the way", encoding="ascii")
        served = self.serve()
        self.assertEqual(served.wait(SECONDS), 1)
        self.assertRegex(served.stderr.read(), r"lodic: cannot serve at .*not a socket.*\n\Z")
        served = self.serve("--log=json", "--quiet")
        self.assertEqual(served.wait(SECONDS), 1)
        (line,) = served.stderr.read().splitlines()
        self.assertEqual((json.loads(line)["level"], json.loads(line)["event"]),
                         ("error", "cannot_serve"))

    def test_path_cannot_make_a_line_or_steer_a_terminal(self):
        """A promise is told with its file's path."""
        data = self.folder / "a\nlodic: forged\x1b[2J\"\\"
        data.write_bytes(b"x" * 4096)
        reader = os.open(data, os.O_RDONLY)
        self.addCleanup(os.close, reader)
        for form in "text", "json":
            served = self.serve("--log", form, "--log-level", "debug", "--immutable",
                                f"{self.folder}/a*")
            self.assertTrue(served.stdout.readline() if form == "text" else
                            self.find(served.stderr, "serving"))
            with self.connect() as client:
                self.ask(client, HELLO)
                self.ask(client, FILE_OPEN, [reader])
            line = self.find(served.stderr, "forged")
            text = json.loads(line)["message"] if form == "json" else line
            self.assertIn(r'a\x0alodic: forged\x1b[2J"\\', text)
            self.assertTrue(line[:-1].isprintable())
            self.ended(served)

    def test_journal_gets_priorities(self):
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        st = os.fstat(theirs.fileno())
        served = self.serve(stderr=theirs, JOURNAL_STREAM=f"{st.st_dev}:{st.st_ino}")
        served.stdout.readline()
        served.send_signal(signal.SIGHUP)
        self.assertEqual(self.find(ours.makefile(), SAME), f"<6>{SAME}\n")

    def test_stderr_that_is_not_the_journal_gets_none(self):
        served = self.serve(JOURNAL_STREAM="1:2")
        served.stdout.readline()
        served.send_signal(signal.SIGHUP)
        self.assertEqual(self.find(served.stderr, SAME), f"lodic: {SAME}\n")

    def test_daemon_keeps_the_journal(self):
        """As after a reload by the service manager."""
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        st = os.fstat(theirs.fileno())
        with theirs:
            started = self.serve("--daemon", stderr=theirs,
                                 JOURNAL_STREAM=f"{st.st_dev}:{st.st_ino}")
            self.assertEqual(started.wait(SECONDS), 0)
        pid = int(pathlib.Path(f"{self.socket}.lock").read_text(encoding="ascii"))
        self.addCleanup(os.kill, pid, signal.SIGTERM)
        os.kill(pid, signal.SIGHUP)
        ours.settimeout(SECONDS)
        self.assertEqual(self.find(ours.makefile(), SAME), f"<6>{SAME}\n")


class Levels(Log):
    def test_level_leaves_out_what_is_above(self):
        for level, wanted in ("error", False), ("warning", False), ("info", True), ("debug", True):
            served = self.serve("--log-level", level)
            self.answers()
            self.hang_up(served)
            self.ended(served)
            text = served.stderr.read()
            self.assertEqual(SAME in text, wanted, (level, text))
            if level == "error":
                self.assertEqual(text, "")

    def test_wrong_words_are_refused(self):
        for words, text in ((("--log", "xml"), "neither text nor json"),
                            (("--log-level", "loud"), "there is no level 'loud'")):
            served = self.serve(*words)
            self.assertEqual(served.wait(SECONDS), 2)
            self.assertIn(text, served.stderr.read())


class Readers(Log):
    def full_pipe(self):
        """(read end, write end) of a pipe that has no room."""
        ends = os.pipe()
        for end in ends:
            self.addCleanup(os.close, end)
        fcntl.fcntl(ends[1], fcntl.F_SETFL, os.O_NONBLOCK)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(ends[1], b"x" * 4096)
        fcntl.fcntl(ends[1], fcntl.F_SETFL, 0)
        return ends

    def drained(self, end, text):
        """All that the pipe has, until this text comes."""
        got, deadline = b"", time.monotonic() + SECONDS
        os.set_blocking(end, False)
        while text not in got:
            self.assertLess(time.monotonic(), deadline, got[-500:])
            try:
                got += os.read(end, 65536)
            except BlockingIOError:
                time.sleep(0.02)
        return got.replace(b"x" * 4096, b"").decode()

    def test_full_pipe_blocks_neither_the_service_nor_its_end(self):
        _, full = self.full_pipe()
        served = self.serve("--log-level", "debug", stderr=full)
        self.answers()
        for _ in range(20):
            self.hang_up(served)
        begun = time.monotonic()
        self.ended(served)
        self.assertLess(time.monotonic() - begun, 10)

    def test_lines_are_lost_and_counted_and_told_later(self):
        end, full = self.full_pipe()
        served = self.serve("--log", "json", "--log-level", "debug", stderr=full)
        for _ in range(BURST):  # two lines each
            with self.connect() as client:
                self.ask(client, HELLO)
        self.answers()
        text = self.drained(end, b'"event":"lost"')
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        (lost,) = [line for line in lines if line["event"] == "lost"]
        self.assertEqual(lost["level"], "warning")
        nr = int(re.match(r"(\d+) lines are lost", lost["message"]).group(1))
        events = [line["event"] for line in lines]
        # All that came is there, or counted. One client may leave after the last look.
        self.assertIn(events.count("attached") + events.count("detached") + nr,
                      range(2 * BURST - 1, 2 * BURST + 20))
        self.assertGreaterEqual(nr, 2 * BURST - 1 - QUEUE)
        self.ended(served)

    def test_repeats_are_limited_and_their_number_is_told(self):
        served = self.serve("--log", "json")
        self.find(served.stderr, "serving")
        begun = time.monotonic()
        nr = 0
        while nr < BURST + 20:
            self.hang_up(served)
            nr += 1
        taken = time.monotonic() - begun
        if taken > PERIOD_SECONDS - 2:
            self.skipTest(f"this machine took {taken:.0f} s for {nr} signals")
        seen = 0
        for line in served.stderr:
            event = json.loads(line)
            seen += event["event"] == "settings"
            if event["event"] == "left_out":
                self.assertIn('"settings"', event["message"])
                # A SIGHUP while the files are being read has a line, and so has the second look.
                self.assertIn(int(event["message"].split()[0]),
                              range(nr - BURST, 2 * nr - BURST + 1))
                break
        self.assertEqual(seen, BURST)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
