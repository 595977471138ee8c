# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A copy of the tree in which core/ has all generated mutants, its lodic-check and unit tests.

The copy is made of links, but for core/ and three hosts. Their text is written once more: core/
with mutants, each host_impl.h with points.h at its end, the sources of the host with points.c.
"""

import collections
import hashlib
import itertools
import json
import os
import pathlib
import re
import subprocess

import text

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
POINTS_H = ROOT / "check/generated/points.h"
# Rooms that call core/, besides core/ itself.
OTHERS = ["check", "include", "lib", "sim", "preload", "bench"]
NOT_COPIED = {"build", ".git", "core", "host", "check"}
HOSTS = ("check", "posix", "sim")
# What decides how a mutant fares. The search's own text does; its pages do not.
DECISIVE = ["core", "check", "host/check", "host/posix", "host/fiber", "host/random.h",
            "include/lodic", "tests/unit", "tests/support"]
DECISIVE_SUFFIXES = {".c", ".h", ".build"}
NO_MUTANTS = {"core/check.h"}
# Changed text makes warnings. What a mutant leaves unset is 0, in each run.
FLAGS = "-w -ftrivial-auto-var-init=zero"

# units: unit tests, as paths below ninja.
Built = collections.namedtuple("Built", "ninja program units mutants unread state")


class Failed(Exception):
    """What cannot go on, for people."""


def put(path, content):
    """Writes a file unless it is so already: ninja goes by times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != content:
        path.write_text(content)


def state_of(places=None):
    """A number for the text that decides how mutants fare."""
    digest = hashlib.sha256()
    for place in places or DECISIVE:
        top = ROOT / place
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and path.suffix in DECISIVE_SUFFIXES:
                digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    for path in (ROOT / "meson.build", pathlib.Path(text.__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def read_core():
    return {str(path.relative_to(ROOT)): path.read_text()
            for path in sorted((ROOT / "core").rglob("*.[ch]"))
            if str(path.relative_to(ROOT)) not in NO_MUTANTS}


def words_of(places):
    words = set()
    for place in places:
        for path in (ROOT / place).rglob("*.[ch]"):
            words.update(re.findall(r"\w+", path.read_text()))
    return words


def link(tree, name):
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_symlink():
        path.symlink_to(ROOT / name)


def be_folder(path):
    """An older copy may have a link there."""
    if path.is_symlink():
        path.unlink()


def write(tree, changed):
    """The copy, brought up to date."""
    for name in ("check", *(f"host/{host}" for host in HOSTS)):
        be_folder(tree / name)
    for path in ROOT.iterdir():
        if path.name not in NOT_COPIED:
            link(tree, path.name)
    for path in (ROOT / "host").iterdir():
        if path.name not in HOSTS:
            link(tree, f"host/{path.name}")
    for path in (ROOT / "check").iterdir():
        if path.name != "mutants":
            link(tree, f"check/{path.name}")
    # Without rows: named mutants are of another text.
    for path in (ROOT / "check/mutants").iterdir():
        if path.is_file():
            put(tree / "check/mutants" / path.name, path.read_text())
    written = [(ROOT / "host" / host).iterdir() for host in HOSTS]
    for path in itertools.chain((ROOT / "core").rglob("*"), *written):
        name = str(path.relative_to(ROOT))
        if path.is_file():
            put(tree / name, changed.get(name, path.read_text()) + additions(name))


def additions(name):
    for host in HOSTS:
        if name == f"host/{host}/host_impl.h":
            return '\n#include "check/generated/points.h"\n'
        if name == f"host/{host}/meson.build":
            return f"\nhost_{host}_sources += files('../../check/generated/points.c')\n"
    return ""


def run(command, log):
    with open(log, "w", encoding="utf-8") as f:
        done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=f,
                              stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        raise Failed(f"{command[0]} failed; {log} says why:\n" +
                     "\n".join(log.read_text().splitlines()[-20:]))


def unit_tests(ninja):
    """The programs that are one C test of the suite "unit", as paths below the build folder."""
    done = subprocess.run(["meson", "introspect", "--tests", str(ninja)], stdout=subprocess.PIPE,
                          check=True)
    commands = [test["cmd"] for test in json.loads(done.stdout) if "lodic:unit" in test["suite"]]
    return sorted({os.path.relpath(command[0], ninja) for command in commands
                   if len(command) == 1 and ninja / "tests" in pathlib.Path(command[0]).parents})


def compiled(ninja, top):
    """The files below that folder that went into what is built."""
    done = subprocess.run(["ninja", "-C", str(ninja), "-t", "deps"], stdout=subprocess.PIPE,
                          check=True)
    return set(re.findall(rf"/({top}/\S+\.[ch])$", done.stdout.decode(), re.MULTILINE))


def check_room(mutants):
    most = int(re.search(r"GENERATED_MAX (\d+)", POINTS_H.read_text())[1])
    if len(mutants) >= most:
        raise Failed(f"{len(mutants)} mutants; {POINTS_H} has room for {most}")


def build_all(folder, jobs, program, flags=FLAGS, more=()):
    """Builds that program, unit tests and what they need besides; returns the tests."""
    ninja = folder / "ninja"
    run(["sh", folder / "tree/tools/setup.sh", ninja, "-Dbuildtype=debugoptimized",
         "-Dtests=enabled", "-Ddebug_checks=true", f"-Dc_args={flags}"], folder / "setup.log")
    run(["ninja", "-C", ninja, f"-j{jobs}", program], folder / "build.log")
    units = unit_tests(ninja)  # after what ninja has set up anew
    run(["ninja", "-C", ninja, f"-j{jobs}", *units, *more], folder / "units.log")
    return units


def build(folder, jobs):
    """Makes folder/tree and folder/ninja; returns what there is to run."""
    tree, ninja = folder / "tree", folder / "ninja"
    changed, mutants, unread = text.generate(read_core(), words_of(OTHERS))
    check_room(mutants)
    write(tree, changed)
    units = build_all(folder, jobs, "lodic-check")
    there = compiled(ninja, "core")
    mutants = [m for m in mutants if m.file in there]
    put(folder / "mutants.json", json.dumps([m._asdict() for m in mutants], indent=0))
    return Built(ninja, ninja / "lodic-check", units, mutants, unread, state_of())


def environment(**more):
    """Nothing from outside chooses a mutant."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LODIC_GENERATED")}
    return {**kept, **{k: str(v) for k, v in more.items()}}
