# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Which unit tests reach a mutant, and does one of them fail with it?

They are C tests of core's parts, in the changed copy. A policy, a number or a message is theirs to
look at: a scenario has no oracle for it. A test that fails without a mutant is left out, as one
does that starts a program which is not built here. So is one that is slow.
"""

import array
import json
import os
import signal
import subprocess
import time

import run
import tree

SLOW_S = 12
# A test hangs when it needs so many times its usual time.
HANG_TIMES, HANG_LEAST_S = 5, 5


class Units:
    def __init__(self, folder, ninja, program):
        self.path = folder / f"units-{tree.state_of()}.json"
        self.scratch = folder
        self.ninja = ninja
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

    def look(self, name):
        path = self.scratch / f"unit-{os.path.basename(name)}.tmp"
        path.unlink(missing_ok=True)
        began = time.monotonic()
        status = self.run(name, SLOW_S, LODIC_GENERATED_SEEN=path)
        if status == 0 and path.exists():
            numbers = array.array("I", path.read_bytes())
            self.rows[name] = {"seconds": round(time.monotonic() - began, 3),
                               "reached": {n for n, times in enumerate(numbers) if times}}
        path.unlink(missing_ok=True)

    def catch(self, number, seconds):
        """The first test that fails with that mutant, and after how long. None: none did in so
        many seconds."""
        names = [name for name, row in self.rows.items() if number in row["reached"]]
        used = 0.0
        for name in sorted(names, key=lambda n: (self.rows[n]["seconds"], n)):
            if used >= seconds:
                return None
            limit = HANG_LEAST_S + HANG_TIMES * self.rows[name]["seconds"]
            began = time.monotonic()
            status = self.run(name, limit, LODIC_GENERATED=number)
            used += time.monotonic() - began
            if status != 0:
                return name, used
        return None
