#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Builds the Debian packages from a copy of the tree, with Debian's own tools.

    deb.py [--output DIR] [--twice] [--quick]

The same commit gives the same bytes, wherever it is built: the date of the commit takes the place
of the clock's. --twice builds in two folders and compares. A builder who gives packages to others
puts a name and an address into DEBFULLNAME and DEBEMAIL.
"""

import argparse
import email.utils
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = {"dpkg-buildpackage": "dpkg-dev", "dh": "debhelper"}
TAIL_LINES = 30
FIRST_SECONDS, LOG_SECONDS = 2, 10  # before a line; a terminal's changes each second
STEP = re.compile(r"\[(\d+/\d+)\] |   (dh_\w+)")  # of ninja, and of debhelper
NO_GIT_DATE = 1704067200  # 2024-01-01: of a tree that no commit dates


class Problem(Exception):
    """What the user is told."""


def git(*words):
    """What git says of the tree; "": there is no git."""
    done = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *words],
                          capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def source_files():
    """The tree's files, also new ones; without git all but the build's."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    names = [pathlib.Path(name) for name in listed if name] or \
        [path.relative_to(ROOT) for path in ROOT.rglob("*")
         if path.relative_to(ROOT).parts[0] not in ("build", ".git")]
    return [name for name in names if (ROOT / name).is_symlink() or (ROOT / name).is_file()]


def version_of_tree():
    text = (ROOT / "meson.build").read_text(encoding="utf-8")
    return re.search(r"version: '([\d.]+)'", text)[1]


class Progress:
    """Says now and then how far the build is: its log goes to a file."""

    def __init__(self):
        self.began = time.monotonic()
        self.due = self.began + FIRST_SECONDS
        self.at = "dpkg-buildpackage"
        self.terminal = sys.stderr.isatty()

    def tell(self, line):
        """Of the build; "" when it says nothing for a while."""
        found = STEP.match(line)
        if found:
            self.at = found[1].replace("/", " of ") + " build steps" if found[1] else found[2]
        now = time.monotonic()
        if now < self.due:
            return
        self.due = now + (1 if self.terminal else LOG_SECONDS)
        text = f"deb: {self.at}, {now - self.began:.0f} s"
        print("\r\033[K" + text if self.terminal else text, file=sys.stderr,
              end="" if self.terminal else "\n", flush=True)

    def end(self):
        if self.terminal:
            print("\r\033[K", file=sys.stderr, end="", flush=True)


def run_told(command, log, **more):
    """Runs it, with its output in the file log, and tells how far it is. Returns its status."""
    progress = Progress()
    with open(log, "w", encoding="utf-8") as out, \
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, **more) as child:
        rest = b""
        while True:
            if not select.select([child.stdout], [], [], 1)[0]:
                progress.tell("")
                continue
            read = os.read(child.stdout.fileno(), 1 << 16)
            *lines, rest = (rest + read).split(b"\n")
            for line in lines + [rest] * (not read):
                text = line.decode(errors="replace")
                out.write(text + "\n")
                progress.tell(text)
            if not read:
                break
    progress.end()
    return child.returncode


class Source:
    """A copy of the tree with debian/ where Debian's tools look for it."""

    def __init__(self, folder):
        self.folder = folder / "lodic"
        self.commit = git("describe", "--always", "--dirty") or "unknown"
        date = os.environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct")
        self.date = int(date or NO_GIT_DATE)
        day = email.utils.formatdate(self.date)
        self.version = "{}+git{}.{}".format(
            version_of_tree(), "".join(f"{n:02}" for n in email.utils.parsedate(day)[:5]),
            self.commit.replace("-", "."))

    def write(self):
        shutil.rmtree(self.folder.parent, ignore_errors=True)
        for name in source_files():
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
        debian = self.folder / "debian"
        shutil.move(self.folder / "packaging" / "debian", debian)
        (self.folder / ".commit").write_text(self.commit + "\n", encoding="ascii")
        self.sign(debian / "control")
        (debian / "changelog").write_text(
            f"lodic ({self.version}) unstable; urgency=medium\n\n"
            f"  * Built from commit {self.commit}.\n\n"
            f" -- {self.maintainer}  {email.utils.formatdate(self.date)}\n", encoding="utf-8")

    def sign(self, control):
        """The builder's name, where the environment has it."""
        text = control.read_text(encoding="utf-8")
        name, address = (os.environ.get(key) for key in ("DEBFULLNAME", "DEBEMAIL"))
        if name and address:
            text = re.sub(r"(?m)^Maintainer: .*", f"Maintainer: {name} <{address}>", text)
        control.write_text(text, encoding="utf-8")
        self.maintainer = re.search(r"(?m)^Maintainer: (.*)", text)[1]

    def build(self, more):
        """The packages' paths."""
        options = f"noautodbgsym nocheck parallel={os.cpu_count()} {more}"
        log = self.folder.parent / "build.log"
        status = run_told(
            ["dpkg-buildpackage", "--build=binary", "--unsigned-changes", "--no-sign"], log,
            cwd=self.folder,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(self.date), "LC_ALL": "C.UTF-8",
                 "DEB_BUILD_OPTIONS": options})
        if status:
            tail = log.read_text(encoding="utf-8", errors="replace").split("\n")[-TAIL_LINES:]
            raise Problem("\n".join(tail) + f"\nthe packages could not be built; all is in {log}")
        return sorted(self.folder.parent.glob("*.deb"))


def build(folder, more):
    source = Source(folder)
    source.write()
    return source.build(more)


def compare(one, other):
    """The names of packages that are not the same in both."""
    differ = {path.name for path in one} ^ {path.name for path in other}
    for a in one:
        b = [path for path in other if path.name == a.name]
        if b and a.read_bytes() != b[0].read_bytes():
            differ.add(a.name)
    return sorted(differ)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "deb")
    parser.add_argument("--twice", action="store_true", help="build again elsewhere, and compare")
    parser.add_argument("--quick", action="store_true",
                        help="do not optimize: packages to look at, not to use")
    return parser.parse_args()


def make(output, twice, more=""):
    """Puts the packages into a folder. Returns the exit status."""
    try:
        for program, package in PROGRAMS.items():
            if not shutil.which(program):
                raise Problem(f"there is no {program} (package {package})")
        built = build(output / "work", more)
        if twice:
            differ = compare(built, build(output / "work-2" / "in-another-folder", more))
            if differ:
                raise Problem(f"not the same bytes in both builds: {', '.join(differ)}")
            print(f"{len(built)} packages, the same bytes in two builds")
            shutil.rmtree(output / "work-2")
        for old in output.glob("*.deb"):
            old.unlink()
        for path in built:
            shutil.move(path, output / path.name)
            print(f"{output / path.name}  {(output / path.name).stat().st_size} bytes")
    except Problem as err:
        print(f"deb: {err}", file=sys.stderr)
        return 1
    return 0


def main():
    options = parse_options()
    return make(options.output.resolve(), options.twice, "noopt" if options.quick else "")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\ndeb: stopped")
        sys.exit(130)
