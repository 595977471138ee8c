#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""No command prints a name as it is: each shows the text of lib/escape.h, and only that.

    test_names.py LODIC
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LODIC = os.path.abspath(sys.argv[1])
PYTHON = "/usr/bin/python3"
SECONDS = 60
# A line end, an order for a terminal, a tab, a stray byte, an overlong slash, a surrogate. Then a
# C1 control, a change of direction, a line separator, and two characters that stay.
HOSTILE = b"a\nlodic: forged\x1b[2J\t\xff\xc0\xaf\xed\xa0\x80\\\xc2\x9b\xe2\x80\xae\xe2\x80\xa8" \
          b"\xc3\xa9\xf0\x9f\x90\xb1"
ESCAPED = r"a\x0alodic: forged\x1b[2J\x09\xff\xc0\xaf\xed\xa0\x80\\\xc2\x9b\xe2\x80\xae" \
          r"\xe2\x80\xa8" + "\u00e9\U0001f431"
READ = """
import os, sys
fd = os.open(os.fsencode(sys.argv[1]), os.O_RDONLY)
for i in range(3000):
    os.pread(fd, 1000, 0)
"""
# What is run for each verb. The first file is there, the second is not. None: the verb has nothing
# to do with names but those on its command line.
VERBS = {
    "serve": [["serve", "--socket", "{missing}/s"], ["serve", "--pressure", "{missing}"]],
    "stat": [["stat"], ["stat", "{file}"], ["stat", "-s", "{missing}"]],
    "files": [["files"], ["files", "{file}"], ["files", "{missing}"], ["files", "--json"],
              ["files", "{folder}"], ["files", "--json", "{folder}"]],
    "who": [["who"], ["who", "--json"], ["who", "{file}"], ["who", "-s", "{missing}"]],
    "drop": [["drop", "{file}"], ["drop", "{missing}"], ["drop", "{folder}"]],
    "load": [["load", "{file}"], ["load", "{missing}"]],
    "stop": [["stop", "{file}"], ["stop", "-s", "{missing}"]],
    "resize": [["resize", "{file}"], ["resize", "-s", "{missing}", "16M"]],
    "tier": [["tier"], ["tier", "--json"], ["tier", "fast", "{file}"], ["tier", "{missing}"]],
    "run": [["run", "--report", "--", PYTHON, "-c", READ, "{file}"],
            ["run", "--report", "--json", "--", PYTHON, "-c", READ, "{file}"],
            ["run", "--report={missing}/r", "--", "true"], ["run", "--record={missing}/r", "true"],
            ["run", "--report", "{program}", "-c", READ, "{file}"], ["run", "{missing}"],
            ["run", "--memory", "{missing}", "true"]],
    "map": [["map", "--verbose", "--", PYTHON, "-c", READ, "{file}"],
            ["map", "--report={missing}/r", "--", "true"], ["map", "{missing}"]],
    "doctor": [["doctor", "{missing}"], ["doctor", "--", "true", "{file}"]],
    "demo": [["demo", "--file", "{missing}"], ["demo", "--json-out", "{missing}/x"]],
    "bench": [["bench", "pin", "--csv", "{missing}/x"], ["bench", "pin", "--file", "{missing}"],
              ["bench", "{missing}"]],
    "help": [["help", "{missing}"]],
}


class Names(unittest.TestCase):
    def setUp(self):
        # Where leases are given: not in every /tmp.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-names-", dir=".")).resolve()
        self.addCleanup(shutil.rmtree, self.folder, True)
        place = tempfile.mkdtemp(prefix="lodic-names-")
        self.addCleanup(shutil.rmtree, place, True)
        self.socket = pathlib.Path(place, "s")
        self.within = os.path.join(os.fsencode(self.folder), HOSTILE)
        self.names = {"file": self.within, "missing": self.within + b"-missing",
                      "folder": self.within + b"-folder", "program": self.within + b"-program"}
        pathlib.Path(os.fsdecode(self.within)).write_bytes(b"x" * 8192)
        os.mkdir(self.names["folder"])
        shutil.copy(PYTHON, self.names["program"])

    def words(self, words):
        """With the socket behind the verb, unless a word names one."""
        whole = [word.encode() for word in words]
        for name, path in self.names.items():
            whole = [word.replace(b"{%s}" % name.encode(), path) for word in whole]
        if words[0] not in ("help", "demo", "bench", "map", "doctor", "serve") and \
                "-s" not in words:
            whole[1:1] = [b"-s", os.fsencode(self.socket)]
        return [os.fsencode(LODIC), *whole]

    def clean(self, output, what):
        for line in output.split(b"\n"):
            try:
                text = line.decode()  # it is UTF-8
            except UnicodeDecodeError:
                self.fail((what, line))
            self.assertTrue(text.replace("\u001b[K", "").isprintable(), (what, line))
            self.assertFalse(text.startswith("lodic: forged"), (what, line))

    def run_clean(self, words):
        done = subprocess.run(self.words(words), stdin=subprocess.DEVNULL, check=False,
                              capture_output=True, timeout=SECONDS, cwd=self.folder)
        self.clean(done.stdout + done.stderr, words)
        return (done.stdout + done.stderr).decode()

    def serve(self):
        service = subprocess.Popen(
            [LODIC, "serve", "-m", "16M", "-s", self.socket, "--log-level", "debug",
             "--immutable", f"{self.folder}/*"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(service.wait)
        self.addCleanup(service.kill)
        self.assertIn(b"serving", service.stdout.readline())
        return service

    def test_every_verb(self):
        listed = re.findall(r"^  (\w+) +[A-Z]", self.run_clean(["help"]), re.MULTILINE)
        self.assertEqual(set(listed) - set(VERBS), set(), "say here how such a verb is run")
        service = self.serve()
        shown = {}
        for verb in sorted({*listed, "help"}, key="run".__ne__):  # it reads the file
            shown[verb] = [self.run_clean(words) for words in VERBS[verb]]
        for verb in "run", "files", "drop", "stat", "demo", "bench", "map", "doctor", "who":
            self.assertIn(ESCAPED, "".join(shown[verb]), verb)
        # JSON escapes the backslashes once more.
        for verb in "run", "files":
            self.assertIn(ESCAPED.replace("\\", "\\\\"), "".join(shown[verb]), verb)
        service.terminate()
        log = service.communicate(timeout=SECONDS)[1]
        self.clean(log, "log")
        self.assertIn(ESCAPED, log.decode())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
