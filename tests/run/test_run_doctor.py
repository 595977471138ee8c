#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic doctor`: what it says of real programs, and that it changes nothing for them.

    test_run_doctor.py LODIC
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

from run_case import MIB, PYTHON, Case, run, until  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
PREAD = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for i in range(150000):
    os.pread(fd, 4096, i * 7919 * 4096 % (1 << 20))
"""
READ = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for i in range(20000):
    os.read(fd, 512) or os.lseek(fd, 0, 0)
"""


def left():
    """What doctors have in the folders where they put things."""
    return {path for root in ("/dev/shm", "/tmp", ".", "build")
            for path in pathlib.Path(root).glob("lodic-doctor-*")}


class Doctor(Case):
    """No service runs: the doctor must need none of the user's."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-run-", dir=".")).resolve()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.json = self.folder / "json"
        self.environment = dict(os.environ, LODIC_SOCKET=str(self.folder / "none"))
        self.before = left()

    def doctor(self, *words, status=0, **more):
        done = run([self.lodic, "doctor", *words], env=self.environment, **more)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        self.assertFalse((self.folder / "none").exists(), "it has started a service")
        return done

    def said(self, command, status=0, **more):
        """Runs command under the doctor; returns (what it did, the JSON object)."""
        done = self.doctor(f"--json={self.json}", "--", *command, status=status, **more)
        said = json.loads(self.json.read_text())
        gain = said["gain"]
        if said["reads"]["could_be_served"]["reads"]:
            self.assertTrue(said["prices"]["known"], said["prices"]["why"])
        self.assertLessEqual(gain["low"], gain["expected"])
        self.assertLessEqual(gain["expected"], gain["high"])
        self.assertLess(gain["high"], 1.31 * gain["low"])
        # No narrower than what a program's CPU time differs by here.
        narrowest = min(1.3, max(1.04, said["prices"]["noise"]))
        self.assertGreater(gain["high"], 0.999 * narrowest * gain["low"])
        return done, said

    def of(self, said, path):
        [one] = [f for f in said["files"] if f["path"] == str(path)]
        return one


class Forecasts(Doctor):
    """What it says of programs."""

    def test_pread_again_and_again_covered(self):
        data = self.file("data", 2 * MIB)
        done, said = self.said([PYTHON, "-c", PREAD, data])
        self.assertGreater(said["covered_bytes"], 0.98 * said["io_bytes"])
        # Which of the two is a matter of time, and bench/doctor.py measures that.
        self.assertIn(said["advice"], ("run", "little"), done.stderr.decode())
        one = self.of(said, data)
        self.assertEqual((one["qualifies"], one["why"], one["blocks"]), (True, "", 256))
        # All but the first two, of which the second finds the file.
        self.assertEqual(one["reads"]["could_be_served"],
                         {"reads": 149998, "bytes": 149998 * 4096})
        pread, served = said["prices"]["pread"], said["prices"]["served"]
        self.assertEqual([p["bytes"] for p in pread], [512, 4096, 16384, 65536])
        self.assertEqual(len(served), 4)
        text = done.stderr.decode()
        self.assertRegex(text, r"\n +586 MiB +(100|99)\.\d +149 k  pread and its relatives")
        self.assertIn("\nadvice: ", text)

    def test_read_only_by_read_do_not_bother(self):
        data = self.file("data", 2 * MIB)
        done, said = self.said([PYTHON, "-c", READ, data])
        self.assertEqual((said["advice"], said["covered_bytes"]), ("nothing", 0))
        one = self.of(said, data)
        # At the end of the file a read brings nothing, and is counted.
        self.assertEqual(one["reads"]["read_keeps_offset"]["reads"], 20000)
        self.assertEqual(one["why"], "read keeps offset")
        self.assertIn("Don't bother", done.stderr.decode())

    def test_computes_do_not_bother(self):
        done, said = self.said([PYTHON, "-c", "print(sum(i * i for i in range(3000000)))"])
        self.assertEqual(done.stdout, b"8999995500000500000\n")
        self.assertEqual(said["advice"], "nothing")
        self.assertLess(said["gain"]["expected"], 1.02)

    def test_files_that_do_not_qualify_say_why(self):
        data, busy = self.file("data", MIB), self.file("busy", MIB)
        with open(busy, "r+b"):
            _, said = self.said([PYTHON, "-c", PREAD.replace("150000", "9000"), busy])
        one = self.of(said, busy)
        self.assertEqual((one["qualifies"], one["errno"], said["covered_bytes"]), (False, 26, 0))
        self.assertEqual(one["why"], "a program has it open for writing")
        _, said = self.said([PYTHON, "-c", PREAD.replace("O_RDONLY", "O_RDWR"), data])
        one = self.of(said, data)
        self.assertEqual((one["why"], one["reads"]["could_be_served"]["reads"]),
                         ("opened for writing", 0))
        self.assertEqual(said["advice"], "nothing")

    def test_written_meanwhile_says_so(self):
        data = self.file("data", MIB)
        _, said = self.said([PYTHON, "-c", PREAD.replace("150000", "9000") +
                             "open(sys.argv[1], 'r+b').write(b'new')", data])
        self.assertEqual(self.of(said, data)["why"], "it was written to meanwhile")

    def test_children_are_counted(self):
        data = self.file("data", MIB)
        one = f"{PYTHON} -c '{PREAD.replace('150000', '2000')}' '{data}'"
        _, said = self.said(["sh", "-c", f"{one}; {one}"])
        self.assertEqual(self.of(said, data)["reads"]["could_be_served"]["reads"], 2 * 1998)
        self.assertEqual(said["programs"], 3)

    def test_mapped_files_have_places(self):
        data = self.file("data", 3 * MIB)
        done, said = self.said([PYTHON, "-c", """
import mmap, sys, time
with open(sys.argv[1], "rb") as f:
    m = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)
sum(m[::4096])
time.sleep(3) # some look at its mappings comes, and on a busy machine late
""", data])
        [one] = [f for f in said["mappings"]["files"] if f["path"] == str(data)]
        self.assertEqual(one["bytes"], 3 * MIB)
        self.assertLess(0, one["place_from_top"])
        self.assertLessEqual(one["place_from_top"], said["mappings"]["mappings"])
        self.assertTrue(said["holds"])
        # What came by reads is next to nothing of it, and no firm word is said of the rest.
        self.assertEqual(said["advice"], "unseen", done.stderr.decode())
        self.assertGreaterEqual(said["unseen"]["mapped_bytes"], 3 * MIB)
        self.assertRegex(said["steps"][-1], r"\Alodic run --mmap -- ")

    @unittest.skipUnless(shutil.which("fio"), "fio is not installed")
    def test_fio_psync(self):
        data = self.file("data", 4 * MIB)
        _, said = self.said(["fio", "--name=a", f"--filename={data}", "--readonly", "--size=4M",
                             "--bs=4k", "--ioengine=psync", "--rw=randread", "--invalidate=0",
                             "--loops=50"], cwd=self.folder)
        self.assertGreater(said["covered_bytes"], 0.9 * said["io_bytes"])

    @unittest.skipUnless(shutil.which("db_bench"), "db_bench is not installed")
    def test_db_bench(self):
        base = ["db_bench", f"--db={self.folder}/db", "--num=50000", "--compression_type=none"]
        run([*base, "--benchmarks=fillrandom,compact", "--seed=1"])
        _, said = self.said([*base, "--benchmarks=readrandom", "--use_existing_db=1",
                             "--readonly", "--reads=60000", "--cache_size=0", "--seed=2"])
        self.assertGreater(said["covered_bytes"], 0.9 * said["io_bytes"])


class Memory(Doctor):
    """Limits of control groups, of this kernel's version and of stand-ins; and scans."""

    def setUp(self):
        super().setUp()
        self.data = self.file("data", 100 * MIB)
        # Each block once, in no order, and then some of them again.
        self.command = [PYTHON, "-c", """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for i in range(150000):
    os.pread(fd, 4096, i * 7919 % 25600 * 4096)
""", self.data]

    def group(self, limit):
        """A memory group of our own, or none."""
        for root, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
            path = pathlib.Path("/sys/fs/cgroup", root, f"lodic-test-{os.getpid()}")
            try:
                path.mkdir()
                self.addCleanup(path.rmdir)
                (path / name).write_text(str(limit))
                return path
            except OSError:
                continue
        return self.skipTest("no memory group can be made here")

    def test_group_smaller_than_the_files_nothing(self):
        group = self.group(90 * MIB)
        done, said = self.said(self.command, preexec_fn=lambda: (
            group / "cgroup.procs").write_text(str(os.getpid())))
        text, memory = done.stderr.decode(), said["memory"]
        until(lambda: not (group / "cgroup.procs").read_text(), "all have ended")
        self.assertEqual((memory["limit_bytes"], memory["of_group"]), (90 * MIB, True))
        self.assertGreaterEqual(memory["touched_bytes"], 100 * MIB)
        self.assertEqual(said["advice"], "nothing", text)
        self.assertIn("its memory limit is 90.0 MiB", memory["why"])
        if said["gain"]["expected"] >= 1.02:
            self.assertIn("\nadvice: nothing, for that gain needs all files in the cache: " +
                          memory["why"], text)

    def stand_in(self, limit):
        """A group around ours with this limit, in a place of its own. Returns the words before."""
        fake = self.folder / "groups"
        for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if names in ("", "memory"):
                (fake / names / path.strip("/")).mkdir(parents=True, exist_ok=True)
        if (fake / "memory").exists():
            (fake / "memory" / "memory.limit_in_bytes").write_text(f"{limit}\n")
        else:
            (fake / "memory.max").write_text(f"{limit}\n")
        script = f'mount --bind {fake} /sys/fs/cgroup && exec "$@"'
        if run(["unshare", "-m", "sh", "-c", script, "sh", "true"]).returncode:
            self.skipTest("no mount namespace can be made here")
        return ["unshare", "-m", "sh", "-c", script, "sh"]

    def test_files_fit_but_not_twice_warns(self):
        words = self.stand_in(150 * MIB)
        done = run([*words, self.lodic, "doctor", f"--json={self.json}", "--", *self.command],
                   env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        said = json.loads(self.json.read_text())
        self.assertEqual(said["memory"]["limit_bytes"], 150 * MIB)
        self.assertRegex(said["memory"]["why"], "a second time, and its memory limit is 150 MiB")
        if said["advice"] in ("run", "little"):
            self.assertIn("\nwarning: " + said["memory"]["why"], done.stderr.decode())
        else:
            self.assertEqual(said["advice"], "nothing")

    def test_no_groups_takes_the_machine(self):
        words = self.stand_in("max")
        done = run([*words, self.lodic, "doctor", f"--json={self.json}", "--", "true"],
                   env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        memory = json.loads(self.json.read_text())["memory"]
        self.assertEqual((memory["limit_bytes"], memory["of_group"], memory["why"]), (
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"), False, ""))

    def test_scan_of_more_than_the_cache_nothing(self):
        self.environment["LODIC_MEMORY"] = "32M"
        done, said = self.said([PYTHON, "-c", """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
for i in range(80):
    for at in range(0, 50 << 20, 8192):
        os.pread(fd, 8192, at)
""", self.data])
        self.assertGreater(said["memory"]["in_order_bytes"],
                           0.98 * said["reads"]["could_be_served"]["bytes"])
        self.assertEqual(said["advice"], "nothing", done.stderr.decode())
        self.assertRegex(said["memory"]["why"], "reads 50.0 MiB in order and the cache has 32.0")


class Hosts(Doctor):
    """Hosts where something is missing or full, each a mount namespace of its own."""

    def within(self, script, *words, status=0):
        """Runs the doctor behind a script that changes the mounts; what it said, and the JSON."""
        enter = ["unshare", "-m", "sh", "-c", script + ' && exec "$@"', "sh"]
        if run([*enter, "true"]).returncode:
            self.skipTest("no mount namespace can be made here")
        done = run([*enter, self.lodic, "doctor", f"--json={self.json}", *words],
                   env=self.environment)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done.stderr.decode(), json.loads(self.json.read_text() or "{}")

    def test_small_memory_folder_takes_another(self):
        data = self.file("data", MIB)
        text, said = self.within("mount -t tmpfs -o size=1m none /dev/shm", "--", PYTHON, "-c",
                                 PREAD.replace("150000", "9000"), data)
        self.assertEqual(self.of(said, data)["reads"]["could_be_served"]["reads"], 8998, text)
        self.assertEqual(said["programs_lost"], 0)

    def test_full_folder_kills_nobody(self):
        files = [self.file(f"data{i}", 8192) for i in range(400)]
        # The doctor finds room, and then somebody takes it.
        script = """
import os, sys
with open("/dev/shm/full", "wb", 0) as f:
    try:
        while True:
            f.write(b"x" * 4096)
    except OSError:
        pass
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDONLY)
    for i in range(3):
        assert len(os.pread(fd, 4096, 4096)) == 4096
child = os.fork()
child or os._exit(0)
os.waitpid(child, 0)
os.unlink("/dev/shm/full")
"""
        text, said = self.within("mount -t tmpfs -o size=17m none /dev/shm", "--", PYTHON, "-c",
                                 script, *files)
        self.assertEqual(said["programs_lost"], 1, text)
        self.assertIn("1 processes were not counted: there was no room in /dev/shm/", text)
        # What has no place of its own is counted as well.
        self.assertEqual(said["reads"]["could_be_served"]["reads"], 400)

    def test_no_room_anywhere_says_so(self):
        # What is below /tmp stays there: perhaps this build, and the folder for what is said.
        ours = shlex.quote(str(self.folder))
        script = ("mount -t tmpfs -o size=1m,ro none /dev/shm && "
                  "mount --bind /tmp /tmp && mount -o remount,bind,ro /tmp && "
                  f"mount --bind {ours} {ours} && mount -o remount,bind,rw {ours}")
        text, _ = self.within(script, "--", "true", status=1)
        self.assertRegex(text, "cannot make a folder in /dev/shm or /tmp")

    def test_without_proc_ends_as_the_program(self):
        text, said = self.within("umount -l /proc", "--", "sh", "-c", "exit 5", status=5)
        self.assertEqual((said["io_known"], said["memory"]["of_group"]), (False, False), text)

    def test_many_children_take_little_memory(self):
        _, said = self.within("mount -t tmpfs -o size=64m none /dev/shm", "--", "sh", "-c",
                              "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i + 1)); done")
        self.assertEqual((said["programs"], said["programs_lost"]), (301, 0))


class Command(Doctor):
    """The program's status, signals, errors, and what stays behind."""

    def tearDown(self):
        # A private service may need a moment to end.
        until(lambda: not left() - self.before, "nothing is left")

    def test_wrong_use(self):
        for words, pattern in (([], "name the program"), (["--pid", "x"], "not the number"),
                               (["--pid", "1", "true"], "choose one"),
                               (["--seconds", "3", "true"], "is for --pid"),
                               (["--no-such", "true"], "unrecognized option")):
            done = self.doctor(*words, status=2)
            self.assertRegex(done.stderr.decode(), pattern)
            self.assertEqual(done.stdout, b"")

    def test_programs_that_cannot_be_watched(self):
        self.assertIn(b"not found", self.doctor("no-such-program", status=127).stderr)
        busybox = shutil.which("busybox")
        if busybox:
            done = self.doctor(busybox, "true", status=126)
            self.assertRegex(done.stderr.decode(), "linked statically.*without `lodic doctor', "
                             "and watch it by `lodic doctor --pid PID'")

    def test_no_such_process(self):
        self.assertIn(b"no process", self.doctor("--pid", "4194304", status=1).stderr)

    def test_json_without_a_file_runs_nothing(self):
        done = self.doctor("--json", "--", "sh", "-c", "echo ran", status=2)
        self.assertIn(b"--json needs the name of a file", done.stderr)
        self.assertEqual(done.stdout, b"")

    def test_json_that_cannot_be_written_runs_nothing(self):
        done = self.doctor("--json=/no/such/folder/j", "--", "sh", "-c", "echo ran", status=1)
        self.assertIn(b"cannot write /no/such", done.stderr)
        self.assertEqual(done.stdout, b"")

    def test_exit_status_and_output(self):
        done, _ = self.said(["sh", "-c", "echo out; echo err >&2; exit 42"], status=42)
        self.assertEqual(done.stdout, b"out\n")
        self.assertTrue(done.stderr.startswith(b"err\nlodic doctor: sh: "), done.stderr)
        self.said(["sh", "-c", "kill -TERM $$"], status=-signal.SIGTERM)

    def test_killed_program_is_counted(self):
        data = self.file("data", MIB)
        _, said = self.said([PYTHON, "-c", PREAD.replace("150000", "5000") +
                             "os.kill(os.getpid(), 9)", data], status=-signal.SIGKILL)
        self.assertEqual(self.of(said, data)["reads"]["could_be_served"]["reads"], 4998)

    def start(self, *words):
        process = subprocess.Popen([self.lodic, "doctor", *map(str, words)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=self.environment, start_new_session=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_signal_reaches_program(self):
        process = self.start("--", "sh", "-c", "trap 'exit 3' TERM; echo up; "
                             "while :; do sleep 0.05; done")
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        _, text = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 3)
        self.assertIn(b"advice: ", text)

    def test_interrupt_ends_program_and_is_reported(self):
        process = self.start("--", "sh", "-c", "echo up; exec sleep 100")
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT) # as a terminal does
        _, text = process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertIn(b"\nadvice: none: it was interrupted, and until then ", text)
        self.assertNotIn(b"Don't bother", text)

    def test_doctor_killed_leaves_nothing(self):
        process = self.start("--", "sh", "-c", "echo up; exec sleep 100")
        process.stdout.readline()
        until(lambda: left() - self.before, "there is a folder")
        os.killpg(process.pid, signal.SIGKILL)

    def test_interrupt_while_it_measures_leaves_nothing(self):
        # A program without such reads is measured within 0.1 s; of this one it takes seconds.
        process = self.start(f"--json={self.json}", "--", PYTHON, "-c",
                             PREAD.replace("150000", "9000"), self.file("data", MIB))
        # The file that its own readers read.
        until(lambda: any(path.is_file() for path in left() - self.before), "it measures")
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        # The program is over, so what was seen of it is told; and nothing is concluded.
        self.assertIn(b"\nadvice: none: interrupted while it measured.\n", text)
        said = json.loads(self.json.read_text())
        self.assertEqual((said["advice"], said["interrupted"], said["steps"]),
                         ("not known", True, []))
        self.assertEqual(len(said["files"]) > 0, True)

    @unittest.skipUnless(os.getuid() == 0, "needs root to be another user")
    def test_process_of_another_user_says_so(self):
        process = subprocess.Popen(["sleep", "100"])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        done = self.doctor("--pid", str(process.pid), status=1, user=65534, group=65534,
                           extra_groups=[])
        self.assertRegex(done.stderr.decode(), "look as its user or as root")

    def test_listed_in_help(self):
        self.assertRegex(run([self.lodic, "--help"]).stdout.decode(), r"\n  doctor +Run a")
        self.assertIn("doc/doctor.md", run([self.lodic, "doctor", "--help"]).stdout.decode())


class Processes(Doctor):
    """--pid."""

    def watched(self, script, *more):
        data = self.file("data", MIB)
        process = subprocess.Popen([PYTHON, "-c", script, data], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, **dict(more))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        # realpath() bears descriptors that go meanwhile.
        until(lambda: str(data) in {os.path.realpath(f"/proc/{process.pid}/fd/{fd}")
                                    for fd in os.listdir(f"/proc/{process.pid}/fd")}, "it reads")
        done = self.doctor("--pid", str(process.pid), "--seconds", "3", f"--json={self.json}")
        self.assertIsNone(process.poll())
        said = json.loads(self.json.read_text())
        self.assertTrue(self.of(said, data)["qualifies"])
        return done.stdout.decode(), said

    def test_pid_pread(self):
        text, said = self.watched(PREAD.replace("range(150000)", "range(10**9)"))
        self.assertIn(said["advice"], ("run", "little"))
        self.assertEqual(said["moved_bytes"], 0)
        self.assertGreater(said["io_reads"], 1000)
        self.assertIn("the rest: pread", text)

    def test_pid_read_do_not_bother(self):
        _, said = self.watched("""
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
import time
while True:
    os.read(fd, 16) or os.lseek(fd, 0, 0)
    time.sleep(0.001)
""")
        self.assertGreater(said["moved_bytes"], 0.8 * said["io_bytes"])
        self.assertEqual(said["advice"], "nothing")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
