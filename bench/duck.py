#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Asks DuckDB. Each line of stdin is a statement, and each line of stdout is its answer.

    bench/duck.py DATABASE [make ROWS | memory SIZE]

With `make` it makes the database: a table `a` of so many rows, of 20 bytes each. Otherwise it
opens the database read-only. SIZE is what its memory may have. Without it the limit is so low that
it keeps hardly a block. tools/wheels.sh has installed DuckDB.
"""

import os
import pathlib
import sys

WHEELS = pathlib.Path(os.environ.get("LODIC_WHEELS") or
                      pathlib.Path(__file__).resolve().parent.parent / "build" / "wheels")
MEMORY = "6MB"
# Reads all of the table, and what it says depends on each row.
SCAN = "select count(*), sum(b), min(c), max(c) from a where b % 7 = 3"


def lookup(row):
    return f"select c from a where i = {row}"


def installed():
    return os.access(WHEELS / "duckdb" / "__init__.py", os.R_OK)


def words(database, *more):
    return ["/usr/bin/python3", str(pathlib.Path(__file__).resolve()), str(database), *more]


def main():
    sys.path.insert(0, str(WHEELS))
    try:
        import duckdb  # pylint: disable=C0415
    except ImportError as error:
        sys.exit(f"duck: {error}: run tools/wheels.sh")
    if sys.argv[2:3] == ["make"]:
        with duckdb.connect(sys.argv[1]) as base:
            base.execute("create table a as select i, (i * 7919) % 1000003 as b, md5(i::varchar) "
                         f"as c from range({int(sys.argv[3])}) as t(i)")
        return
    memory = sys.argv[3] if sys.argv[2:3] == ["memory"] else MEMORY
    settings = {"memory_limit": memory, "threads": 2}
    with duckdb.connect(sys.argv[1], read_only=True, config=settings) as base:
        for line in sys.stdin:
            print(base.execute(line).fetchall(), flush=True)


if __name__ == "__main__":
    main()
