#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Tells meson what mutants there are for native tests, and writes their changed files.

    native.py --out DIR

DIR/NAME gets the changed copies of a row's files. It prints a line for each test of a row, with
tabs between

    NAME  ROW'S FILE  PROGRAM  ARGUMENTS  SOURCES  CHANGED

SOURCES are what must see the changed headers, and CHANGED all files that the row changes.
"""

import argparse
import pathlib
import sys

import rows


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    try:
        for row in rows.parse():
            if row.tests:
                rows.write(row, options.out / row.name)
            for program, *arguments in row.tests:
                print("\t".join([row.name, row.where[0], program, *map(" ".join, [
                    arguments, row.sources, rows.paths_of(row)])]))
    except rows.Problem as problem:
        sys.exit(f"native: {problem}")


if __name__ == "__main__":
    main()
