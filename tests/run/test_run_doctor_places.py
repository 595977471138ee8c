#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic doctor` where programs really run: on an overlay, in containers, as other users, beside a
service; and where it sees little. What it advises is followed here to the letter.

    test_run_doctor_places.py LODIC RING_LIBRARY GO_READER

RING_LIBRARY is tests/run/run_ring.c, GO_READER is tests/run/run_reader.c with a note of Go's
linker.
"""

import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import MIB, NOBODY, PYTHON, run, until  # pylint: disable=C0413
from test_run_doctor import PREAD, Doctor, left  # pylint: disable=C0413

RING_LIBRARY, GO_READER = [str(pathlib.Path(word).resolve()) for word in sys.argv[2:4]] or ["", ""]
ROOT = os.getuid() == 0

# The root becomes an overlay, and the folder of the data another one. Arguments: a folder for the
# mounts, that of the data, that of `lodic`, one for the results, and what to run.
OVERLAY = """
at=$1 data=$2 build=$3 out=$4; shift 4
mount -t tmpfs none "$at" && mkdir "$at/u" "$at/w" "$at/root" "$at/u2" "$at/w2" &&
mount -t overlay none -o "lowerdir=/,upperdir=$at/u,workdir=$at/w" "$at/root" || exit 77
cd "$at/root" && mkdir -p "./$data" "./$build" "./$out" &&
for part in /proc /dev /sys "$build" "$out"; do mount --rbind "$part" "./$part" || exit 77; done
mount -t overlay none -o "lowerdir=$data,upperdir=$at/u2,workdir=$at/w2" "./$data" || exit 77
rm -f ./etc/lodic.conf ./root/.config/lodic.conf
exec chroot . env -C "$data" "$@"
"""
# $0 and $1 are folders that are needed inside; the script's own words follow.
CONTAINER = """
exec 3<"$0" 4<"$1" && mount -t tmpfs none /tmp || exit 77
case "$0" in /tmp/*) mkdir -p "$0" && mount -c --bind /proc/self/fd/3 "$0" || exit 77;; esac
case "$1" in /tmp/*) mkdir -p "$1" && mount -c --bind /proc/self/fd/4 "$1" || exit 77;; esac
exec 3<&- 4<&-
shift
"""
# Does what the doctor's JSON says, step by step. Then the same program gains.
FOLLOW = """
import json, pathlib, subprocess, sys
for step in json.load(open(sys.argv[1]))["steps"]:
    if step.startswith("in "):
        path, line = step[3:].split(": ", 1)
        with open(pathlib.Path(path).expanduser(), "a") as f:
            f.write(line + "\\n")
    else:
        subprocess.run(["sh", "-c", step], check=True, stdout=subprocess.DEVNULL,
                       stdin=subprocess.DEVNULL)
"""
# The gain is far from any edge: a pread costs some eight times a served read.
OFTEN = PREAD.replace("150000", "60000")
SENDFILE = """
import os, sys
data, null = os.open(sys.argv[1], 0), os.open("/dev/null", 1)
for i in range(4000):
    os.sendfile(null, data, 0, 1 << 20)
"""


@unittest.skipUnless(ROOT, "only root can mount")
class Overlay(Doctor):
    """The doctor and its program, all on overlays: no file there has a dependable lease."""

    def setUp(self):
        super().setUp()
        self.data = self.file("data", MIB)
        self.at, self.out = self.folder / "at", self.folder.parent / (self.folder.name + ".out")
        self.at.mkdir()
        self.out.mkdir()
        self.addCleanup(shutil.rmtree, self.out, True)
        self.script = self.out / "script"
        self.environment["PATH"] = f"{pathlib.Path(self.lodic).parent}:{os.environ['PATH']}"

    def inside(self, script):
        """Runs these lines of a shell there."""
        words = ["unshare", "-m", "sh", "-c", OVERLAY, "sh", self.at, self.folder,
                 pathlib.Path(self.lodic).parent, self.out]
        self.script.write_text("set -e\n" + script)
        probe = run([*words, "test", "-x", self.lodic], env=self.environment)
        if probe.returncode:
            self.skipTest(f"no overlay can be mounted here: {probe.stderr.decode().strip()}")
        done = run([*words, "sh", self.script], env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stderr.decode()

    def said_in(self, name):
        return json.loads((self.out / name).read_text())

    def test_promise_makes_the_forecast(self):
        """The service that runs knows nothing of it, until the doctor's advice is followed."""
        program = self.folder / "often.py"
        program.write_text(OFTEN)
        command = shlex.join([PYTHON, str(program), str(self.data)])
        (self.out / "follow").write_text(FOLLOW)
        text = self.inside(f"""
export LODIC_SOCKET=/tmp/socket
lodic serve --memory 64M --idle-exit 60 --daemon 2>/dev/null
lodic stat --json > {self.out}/stat
lodic doctor --json={self.out}/before -- {command}
{PYTHON} {self.out}/follow {self.out}/before 2>/dev/null
cp /etc/lodic.conf {self.out}/conf
lodic doctor --json={self.out}/after -- {command} 2>{self.out}/after.txt
lodic run --report={self.out}/report --json -- {command}
lodic stat --json > {self.out}/stat2
kill $({PYTHON} -c 'import json; print(json.load(open("{self.out}/stat2"))["service_pid"])')
""")
        before, after = self.said_in("before"), self.said_in("after")
        one, service = self.of(before, self.data), before["service"]
        self.assertEqual(before["advice"], "promise", text)
        self.assertEqual((one["qualifies"], one["qualifies_promised"], one["errno"],
                          one["service"]["errno"]), (False, True, 95, 95))
        self.assertLess(before["gain"]["expected"], 1.02)
        self.assertGreater(before["gain_promised"]["expected"], 1.05)
        self.assertEqual(service["pid"], self.said_in("stat")["service_pid"])
        self.assertEqual(service["memory_limit_bytes"], 64 * MIB)
        # One file of the folder: its own path, and nothing beside it.
        self.assertEqual(before["promise"]["globs"], [str(self.data)])
        self.assertEqual(before["steps"], [f"in /etc/lodic.conf: immutable = {self.data}",
                                           "lodic serve --replace --daemon --memory 64M",
                                           f"lodic run -- {command}"])
        self.assertIn("\nadvice: promise these files", text)
        self.assertIn("\n  " + "\n  ".join(before["steps"]) + "\n", text)
        self.assertNotIn("Don't bother", text)
        self.assertEqual((self.out / "conf").read_text(), f"immutable = {self.data}\n")
        one = self.of(after, self.data)
        self.assertIn(after["advice"], ("run", "little"))
        self.assertEqual((one["service"]["errno"], one["service"]["promise"]), (0, True))
        self.assertNotEqual(after["service"]["pid"], service["pid"])
        self.assertEqual(after["cache_setting_bytes"], after["service"]["memory_limit_bytes"])
        self.assertIn("it caches 1 of 1 such files, 1 of these by a promise",
                      (self.out / "after.txt").read_text())
        [report] = [json.loads(line) for line in (self.out / "report").read_text().splitlines()
                    if json.loads(line)["path"] == str(self.data)]
        self.assertGreater(report["served"], 0, report)


class Services(Doctor):
    """A service that runs already."""

    def setUp(self):
        super().setUp()
        place = tempfile.mkdtemp(prefix="lodic-run-") # a socket's path must be short
        self.addCleanup(shutil.rmtree, place, True)
        self.environment["LODIC_SOCKET"] = f"{place}/socket"
        done = run([self.lodic, "serve", "--daemon", "--idle-exit", "60", "--memory", "32M"],
                   env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        self.pid = json.loads(run([self.lodic, "stat", "--json"],
                                  env=self.environment).stdout)["service_pid"]
        self.addCleanup(os.kill, self.pid, signal.SIGKILL)

    def test_service_that_is_stopped_is_told(self):
        os.kill(self.pid, signal.SIGSTOP)
        done, said = self.said(["true"])
        self.assertEqual((said["service"]["pid"], said["service"]["errno"]), (self.pid, 110))
        self.assertIn("could not be asked: the service does not answer", done.stderr.decode())


@unittest.skipUnless(ROOT, "only root can become another user")
class Users(Doctor):
    """Programs that become other users, as `setpriv` and the workers of nginx do."""

    def setUp(self):
        super().setUp()
        library = pathlib.Path(self.lodic).parent / "liblodic-preload.so"
        self.data = self.file("data", MIB)
        self.folder.chmod(0o755)
        if run(["test", "-r", library, "-a", "-r", self.data], user=NOBODY, group=NOBODY,
               extra_groups=[]).returncode:
            self.skipTest("nobody may not read this build")

    def tearDown(self):
        until(lambda: not left() - self.before, "nothing is left")

    def test_what_other_users_read_counts(self):
        """A worker that has dropped its rights, its child, and a program that it runs."""
        done, said = self.said([PYTHON, "-c", f"""
import os, sys
def child(then):
    pid = os.fork()
    if pid == 0:
        then()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
def work():
    exec(sys.argv[2])
def program():
    os.execv("{PYTHON}", ["python3", "-c", sys.argv[2], sys.argv[1]])
def worker():
    os.setgid({NOBODY})
    os.setuid({NOBODY})
    child(work)
    child(program)
child(worker)
""", self.data, OFTEN])
        text = done.stderr.decode()
        self.assertEqual(self.of(said, self.data)["reads"]["could_be_served"]["reads"],
                         2 * 59998, text)
        self.assertEqual(sorted(said["users"]), [0, NOBODY])
        self.assertGreater(said["covered_bytes"], 0.98 * said["io_bytes"])
        self.assertIn(said["advice"], ("run", "little"), text)
        self.assertEqual(said["programs_lost"], 0)
        self.assertRegex(text, r"it ran as users \d+, \d+: .*/etc/lodic.conf counts for all")

    def test_ordinary_user_knows_what_was_unseen(self):
        """The kernel may not let a parent without rights read the counts of a child that ended."""
        self.folder.chmod(0o777)
        _, said = self.said([PYTHON, "-c", SENDFILE, self.data], user=NOBODY, group=NOBODY,
                            extra_groups=[])
        self.assertTrue(said["io_known"])
        self.assertEqual(said["advice"], "unseen")
        self.assertGreater(said["unseen"]["past_the_shim_bytes"], 0.9 * said["unseen"]["of_bytes"])

    def test_no_other_user_finds_the_folders(self):
        done, _ = self.said([PYTHON, "-c", """
import os, pathlib
folder = pathlib.Path(os.environ["LODIC_RUN_DOCTOR"])
os.setuid(65534)
try:
    os.listdir(folder)
except PermissionError:
    print("closed")
print(oct(folder.stat().st_mode), oct((folder / "u65534").stat().st_mode),
      (folder / "u65534").stat().st_uid)
try:
    (folder / "mine").touch()
except PermissionError:
    print("closed")
"""])
        self.assertEqual(done.stdout.decode(), f"closed\n0o40711 0o40700 {NOBODY}\nclosed\n")


@unittest.skipUnless(ROOT, "only root can make such name spaces")
class Containers(Doctor):
    """Name spaces of mounts and processes, with a /tmp of their own."""

    def contained(self, script, *words):
        """The words that run the shell's lines there. A build below /tmp stays where it is."""
        enter = ["unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-c", CONTAINER + script,
                 pathlib.Path(self.lodic).parent, self.folder]
        if run([*enter, "true"]).returncode:
            self.skipTest("no such name spaces can be made here")
        return [*enter, *words]

    def test_program_inside_is_counted(self):
        """Its number inside is that of another process here, which maps another file."""
        data, other = self.file("data", MIB), self.file("other", 3 * MIB)
        here = subprocess.Popen([PYTHON, "-c", """
import mmap, sys
with open(sys.argv[1], "rb") as f:
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
sum(m[::4096])
print("up", flush=True)
sys.stdin.read()
""", str(other)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(here.wait)
        self.addCleanup(here.stdin.close)
        self.addCleanup(here.stdout.close)
        here.stdout.readline()
        done, said = self.said(self.contained(
            f'echo {here.pid - 1} >/proc/sys/kernel/ns_last_pid; "$@" & wait', PYTHON, "-c",
            OFTEN + "import time; print(os.getpid(), flush=True); time.sleep(1)", data))
        if int(done.stdout) != here.pid:
            self.skipTest("the number of a process cannot be chosen here")
        self.assertEqual(self.of(said, data)["reads"]["could_be_served"]["reads"], 59998)
        self.assertIn(said["advice"], ("run", "little"))
        self.assertNotEqual(said["mappings"]["pid"], here.pid)
        self.assertEqual([f for f in said["mappings"]["files"] if f["path"] == str(other)], [])

    def test_files_that_went_with_it_perhaps(self):
        data = self.file("data", MIB)
        done, said = self.said(self.contained('cp "$1" /tmp/data; shift; "$@"; :', data, PYTHON,
                                              "-c", OFTEN, "/tmp/data"))
        self.assertEqual((said["advice"], self.of(said, "/tmp/data")["asked"]), ("perhaps", False))
        self.assertGreater(said["unseen"]["unjudged_bytes"], 59000 * 4096)
        self.assertIn("no service could be asked", done.stderr.decode())

    def test_own_folder_of_memory_is_said_to_be_unseen(self):
        data = self.file("data", MIB)
        done, said = self.said(self.contained('mount -t tmpfs none /dev/shm; "$@"; :', PYTHON, "-c",
                                              OFTEN, data))
        self.assertEqual(said["advice"], "unseen", done.stderr.decode())
        self.assertIn("in a container that has a /dev/shm of its own", done.stderr.decode())

    def test_doctor_inside(self):
        data = self.file("data", MIB)
        words = self.contained('mount -t tmpfs none /dev/shm; exec "$@"')
        done = run([*words, self.lodic, "doctor", f"--json={self.json}", "--", PYTHON, "-c", OFTEN,
                    data], env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        said = json.loads(self.json.read_text())
        self.assertEqual(self.of(said, data)["reads"]["could_be_served"]["reads"], 59998)
        self.assertIn(said["advice"], ("run", "little"))


class Unseen(Doctor):
    """Most of it went past the shim: no firm word, but how much was seen, and what to do."""

    def unseen(self, *command, **more):
        done, said = self.said(command, **more)
        text = done.stderr.decode()
        self.assertEqual(said["advice"], "unseen", text)
        self.assertTrue(said["unseen"]["decides"])
        self.assertNotIn("Don't bother", text)
        self.assertIn("\nadvice: none, too little was seen: ", text)
        self.assertEqual([line[2:] for line in text.splitlines() if line[2:] in said["steps"]],
                         said["steps"])
        self.assertTrue(said["steps"])
        return text, said

    def test_sendfile(self):
        data = self.file("data", MIB)
        text, said = self.unseen(PYTHON, "-c", SENDFILE, data)
        self.assertGreater(said["unseen"]["past_the_shim_bytes"], 0.9 * said["unseen"]["of_bytes"])
        self.assertRegex(text, r"of the .* that it used, \d\.\d % were seen")
        self.assertIn("by sendfile (turn it off)", text)

    @unittest.skipUnless(shutil.which("busybox"), "there is no busybox, which is static")
    def test_static_child(self):
        data = self.file("data", MIB)
        self.unseen("sh", "-c", f"busybox cat {' '.join([str(data)] * 400)} >/dev/null; :")

    @unittest.skipUnless(RING_LIBRARY, "not named")
    def test_ring(self):
        """It is seen however short the program lives."""
        text, said = self.unseen(PYTHON, "-c", """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.ring_make.restype = ctypes.c_void_p
sys.exit(0 if library.ring_make(b"init") else 77)
""", RING_LIBRARY)
        self.assertTrue(said["unseen"]["io_uring"])
        self.assertIn("io_uring", text)

    @unittest.skipUnless(GO_READER, "not named")
    def test_go(self):
        """Reads by libc in such a program are not served either: `lodic run' does nothing there."""
        done, said = self.said([GO_READER, "left_alone", self.folder, "plain"])
        self.assertEqual(said["reads"]["could_be_served"]["reads"], 0, done.stderr.decode())
        self.assertTrue(said["unseen"]["go"])
        self.assertNotIn("lodic run:", done.stderr.decode())

    def test_little_is_nothing(self):
        """A program that uses next to nothing cannot gain, whatever was seen of it."""
        _, said = self.said(["true"])
        self.assertEqual(said["advice"], "nothing")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
