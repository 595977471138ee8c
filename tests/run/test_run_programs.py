#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Programs of this system under `lodic run`: right answers, and the cache serves them.

    test_run_programs.py LODIC

The programs are Debian's fio, db_bench (rocksdb-tools), sqlite3, python3, perl, tar, grep and
rsync, which tools/deps.sh installs for `make check`. A program that is missing is a failure.
"""

import pathlib
import random
import re
import select
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from run_case import (  # pylint: disable=C0413
    MIB, PYTHON, Case, of_all_files, run, without_privileges)
from run_programs import Program, Programs, printed  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""


class Databases(Programs):
    """Programs that read by pread(2)."""

    def test_db_bench_checksums(self):
        base = ["db_bench", f"--db={self.folder}/db", "--num=50000", "--compression_type=none"]
        made = run([*base, "--benchmarks=fillrandom,compact", "--write_buffer_size=1048576",
                    "--seed=1"])
        self.assertEqual(made.returncode, 0, made.stderr.decode())

        def found(out, errors):
            self.assertNotIn(b"orruption", out + errors)
            return re.findall(rb"\w+ +:|\d+ of \d+ found", out)
        self.served("db_bench", [
            *base, "--benchmarks=readrandom,multireadrandom,readseq", "--use_existing_db=1",
            "--readonly", "--reads=100000", "--seed=2", "--cache_size=4096",
            "--verify_checksum=1"], found=found)

    def test_fio_psync_verify(self):
        data = self.folder / "data"
        job = ["fio", "--name=a", f"--filename={data}", "--size=8M", "--bs=4k",
               "--ioengine=psync", "--verify=crc32c", "--invalidate=0",
               f"--aux-path={self.folder}", "--output-format=terse"]
        made = run([*job, "--rw=randwrite", "--do_verify=0"], cwd=self.folder)
        self.assertEqual(made.returncode, 0, made.stderr.decode())
        job += ["--rw=randread", "--readonly", "--norandommap", "--io_size=512M"]
        # How many errors, and KiB.
        self.served("fio", job, found=lambda out, errors: (out.split(b";")[4:6], errors))
        # It would have seen a wrong block.
        with open(data, "r+b") as f:
            f.seek(5 * MIB + 100)
            f.write(b"wrong")
        done = run(self.under(job), cwd=self.folder)
        self.assertNotEqual(done.returncode, 0)

    def test_sqlite_read_only(self):
        data = self.folder / "db"
        made = run(["sqlite3", data, "create table a(b, c); with recursive n(i) as (values(1) "
                    "union all select i + 1 from n where i < 50000) insert into a "
                    "select i, i * i from n; create index d on a(c)"])
        self.assertEqual(made.returncode, 0, made.stderr.decode())
        self.served("sqlite3", ["sqlite3", "-readonly", data],
                    [b"pragma cache_size = 5; pragma integrity_check;\n"] +
                    [b"select sum(c) from a where b %% 7 = %d;\n" % (i % 7) for i in range(60)])

    def test_python_threads(self):
        self.file("data", 2 * MIB)
        self.served("python3", [PYTHON, "-c", """
import concurrent.futures, hashlib, os, random, sys
fd = os.open("data", os.O_RDONLY)
def part(seed):
    r, h = random.Random(seed), hashlib.md5()
    for i in range(500):
        h.update(os.pread(fd, r.randrange(20000), r.randrange(3 << 20)))
        to = [bytearray(100), bytearray(5000)]
        n = os.preadv(fd, to, r.randrange(3 << 20))
        h.update(b"".join(to)[:n])
    return h.hexdigest()
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    for line in sys.stdin:
        print(list(pool.map(part, range(int(line), int(line) + 4))))
"""], [b"%d\n" % i for i in range(8)])

    def test_sqlite_writes_left_alone(self):
        data = self.folder / "db"
        reports = self.same(["sqlite3", data, "drop table if exists a; create table a(b);"
                             "insert into a values (1), (2); update a set b = b + 1;"
                             "select sum(b) from a; pragma integrity_check"])
        self.assertEqual(of_all_files(reports, "sqlite3")["served"], 0)


class Trees(Programs):
    """Programs that read by read(2): the kernel does it all, and the report says so."""

    def setUp(self):
        super().setUp()
        chosen = random.Random(1)
        for number in range(60):
            path = self.folder / "tree" / str(number % 7) / f"f{number}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"line {chosen.randrange(10**6)}\n" for _ in range(500)))

    def tree(self, name, words, found=printed, at_work=None):
        """It prints more than a pipe holds, so it goes on only when this test reads that."""
        reports = self.check(
            Program(name, words, (), found),
            at_work or (lambda process: select.select([process.stdout], [], [], 0)[0]),
            lambda sums: sums["read_keeps_offset"] >= 60 and sums["served"] == 0)
        [one] = [r for r in reports if r["program"] == name and r["path"].endswith("/f17")][:1]
        self.assertEqual((one["read_keeps_offset"], one["served"]), (one["reads"], 0))

    def test_grep(self):
        self.tree("grep", ["grep", "-rn", "7", "tree"])

    def test_tar(self):
        self.tree("tar", ["tar", "-cf", "-", "--sort=name", "tree"])

    def test_perl(self):
        self.tree("perl", ["perl", "-e", "for (sort glob 'tree/*/*') { open F, $_; while (<F>) "
                           "{ print if /7/ } }"])

    def test_python(self):
        self.tree("python3", [PYTHON, "-c", """
import hashlib, pathlib
for path in sorted(pathlib.Path("tree").rglob("f*")):
    print(path, hashlib.md5(path.read_bytes()).hexdigest() * 100)
"""])

    def test_rsync(self):
        copy = self.folder / "copy"

        def found(*text):
            files = {path.name: path.read_bytes() for path in copy.rglob("f*")}
            shutil.rmtree(copy, ignore_errors=True)
            return text, files
        # A second or two.
        self.tree("rsync", ["rsync", "-r", "--checksum", "--bwlimit=300", "tree/", "copy/"], found,
                  lambda process: copy.exists() and list(copy.rglob("f*")))


if __name__ == "__main__":
    without_privileges(Case.lodic)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
