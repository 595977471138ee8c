# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Which unit tests reach a mutant, and does one of them fail with it?

They are C tests in the changed copy, and the programs that they start. A policy, a number or a
message is theirs to look at: a scenario has no oracle for it. A test that fails without a mutant is
left out, as one does that starts a program which is not built here. So is one that is slow.
"""

import array
import json
import os
import pathlib
import signal
import subprocess
import time

import run
import tree

SLOW_S = 20
SHOWN = 5
# A test hangs when it needs so many times its usual time.
HANG_TIMES, HANG_LEAST_S = 5, 5


class Units:
    def __init__(self, folder, built, program):
        self.path = folder / f"units-{built.state}.json"
        self.scratch = folder
        self.ninja, self.tests = built.ninja, built.units
        self.program = program  # knows what runs, so that Ctrl-C ends it
        self.rows = {}  # name: how long it takes, and what it reaches

    def load(self):
        if not self.path.exists():
            return False
        self.rows = json.loads(self.path.read_text())
        for row in self.rows.values():
            row["reached"] = set(row["reached"])
        return True

    def save(self):
        for old in self.scratch.glob("units-*.json"):
            old.unlink()
        run.put_whole(self.path, json.dumps({name: {**row, "reached": sorted(row["reached"])}
                                             for name, row in sorted(self.rows.items())}))

    def run(self, name, limit_s, **environment):
        """0: passed. Nothing of the test outlives it."""
        more = {"LODIC_BUILD": self.ninja, "LODIC_SOURCE": tree.ROOT, **environment}
        with self.program.lock:
            if self.program.stopping:
                raise run.Stopped
            # pylint: disable-next=consider-using-with
            child = subprocess.Popen([self.ninja / name], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     start_new_session=True, env=tree.environment(**more))
            self.program.children.add(child.pid)
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        with self.program.lock:
            self.program.children.discard(child.pid)
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        if self.program.stopping:
            raise run.Stopped
        return status

    def look(self, jobs, progress):
        """What each test reaches."""
        if self.load():
            return
        tell = progress("what each unit test reaches", len(self.tests)).tell
        run.in_threads(jobs, self.program, self.look_at, self.tests, lambda nr, _: tell(nr))
        if not self.rows:
            raise tree.Failed("no unit test passes and reaches a mutant")
        self.save()

    def look_at(self, name):
        path = self.scratch / f"unit-{pathlib.Path(name).name}.tmp"
        path.write_bytes(b"")
        path.chmod(0o666)  # a test may start programs as other users
        began = time.monotonic()
        status = self.run(name, SLOW_S, LODIC_GENERATED_SEEN=path)
        numbers = array.array("I", path.read_bytes())
        if status == 0 and numbers:
            self.rows[name] = {"seconds": round(time.monotonic() - began, 3),
                               "reached": {n for n, times in enumerate(numbers) if times}}
        path.unlink()

    def names(self, number):
        """The tests that reach that mutant: first those that are quick and reach few others."""
        return sorted((name for name, row in self.rows.items() if number in row["reached"]),
                      key=lambda n: (self.rows[n]["seconds"] * len(self.rows[n]["reached"]), n))

    def catch(self, number, seconds):
        """What the journal says of the first test that fails with that mutant. None: none did in
        so many seconds."""
        used = 0.0
        for name in self.names(number):
            if used >= seconds:
                return None
            limit = HANG_LEAST_S + HANG_TIMES * self.rows[name]["seconds"]
            began = time.monotonic()
            # Twice: on a busy machine a test may fail by itself.
            failed = all(self.run(name, limit, LODIC_GENERATED=number) for _ in range(2))
            used += time.monotonic() - began
            if failed:
                return {"what": name, "how": "unit test", "memory": "-", "strategy": "-"}
        return None

    def show(self, number):
        """How to run the first few of them by hand."""
        for name in self.names(number)[:SHOWN]:
            yield f"LODIC_GENERATED={number} LODIC_BUILD={self.ninja} {self.ninja / name}"
