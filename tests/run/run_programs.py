# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A program as it is without lodic, under `lodic run`, killed, and with the service killed."""

import collections
import os
import signal
import subprocess

from run_case import SECONDS, Case, kill_all, of_all_files, run, until

# On a busy machine a program may be done before the test has looked, or the service late.
TRIES = 5
# asks: what it is asked on stdin. found(stdout, stderr): what of its work must be the same.
Program = collections.namedtuple("Program", "name words asks found")


def printed(out, errors):
    return out, errors


class Programs(Case):
    """A program without lodic, with it, killed, and with the service killed."""

    def begin(self, program, at_work):
        """Starts it under lodic, and asks half of what it is to be asked, until it is at work."""
        self.serve() # it may have ended, with nothing to do
        for _ in range(TRIES):
            process = self.start(self.under(program.words), cwd=self.folder,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
            process.stdin.write(b"".join(program.asks[:len(program.asks) // 2]))
            process.stdin.flush()
            until(lambda: process.poll() is not None or at_work(process),
                  f"{program.name} is at work", SECONDS)
            if process.poll() is None:
                return process
            program.found(*process.communicate()) # takes away what it has written
        return self.fail(f"{program.name} has ended too soon")

    def end(self, program, process):
        """Asks the rest; returns what the program has done."""
        rest = b"".join(program.asks[len(program.asks) // 2:])
        out, errors = process.communicate(rest, timeout=SECONDS)
        return process.returncode, program.found(out, errors)

    def check(self, program, at_work, enough):
        """at_work(process): it reads now. enough(sums): the report says what it must."""
        asks = b"".join(program.asks)
        plain = run(program.words, cwd=self.folder, input=asks, stdin=None)
        answer = (plain.returncode, program.found(plain.stdout, plain.stderr))
        self.assertEqual(plain.returncode, 0, plain.stderr.decode())

        process = self.begin(program, at_work)
        kill_all(process)
        process.communicate()
        self.nothing_left()
        program.found(b"", b"") # takes away what it has written

        # The cache has the blocks now, or after the first time.
        for _ in range(TRIES):
            done, reports = self.reports(program.words, cwd=self.folder, input=asks, stdin=None)
            self.assertEqual((done.returncode, program.found(done.stdout, done.stderr)), answer)
            self.nothing_left()
            if enough(of_all_files(reports, program.name)):
                break
        else:
            self.fail(f"the report says too little: {reports}")

        process = self.begin(program, at_work)
        os.kill(self.service_pid(), signal.SIGKILL)
        self.assertEqual(self.end(program, process), answer)
        return reports

    def served(self, name, words, asks=(), found=printed):
        """It reads by pread(2): `lodic who` shows that the cache serves it."""
        self.check(Program(name, words, asks, found),
                   lambda process: self.hits(name) > 0,
                   lambda sums: sums["served"] > 0.2 * sums["reads"])
