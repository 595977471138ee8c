#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What is missing, what `lodic run` prints, and that the program runs: the rows of doc/missing.md.

The page says what is to be printed. This file makes each row's lack, and the two have the same
rows. Some lacks need a mount namespace of their own; where the kernel grants none, those are left
out, and the test says so.
"""

import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from run_case import FAILS, KILLS, PYTHON, forbid, run, until  # pylint: disable=C0413

PAGE = pathlib.Path(__file__).resolve().parents[2] / "doc" / "missing.md"
PROGRAM = ["sh", "-c", "echo ran; exit 7"]
UNCACHED = "lodic: sh runs without a cache: "
REFUSED = "lodic: no cache for sh, and so it is not run: "
IN_NAMESPACE = ["unshare", "--mount"] if os.getuid() == 0 else \
    ["unshare", "--mount", "--map-root-user"]
HERE = os.path.dirname(os.path.abspath(__file__))


def page_rows():
    """{what is missing: (cause, how the program runs)} of the page, in its order."""
    text = PAGE.read_text(encoding="utf-8")
    lines = text.split("<!-- rows -->")[1].split("<!-- /rows -->")[0].strip().splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {missing: (cause, runs) for missing, cause, runs in rows}


ROWS = {}  # what is missing: the name of the method that makes it so


def row(missing):
    """A method that makes one row's lack, and runs the program there by self.both()."""
    def put(method):
        def run_it(self):
            self.cause, self.runs = page_rows()[missing]
            method(self)
        ROWS[missing] = method.__name__
        return run_it
    return put


class Missing(unittest.TestCase):
    """The rows."""

    lodic = library = ""

    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="lodic-missing-"))
        self.addCleanup(shutil.rmtree, self.place, True)
        self.socket = self.place / "socket"
        self.cause = self.runs = ""

    def both(self, *options, shell='"$@"', inside=(), lodic=None, socket=True, **more):
        """Runs the program without and with --require. shell: what starts it, as "$@". inside:
        words before that. socket: whether the command names one."""
        options = (["--socket", self.socket] if socket else []) + list(options)
        for require in ([], ["--require"]):
            words = [lodic or self.lodic, "run", *require, *options, "--", *PROGRAM]
            done = run([*inside, "sh", "-c", shell, "sh", *words], **more)
            said = done.stderr.decode()
            if self.runs == "cached":
                self.assertEqual((done.returncode, done.stdout, said), (7, b"ran\n", ""))
                continue
            cause = ".+".join(re.escape(part) for part in self.cause.split("…"))
            begin = re.escape(REFUSED if require else UNCACHED)
            # A service that takes long is told about first.
            self.assertRegex(said, rf"\A(lodic: waiting for .*\n)*{begin}{cause}\n\Z")
            self.assertEqual((done.returncode, done.stdout),
                             (1, b"") if require else (7, b"ran\n"))

    def settings(self, **variables):
        """The environment with these variables of lodic alone."""
        plain = {key: value for key, value in os.environ.items() if not key.startswith("LODIC_")}
        return {"socket": False, "env": {**plain, **variables}}

    def in_place_of(self, *mounts):
        """Words before which a mount namespace has these folders of ours in the place of others.
        Skips where the kernel grants none."""
        if run([*IN_NAMESPACE, "true"]).returncode != 0:
            self.skipTest("the kernel grants no mount namespace")
        lines = [f"mount {words}" for words in mounts]
        return [*IN_NAMESPACE, "sh", "-ec", "\n".join([*lines, 'exec "$@"']), "sh"]

    def default_folder(self):
        """Where the socket's folder is by default, in a namespace of root; it is there."""
        folder = pathlib.Path("/tmp/lodic-0")
        if not folder.exists():
            if os.getuid() != 0:
                self.skipTest("that folder would be another user's")
            folder.mkdir(0o700)
            self.addCleanup(folder.rmdir)
        return folder

    def end_service(self):
        done = run([self.lodic, "stat", "--socket", self.socket, "--json"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        os.kill(json.loads(done.stdout)["service_pid"], signal.SIGKILL)

    @staticmethod
    def removed(group):
        """What was in it may be ending still."""
        try:
            group.rmdir()
        except OSError:
            return False
        return True

    def test_page_has_the_same_rows(self):
        self.assertEqual(sorted(page_rows()), sorted(ROWS))

    @row("the folder that LODIC_SOCKET names")
    def test_folder(self):
        self.both(**self.settings(LODIC_SOCKET="/nope/socket"))

    @row("a path that a socket can have")
    def test_path(self):
        self.both(**self.settings(LODIC_SOCKET="/" + 120 * "x"))

    @row("the socket's place: a file stands there")
    def test_place(self):
        self.socket.touch()
        self.both()

    @row("an answer: the service is stopped")
    def test_answer(self):
        service = subprocess.Popen([self.lodic, "serve", "--socket", self.socket, "--memory",
                                    "1M"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(service.stdout.close)
        self.addCleanup(service.wait)
        self.addCleanup(service.kill)
        service.stdout.readline()
        service.send_signal(signal.SIGSTOP)
        self.both()

    @row("a size: `--memory 1`")
    def test_size_option(self):
        self.both("--memory", "1")

    @row("a size: `LODIC_MEMORY=lots`")
    def test_size_variable(self):
        self.both(**self.settings(LODIC_MEMORY="lots"))

    @row("a setting without a typo, in lodic.conf")
    def test_setting(self):
        home = pathlib.Path("/root")
        if not home.is_dir():
            self.skipTest("root has no home")
        (self.place / ".config").mkdir()
        conf = self.place / ".config" / "lodic.conf"
        conf.write_text("memory = 64M\nmemroy = 1G\n", encoding="ascii")
        conf.chmod(0o600)
        self.both(inside=self.in_place_of(f"--bind {self.place} {home}"), **self.settings())

    @row("memory: `--memory 7T`")
    def test_memory(self):
        self.addCleanup(run, [self.lodic, "stop", "--socket", self.socket])
        self.both("--memory", "7T")

    @row("memory: a control group of 24 MB, and `--memory 64M`")
    def test_group(self):
        mount, limit = next(((pathlib.Path(mount), limit) for mount, limit in (
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))
            if os.path.exists(f"{mount}/cgroup.procs")), (None, None))
        if not mount:
            self.skipTest("no control groups are mounted")
        group = mount / self.place.name
        try:
            group.mkdir()
            self.addCleanup(until, lambda: self.removed(group), "nobody is in the group")
            (group / limit).write_text(str(24 << 20), encoding="ascii")
        except OSError as err:
            self.skipTest(f"no control group can be made: {err}")
        self.addCleanup(run, [self.lodic, "stop", "--socket", self.socket])
        self.both("--memory", "64M", shell=f'echo $$ >{group}/cgroup.procs && "$@"')

    @row("descriptors: `ulimit -n 12`")
    def test_descriptors(self):
        self.both(shell='ulimit -n 12; "$@"')

    @row("descriptors of the command's own: `ulimit -n 5`")
    def test_own_descriptors(self):
        self.both(shell='ulimit -n 5; "$@"')

    @row("room for files: `ulimit -f 100`")
    def test_file_size(self):
        self.both(shell='ulimit -f 100; "$@"')

    @row("address space: `ulimit -v`")
    def test_address_space(self):
        self.both(shell='ulimit -v 100000; "$@"')

    def filter(self, name, how=FAILS):
        if platform.machine() != "x86_64":
            self.skipTest("the numbers of system calls are those of x86-64")
        return forbid(name, how)

    @row("sockets: a seccomp filter forbids them")
    def test_seccomp_socket(self):
        self.both(preexec_fn=self.filter("socket"))

    @row("shared memory: a seccomp filter forbids it")
    def test_seccomp_memory(self):
        self.both(preexec_fn=self.filter("memfd_create"))

    @row("a service that lives: a seccomp filter kills it")
    def test_seccomp_kills(self):
        self.both(preexec_fn=self.filter("memfd_create", KILLS))

    def test_daemon_that_dies_says_how(self):
        done = run([self.lodic, "serve", "--daemon", "--socket", self.socket],
                   preexec_fn=self.filter("memfd_create", KILLS))
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertRegex(done.stderr, rb"lodic: the service has died before it served: Bad system")

    @row("another process: a seccomp filter forbids it")
    def test_seccomp_process(self):
        self.filter("clone")
        inside = [PYTHON, "-c", f"import sys; sys.path.insert(0, {HERE!r})\n"
                  "import os, test_run_missing as t\n"
                  "t.forbid('clone')(); os.execvp(sys.argv[5], sys.argv[5:])"]
        self.both(inside=inside)

    @row("the shim, liblodic-preload.so")
    def test_shim(self):
        lodic = self.place / "bin" / "lodic"
        lodic.parent.mkdir()
        shutil.copy(self.lodic, lodic)
        self.addCleanup(self.end_service)
        self.both(lodic=lodic)

    @row("a folder for the socket that is the user's own")
    def test_own_folder(self):
        self.place.chmod(0o777)
        mounts = [f"--bind {self.place} {self.default_folder()}", "-t tmpfs none /dev/shm"]
        if os.path.isdir("/run/user"):
            mounts.append("-t tmpfs none /run/user")
        inside = self.in_place_of(*mounts)
        self.both(inside=inside, shell='mkdir -m 777 -p /dev/shm/lodic-0; "$@"', **self.settings())

    @row("/dev/null")
    def test_dev_null(self):
        inside = self.in_place_of("-t tmpfs none /dev")
        self.addCleanup(self.end_service)
        self.both(inside=inside)

    @row("a writable /tmp, where the socket's folder is")
    def test_read_only_folder(self):
        folder = self.default_folder()
        self.place.chmod(0o700)
        mounts = [f"--bind {self.place} {folder}", f"-o remount,ro,bind {folder}",
                  "-t tmpfs none /dev/shm"]
        if os.path.isdir("/run/user"):
            mounts.append("-t tmpfs none /run/user")
        end = f"kill $({self.lodic} stat --json | sed 's/.*\"service_pid\":\\([0-9]*\\).*/\\1/')"
        self.both(inside=self.in_place_of(*mounts), **self.settings(),
                  shell=f'"$@"; rc=$?; test -S /dev/shm/lodic-0/cache.sock && {end}; exit $rc')

    def attach(self, library, inside=()):
        """What a program hears that attaches by the library, and may start a service."""
        script = ("import ctypes, sys\nlib = ctypes.CDLL(sys.argv[1])\n"
                  "lib.lodic_strerror.restype = lib.lodic_reason_name.restype = ctypes.c_char_p\n"
                  "class Options(ctypes.Structure):\n"
                  "    _fields_ = [('bytes', ctypes.c_size_t), ('socket', ctypes.c_char_p)]\n"
                  "options, lodic = Options(16, sys.argv[2].encode()), ctypes.c_void_p()\n"
                  "error = lib.lodic_attach(ctypes.byref(options), ctypes.byref(lodic))\n"
                  "print(lib.lodic_reason_name(lib.lodic_reason(error)).decode())\n"
                  "print(lib.lodic_strerror(error).decode())")
        done = run([*inside, PYTHON, "-SE", "-c", script, library, self.socket])
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode().splitlines()

    def test_library_without_program(self):
        alone = shutil.copy(self.library, self.place)
        reason, words = self.attach(alone)
        self.assertEqual(reason, "no-program")
        self.assertIn("install it beside the library", words)

    def test_library_whose_program_lacks_a_library(self):
        """The loader's words come to the program, and not to its stderr."""
        needed = re.search(r"libjansson\S* => (\S+)", run(["ldd", self.lodic]).stdout.decode())
        if not needed:
            self.skipTest("the program is linked with no libjansson.so")
        empty = self.place / "empty"
        empty.touch()
        inside = self.in_place_of(f"--bind {empty} {os.path.realpath(needed[1])}")
        reason, words = self.attach(self.library, inside)
        self.assertEqual(reason, "refused-start")
        self.assertRegex(words, "error while loading shared libraries: .*libjansson")

    def test_no_proc_same_reason_everywhere(self):
        """`lodic files`, the report and its JSON name one cause, not that of leases."""
        data = self.place / "data"
        data.write_bytes(bytes(100000))
        inside = self.in_place_of("-t tmpfs none /proc")
        reads = (f"import os, time\nfd = os.open({str(data)!r}, 0)\n"
                 "for _ in range(200): os.pread(fd, 100, 0); time.sleep(0.001)")
        report = self.place / "report"
        self.addCleanup(self.end_service)
        for json_too in ([], ["--json"]):
            done = run([*inside, self.lodic, "run", "--socket", self.socket, f"--report={report}",
                        *json_too, "--", PYTHON, "-SE", "-c", reads])
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertIn("there is no /proc, by which the service opens files: mount it",
                          report.read_text(encoding="utf-8"))
        self.assertIn('"refused_reason":"no-proc"', report.read_text(encoding="utf-8"))
        files = run([self.lodic, "files", "--socket", self.socket, "--json"])
        refused = json.loads(files.stdout)["not_cached"]
        self.assertEqual({r["reason"] for r in refused}, {"no-proc"})
        self.assertIn(b"there is no /proc", run([self.lodic, "files", "--socket",
                                                 self.socket]).stdout)

    def test_daemon_without_dev_null_serves(self):
        inside = self.in_place_of("-t tmpfs none /dev")
        done = run([*inside, self.lodic, "serve", "--daemon", "--socket", self.socket, "--memory",
                    "1M"])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.assertIn(b"serving", done.stdout)
        self.end_service()  # it is there


def main():
    Missing.lodic = sys.argv.pop(1)
    Missing.library = sys.argv.pop(1)
    unittest.main()


if __name__ == "__main__":
    main()
