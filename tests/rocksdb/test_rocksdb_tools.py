#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Debian's db_bench and ldb, unchanged, on a database through lodic:// (liblodic-rocksdb.so).

    test_rocksdb_tools.py LODIC LIBRARY
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SECONDS = 100  # a run may take
KEYS = 60000
lodic, library = (pathlib.Path(path).resolve() for path in sys.argv[1:3])


def run(*command, **more):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=False,
                          timeout=SECONDS, **more)


class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-rocksdb-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.base = ["db_bench", f"--db={cls.folder}/db", f"--num={KEYS}",
                    "--compression_type=none"]
        made = run(*cls.base, "--benchmarks=fillrandom,compact", "--seed=1",
                   "--write_buffer_size=1048576")
        if made.returncode:
            raise AssertionError(made.stdout)

    def setUp(self):
        self.socket = self.folder / "cache"
        self.env = {**os.environ, "LD_PRELOAD": str(library), "LODIC_MEMORY": "64M"}
        self.addCleanup(self.end_service)

    def look(self, what):
        done = run(lodic, what, "--json", "--socket", self.socket)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def end_service(self, how=signal.SIGTERM):
        stat = self.look("stat")
        if stat:
            os.kill(stat["service_pid"], how)
        end = time.monotonic() + SECONDS
        while self.look("stat") and time.monotonic() < end:
            time.sleep(0.01)

    def read_command(self, *more, through=True):
        uri = [f"--fs_uri=lodic://{self.socket}"] if through else []
        return [*self.base, *uri, "--use_existing_db=1", "--readonly", "--seed=2",
                "--cache_size=4096", "--verify_checksum=1", "--open_files=-1", *more]

    def reads(self, *more, through=True):
        """How many keys db_bench has found, each time."""
        done = run(*self.read_command(
            "--benchmarks=readrandom,multireadrandom,readseq,verifychecksum", "--reads=30000",
            *more, through=through), env=self.env if through else None)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("orruption", done.stdout)
        found = re.findall(r"\d+ of \d+ found", done.stdout)
        self.assertEqual(len(found), 2, done.stdout)
        return found

    def test_db_bench_finds_the_same(self):
        without = self.reads(through=False)

        def mostly_hits():
            self.assertEqual(self.reads(), without)  # which has started the service
            stat = self.look("stat")
            self.assertEqual(stat["holds_given"], 0)
            return stat["hits"] > stat["misses"]
        self.wait_for(mostly_hits)  # a busy service may fill after many of the first reads
        self.assertEqual(self.reads("--mmap_read=1"), without)
        self.assertGreater(self.look("stat")["holds_given"], 0)
        self.assertEqual(self.reads("--use_direct_reads=1"), without)
        self.assertEqual(self.reads("--async_io=1"), without)

    def test_four_at_once_are_seen_and_one_is_killed(self):
        self.reads("--mmap_read=1")
        alone = self.look("stat")["hold_bytes"]
        readers = [subprocess.Popen(
            list(map(str, self.read_command("--benchmarks=readrandom", "--duration=3600",
                                            f"--mmap_read={number % 2}"))),
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL) for number in range(4)]
        try:
            self.wait_for(lambda: self.nr_reading() == [2, 2])
            self.wait_for(lambda: self.look("stat")["hold_used_bytes"] >= alone > 0)
            self.assertLessEqual(self.look("stat")["hold_bytes"], alone)
            readers[0].kill()
            self.wait_for(lambda: self.nr_reading() == [1, 2])
            self.wait_for(lambda: self.look("stat")["reaped"] > 0)
            self.assertEqual([r.poll() for r in readers[1:]], [None] * 3)
        finally:
            for reader in readers:
                reader.kill()
                reader.wait()
        self.wait_for(lambda: self.look("stat")["hold_used_bytes"] == 0)
        self.wait_for(lambda: self.look("stat")["contexts"] == 0)

    def nr_reading(self):
        """(by copies, by slices)"""
        readers = [r for r in self.look("who")["readers"] if r["attached"]]
        return [sum(r["hits"] > 1000 for r in readers), sum(r["hold_bytes"] > 0 for r in readers)]

    def wait_for(self, condition):
        end = time.monotonic() + SECONDS
        while not condition():
            self.assertLess(time.monotonic(), end, "it has not come")
            time.sleep(0.02)

    def test_no_cache_says_why_and_runs(self):
        done = run(*self.read_command("--benchmarks=readrandom", "--reads=1000"),
                   env={**self.env, "LODIC_MEMORY": "lots"})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, "lodic: RocksDB runs without a cache: "
                                      ".*LODIC_MEMORY: 'lots' is not a size")
        self.assertRegex(done.stdout, r"\d+ of \d+ found")

    def test_ldb_reads_the_same(self):
        def scan(*more, **how):
            done = run("ldb", f"--db={self.folder}/db", *more, "scan", "--hex", **how)
            self.assertEqual(done.returncode, 0, done.stdout)
            return done.stdout
        without = scan()
        self.assertGreater(len(without), KEYS)

        def hits():
            self.assertEqual(scan(f"--fs_uri=lodic://{self.socket}", env=self.env), without)
            return self.look("stat")["hits"]
        self.wait_for(hits)  # a busy service may fill after the first scan's reads


if __name__ == "__main__":
    if not (shutil.which("db_bench") and shutil.which("ldb")):
        print("db_bench and ldb are not here: rocksdb-tools is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
