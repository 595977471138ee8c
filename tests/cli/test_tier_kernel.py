#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`lodic tier --kernel`, with files that stand in for those of a kernel with KLOC.

    test_tier_kernel.py LODIC

The real ones are looked at in a guest: kernel/tests/. Exit status 77: no root, or no mount
namespace can be made here.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

LODIC = os.path.abspath(sys.argv[1])
SECONDS = 30
NOBODY = 65534
PAGE = os.sysconf("SC_PAGESIZE")
ENTER = ["unshare", "-m", "sh", "-c",
         'mount --bind "$1" /sys/kernel/mm && mount --bind "$2" /sys/kernel/debug && shift 2 && '
         'exec "$@"', "sh"]
SETTINGS = {"enabled": "1", "policy": "naive nimble autonuma kloc-nomigration [kloc]",
            "promote": "0", "age_limit": "16", "ping_pong": "8", "forgive": "64",
            "tick_ms": "1000", "rate_mb": "0", "memsize": "0 536870912\n1 max",
            "stat": "knodes 3\nactive 1\nunlinked 0\ndemoted 4096\nnew_one 7\ninactive 2"}


class Kernel(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-kernel-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.mm, self.debug = self.folder / "mm", self.folder / "debug"
        self.file = self.folder / "file"
        self.file.write_bytes(b"x")
        for place in self.mm / "kloc", self.debug / "kloc":
            place.mkdir(parents=True)
        for name, text in SETTINGS.items():
            (self.mm / "kloc" / name).write_text(text + "\n", encoding="ascii")
        st = self.file.stat()
        self.knodes("254:0 12 active 1 0 2 4096 0", "254:0 13 inactive 0 77 1 0 9000",
                    f"{os.major(st.st_dev)}:{os.minor(st.st_dev)} {st.st_ino} unlinked 2 5 0 3 4")

    def knodes(self, *lines):
        (self.debug / "kloc" / "knodes").write_text("".join(line + "\n" for line in lines),
                                                    encoding="ascii")

    def tier(self, *options, status=0, enter=None):
        words = [*ENTER, self.mm, self.debug, *(enter or []), LODIC, "tier", "--kernel", *options]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr == "", status == 0)
        return done

    def test_json_has_settings_counters_and_every_knode(self):
        o = json.loads(self.tier("--json").stdout)
        self.assertIs(o["enabled"], True)
        self.assertEqual((o["policy"], o["age_limit"], o["promote"]), ("kloc", 16, 0))
        self.assertEqual(o["memsize"], {"0": 536870912, "1": None})
        self.assertEqual((o["stat"]["demoted"], o["stat"]["new_one"]), (4096, 7))
        self.assertEqual([(k["ino"], k["state"], k["pages"]) for k in o["knodes"][:2]],
                         [(13, "inactive", [0, 9000]), (12, "active", [4096, 0])])
        self.assertEqual((o["knodes"][0]["dev"], o["knodes"][0]["age"], o["knodes"][0]["moves"]),
                         ("254:0", 77, 1))

    def test_table_of_named_file_has_only_that(self):
        said = self.tier(self.file).stdout
        self.assertIn("kloc is on, policy kloc, no promotion", said)
        self.assertIn("node 0: at most 512 MiB", said)
        rows = [line for line in said.splitlines() if "unlinked" in line][1:]
        self.assertEqual(len(rows), 1)
        self.assertRegex(rows[0], rf" 2 +5 +0 +\d+:\d+ +{self.file}\Z")
        self.assertNotIn("inactive  ", said)
        o = json.loads(self.tier("--json", self.file).stdout)
        self.assertEqual([(k["path"], k["pages"]) for k in o["knodes"]], [(str(self.file), [3, 4])])

    def test_many_knodes_table_is_short(self):
        self.knodes(*(f"8:1 {i} active 1 0 0 {i} 0 1" for i in range(1, 31)))
        said = self.tier().stdout.splitlines()
        self.assertEqual(said[-1], "and 10 more; --json prints them")
        self.assertIn("NODE 2", "\n".join(said))
        self.assertEqual(len(json.loads(self.tier("--json").stdout)["knodes"]), 30)

    def test_off_without_knodes(self):
        (self.mm / "kloc" / "enabled").write_text("0\n", encoding="ascii")
        self.knodes()
        self.assertIn("kloc is off", self.tier().stdout)
        self.assertEqual(json.loads(self.tier("--json").stdout)["knodes"], [])

    def test_named_file_without_knode_or_file_fails(self):
        self.assertIn("no knode of it", self.tier("/", status=1).stderr)
        self.assertIn("No such file", self.tier("/nonexistent", status=1).stderr)

    def test_no_debugfs_says_what_to_do_and_prints_the_rest(self):
        shutil.rmtree(self.debug / "kloc")
        done = self.tier(status=1)
        self.assertIn("mount -t debugfs", done.stderr)
        self.assertIn("policy kloc", done.stdout)
        self.assertIsNone(json.loads(self.tier("--json", status=1).stdout)["knodes"])

    def test_other_user_is_told_that_root_may(self):
        self.debug.chmod(0o700)
        for place in self.folder, self.mm, self.mm / "kloc":
            place.chmod(0o755)
        copy = self.folder / "lodic"
        shutil.copy(LODIC, copy)
        enter = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"]
        words = [*ENTER, self.mm, self.debug, *enter, copy, "tier", "--kernel"]
        done = subprocess.run([str(w) for w in words], capture_output=True, text=True,
                              timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"\Alodic: .*only root may read: sudo lodic tier --kernel\n")
        self.assertIn("policy kloc", done.stdout)

    def test_kernel_without_kloc_is_told(self):
        shutil.rmtree(self.mm / "kloc")
        done = self.tier(status=1)
        self.assertRegex(done.stderr, r"\Alodic: this kernel has no KLOC: .*\n\Z")
        self.assertEqual(done.stdout, "")

    def test_line_of_another_kernel_is_refused(self):
        good = "8:1 5 active 1 0 0 7 7"
        for bad in "", "8:1", "8:1 5 active 1 0 0", "8:1 5 active 1 0 0 x", good + " 7", \
                "8:1 5 a-state-with-a-long-name 1 0 0 7 7", good + " " * 10000 + "x", \
                good + " 1" * 2000:
            self.knodes(good, bad)
            self.assertIn("not as this lodic knows it", self.tier("--json", status=1).stderr)

    def test_options_that_do_not_fit_are_refused(self):
        for words in ["--to", "fast", str(self.file)], ["--watch"], ["--wait"]:
            self.assertIn("goes with", self.tier(*words, status=2).stderr)


if __name__ == "__main__":
    if os.geteuid() != 0 or not os.path.isdir("/sys/kernel/debug") or \
            subprocess.run(["unshare", "-m", "mount", "--bind", "/tmp", "/sys/kernel/mm"],
                           stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("only root can make a mount namespace here")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
