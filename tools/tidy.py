#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The project's rules as a test.

    tools/tidy.py [--rule NAME]... [PATH...]

The rules stand in the files tidy_*.py, each with samples: trees that break it, and one that
does not. --self-test runs the rules on these, to show that each rule can fail.
The rules read the whole tree; with a PATH, tidy tells only what is wrong there.
"""

import argparse
import pathlib
import subprocess
import sys

import tidy_code  # noqa: F401
import tidy_paper  # noqa: F401
import tidy_port  # noqa: F401
import tidy_prose  # noqa: F401
import tidy_rooms
import tidy_structs  # noqa: F401
import tidy_text  # noqa: F401
import tidy_unused  # noqa: F401
import tidy_waits  # noqa: F401
from tidy_source import RULES

ROOT = pathlib.Path(__file__).resolve().parent.parent


def self_test():
    """Each rule catches what it is there for, and lets good text pass."""
    wrong = 0
    for rule in RULES:
        for tree in rule.bad:
            if not list(rule(tree)):
                print(f"tidy: {rule.title} does not catch {tree}")
                wrong += 1
        for problem in rule(rule.good):
            print(f"tidy: {rule.title} blames good text: {problem}")
            wrong += 1
    print(f"tidy: {len(RULES)} rules, {wrong} that do not work")
    return wrong


def read_tree():
    """The files that are, or would be, in the repository."""
    try:
        listed = subprocess.run(
            ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
        paths = sorted(set(listed.stdout.decode().split("\0")) - {""})
    except (OSError, subprocess.CalledProcessError):
        paths = sorted(str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                       if not {".git", "build", "__pycache__"} & set(p.parts))
    tree = {}
    for path in paths:
        p = ROOT / path
        if p.is_file():
            tree[path] = p.read_text(encoding="utf-8", errors="replace")
    return tree


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="rules:\n" + "\n".join(f"  {r.title:<17} {' '.join(r.__doc__.split())}"
                                      for r in RULES))
    parser.add_argument("--self-test", action="store_true", help="test the rules themselves")
    parser.add_argument("--rooms", action="store_true",
                        help="print the table of rooms for ARCHITECTURE.md")
    parser.add_argument("--rule", action="append", metavar="NAME",
                        choices=[r.title for r in RULES], help="only this rule; again for more")
    parser.add_argument("path", nargs="*", help="tell only problems below these paths")
    return parser.parse_args()


def main():
    options = parse_options()
    if options.self_test:
        return 1 if self_test() else 0
    if options.rooms:
        print(tidy_rooms.page_table(), end="")
        return 0

    tree = read_tree()
    rules = [r for r in RULES if not options.rule or r.title in options.rule]
    wanted = tuple(path.removeprefix("./") for path in options.path)
    problems = 0
    for rule in rules:
        for path, line, message in rule(tree):
            if not wanted or path.startswith(wanted):
                print(f"{path}:{line}: {message}")
                problems += 1
    print(f"tidy: {len(tree)} files, {len(rules)} rules, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
