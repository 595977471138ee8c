#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes the man pages: of each program and its commands, of the library, and lodic.conf(5).

Each has one source, and nothing is written twice: --help of the programs, the comments of the
headers, and doc/settings.md. The build calls it (packaging/meson.build).

    man.py --source SOURCE --version VERSION --output DIR [--runner EMULATOR] PROGRAM...
"""

import argparse
import pathlib
import shutil
import sys

import help_text
import man_headers
import man_programs
import man_settings


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, type=pathlib.Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--output", required=True, type=pathlib.Path, help="a new folder")
    parser.add_argument("--runner", action="append", default=[],
                        help="what runs the programs, where this machine cannot")
    parser.add_argument("programs", nargs="+", type=pathlib.Path)
    return parser.parse_args()


def pages(options):
    for program in options.programs:
        top = help_text.read(options.runner, program.resolve(), [program.name])
        yield from man_programs.pages_of(top, options.version,
                                         [other.name for other in options.programs])
    yield from man_headers.pages(options.source / "include" / "lodic", options.version)
    settings = options.source / "doc" / "settings.md"
    yield man_settings.page(settings.read_text(encoding="utf-8"), options.version)


def main():
    options = parse_options()
    new = options.output.with_name(options.output.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        for name, text in pages(options):
            path = new / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except help_text.Problem as err:
        print(f"man.py: {err}", file=sys.stderr)
        return 1
    shutil.rmtree(options.output, ignore_errors=True)
    new.rename(options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
