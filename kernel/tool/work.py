# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Where the work is done and how commands are run: folders, stamps, logs, nothing left over.

A step that is done leaves a stamp: the hash of what went into it. Every command runs in a
process group of its own. We kill the group when we end, however we end.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import time

KERNEL = pathlib.Path(__file__).resolve().parent.parent
ROOT = KERNEL.parent
TAIL_LINES = 30

# Instead of the user's own settings, so that the same input gives the same bytes everywhere.
GIT_SETTINGS = {
    "safe.directory": "*",
    "user.name": "lodic kernel/run",
    "user.email": "kernel-run@localhost",
    "core.compression": "1",
    "core.autocrlf": "false",
    "core.fileMode": "true",
    "gc.auto": "0",
    "am.threeWay": "false",
    "apply.whitespace": "error",
    "advice.mergeConflict": "false",
    "commit.gpgSign": "false",
    "init.defaultBranch": "main",
}


class Failed(Exception):
    """A step failed; the text is all that a person needs to read."""


def say(text):
    print(text, flush=True)


def read_fields(path):
    """Lines 'name value'; comments and empty lines do not count."""
    fields = {}
    for line in read_lines(path):
        name, _, value = line.partition(" ")
        fields[name] = value.strip()
    return fields


def read_lines(path):
    """The lines of a text that say something; none when there is no such file."""
    if not path.exists():
        return []
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def digest(*pieces):
    """One hash over texts, and over files with their names."""
    h = hashlib.sha256()
    for piece in pieces:
        if isinstance(piece, pathlib.Path):
            h.update(f"{piece.name}\0{piece.stat().st_mode & 0o111}\0".encode())
            piece = piece.read_bytes()
        h.update(piece if isinstance(piece, bytes) else str(piece).encode())
        h.update(b"\0")
    return h.hexdigest()


def files_below(folder):
    return sorted(p for p in folder.rglob("*") if p.is_file()) if folder.is_dir() else []


def kill_group(process):
    """The command and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def started(command, **options):
    """A command in its own process group, dead when the block is left."""
    try:
        process = subprocess.Popen([str(c) for c in command], start_new_session=True, **options)
    except OSError as err:
        raise Failed(f"{command[0]}: {err.strerror}; `make deps-kernel` installs it") from err
    try:
        yield process
    finally:
        kill_group(process)


def end_on_signals():
    """SIGTERM and SIGHUP end us as Ctrl-C does: through every `finally`."""
    def stop(number, _):
        raise KeyboardInterrupt(signal.Signals(number).name)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)


class Work:
    """The work directory, and the options that every verb has."""

    def __init__(self, folder, jobs):
        self.folder = pathlib.Path(folder).resolve()
        self.jobs = jobs
        self.tree = self.folder / "linux"
        self.vanilla = self.folder / "vanilla"
        self.logs = self.folder / "log"
        for sub in (self.logs, self.folder / "stamps"):
            sub.mkdir(parents=True, exist_ok=True)

    def lock(self):
        """Only one kernel/run may work in a folder: an apply during a build breaks both."""
        self.locked = open(self.folder / "lock", "w", encoding="utf-8")
        try:
            fcntl.flock(self.locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as err:
            raise Failed(f"another kernel/run works in {self.folder}: wait for it, or name "
                         "another folder with --work") from err

    def out(self, flavour):
        return self.folder / f"out-{flavour}"

    def stamped(self, step, key):
        stamp = self.folder / "stamps" / step
        return stamp.exists() and stamp.read_text().split("\n")[0] == key

    def stamp(self, step, key, note=""):
        (self.folder / "stamps" / step).write_text(f"{key}\n{note}\n")

    def note(self, step):
        """What the last stamp of a step said besides its key."""
        stamp = self.folder / "stamps" / step
        return stamp.read_text().split("\n")[1] if stamp.exists() else ""

    def unstamp(self, step):
        (self.folder / "stamps" / step).unlink(missing_ok=True)

    def env(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("GIT_", "KBUILD_"))}
        # Debian's own tools first: checkpatch runs python3 scripts that need Debian's modules.
        env |= {"LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": f"/usr/bin:/bin:{env.get('PATH', '')}",
                "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
                "GIT_CONFIG_COUNT": str(len(GIT_SETTINGS))}
        for i, (name, value) in enumerate(GIT_SETTINGS.items()):
            env |= {f"GIT_CONFIG_KEY_{i}": name, f"GIT_CONFIG_VALUE_{i}": value}
        return env | more

    def run(self, command, log, cwd=None, env=None, on_line=None, text=None):
        """Runs a command, adds what it says to log/LOG; raises Failed with its last words."""
        path = self.logs / log
        lines = []
        with open(path, "a", encoding="utf-8") as f:
            f.write(f"$ {' '.join(str(c) for c in command)}\n")
            f.flush()
            stdin = subprocess.PIPE if text is not None else subprocess.DEVNULL
            with started(command, cwd=cwd, env=env or self.env(), stdin=stdin,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
                if text is not None:
                    process.stdin.write(text)
                    process.stdin.close()
                for raw in process.stdout:
                    line = raw.decode(errors="replace")
                    lines.append(line)
                    f.write(line)
                    if on_line:
                        on_line(line)
                status = process.wait()
        if status:
            tail = "".join(f"    | {line}" for line in lines[-TAIL_LINES:])
            raise Failed(f"{command[0]} ended with status {status}; all of it is in {path}\n{tail}")
        return "".join(lines)

    def git(self, *words, cwd=None, env=None, binary=False):
        """What git prints. Small and quick commands only: no log, no progress."""
        done = subprocess.run(["git", *(str(w) for w in words)], cwd=cwd or self.tree,
                              env=env or self.env(), stdin=subprocess.DEVNULL,
                              capture_output=True, check=False)
        if done.returncode:
            raise Failed(f"git {' '.join(str(w) for w in words)}: "
                         f"{done.stderr.decode(errors='replace').strip()}")
        return done.stdout if binary else done.stdout.decode(errors="replace")


class Steps:
    """A line for each step, and the count at the end."""

    def __init__(self):
        self.began = time.monotonic()
        self.passed = self.failed = 0

    def count(self, passed, failed):
        self.passed += passed
        self.failed += failed

    def line(self, what, seconds, verdict):
        say(f"[{time.monotonic() - self.began:5.0f} s] {what:<50} {seconds:6.1f} s  {verdict}")

    def step(self, what, function, *arguments):
        """One step; counts as one test unless it returns (passed, failed) of its own."""
        before = time.monotonic()
        try:
            result = function(*arguments)
        except Failed as err:
            self.count(0, 1)
            self.line(what, time.monotonic() - before, "FAILED")
            for line in str(err).splitlines():
                say("    " + line)
            return False
        passed, failed = result if isinstance(result, tuple) else (1, 0)
        self.count(passed, failed)
        self.line(what, time.monotonic() - before, "ok" if not failed else "FAILED")
        return not failed

    def end(self):
        say(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed or not self.passed else 0)
