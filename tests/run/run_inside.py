# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A name space of mounts for tests of many users: with a /tmp of its own, so that nobody's default
service is touched. /tmp/files is a folder of root's on the file system of the build."""

import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

from run_case import PYTHON, run, until

FILES = pathlib.Path("/tmp/files")
MARK = "LODIC_TEST_INSIDE"
COMMANDS = """
exec 9<"$0" && %s mount -t tmpfs -o mode=1777 none /tmp && mkdir /tmp/files &&
mount -c --bind /proc/self/fd/9 /tmp/files && chmod 755 /tmp/files && exec 9<&- && %s
{ [ ! -d /run/user ] || mount -t tmpfs none /run/user; } && exec "$@"
"""
SOURCE = pathlib.Path(__file__).resolve().parents[2]


def commands():
    """The same, for a source and a build that may lie below /tmp: they are there again inside."""
    build = os.environ.get("LODIC_BUILD") or os.path.dirname(os.path.abspath(sys.argv[1]))
    hidden = [path for path in (os.path.realpath(SOURCE), os.path.realpath(build))
              if path.startswith("/tmp/")]
    # Descriptors that lead to them once the new /tmp hides them.
    opens = [f"exec {fd}<{shlex.quote(path)} &&" for fd, path in enumerate(hidden, 7)]
    binds = [f"mkdir -p {shlex.quote(path)} && mount -c --rbind /proc/self/fd/{fd} "
             f"{shlex.quote(path)} && exec {fd}<&- &&" for fd, path in enumerate(hidden, 7)]
    return COMMANDS % (" ".join(opens), " ".join(binds))


def enter():
    """Begins the script again inside; returns there. Elsewhere it ends with the script's status, or
    with 77 if such a name space cannot be."""
    if MARK in os.environ:
        return
    if os.getuid() != 0:
        print("only root can change its user, and make a name space of mounts")
        sys.exit(77)
    place = tempfile.mkdtemp(prefix="lodic-inside-", dir=".")
    words = ["unshare", "-m", "sh", "-c", commands(), place]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LODIC")}
    try:
        if run([*words, "true"]).returncode != 0:
            print("no name space of mounts may be made here")
            sys.exit(77)
        sys.exit(subprocess.run([*words, PYTHON, os.path.abspath(sys.argv[0]), *map(
            lambda word: os.path.abspath(word) if os.path.exists(word) else word, sys.argv[1:])],
            env={**environment, MARK: "1"}, check=False).returncode)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def default_socket(uid):
    """Where that user's service listens inside."""
    return pathlib.Path(f"/tmp/lodic-{uid}/cache.sock")


def status(pid):
    """/proc/PID/status."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def end_service(ask, uid):
    """ask: returns what `lodic stat` says of a socket, or None."""
    found = ask(default_socket(uid))
    if found:
        os.kill(found["service_pid"], signal.SIGTERM)
        until(lambda: not ask(default_socket(uid)), "the service has ended")
