#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""DuckDB under `lodic run`: a database that is only read.

    test_run_duckdb.py LODIC

tools/wheels.sh installs DuckDB, when it can reach a package index. Without it this is skipped.
"""

import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "bench")]

import duck  # pylint: disable=C0413
from run_case import Case, run, without_privileges  # pylint: disable=C0413
from run_programs import Program, Programs, printed  # pylint: disable=C0413

Case.lodic = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""


class DuckDB(Programs):
    """It reads 256 KiB at a time."""

    def test_duckdb_read_only(self):
        data = self.folder / "db"
        made = run(duck.words(data, "make", "500000"))
        self.assertEqual(made.returncode, 0, made.stderr.decode())
        asks = [duck.SCAN.encode() + b"\n"] * 40 + \
            [duck.lookup(i * 31337).encode() + b"\n" for i in range(10)]
        self.served("python3", duck.words(data), asks)

        # Its lock of the file stays, so a writer is refused.
        program = Program("python3", duck.words(data), asks, printed)
        reader = self.begin(program, lambda _: self.hits("python3") > 0)
        made = run(duck.words(data, "make", "10"))
        self.assertNotEqual(made.returncode, 0)
        self.assertIn(b"Conflicting lock", made.stderr)
        status, (_, errors) = self.end(program, reader)
        self.assertEqual((status, errors), (0, b""))


if __name__ == "__main__":
    if not duck.installed():
        print("no DuckDB here: run tools/wheels.sh where pip reaches a package index")
        sys.exit(77)
    without_privileges(Case.lodic)
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
