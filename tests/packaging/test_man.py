#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The man pages, as man(1) shows them, beside what they describe.

That is each command and each option of the programs' --help, each function of the library, and
each key of lodic.conf.

The test reads --help as a user sees it, and shares no code with packaging/.

    test_man.py FOLDER SOURCE LIBRARY PROGRAM...
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER, SOURCE, LIBRARY = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
PROGRAMS = [pathlib.Path(path).resolve() for path in sys.argv[4:]]
SECONDS = 60
SKIP = 77
# In a list of commands: two blanks, a name, and a sentence.
COMMAND = re.compile(r"^  ([a-z]+)  +[A-Za-z]", re.MULTILINE)
OPTION = re.compile(r"^ {2,6}(?:(-\S), )?(--[a-z-]+)(\[?=\S+)?", re.MULTILINE)
# Exported for inline calls, and no function that a program names.
NOT_CALLED = re.compile(r"_call$|_0$")


def run(*command, **more):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                          capture_output=True, check=False, timeout=SECONDS, **more)


def shown(path, *more):
    """(what man(1) shows of a page, what it complains about)"""
    done = run("man", *more, "-l", path, env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8",
                                              "MANROFFOPT": "-c", "MAN_KEEP_FORMATTING": ""})
    return re.sub(r".\x08", "", done.stdout), done.stderr


def commands_of(program, words=()):
    """(words, --help) of a program, its commands, and theirs."""
    text = run(program, *words, "--help").stdout
    yield (program.name, *words), text
    listed = re.search(r"^(?:Commands|Measurements):\n(.*)", text, re.MULTILINE | re.DOTALL)
    for name in COMMAND.findall(re.split(r"\n\n(?=[A-Z`])", listed[1])[0]) if listed else []:
        if name != "help":
            yield from commands_of(program, (*words, name))


def lines_below(text, heading):
    """The lines of one section of a page as man(1) shows it."""
    section = re.search(rf"^{heading}\n(.*?)(?=^[A-Z])", text, re.MULTILINE | re.DOTALL)
    return [line.strip() for line in section[1].split("\n")] if section else []


def references(folder):
    """(page, name, section) of each page that another one names."""
    for path in folder.rglob("*.[135]"):
        for name, section in re.findall(r"\\fB(l[\w.\\-]*)\\fP\((\d)\)",
                                        path.read_text(encoding="utf-8")):
            yield path.name, name.replace("\\-", "-"), section


class Programs(unittest.TestCase):
    def test_each_command_and_option_is_on_its_page(self):
        expected, nr_options = set(), 0
        for program in PROGRAMS:
            for words, text in commands_of(program):
                name = "-".join(words)
                expected.add(f"{name}.1")
                page, _ = shown(FOLDER / "man1" / f"{name}.1")
                lines = lines_below(page, "OPTIONS")
                options = OPTION.findall(text)
                self.assertGreaterEqual(len(options), 3, name)
                for short, long, value in options:
                    line = f"{short}, {long}{value}" if short else f"{long}{value}"
                    self.assertTrue(any(found == line or found.startswith(line + " ")
                                        for found in lines), f"{name}: {line}")
                nr_options += len(options)
        self.assertEqual({path.name for path in (FOLDER / "man1").iterdir()}, expected)
        print(f"{len(expected)} pages of commands, {nr_options} options")

    def test_page_says_what_help_says(self):
        for program in PROGRAMS:
            for words, text in commands_of(program):
                page, _ = shown(FOLDER / "man1" / f"{'-'.join(words)}.1")
                has = set(re.findall(r"\w{4,}", page.lower()))
                # argp's own words, the command `help`, and a page in place of doc/settings.md.
                allowed = {"usage", "mandatory", "arguments", "corresponding", "also", "optional",
                           "short", "long", "options", "help", "show", "this", "text", "explains",
                           "command", "settings"}
                self.assertEqual(set(re.findall(r"\w{4,}", text.lower())) - has - allowed, set(),
                                 words)


class Pages(unittest.TestCase):
    def test_man_shows_each_without_a_warning(self):
        pages = sorted(FOLDER.rglob("*.[135]"))
        self.assertGreater(len(pages), 30)
        for path in pages:
            if path.read_text(encoding="utf-8").startswith(".so "):
                continue
            page, said = shown(path, "--warnings=w")
            self.assertEqual(said, "", path)
            self.assertRegex(page, r"(?s)\nNAME\n +\S.* - \S", path)

    def test_each_function_of_the_library_has_a_page(self):
        exported = {line.split()[-1].split("@")[0] for line in
                    run("nm", "-D", "--defined-only", LIBRARY).stdout.splitlines()
                    if " T lodic_" in line}
        names = {name for name in exported if not NOT_CALLED.search(name)}
        self.assertGreater(len(names), 30)
        for name in sorted(names):
            path = FOLDER / "man3" / f"{name}.3"
            self.assertTrue(path.exists(), f"{name}() has no page")
            text = path.read_text(encoding="utf-8")
            target = re.match(r"\.so (\S+)$", text)
            page, _ = shown(FOLDER / target[1] if target else path)
            self.assertTrue(any(f"{name}(" in line for line in lines_below(page, "SYNOPSIS")),
                            name)

    def test_each_link_leads_to_a_page_that_names_it(self):
        nr_links = 0
        for path in FOLDER.rglob("*.3"):
            target = re.match(r"\.so (\S+)$", path.read_text(encoding="utf-8"))
            if target:
                page, _ = shown(FOLDER / target[1])
                self.assertIn(path.stem, " ".join(lines_below(page, "NAME")))
                nr_links += 1
        self.assertGreater(nr_links, 10)

    def test_each_key_is_in_lodic_conf(self):
        table = (SOURCE / "doc" / "settings.md").read_text(encoding="utf-8")
        keys = {key for line in table.split("\n") if line.startswith("| `")
                for key in re.findall(r"`([a-z-]+)`", line.split("|")[1])}
        page, _ = shown(FOLDER / "man5" / "lodic.conf.5")
        lines = lines_below(page, "WHAT CAN BE SET")
        tags = {word for line in lines for word in re.findall(r"^([a-z-]+)(?:, ([a-z-]+))?(?: |$)",
                                                              line) for word in word}
        self.assertGreater(len(keys), 15)
        self.assertEqual(keys - tags, set())

    def test_each_reference_leads_to_a_page(self):
        # Also where lodic is built alone, without the programs that study schemes.
        with tempfile.TemporaryDirectory(prefix="lodic-man-") as folder:
            alone = pathlib.Path(folder) / "man"
            done = run("/usr/bin/python3", SOURCE / "packaging" / "man.py", "--source", SOURCE,
                       "--version", "0", "--output", alone, PROGRAMS[0])
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for pages in FOLDER, alone:
                found = list(references(pages))
                self.assertGreater(len(found), 100)
                for page, name, section in found:
                    self.assertTrue((pages / f"man{section}" / f"{name}.{section}").exists(),
                                    f"{page}: {name}({section})")


class Sources(unittest.TestCase):
    """A header that has more than the pages does not build."""

    def test_function_without_a_page_is_refused(self):
        with tempfile.TemporaryDirectory(prefix="lodic-man-") as folder:
            copy = pathlib.Path(folder) / "source"
            shutil.copytree(SOURCE / "include", copy / "include")
            (copy / "doc").mkdir()
            shutil.copy(SOURCE / "doc" / "settings.md", copy / "doc")
            header = copy / "include" / "lodic" / "lodic.h"
            text = header.read_text(encoding="ascii")
            self.assertIn("/* The version of the library", text)
            header.write_text(text.replace("/* The version of the library",
                                           "/* Is new. */\nint lodic_new(void);\n\n"
                                           "/* The version of the library"), encoding="ascii")
            done = run("/usr/bin/python3", SOURCE / "packaging" / "man.py", "--source", copy,
                       "--version", "0", "--output", pathlib.Path(folder) / "man", PROGRAMS[0])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"\Aman.py: lodic.h has lodic_new\(\), .*\n\Z")


if __name__ == "__main__":
    if not shutil.which("man"):
        print("skipped: there is no man(1) (package man-db)")
        sys.exit(SKIP)
    unittest.main(argv=sys.argv[:1], verbosity=0)
