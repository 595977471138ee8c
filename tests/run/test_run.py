#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic run`: a program behaves under it as without it, and the report is true.

    test_run.py LODIC READER

READER is tests/run/run_reader.c, which does what a shim could spoil. Real programs are in
test_programs.py, and what the command itself says in test_command.py.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import PYTHON, SECONDS, WARM, Case, of_all_files, run, until  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
Case.reader = str(pathlib.Path(sys.argv[2]).resolve()) if len(sys.argv) > 2 else ""


class Ways(Case):
    """Each way of the reader, without the cache and with it."""

    def test_reads_ends_and_errors(self):
        self.way("ends")

    def test_offset_stays_with_kernel(self):
        self.way("offset")

    def test_descriptor_replaced_other_file(self):
        self.way("replaced")

    def test_descriptor_duplicated(self):
        self.way("duplicated")

    def test_direct_set_later_not_served(self):
        self.way("direct")

    def test_writable_not_served(self):
        self.way("writable")

    def test_all_closed_own_stay(self):
        self.way("close_all", reports=True)

    def test_standard_descriptors_closed(self):
        self.way("standard_closed", reports=True)

    def test_standard_descriptors_closed_later(self):
        self.way("standard_closed_later", reports=True)

    def test_own_number_taken_other_file(self):
        self.way("own_number_taken")

    def test_descriptors_used_up(self):
        self.way("descriptors_used_up")

    def test_bad_buffer_faults(self):
        self.way("bad_buffer")

    def test_access_time_stays(self):
        self.way("access_time")

    def test_address_space_limited_not_served(self):
        self.way("address_space")

    def test_many_files(self):
        self.way("many_files")

    def test_table_full_looks_seldom(self):
        self.way("table_full")

    def test_fork_and_bare_clone(self):
        self.way("fork")

    def test_vfork_child_has_own_descriptors(self):
        self.way("vfork")

    def test_vfork_by_number_has_no_frame_of_ours(self):
        self.way("vfork_bare")

    def test_spawn(self):
        self.way("spawn")

    def test_clone_all_not_served(self):
        self.way("clone_all")

    def test_clone_files_not_served(self):
        self.way("clone_files")

    def test_clone3_wrong(self):
        self.way("clone3_wrong")

    def test_unshare_files_not_served(self):
        self.way("unshare_files")

    def test_unshare_user_no_other_thread(self):
        self.way("unshare_user")

    def test_seccomp_no_system_call(self):
        self.way("seccomp", reports=True)

    def test_seccomp_all_threads(self):
        self.way("seccomp_all_threads", reports=True)

    def test_seccomp_started_under_filter(self):
        self.way("seccomp_exec", reports=True)

    def test_fcntl_locks_stay(self):
        self.way("locks")

    def test_flock_falls_with_close(self):
        self.way("flock")

    def test_flock_falls_with_close_service_stopped(self):
        pid = self.service_pid()
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        done = run(self.under([self.reader, "flock", self.folder, "cached"]),
                   env=dict(os.environ, SERVICE_PID=str(pid)))
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_child_has_parents_number(self):
        before = ["unshare", "-pf"]
        if run([*before, "true"]).returncode:
            self.skipTest("no name space of processes may be made here")
        self.way("same_pid", before=before)

    def test_threads_and_signals(self):
        self.way("threads")

    def test_threads_one_replaces_what_another_reads(self):
        self.way("threads_replaced")

    def test_cancelled_in_read(self):
        self.way("cancel")

    def test_writer_never_stale(self):
        self.way("writer")

    def test_rewritten_in_place_never_stale(self):
        self.way("generations")

    def test_writer_nonblocking_asked_to_wait(self):
        self.way("writer_nonblocking")

    def test_mlockall_not_served(self):
        self.way("mlockall")

    def test_rights_landlock(self):
        self.way("rights_landlock")

    def test_rights_for_good(self):
        self.way("rights_for_good")

    def test_rights_mappings_used_up(self):
        self.way("rights_mappings_used_up")

    def test_rights_idle_threads(self):
        self.way("rights_idle_threads")

    def test_rights_failed(self):
        self.way("rights_failed")

    def test_rights_storm(self):
        self.way("rights_storm")

    def test_open_starts_successor(self):
        reader = subprocess.Popen(
            self.under([self.reader, "opens_until_told", self.folder, "cached"]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(reader.kill)
        self.assertEqual(reader.stdout.readline(), b"ready\n")
        for _ in range(2):
            os.kill(self.service_pid(), signal.SIGKILL)
            until(lambda: run([self.lodic, "stat", "--socket", self.socket]).returncode == 0,
                  "a service again", 60)
            until(lambda: self.hits("run_reader") > 0, "hits", 60)
        self.assertEqual(reader.communicate(b"x", timeout=SECONDS)[1], b"")
        self.assertEqual(reader.returncode, 0)


class Left(Case):
    """What is at the service for threads and files that come and go."""

    def start(self, way, threads=0):
        """Runs the way, and returns it when it is ready."""
        reader = subprocess.Popen(self.under([self.reader, way, self.folder, "cached"]),
                                  env=dict(os.environ, THREADS=str(threads)),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        self.addCleanup(reader.kill)
        line = reader.stdout.readline()
        self.assertEqual(line, b"ready\n", line or reader.communicate())
        return reader

    def ends(self, reader):
        errors = reader.communicate(b"x", timeout=SECONDS)[1]
        self.assertEqual((errors, reader.returncode), (b"", 0))

    def opens(self):
        return sum(f["opens"] for f in self.ask("files")["files"])

    def test_threads_ended_successor_alone_mapped(self):
        reader = self.start("threads_ended")
        self.assertEqual(self.ask("stat")["contexts"], 8)
        os.kill(self.service_pid(), signal.SIGKILL)
        self.serve()
        self.ends(reader)

    def test_alone_under_filter_no_system_call(self):
        reader = self.start("seccomp_alone")
        os.kill(self.service_pid(), signal.SIGKILL)
        self.ends(reader)

    def test_threads_ended_contexts_given_back(self):
        self.ends(self.start("threads_ended"))

    def test_files_left_given_back(self):
        reader = self.start("files_left")
        until(lambda: self.opens() == 0, "the service has all files back")
        self.ends(reader)

    def test_stepped_aside_given_back(self):
        reader = self.start("stepped_aside")
        until(lambda: self.opens() == 0, "the service has the file back")
        self.ends(reader)

    def test_many_threads_take_no_quota(self):
        reader = self.start("threads_many", 130)
        row = [r for r in self.readers() if r["program"] == "run_reader"]
        self.assertEqual([(r["contexts"], r["may_pin"]) for r in row], [(130, 0)])
        self.ends(reader)

    def test_more_threads_than_contexts(self):
        reader = self.start("threads_many", 1026)
        self.assertEqual(self.ask("stat")["contexts"], 1024)
        self.ends(reader)


class Service(Case):
    """The service dies or stops, and so does the program."""

    def start(self):
        reader = subprocess.Popen(self.under([self.reader, "until_told", self.folder, "cached"]),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        self.addCleanup(reader.kill)
        self.assertEqual(reader.stdout.readline(), b"ready\n")
        return reader

    def tell(self, reader):
        """The reader ends; returns (seconds that the longest read took, was it served?)."""
        out, errors = reader.communicate(b"x", timeout=60)
        self.assertEqual((reader.returncode, errors), (0, b""))
        words = out.decode().split()
        return float(words[3]), words[-2] != "not"

    def reads(self, reader):
        """How many system calls of reading it has made."""
        text = pathlib.Path(f"/proc/{reader.pid}/io").read_text(encoding="ascii")
        return int(text.split("syscr:")[1].split()[0])

    def test_reads_on_served(self):
        longest, served = self.tell(self.start())
        self.assertTrue(served)
        self.assertLess(longest, 10)

    def test_service_killed_reads_right_successor_serves(self):
        reader = self.start()
        os.kill(self.service_pid(), signal.SIGKILL)
        before = self.reads(reader)
        until(lambda: self.reads(reader) > before + 1000, "reads from the kernel")
        self.serve()
        until(lambda: self.hits("run_reader") > 1000, "hits at the successor")
        self.assertTrue(self.tell(reader)[1])

    def test_service_stopped_reads_go_on(self):
        reader = self.start()
        pid = self.service_pid()
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        before = self.reads(reader)
        until(lambda: self.reads(reader) > before + 3000, "reads")
        # The service stays stopped, so a read that waited for it would never end.
        longest, _ = self.tell(reader)
        self.assertLess(longest, 10)

    def test_program_killed_nothing_left(self):
        reader = self.start()
        until(lambda: self.hits("run_reader") > 100, "hits")
        reader.kill()
        reader.communicate()
        until(lambda: not self.readers(), "the reader is gone")
        self.assertEqual(self.ask("stat")["contexts"], 0)

    def test_deleted_file_given_back(self):
        self.file("gone", 8192)
        self.file("other", 8192)
        reader = subprocess.Popen(self.under([PYTHON, "-c", """
import os, sys
os.chdir(sys.argv[1])
def read(name):
    fd = os.open(name, os.O_RDONLY)
    for i in range(2000):
        os.pread(fd, 100, 0)
    os.close(fd)
read("gone")
print("ready", flush=True)
while os.path.exists("gone"):
    read("gone")
print("deleted", flush=True)
while not os.path.exists("stop"):
    read("other")
""", self.folder]), stdout=subprocess.PIPE)
        self.addCleanup(reader.wait)
        self.addCleanup((self.folder / "stop").touch)
        self.addCleanup(reader.stdout.close)

        def held():
            return [f["path"] for f in self.ask("files")["files"] if "gone" in f["path"]]
        self.assertEqual(reader.stdout.readline(), b"ready\n")
        until(held, "the file is held")
        (self.folder / "gone").unlink()
        until(lambda: not held(), "the deleted file's space is free")


class Places(Case):
    """Children, other users, name spaces."""

    SCRIPT = WARM + """
import hashlib
fd = os.open(sys.argv[1], os.O_RDONLY)
if "LODIC_RUN_SOCKET" in os.environ and "served" in sys.argv:
    warm(fd)
h = hashlib.md5()
for i in range(3000):
    h.update(os.pread(fd, 5000, i * 1237 % 300000))
print(h.hexdigest())
"""

    def setUp(self):
        super().setUp()
        self.data = self.file("data", 300000)
        self.data.chmod(0o644)

    def test_children_followed(self):
        reports = self.same(["sh", "-c", 'exec "$0" -c "$1" "$2" served', PYTHON, self.SCRIPT,
                             self.data])
        self.assertGreater(of_all_files(reports, "python3")["served"], 0)

    def test_environment_emptied_not_followed(self):
        self.same(["env", "-i", PYTHON, "-c", self.SCRIPT, self.data])

    def test_static_child_runs_as_before(self):
        busybox = shutil.which("busybox")
        if not busybox:
            self.skipTest("no busybox-static here")
        self.same(["sh", "-c", f"{busybox} md5sum {self.data}; md5sum {self.data}"])

    @unittest.skipIf(os.getuid() != 0, "only root can become another user")
    def test_other_users_service_refused(self):
        for path in (self.place, self.socket):
            path.chmod(0o777)
        done = run(self.under(["true"], "--require"), user=65534)
        if done.returncode == 126 or b"cannot read" in done.stderr:
            self.skipTest("this build cannot be read by another user")
        self.assertEqual(done.returncode, 1, done.stderr.decode())
        self.assertIn(b"another user", done.stderr)

    @unittest.skipIf(os.getuid() != 0, "only root can become another user")
    def test_user_changed_reads_right(self):
        plain = run([PYTHON, "-c", self.SCRIPT, self.data])
        # Once before it connects, and once when it is served.
        for before in ("if ", "h = "):
            script = self.SCRIPT.replace("\n" + before, "\nos.setuid(65534)\n" + before, 1)
            done = run(self.under([PYTHON, "-c", script, self.data,
                                   "served" if before == "h = " else ""]))
            self.assertEqual((done.returncode, done.stdout), (0, plain.stdout), done.stderr)

    @unittest.skipIf(os.getuid() != 0, "only root can make a name space of mounts")
    def test_other_mounts_no_proc(self):
        """The program sees no /proc, and not the socket either."""
        inside = (f"mount -t tmpfs none /proc && mount -t tmpfs none {self.place} && "
                  f'exec {PYTHON} -c "$0" "$1"')
        plain = run([PYTHON, "-c", self.SCRIPT, self.data])
        done = run(self.under(["unshare", "-m", "sh", "-c", inside, self.SCRIPT, self.data]))
        self.assertEqual((done.returncode, done.stdout), (0, plain.stdout), done.stderr)

    @unittest.skipIf(os.getuid() != 0, "only root can make a name space of mounts")
    def test_no_proc_served(self):
        inside = f'mount -t tmpfs none /proc && exec {PYTHON} -c "$0" "$1"'
        plain = run([PYTHON, "-c", self.SCRIPT, self.data])

        def served():
            done, reports = self.reports(["unshare", "-m", "sh", "-c", inside, self.SCRIPT.replace(
                "range(3000)", "range(300000)"), self.data])
            self.assertNotEqual(done.stdout, plain.stdout) # it reads more
            sums = of_all_files(reports, "python3")
            self.assertGreater(sums["reads"], 100000)
            return sums["served"]
        until(served, "the service has its turn before the reads are over")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
