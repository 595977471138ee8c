#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Completion in bash and in zsh: what a user gets who has typed so far and then presses Tab.

bash runs the function as its line editor would, and prints what it offers. zsh runs on a terminal
of its own, and writes down what the line has become.

    test_completion.py FOLDER PROGRAM...
"""

import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

FOLDER = pathlib.Path(sys.argv[1]).resolve()
PROGRAMS = [pathlib.Path(path).resolve() for path in sys.argv[2:]]
SECONDS = 60
DEADLINE_S = 40
# Word breaks as in an interactive bash. The words stand in "$@"; the last one is completed.
BASH = """
source "$1"; shift
[ -z "$OFFSET" ] || eval '_command_offset() { echo "offset $1"; }'
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_lodic
printf '%s\\n' "${COMPREPLY[@]}"
"""
# Ctrl-T completes, and writes the line down.
ZSHRC = """
fpath=({folder}/zsh $fpath)
PS1='ready> '
autoload -Uz compinit && compinit -D -u
setopt no_beep
unsetopt auto_list auto_menu list_ambiguous
report() {{ zle complete-word; print -r -- "$BUFFER" >>{out}; BUFFER=; }}
zle -N report
bindkey '^T' report
"""


def bash(*words, env=None):
    script = FOLDER / "bash" / words[0]
    done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", script, *words],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          timeout=SECONDS, env={**os.environ, "OFFSET": "", **(env or {})})
    if done.returncode or done.stderr:
        raise AssertionError(f"{words}: {done.stderr}")
    return done.stdout.split()


def listed(program, *words):
    """(commands, long options) that --help lists."""
    text = subprocess.run([program, *words, "--help"], capture_output=True, text=True,
                          check=True).stdout
    return (re.findall(r"^  ([a-z]+)  +[A-Za-z]", text, re.MULTILINE),
            re.findall(r"^ {2,6}(?:-\S, )?(--[a-z-]+)(\[?=?)", text, re.MULTILINE))


class Bash(unittest.TestCase):
    def test_offers_each_command_and_option_of_help(self):
        nr = 0
        for program in PROGRAMS:
            commands, _ = listed(program)
            if commands:
                self.assertEqual(sorted(bash(program.name, "")), sorted(commands))
            for words in [[], *([name] for name in commands if name != "help")]:
                _, options = listed(program, *words)
                offered = bash(program.name, *words, "--")
                self.assertEqual(sorted(offered), sorted(
                    option + "=" * (value == "=") for option, value in options), words)
                nr += len(offered)
        self.assertGreater(nr, 150)

    def test_begun_words(self):
        self.assertEqual(bash("lodic", "se"), ["serve"])
        self.assertEqual(bash("lodic", "ru", ""), bash("lodic", ""))
        self.assertEqual(sorted(bash("lodic", "bench", "")),
                         ["counter", "help", "memory", "pin", "service", "tier"])
        self.assertEqual(bash("lodic", "help", "bench", "m"), ["memory"])
        self.assertEqual(bash("lodic", "bench", "pin", "--acc"), ["--access="])
        self.assertEqual(bash("lodic-sim", "drb"), ["drbh"])

    def test_values_with_and_without_equals(self):
        for words in (["--barrier", "=", ""], ["--barrier", ""]):
            self.assertEqual(bash("lodic", "bench", "service", *words), ["light", "lock", "auto"])
        self.assertEqual(bash("lodic", "serve", "--huge-pages", "=", "o"), ["off"])
        self.assertEqual(bash("lodic", "serve", "--huge-pages", "="), ["auto", "off"])
        self.assertEqual(bash("lodic", "serve", "--huge-pages=a"), ["--huge-pages=auto"])
        self.assertEqual(bash("lodic", "serve", "--memory", "=", "4G", "--lo"),
                         ["--log=", "--log-level="])
        self.assertEqual(bash("lodic", "serve", "--memory", ""), [])
        self.assertIn("root", bash("lodic", "stat", "--user", "=", "roo"))

    def test_files_and_folders(self):
        with tempfile.TemporaryDirectory(prefix="lodic-complete-") as folder:
            (pathlib.Path(folder) / "afile").touch()
            (pathlib.Path(folder) / "afolder").mkdir()
            a = f"{folder}/a"
            both = [f"{a}file", f"{a}folder"]
            self.assertEqual(sorted(bash("lodic", "files", a)), both)
            self.assertEqual(sorted(bash("lodic", "run", "--report", "=", a)), both)
            self.assertEqual(sorted(bash("lodic", "drop", "-s", a)), both)
            self.assertEqual(sorted(bash("lodic", "load", "--hold", a)), both)
            self.assertEqual(bash("lodic", "demo", "--workdir", "=", a), [f"{a}folder"])
            # A value of -r stands in the same word. So the next word is a program, or its folder.
            self.assertEqual(bash("lodic", "run", "-r", a), [f"{a}folder"])

    def test_program_that_is_run(self):
        self.assertIn("cat", bash("lodic", "run", "--report", "ca"))
        self.assertIn("cat", bash("lodic", "map", "--", "ca"))
        for words, at in ((["--report", "--", "cat", "-"], "4"), (["cat", "-"], "2"),
                          (["-s", "x", "cat", ""], "4"), (["--memory", "=", "4G", "ca"], "5")):
            self.assertEqual(bash("lodic", "run", *words, env={"OFFSET": "1"}),
                             ["offset", at], words)


class Zsh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("zsh"):
            raise unittest.SkipTest("there is no zsh")

    def completed(self, lines):
        """What each line becomes."""
        with tempfile.TemporaryDirectory(prefix="lodic-zsh-") as folder:
            out = pathlib.Path(folder) / "out"
            rc = ZSHRC.format(folder=shlex.quote(str(FOLDER)), out=out)
            (pathlib.Path(folder) / ".zshrc").write_text(rc, encoding="ascii")
            pid, terminal = pty.fork()
            if pid == 0:
                os.execvpe("zsh", ["zsh", "-d", "-i"], {**os.environ, "ZDOTDIR": folder,
                                                        "HOME": folder, "TERM": "dumb"})
            try:
                return self.typed(terminal, out, lines)
            finally:
                os.close(terminal)  # it ends: its terminal has gone
                os.waitpid(pid, 0)

    def typed(self, terminal, out, lines):
        end, seen, written = time.monotonic() + DEADLINE_S, b"", []
        for i, line in enumerate(lines):
            sent = False
            while len(written) == i:
                self.assertLess(time.monotonic(), end, seen[-2000:])
                if select.select([terminal], [], [], 0.05)[0]:
                    seen += os.read(terminal, 65536)
                if b"ready> " in seen and not sent:
                    os.write(terminal, line.encode() + b"\x14")
                    sent = True
                if out.exists():
                    written = out.read_text(encoding="utf-8").split("\n")[:-1]
        return written

    def test_lines(self):
        expected = {
            "lodic ser": "lodic serve ",
            "lodic bench mem": "lodic bench memory ",
            "lodic run --rep": "lodic run --report=",  # the shell takes '=' away again
            "lodic serve --barr": "lodic serve --barrier=",
            "lodic serve --huge-pages=o": "lodic serve --huge-pages=off ",
            "lodic serve --memory 4G --immu": "lodic serve --memory 4G --immutable=",
            "lodic bench pin --acc": "lodic bench pin --access=",
            "lodic-sim fig": "lodic-sim figure ",
            "lodic-check --mutants --jo": "lodic-check --mutants --jobs=",
            "lodic help resi": "lodic help resize ",
            "lodic tier --to fas": "lodic tier --to fast ",
        }
        self.assertEqual(dict(zip(expected, self.completed(list(expected)))), expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=0)
