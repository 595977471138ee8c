#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic files`, `who`, `drop`, `stat`: a running cache, as somebody sees it from outside.

    test_look.py LODIC LOOK_READER PAGE [SEED]
"""

import contextlib
import json
import os
import pathlib
import pty
import pwd
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SECONDS = 60
PAUSE_SECONDS = 0.01
BLOCK = 4096
MIB = 1 << 20
LOOK_SECONDS = 10  # a look gives up after 2; the rest is a busy machine's
NOBODY, SOMEBODY = 65534, 65533
LODIC, READER = map(os.path.abspath, sys.argv[1:3])
PAGE = pathlib.Path(sys.argv[3]).read_text(encoding="utf-8")
SEED = int(sys.argv[4]) if len(sys.argv) > 4 else int.from_bytes(os.urandom(4), "little")


def wait_for(what):
    deadline = time.monotonic() + SECONDS
    while not (found := what()):
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen")
        time.sleep(PAUSE_SECONDS)
    return found


def private_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"^RssAnon:\s+(\d+)", status, re.M).group(1))


class Look(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-look-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.socket = self.folder / "s"

    def end(self, process):
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait(SECONDS)
        for stream in process.stdin, process.stdout, process.stderr:
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def start(self, *words, **more):
        process = subprocess.Popen([str(w) for w in words], text=True, stdout=subprocess.PIPE,
                                   **more)
        self.addCleanup(self.end, process)
        return process

    def serve(self, *options, program=LODIC, **more):
        # Some cases write to a file that shall be cached again at once.
        service = self.start(program, "serve", "-m", "16M", "--lease-pause", "0", "-s",
                             self.socket, *options, stderr=subprocess.DEVNULL, **more)
        self.assertIn("serving", service.stdout.readline())
        return service

    def read(self, *files, name="reader", attachments=1, pins=0, hold=0):
        """A program of that name that has read the files, and waits."""
        link = self.folder / name
        if not link.exists():
            link.symlink_to(READER)
        process = self.start(link, self.socket, attachments, pins, *files,
                             stdin=subprocess.PIPE,
                             env=os.environ | ({"LOOK_HOLD": str(hold)} if hold else {}))
        self.assertEqual(process.stdout.readline(), "read\n")
        return process

    def again(self, reader):
        reader.stdin.write("x")
        reader.stdin.flush()
        self.assertEqual(reader.stdout.readline(), "read\n")

    def file(self, name, nr_bytes):
        path = self.folder / name
        path.write_bytes(os.urandom(nr_bytes))
        return path

    def ask(self, command, *words, **more):
        return subprocess.run([LODIC, command, "-s", self.socket, *map(str, words)],
                              stdin=subprocess.DEVNULL, text=True, errors="surrogateescape",
                              check=False, capture_output=True, timeout=SECONDS, **more)

    def out(self, command, *words):
        done = self.ask(command, *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        return done.stdout

    def json(self, command, *words):
        return json.loads(self.out(command, "--json", *words))


class Lists(Look):
    def test_three_programs_table_and_json_agree(self):
        service = self.serve()
        sizes = {"one": 50 * BLOCK, "two": 30 * BLOCK + 1, "three": 7}
        paths = {name: self.file(name, size) for name, size in sizes.items()}
        readers = {"alice": self.read(*paths.values(), name="alice", pins=5),
                   "bob": self.read(paths["one"], paths["two"], name="bob", attachments=1),
                   "carol": self.read(paths["one"], name="carol")}
        self.again(readers["carol"])

        files = self.json("files")
        self.assertEqual([f["path"] for f in files["files"]],
                         [str(paths[name]) for name in ("one", "two", "three")])
        for f, opens in zip(files["files"], (3, 2, 1)):
            size = sizes[os.path.basename(f["path"])]
            stat = os.stat(f["path"])
            self.assertEqual((f["size"], f["cached"], f["opens"]), (size, -(-size // BLOCK), opens))
            self.assertEqual((f["dev"], f["ino"]), (stat.st_dev, stat.st_ino))
            self.assertEqual(f["proof"], "lease")
        self.assertEqual((files["not_cached"], files["unknown"]), ([], []))
        table = self.out("files")
        self.assertIn("328 KiB of 12.0 MiB in use, 3 files held", table)
        self.assertIn("holds: 0 B of 15.0 MiB", table)
        self.assertIn(f"    {table.splitlines()[3]}\n", PAGE)
        rows = [line.split() for line in table.splitlines()[4:]]
        self.assertEqual([row[-1] for row in rows], [f["path"] for f in files["files"]])
        self.assertEqual([int(row[-3]) for row in rows], [3, 2, 1])
        self.assertEqual(rows[0][:6], ["200", "KiB", "-", "200", "KiB", "100.0"])

        who = {r["program"]: r for r in self.json("who")["readers"]}
        self.assertEqual({name: r["pid"] for name, r in who.items()},
                         {name: reader.pid for name, reader in readers.items()})
        self.assertEqual([who[n]["files"] for n in readers], [3, 2, 1])
        self.assertEqual([who[n]["pinned"] for n in readers], [5, 0, 0])
        self.assertEqual([who[n]["contexts"] for n in readers], [1, 1, 1])
        self.assertEqual(who["bob"]["hits"], 81)
        self.assertEqual(who["carol"]["hits"], 100)
        table = self.out("who")
        self.assertIn(f"    {table.splitlines()[0]}\n", PAGE)
        rows = {row.split()[-1]: row.split() for row in table.splitlines()[1:]}
        for name, r in who.items():
            self.assertEqual(rows[name][0], str(r["pid"]))
            self.assertEqual([int(n) for n in rows[name][3:6] + rows[name][7:9]],
                             [r[k] for k in ("contexts", "may_pin", "pinned", "hits", "misses")])
            self.assertEqual((rows[name][6], r["hold_bytes"]), ("-", 0))
            self.assertEqual(int(rows[name][10]), r["files"])
        stat = self.json("stat")
        self.assertEqual((stat["clients"], stat["files"], stat["pinned"]), (3, 3, 5))
        self.assertEqual(stat["service_pid"], service.pid)

    def test_hold_is_charged_while_a_child_of_a_dead_holder_has_it(self):
        self.serve()
        big = self.file("big", 3 * MIB)
        holder = self.read(big, name="holder", hold=2 * MIB)
        self.assertEqual(self.json("who")["readers"][0]["hold_bytes"], 2 * MIB)
        self.assertEqual(self.json("files")["files"][0]["hold_bytes"], 2 * MIB)
        self.assertIn("holds: 2.00 MiB of 15.0 MiB, 2.00 MiB of these in use", self.out("files"))
        holder.kill()
        holder.wait()
        wait_for(lambda: self.json("stat")["clients"] == 0)
        self.assertEqual([(r["pid"], r["attached"], r["hold_bytes"])
                          for r in self.json("who")["readers"]], [(holder.pid, False, 2 * MIB)])
        self.assertIn("(not attached)", self.out("who"))
        self.out("drop", big)
        self.assertEqual(self.json("stat")["hold_used_bytes"], 2 * MIB)
        holder.stdin.close()  # and the child ends
        wait_for(lambda: self.json("stat")["hold_bytes"] == 0)
        self.assertEqual(self.json("who")["readers"], [])
        self.assertEqual(self.json("stat")["holds"], 0)

    def test_lists_longer_than_a_page_are_whole(self):
        self.serve()
        paths = [self.file(f"{i:04}-{'x' * 200}", 1) for i in range(300)]
        reader = self.read(*paths, attachments=70)
        held = [f["path"] for f in self.json("files")["files"]]
        self.assertEqual(sorted(held), sorted(map(str, paths)))
        self.assertEqual(self.out("files").count("/0"), 20)
        self.assertIn("and 280 more", self.out("files"))
        self.assertEqual(self.out("files", "--all").count("/0"), 300)
        who = self.json("who")["readers"]
        self.assertEqual({r["pid"] for r in who}, {reader.pid})
        self.assertEqual([r["contexts"] for r in who], [1] * 70)

    def test_file_not_held_says_why(self):
        self.serve()
        empty, busy, good = self.file("empty", 0), self.file("busy", 9), self.file("good", 9)
        with open(busy, "r+b"):
            self.read(empty, busy, good)
            unknown = self.file("unknown", 9)
            why = {f["path"]: f for f in self.json("files")["not_cached"]}
            self.assertEqual(set(why), {str(empty), str(busy)})
            self.assertIn("empty", why[str(empty)]["why"])
            self.assertIn("open for writing", why[str(busy)]["why"])
            self.assertFalse(why[str(busy)]["revoked"])
            for f in why.values():
                self.assertIn(f"\n| {f['why']} |", PAGE)
            table = self.out("files", busy, unknown)
            self.assertIn(f"{busy}\n", table)
            self.assertIn(why[str(busy)]["why"], table)
            self.assertIn(f"{unknown}: the cache does not know it", table)
            self.assertNotIn(str(empty), table)
            self.assertEqual(self.json("files", unknown)["unknown"], [str(unknown)])
        done = self.ask("files", "/nonexistent")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "lodic: /nonexistent: No such file or directory\n"))

    def test_revoked_file_says_why(self):
        self.serve()
        path = self.file("data", 10 * BLOCK)
        self.read(path)
        self.assertEqual(len(self.json("files")["files"]), 1)
        with open(path, "r+b"):
            gone = wait_for(lambda: self.json("files")["not_cached"])
        self.assertEqual((gone[0]["path"], gone[0]["revoked"]), (str(path), True))
        self.assertIn("writ", gone[0]["why"])
        self.assertIn(gone[0]["why"], self.out("files"))

    def test_strange_names_cannot_steer_a_terminal(self):
        self.serve()
        path = self.file("a\x1b[2Jb\nc", 9)
        other = pathlib.Path(os.fsdecode(os.fsencode(self.folder) + b"/\xff"))
        other.write_bytes(b"x")
        self.read(path, other)
        table = self.out("files")
        self.assertNotIn("\x1b", table)
        self.assertIn(r"a\x1b[2Jb\x0ac", table)
        paths = [f["path"] for f in self.json("files")["files"]]
        self.assertEqual(len(paths), 2)
        self.assertIn(rf"{self.folder}/\xff", paths)


class Resize(Look):
    def test_what_stays_where_it_is_is_not_said_to_come_along(self):
        """Blocks begin with less than the size, and that is all that a resize changes here."""
        self.serve("--memory", "512M")
        self.read(self.file("data", 100 * BLOCK))
        done = self.ask("resize", "640M")
        self.assertEqual((done.returncode, done.stderr, done.stdout), (
            0, "", "the cache has 640 MiB now (it had 512 MiB)\n"))
        self.assertEqual(self.json("stat")["cached"], 100)

    def test_readers_go_on_and_the_next_service_knows(self):
        service = self.serve("--holds", "0")
        reader = self.read(self.file("data", 100 * BLOCK))
        before = self.json("stat")
        done = self.ask("resize", "32M")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"^the cache has 32\.0 MiB now \(it had 16\.0 MiB\); 100 of "
                                      r"100 blocks came along, in \d+ ms\n$")
        after = self.json("stat")
        self.assertEqual((after["service_pid"], after["admitted"], after["cached"]),
                         (service.pid, before["admitted"], 100))
        self.assertEqual(after["data_bytes"] // BLOCK, (32 << 20) // BLOCK + 1)
        wait_for(lambda: self.again(reader) or self.json("stat")["hits"] > after["hits"])
        left = pathlib.Path(f"{self.socket}.conf").read_text(encoding="utf-8")
        self.assertIn("memory = 33554432\n", left)
        answer = self.json("resize", "1M")
        self.assertEqual((answer["from_bytes"], answer["bytes"], answer["had"], answer["taken"]),
                         (32 << 20, 1 << 20, 100, 100))
        self.assertGreater(answer["ns"], 0)

    def test_heaps_do_not_grow(self):
        service = self.serve("--holds", "0")
        if "san.so" in pathlib.Path(f"/proc/{service.pid}/maps").read_text(encoding="utf-8"):
            self.skipTest("a sanitizer has its own heap")
        before = private_kib(service.pid)
        for _ in range(6):
            self.ask("resize", "64M")
            self.ask("resize", "256M")
        self.assertLess(private_kib(service.pid) - before, 5 << 10)

    def test_no_memory_for_it(self):
        self.serve("--holds", "0")
        done = self.ask("resize", "7T")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"the cache keeps its 16\.0 MiB: the cache needs \d+ MiB and")
        self.assertEqual(self.json("stat")["frames"], (16 << 20) // BLOCK)

    def test_wrong_usage(self):
        for words in [], ["1K"], ["1M", "2M"], ["much"]:
            self.assertEqual(self.ask("resize", *words).returncode, 2)


class Drop(Look):
    def test_one_file_goes_and_comes_back(self):
        self.serve()
        one, two = self.file("one", 10 * BLOCK), self.file("two", 5 * BLOCK)
        reader = self.read(one, two)
        self.assertEqual(self.json("stat")["cached"], 15)
        done = self.ask("drop", one)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, f"{one}: 10 blocks (40.0 KiB) let go\n")
        self.assertIn("programs have 1 of these files open", done.stderr)
        self.assertEqual(self.json("stat")["cached"], 5)
        self.assertEqual([f["path"] for f in self.json("files")["files"]], [str(two)])

        def comes_back():
            self.again(reader)
            return len(self.json("files")["files"]) == 2
        wait_for(comes_back)

    def test_all_go_but_what_is_pinned(self):
        self.serve()
        path = self.file("data", 10 * BLOCK)
        reader = self.read(path, pins=3)
        done = self.ask("drop", "--all")
        self.assertEqual((done.returncode, done.stdout),
                         (0, "1 file: 10 blocks (40.0 KiB) let go\n"))
        self.assertIn("3 blocks stay in memory until their readers unpin them", done.stderr)
        self.assertEqual(self.json("stat")["cached"], 3)
        self.end(reader)
        wait_for(lambda: self.json("stat")["cached"] == 0)
        self.assertEqual(self.out("drop", "--all"), "the cache holds no file\n")
        self.assertEqual(self.out("drop", path), f"{path}: the cache holds no such file\n")
        self.assertEqual(self.json("files")["not_cached"], [])

    def test_more_files_than_one_request_takes(self):
        self.serve()
        self.end(self.read(*(self.file(f"f{i}", 1) for i in range(300))))
        # The service closes 64 of them in a turn for the dead reader.
        wait_for(lambda: not any(f["opens"] for f in self.json("files")["files"]))
        self.assertEqual(self.out("drop", "--all"), "300 files: 300 blocks (1.17 MiB) let go\n")
        stat = self.json("stat")
        self.assertEqual((stat["cached"], stat["files"]), (0, 0))

    def test_wrong_usage(self):
        for words in [], ["--all", "file"]:
            self.assertEqual(self.ask("drop", *words).returncode, 2)

    def umount_after_drop(self, nr_files, mount_command):
        """Mounts, has the files cached, cannot unmount, drops, and unmounts."""
        mount = self.folder / "mount"
        mount.mkdir(exist_ok=True)
        script = f"""
            set -e
            cd "$5"
            PATH="$PATH:/sbin:/usr/sbin"
            {mount_command}
            for i in $(seq {nr_files}); do echo "$i" >"mount/f$i"; done
            "$2" serve --daemon --quiet -m 16M -s "$4" --immutable "$1/*" >/dev/null
            "$3" "$4" 1 0 mount/f* </dev/null >/dev/null
            umount "$1" 2>/dev/null && echo "not held"
            "$2" drop -s "$4" --all && umount "$1" && echo unmounted
            """
        # The service ends with the shell, which is the first process of its namespace.
        done = subprocess.run(["unshare", "--mount", "--pid", "--mount-proc", "--fork",
                               "--kill-child", "sh", "-c", script, "sh", mount, LODIC, READER,
                               self.socket, self.folder], capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        self.assertRegex(done.stdout, rf"\A{nr_files} files: {nr_files} blocks .* let go\n"
                                      r"unmounted\n\Z", (mount_command, done.stderr))
        self.socket.unlink()

    @unittest.skipIf(os.geteuid() != 0, "needs root, to mount")
    def test_umount_works_after_drop(self):
        self.umount_after_drop(2, "mount -t tmpfs none mount")
        self.umount_after_drop(2, "truncate -s 16M disk; mkfs.ext4 -q disk;"
                                  "mount -o loop disk mount")

    @unittest.skipIf(os.geteuid() != 0, "needs root, to mount")
    def test_umount_works_after_drop_where_workers_close(self):
        self.umount_after_drop(3000, "mkdir low; mount -t tmpfs none low; mkdir low/a low/b low/c;"
                                     "mount -t overlay -o lowerdir=low/a,upperdir=low/b,"
                                     "workdir=low/c overlay mount")


class Refused(Look):
    @unittest.skipIf(os.geteuid() != 0, "needs root, to be somebody else")
    def test_root_looks_at_another_users_service_and_a_user_does_not(self):
        self.folder.chmod(0o755)
        program = self.folder / "lodic"
        shutil.copy(LODIC, program)
        program.chmod(0o755)
        home = self.folder / "home"
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        self.socket = home / "s"
        service = self.serve(program=program, user=NOBODY, group=NOBODY, extra_groups=[])
        self.assertEqual(self.json("stat")["service_pid"], service.pid)
        self.assertEqual(self.json("files")["files"], [])
        self.assertEqual(self.json("who")["readers"], [])
        self.assertEqual(self.out("drop", "--all"), "the cache holds no file\n")
        for mode in 0o600, 0o666:  # the second: its user lets others connect
            self.socket.chmod(mode)
            for words in ["stat"], ["files"], ["who"], ["drop", "--all"], ["stat", "--watch"]:
                done = subprocess.run([program, *words, "-s", self.socket], user=SOMEBODY,
                                      group=SOMEBODY, extra_groups=[], capture_output=True,
                                      text=True, timeout=SECONDS, check=False)
                self.assertEqual((done.returncode, done.stdout), (1, ""), words)
                self.assertRegex(done.stderr, r"\Alodic: the service at .* belongs to another "
                                              r"user.*\n\Z")

    @unittest.skipIf(os.geteuid() != 0, "needs root, to be somebody else")
    def test_root_names_the_user_whose_service_it_is(self):
        script = """
            set -e
            mount -t tmpfs -o mode=755 none /run
            cp "$1" /run/lodic
            mount -t tmpfs -o mode=1777 none /tmp
            setpriv --reuid "$2" --regid "$2" --clear-groups \\
                /run/lodic serve --daemon --quiet -m 16M >/dev/null
            /run/lodic stat --json --user "$3"
            """
        done = subprocess.run(["unshare", "--mount", "--pid", "--mount-proc", "--fork",
                               "--kill-child", "sh", "-c", script, "sh", LODIC, str(NOBODY),
                               pwd.getpwuid(NOBODY).pw_name], capture_output=True, text=True,
                              timeout=SECONDS, check=False, cwd="/")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["socket"], f"/tmp/lodic-{NOBODY}/cache.sock")
        done = subprocess.run([LODIC, "stat", "--user", "no such user"], capture_output=True,
                              text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no user 'no such user'", done.stderr)

    def test_stopped_service_is_told_in_time(self):
        service = self.serve()
        self.read(self.file("data", BLOCK))
        service.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        looks = [self.start(LODIC, *words, "-s", self.socket, stderr=subprocess.PIPE)
                 for words in (["stat"], ["files"], ["who"], ["drop", "--all"])]
        for look in looks:
            out, err = look.communicate(timeout=SECONDS)
            self.assertEqual((look.returncode, out), (1, ""))
            self.assertEqual(err, f"lodic: the service at {self.socket} does not answer: it is "
                                  f"stopped (`kill -CONT {service.pid}' lets it go on)\n")
        self.assertLess(time.monotonic() - begin, LOOK_SECONDS)
        service.send_signal(signal.SIGCONT)
        self.assertEqual(self.json("stat")["clients"], 1)

    def test_no_service_is_told(self):
        for command in "stat", "files", "who":
            done = self.ask(command)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("no cache runs at", done.stderr)

    def test_lying_service_harms_nobody(self):
        """Root may look at another user's service, which may answer anything."""
        self.serve()
        self.read(*(self.file(f"f{i}", 1) for i in range(3)), self.file("e", 0))
        fake = self.folder / "fake"
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(listening.close)
        listening.bind(str(fake))
        listening.listen()
        chance = random.Random(SEED)

        def spoil(answer):
            answer = bytearray(answer)
            for _ in range(chance.randrange(4)):
                at = chance.randrange(len(answer))
                answer[at] = chance.choice([0, 1, 255, answer[at] ^ 1 << chance.randrange(8)])
            return bytes(answer[:chance.choice([len(answer)] * 5 + [chance.randrange(600)])])

        def lie():
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                with client, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as real, \
                        contextlib.suppress(OSError):
                    real.connect(str(self.socket))
                    while request := client.recv(1 << 16):
                        real.send(request)
                        client.send(spoil(real.recv(1 << 16)))
        liar = threading.Thread(target=lie)
        liar.start()
        try:
            statuses = set()
            for _ in range(60):
                for words in ["files", "--json"], ["who"], ["stat"], ["drop", "f0"]:
                    done = subprocess.run([LODIC, *words, "-s", fake], capture_output=True,
                                          timeout=SECONDS, check=False, cwd=self.folder)
                    self.assertIn(done.returncode, (0, 1), (words, done.stderr))
                    self.assertNotIn(b"Sanitizer", done.stderr)
                    statuses.add(done.returncode)
            self.assertEqual(statuses, {0, 1})
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            liar.join(SECONDS)


class Watch(Look):
    def test_does_not_keep_an_idle_service(self):
        service = self.serve("--idle-exit", "3")  # in which the watch begins
        watch = self.start(LODIC, "stat", "--watch", "--json", "-s", self.socket,
                           stderr=subprocess.PIPE)
        self.assertEqual(json.loads(watch.stdout.readline())["clients"], 0)
        self.assertEqual(service.wait(SECONDS), 0)
        self.assertIn("waiting for a service", watch.stderr.readline())

    def test_goes_on_with_a_successor(self):
        first = self.serve()
        reader = self.read(self.file("data", 10 * BLOCK))
        watch = self.start(LODIC, "stat", "--watch", "--json", "-s", self.socket,
                           stderr=subprocess.PIPE)
        line = json.loads(watch.stdout.readline())
        self.assertEqual((line["service_pid"], line["per_second"]), (first.pid, None))
        self.again(reader)
        # How much that is per second depends on when a busy machine lets the watch look.
        while line["hits"] < 20:
            line = json.loads(watch.stdout.readline())
        self.assertIn(line["per_second"]["hits"], range(1, 200))
        self.assertEqual((line["per_second"]["misses"], line["hits"]), (0, 20))
        line = json.loads(watch.stdout.readline())
        self.assertEqual((line["per_second"]["hits"], line["hits"]), (0, 20))
        first.kill()
        self.assertEqual(watch.stderr.readline(),
                         f"lodic: waiting for a service at {self.socket}\n")
        self.end(reader)
        second = self.serve()
        while line["service_pid"] == first.pid:  # what it had printed before
            line = json.loads(watch.stdout.readline())
        self.assertEqual((line["service_pid"], line["per_second"]), (second.pid, None))
        watch.send_signal(signal.SIGINT)
        self.assertEqual(watch.wait(SECONDS), 130)

    def test_begins_before_a_service(self):
        watch = self.start(LODIC, "stat", "--watch", "-s", self.socket, stderr=subprocess.PIPE)
        self.assertIn("waiting for a service", watch.stderr.readline())
        self.serve()
        self.assertRegex(watch.stdout.readline(), r"HITS/s .*HIT % +CACHED")
        self.assertEqual(watch.stdout.readline().split()[:6], ["0"] * 5 + ["-"])
        watch.send_signal(signal.SIGINT)
        self.assertEqual(watch.wait(SECONDS), 130)

    def test_terminal_is_redrawn_and_restored(self):
        self.serve()
        path = self.file("data", 10 * BLOCK)
        self.read(path)
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        watch = subprocess.Popen([LODIC, "stat", "--watch", "-s", self.socket], stdout=theirs,
                                 stdin=theirs, stderr=theirs)
        self.addCleanup(self.end, watch)
        os.close(theirs)
        seen = b""
        while seen.count(b"\033[H") < 2 or not seen.endswith(b"\033[J"):
            seen += os.read(ours, 65536)
        self.assertTrue(seen.startswith(b"\033[?1049h"))
        screen = seen.decode().split("\033[H")[-1]
        self.assertIn("1 held", screen)
        self.assertIn(str(path)[-20:], screen)
        watch.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the terminal's end
            while more := os.read(ours, 65536):
                seen += more
        self.assertTrue(seen.endswith(b"\033[?1049l"))
        self.assertEqual(watch.wait(SECONDS), 130)


if __name__ == "__main__":
    print("seed", SEED)
    unittest.main(argv=sys.argv[:1], verbosity=0)
