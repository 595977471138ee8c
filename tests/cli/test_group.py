#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic serve --group`: programs of two users at one service. It needs root.

Usage: test_group.py LODIC LOOK_READER WIRE_H

WIRE_H is lib/wire.h: the test speaks to the service by itself, as a hostile member would.
"""

import errno
import fcntl
import json
import mmap
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

LODIC, READER = map(os.path.abspath, sys.argv[1:3])
VERSION = int(re.search(r"#define WIRE_VERSION (\d+)u",
                        pathlib.Path(sys.argv[3]).read_text(encoding="ascii")).group(1))
(HELLO, CONTEXT_OPEN, _, FILE_OPEN, _, SYNC, STAT, FILES, READERS, CONTEXTS, DROP, HOLD, _, _,
 HOLDS, RESIZE, HAND_FILE, _, HAND_OVER) = range(1, 20)  # enum wire_op
SECONDS = 30
GROUP, ALICE, BOB, EVE, OTHER = 64100, 64101, 64102, 64103, 64104
SECRET = b"only for some" + bytes(4083)
# Reads a file until the cache answers, for 20 s at most. /proc/self/io counts the kernel's reads.
WARM = """
import os, sys, time
def reads():
    with open("/proc/self/io", "rb", 0) as f:
        return int(f.read().split(b"syscr:")[1].split()[0])
fd, end, of_one = os.open(sys.argv[1], os.O_RDONLY), time.monotonic() + 20, -reads() + reads()
while time.monotonic() < end:
    before = reads()
    os.pread(fd, 1000, 0)
    if reads() - before == of_one:
        sys.exit(os.environ["LODIC_RUN_TRUST"])
"""
MEMBERS = {ALICE: [GROUP], BOB: [GROUP, OTHER], EVE: [OTHER]}


def as_user(uid, what):
    """Runs what() in a process of that user, and returns what it returns: a list of numbers."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(MEMBERS[uid])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            os.write(theirs, struct.pack("=q", 0) + b"".join(
                struct.pack("=q", n) for n in what()))
        except OSError as error:
            os.write(theirs, struct.pack("=q", error.errno))
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as stream:
        answer = stream.read()
    os.waitpid(child, 0)
    error, *numbers = struct.unpack(f"={len(answer) // 8}q", answer)
    if error:
        raise OSError(error, os.strerror(error))
    return numbers


def in_user_place(uid, conf, *words):
    """The words that run these as that user. What stands in /etc/lodic.conf, they alone see."""
    return ["unshare", "-m", "sh", "-c",
            'mount -t tmpfs none /etc && printf "%s" "$1" >/etc/lodic.conf && shift && '
            'uid=$1 groups=$2 && shift 2 && '
            'exec setpriv --reuid "$uid" --regid "$uid" --groups "$groups" "$@"',
            "sh", conf, str(uid), str(GROUP), *words]


class Program:
    """An attached program; its own process calls this."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(SECONDS)
        self.socket.connect(str(path))

    def ask(self, what, a=0, fds=()):
        """(0 or -errno, the answer's bytes, descriptors)"""
        socket.send_fds(self.socket, [struct.pack("=IIQQQQ", VERSION, what, a, 0, 0, 0)], list(fds))
        answer, got, _, _ = socket.recv_fds(self.socket, 65536, 8)
        if not answer:
            raise ConnectionResetError(errno.ECONNRESET, "hung up")
        return -(-struct.unpack_from("=i", answer)[0] & 0xfff), answer, got  # without its reason

    def hello(self):
        err, _, got = self.ask(HELLO)
        if err:
            raise OSError(-err, "HELLO")
        return got

    def open(self, path):
        fd = os.open(path, os.O_RDONLY)
        try:
            return self.ask(FILE_OPEN, fds=[fd])[0]
        finally:
            os.close(fd)


@unittest.skipIf(os.geteuid() != 0, "only root can become other users")
class Group(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-group-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.folder.chmod(0o755)
        self.socket = self.folder / "s"

    def serve(self, *words):
        process = subprocess.Popen(
            [LODIC, "serve", "-m", "4M", "--pressure", "off", "--lease-pause", "0", "-s",
             self.socket, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def served(self, *words):
        process = self.serve("--group", str(GROUP), *words)
        self.assertIn("serving", process.stdout.readline())
        return process

    def stat(self):
        done = subprocess.run([LODIC, "stat", "--json", "-s", self.socket], check=True,
                              stdout=subprocess.PIPE, text=True, timeout=SECONDS)
        return json.loads(done.stdout)

    def file(self, name, mode, uid=ALICE, gid=GROUP, folder=None, text=SECRET):
        path = (folder or self.folder) / name
        path.write_bytes(text)
        os.chown(path, uid, gid)
        path.chmod(mode)
        return path

    def opened(self, path, uid=ALICE):
        return as_user(uid, lambda: [self.attached().open(path)])[0]

    def attached_fds(self):
        self.kept = Program(self.socket)
        return self.kept.hello()

    def attached(self):
        program = Program(self.socket)
        program.hello()
        return program


class Peers(Group):
    def test_members_attach_and_nobody_else(self):
        self.served()
        st = self.socket.stat()
        self.assertEqual((st.st_mode & 0o777, st.st_gid), (0o660, GROUP))
        for uid in ALICE, BOB:
            self.assertEqual(as_user(uid, lambda: [len(Program(self.socket).hello())]), [4])
        with self.assertRaises(PermissionError):
            as_user(EVE, lambda: [len(Program(self.socket).hello())])
        self.socket.chmod(0o666)  # the mode is not the only wall
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            as_user(EVE, lambda: [len(Program(self.socket).hello())])

    def test_without_group_nobody_else_attaches(self):
        self.assertIn("serving", self.serve().stdout.readline())
        self.socket.chmod(0o666)
        with self.assertRaises((ConnectionResetError, BrokenPipeError)):
            as_user(ALICE, lambda: [len(Program(self.socket).hello())])

    def test_member_may_read_and_nothing_else(self):
        self.served()
        self.file("data", 0o640)

        def attack():
            program = self.attached()
            return [program.ask(what, 1 << 20)[0] for what in
                    (FILES, READERS, CONTEXTS, HOLDS, DROP, RESIZE, HOLD, HAND_FILE, HAND_OVER)]
        self.assertEqual(set(as_user(BOB, attack)), {-errno.EPERM})
        self.assertEqual(as_user(BOB, lambda: [self.attached().ask(STAT)[0]]), [0])

    def test_member_cannot_write_what_all_read(self):
        """Neither through what it is given, nor by opening that again."""
        self.served()

        def attack():
            wins = 0
            for fd in self.attached_fds()[:2]:
                for write in (lambda fd=fd: os.pwrite(fd, b"x", 0),
                              lambda fd=fd: mmap.mmap(fd, 4096),
                              lambda fd=fd: os.pwrite(os.open(f"/proc/self/fd/{fd}", os.O_RDWR),
                                                      b"x", 0),
                              lambda fd=fd: mmap.mmap(
                                  os.open(f"/proc/self/fd/{fd}", os.O_RDWR), 4096)):
                    try:
                        write()
                        wins += 1
                    except OSError:
                        pass
            return [wins]
        self.assertEqual(as_user(BOB, attack), [0])

    def test_member_cannot_make_another_wait_at_the_wake_up(self):
        self.served()

        def mine():
            wake = self.attached_fds()[2]
            # Not by the description that others have as well.
            fcntl.fcntl(wake, fcntl.F_SETFL, 0)
            os.write(wake, struct.pack("=Q", 2**64 - 2))
            ready.set()
            go_on.wait(SECONDS)

        ready, go_on = threading.Event(), threading.Event()
        other = threading.Thread(target=mine)
        other.start()
        self.addCleanup(other.join)
        self.addCleanup(go_on.set)
        self.assertTrue(ready.wait(SECONDS))

        def write():
            wake = self.attached_fds()[2]
            signal.alarm(SECONDS)
            return [os.write(wake, struct.pack("=Q", 1)),
                    fcntl.fcntl(wake, fcntl.F_GETFL) & os.O_NONBLOCK]
        self.assertEqual(as_user(BOB, write), [8, os.O_NONBLOCK])


class Files(Group):
    def test_file_of_the_group_comes_in_and_another_members_does_not(self):
        self.served()
        self.assertEqual(self.opened(self.file("shared", 0o640)), 0)
        self.assertEqual(self.opened(self.file("public", 0o644, gid=ALICE)), 0)
        refused = {
            "mine": self.file("mine", 0o600),
            "other group": self.file("other", 0o640, gid=ALICE),
            # Members of that other group may not read it, and BOB is one.
            "others but a group": self.file("odd", 0o604, gid=OTHER),
        }
        for what, path in refused.items():
            self.assertEqual(self.opened(path), -errno.EPERM, what)

    def test_file_behind_a_closed_folder_does_not_come_in(self):
        self.served()
        closed = self.folder / "closed"
        closed.mkdir()
        os.chown(closed, ALICE, ALICE)
        path = self.file("public", 0o644, folder=closed)
        self.assertEqual(self.opened(path), 0)
        closed.chmod(0o700)
        inner = closed / "inner"
        inner.mkdir()
        other = self.file("other", 0o644, folder=inner)
        os.chown(inner, ALICE, GROUP)
        self.assertEqual(self.opened(other), -errno.EPERM)
        # A name that has gone leads nowhere.
        closed.chmod(0o755)

        def gone():
            program = self.attached()
            fd = os.open(gone_path, os.O_RDONLY)
            os.rename(gone_path, f"{gone_path}.away")
            os.unlink(f"{gone_path}.away")
            return [program.ask(FILE_OPEN, fds=[fd])[0]]
        gone_path = self.file("gone", 0o644, folder=closed)
        self.assertEqual(as_user(ALICE, gone), [-errno.EPERM])

    def test_access_list_keeps_a_file_out(self):
        self.served()
        path = self.file("listed", 0o644)
        entries = [(1, 6, 2**32 - 1), (2, 0, BOB), (4, 4, 2**32 - 1), (16, 4, 2**32 - 1),
                   (32, 4, 2**32 - 1)]  # owner, BOB, group, mask, others
        try:
            os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(
                struct.pack("<HHI", *entry) for entry in entries))
        except OSError as error:
            self.skipTest(f"there are no access lists here: {error.strerror}")
        self.assertEqual(path.stat().st_mode & 0o777, 0o644)
        self.assertEqual(self.opened(path), -errno.EPERM)

    def test_no_byte_of_a_private_file_is_in_the_arena(self):
        """BOB's program looks at all that it has mapped, after ALICE has used both files."""
        self.served()
        shared = self.file("shared", 0o640, text=b"for the group" + bytes(4083))
        mine = self.file("mine", 0o600)
        reader = self.reader(ALICE, "trust = 0\n", shared)
        self.assertEqual(reader.stdout.readline(), "read\n")
        self.assertEqual(self.opened(mine), -errno.EPERM)

        self.assertEqual(as_user(BOB, self.finds), [True, False])

    def finds(self):
        """Are the two files' bytes in the arena?"""
        data = mmap.mmap(self.attached_fds()[1], 0, prot=mmap.PROT_READ)
        return [data.find(b"for the group") >= 0, data.find(b"only for some") >= 0]

    def test_private_file_stays_behind_when_a_group_s_service_takes_over(self):
        self.assertIn("serving", self.serve().stdout.readline())
        shared = self.file("shared", 0o640, uid=0, text=b"for the group" + bytes(4083))
        mine = self.file("mine", 0o600, uid=0)
        reader = subprocess.Popen([READER, self.socket, "1", "0", shared, mine], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(reader.communicate)
        self.addCleanup(reader.kill)
        self.assertEqual(reader.stdout.readline(), "read\n")
        self.assertEqual(self.finds(), [True, True])
        self.served("--replace")
        self.assertEqual(as_user(BOB, self.finds), [True, False])

    def reader(self, uid, conf, path):
        """A program that uses the library."""
        program = subprocess.Popen(
            in_user_place(uid, conf, READER, self.socket, "1", "0", path), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(program.communicate)
        self.addCleanup(program.kill)
        return program

    def test_lodic_run_tells_the_program_whom_its_user_trusts(self):
        """The shim reads no settings. What the variable was before means nothing."""
        self.served()
        path = self.file("data", 0o644, uid=0, text=os.urandom(1 << 20))
        words = [LODIC, "run", "--require", "--socket", self.socket, "--", "/usr/bin/python3",
                 "-c", WARM, path]
        done = subprocess.run(in_user_place(ALICE, "trust = 0\n", *words), check=False,
                              env=dict(os.environ, LODIC_RUN_TRUST=str(EVE)), text=True,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=SECONDS)
        self.assertEqual(done.stderr, "0\n")

    def test_programs_of_two_users_share_blocks_if_they_trust_the_service(self):
        self.served()
        path = self.file("data", 0o644, uid=0, text=os.urandom(1 << 20))
        for uid in ALICE, BOB:
            reader = self.reader(uid, "trust = 0\n", path)
            self.assertEqual(reader.stdout.readline(), "read\n", reader.poll())
        stat = self.stat()
        self.assertEqual((stat["clients"], stat["files"], stat["admitted"]), (2, 1, 256))
        for conf in "", f"trust = {EVE}\n":
            stranger = self.reader(BOB, conf, path)
            self.assertNotEqual(stranger.wait(SECONDS), 0)
            self.assertIn("Operation not permitted", stranger.stderr.read())


class Shares(Group):
    def test_one_user_leaves_contexts_to_others(self):
        self.served()

        def take():
            programs, taken = [self.attached() for _ in range(2)], 0
            for program in programs:
                for _ in range(400):
                    err, _, got = program.ask(CONTEXT_OPEN, 1)
                    for fd in got:
                        os.close(fd)
                    taken += err == 0
            return [taken]
        self.assertEqual(as_user(ALICE, take), [512])
        # ALICE's programs have ended: BOB gets as many, as soon as the service has taken them back.
        deadline = time.monotonic() + SECONDS
        while as_user(BOB, take) != [512]:
            self.assertLess(time.monotonic(), deadline)
        while self.stat()["clients"] > 0 or self.stat()["contexts"] > 0:
            self.assertLess(time.monotonic(), deadline)

    def idle(self, nr):
        """Connects so many times, sends nothing, and returns those that the service lets in."""
        sockets = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(nr)]
        for one in sockets:
            one.settimeout(SECONDS)
            one.connect(str(self.socket))
        # The service takes them in their order.
        with self.assertRaises(OSError) as refused:
            self.attached()
        self.assertIn(refused.exception.errno, (errno.EMFILE, errno.ECONNRESET, errno.EPIPE))
        poll = select.poll()
        for one in sockets:
            poll.register(one, 0)
        gone = {fd for fd, _ in poll.poll(0)}
        return [one for one in sockets if one.fileno() not in gone]

    def test_one_user_leaves_connections_to_others(self):
        # Half of the descriptors, three for each connection.
        resource.prlimit(self.served().pid, resource.RLIMIT_NOFILE, (180, 180))
        ours, theirs = os.pipe(), os.pipe()

        def hold():
            sockets = self.idle(40)
            os.write(ours[1], b"x")
            os.read(theirs[0], 1)
            return [len(sockets)]

        found = []
        other = threading.Thread(target=lambda: found.extend(as_user(ALICE, hold)))
        other.start()
        self.addCleanup(other.join)
        self.addCleanup(os.write, theirs[1], b"x")
        self.assertTrue(select.select([ours[0]], [], [], SECONDS)[0])
        self.assertEqual(as_user(BOB, lambda: [len(self.idle(40))]), [8])
        self.assertEqual(as_user(BOB, lambda: [self.attached().ask(STAT)[0]]), [0])
        self.assertEqual(self.stat()["clients"], 0)
        os.write(theirs[1], b"x")
        other.join()
        self.assertEqual(found, [15])
        deadline = time.monotonic() + SECONDS
        while as_user(BOB, lambda: [len(self.idle(40))]) != [15]:
            self.assertLess(time.monotonic(), deadline)

    def test_one_user_leaves_pins_to_others(self):
        self.served()

        def quotas(program, nr):
            """How many blocks each of so many new contexts may pin."""
            found = []
            for _ in range(nr):
                err, answer, got = program.ask(CONTEXT_OPEN)
                self.assertEqual(err, 0)
                for fd in got:
                    os.close(fd)
                found.append(struct.unpack_from("=QQ", answer, 8)[1])
            return found
        kept = self.attached()
        mine = quotas(kept, 120)
        self.assertGreater(mine[0], 0)
        self.assertEqual(mine[-1], 0)
        theirs = as_user(BOB, lambda: quotas(self.attached(), 1))
        self.assertEqual(theirs, [mine[0]])
        self.assertEqual(quotas(kept, 1), [0])

    def test_one_user_leaves_files_to_others(self):
        self.served("--files", "16")
        paths = [self.file(f"data{i}", 0o644) for i in range(12)]

        def take():
            first, second = self.attached(), self.attached()
            return [(first if i % 2 else second).open(path) for i, path in enumerate(paths)]
        for uid in ALICE, BOB, ALICE:
            self.assertEqual(as_user(uid, take), [0] * 8 + [-errno.EDQUOT] * 4)


class Commands(Group):
    """What `lodic` answers users who look, administer, or take over."""

    def run_as(self, uid, *words):
        """Its exit status, and what it wrote."""
        become = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--groups", str(GROUP)]
        done = subprocess.run([*(become if uid else []), LODIC, *words, "-s", self.socket],
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=SECONDS)
        return done.returncode, done.stdout

    COMMANDS = (["files"], ["who"], ["resize", "6M"], ["drop", "--all"])

    def serve_as(self, uid, *words):
        served = subprocess.Popen(
            ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--groups", str(GROUP), LODIC,
             "serve", "-m", "4M", "--pressure", "off", "-s", self.socket, *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(served.communicate)
        self.addCleanup(served.kill)
        self.assertIn("serving", served.stdout.readline())
        return served

    def test_owner_and_root_administer_and_owner_alone_takes_over(self):
        os.chown(self.folder, ALICE, ALICE)
        first = self.serve_as(ALICE)
        for uid in ALICE, 0:
            for words in self.COMMANDS:
                self.assertEqual(self.run_as(uid, *words)[0], 0, (uid, words))
        status, said = self.run_as(0, "serve", "--replace", "--pressure", "off", "-m", "4M")
        self.assertEqual(status, 1)
        self.assertIn("another user's", said)
        self.assertIsNone(first.poll())
        self.serve_as(ALICE, "--replace")
        self.assertEqual(first.wait(SECONDS), 0)

    def test_member_of_a_group_administers_nothing(self):
        served = self.served()
        for words in (*self.COMMANDS, ["stat"], ["load", self.file("mine", 0o640)]):
            status, said = self.run_as(BOB, *words)
            self.assertEqual(status, 1, words)
            self.assertIn("another user;" if words[0] == "load" else "another user", said)
            if words[0] not in ("stat", "load"):
                self.assertEqual(self.run_as(0, *words)[0], 0, words)
        status, said = self.run_as(BOB, "serve", "--replace", "--pressure", "off", "-m", "4M")
        self.assertEqual(status, 1)
        self.assertIsNone(served.poll())


class Refused(Group):
    def refuses(self, text, *words, status=1):
        served = self.serve(*words)
        self.assertEqual(served.wait(SECONDS), status)
        self.assertIn(text, served.stderr.read())

    def test_what_cannot_be_shared_is_refused(self):
        self.refuses("there is no group", "--group", "no such group", status=2)
        self.refuses("choose lodic or hazard", "--group", str(GROUP), "--scheme", "atomic")
        self.refuses("there are no holds", "--group", str(GROUP), "--holds", "1M")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0, warnings="ignore")
