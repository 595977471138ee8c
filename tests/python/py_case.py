# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the tests of the Python package share: the package as it is built, a folder, a service.

    lay_out() comes before `import lodic`, and main() last.
"""

import atexit
import json
import os
import pathlib
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PYTHON = "/usr/bin/python3"
BUILD = pathlib.Path(os.environ.get("LODIC_BUILD", "build")).resolve()
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
WHEELS = pathlib.Path(os.environ.get("LODIC_WHEELS") or SOURCE / "build" / "wheels")
EXTENSION = BUILD / "python" / "_lodic.abi3.so"
LODIC = BUILD / "lodic"
MIB = 1 << 20


def skip(reason):
    """Ends a test that cannot run here."""
    print(reason)
    sys.exit(77)


def sanitized():
    """Is the extension built with ASan?"""
    return b"libasan" in EXTENSION.read_bytes()


def lay_out():
    """A folder with the package as the wheel has it, made of links; and numpy on the path."""
    if not EXTENSION.exists():
        skip("no extension here: it needs Python.h (Debian: python3-dev)")
    if "LODIC_PACKAGE" not in os.environ: # else this process is a child of the test
        folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-package-"))
        folder.chmod(0o755) # for tests that become another user
        (folder / "lodic").mkdir()
        for path in (*(SOURCE / "python" / "lodic").glob("*.py"), EXTENSION, LODIC,
                     BUILD / "liblodic-preload.so"):
            (folder / "lodic" / path.name).symlink_to(path)
        for path in (SOURCE / "python").glob("*lodic_auto.*"):
            (folder / path.name).symlink_to(path)
        wheel = runpy.run_path(str(SOURCE / "tools" / "wheel.py"))
        info = folder / "lodic-0.1.0.dist-info" # where fsspec finds the entry point
        info.mkdir()
        (info / "METADATA").write_text(wheel["METADATA"].format(version="0.1.0"))
        (info / "entry_points.txt").write_text(wheel["ENTRY_POINTS"])
        os.environ.update(LODIC_PACKAGE=str(folder), LODIC_PACKAGE_OWNER=str(os.getpid()))
    folder = os.environ["LODIC_PACKAGE"]
    path = [folder, str(WHEELS), os.environ.get("PYTHONPATH", "")]
    if folder not in sys.path:
        sys.path[:0] = path[:2]
        os.environ["PYTHONPATH"] = ":".join(filter(None, path))
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    if sanitized() and "libasan" not in os.environ.get("LD_PRELOAD", ""):
        start_with_asan()
    if os.environ["LODIC_PACKAGE_OWNER"] == str(os.getpid()):
        atexit.register(shutil.rmtree, os.environ["LODIC_PACKAGE"], True)


def start_with_asan():
    """This process begins anew, with ASan's runtime before all other libraries."""
    libraries = [run(["gcc", f"-print-file-name={name}"]).stdout.decode().strip()
                 for name in ("libasan.so", "libubsan.so")]
    # CPython leaves memory behind when it ends; what lodic leaves is counted.
    options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    os.execve(PYTHON, [PYTHON, *sys.argv],
              dict(os.environ, LD_PRELOAD=":".join(libraries), ASAN_OPTIONS=options))


def run(command, **more):
    more.setdefault("timeout", 100)
    more.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, **more)


def until(condition, what, seconds=40):
    """Waits for the event; a failure says what did not come."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def ask(socket, verb="stat"):
    done = run([LODIC, verb, "--socket", socket, "--json"])
    if done.returncode:
        raise AssertionError(done.stderr.decode())
    return json.loads(done.stdout)


class Case(unittest.TestCase):
    """A folder on a file system that has leases, and a service."""

    serve = ("--memory", "64M", "--holds", "32M")

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-python-", dir=".")).resolve()
        self.addCleanup(shutil.rmtree, self.folder, True)
        # Elsewhere, because a socket's path must be short.
        self.place = tempfile.mkdtemp(prefix="lodic-python-")
        self.addCleanup(shutil.rmtree, self.place, True)
        self.socket = self.place + "/socket"
        self.start()
        self.addCleanup(self.end_service)
        os.environ["LODIC_SOCKET"] = self.socket

    def start(self):
        # Cases write to files that shall be cached again at once.
        done = run([LODIC, "serve", "--daemon", "--idle-exit", "60", "--lease-pause", "0",
                    "--socket", self.socket, *self.serve])
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def end_service(self):
        done = run([LODIC, "stat", "--socket", self.socket, "--json"])
        if done.returncode == 0:
            os.kill(json.loads(done.stdout)["service_pid"], signal.SIGKILL)

    def stat(self, *names):
        """Some numbers of `lodic stat`, as a list."""
        numbers = ask(self.socket)
        return [numbers[name] for name in names]

    def nothing_used(self):
        """Nobody has a hold any more."""
        until(lambda: self.stat("hold_used_bytes") == [0], "all holds are released")

    def nothing_left(self):
        """The service has everything back from all programs."""
        self.nothing_used()
        until(lambda: self.stat("clients", "contexts", "pinned") == [0, 0, 0], "nobody is left")
        until(lambda: sum(f["opens"] for f in ask(self.socket, "files")["files"]) == 0,
              "the service has all files back")

    def python(self, program, *words, **more):
        """Runs a program text; returns what it prints."""
        done = run([PYTHON, "-c", program, *words], **more)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()


def main():
    """Runs the test script, and ends it."""
    program = unittest.main(exit=False, verbosity=2)
    sys.exit(0 if program.result.wasSuccessful() else 1)
