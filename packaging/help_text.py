# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What a program says to --help, as data: the one source of man pages and completion.

The texts are argp's. ARGP_HELP_FMT makes its lines long, so that a paragraph is one line.
"""

import collections
import os
import re
import subprocess

# usages: what follows "Usage:". blocks: the paragraphs behind the options, as (title, lines); a
# paragraph without a title has None. children: the pages of the program's commands.
Help = collections.namedtuple("Help", "words brief usages summary options blocks children")
# short: "-f" or "". arg: "PATH" or "". optional: the argument may be left out.
Option = collections.namedtuple("Option", "short long arg optional text")

OPTION = re.compile(r"(?:  (?P<short>-\S), |      )(?P<long>--[a-z][a-z0-9-]*)"
                    r"(?P<arg>=\S+|\[=[^\]]+\])?(?: +(?P<text>\S.*))?$")
USAGE = re.compile(r"(?:Usage: |  or:  )(\S.*)$")
TITLE = re.compile(r"([A-Z][a-z]+(?: [a-z]+)?):(?: |$)")
COMMAND = re.compile(r"  ([a-z][a-z-]*) {2,}(\S.*)$")
# What leads to other commands. `help` is no page of its own.
LISTS = ("Commands", "Measurements")
NOT_A_PAGE = ("help",)
# Commands of `lodic` that another program of the same folder has.
OF_OTHERS = {"bench": "lodic-bench", "demo": "lodic-bench"}
ARGP_SAYS = "Mandatory or optional arguments to long options are also mandatory"
ENVIRONMENT = {"ARGP_HELP_FMT": "rmargin=9999", "LC_ALL": "C"}


class Problem(Exception):
    """A text that this program does not understand."""


def ask(runner, program, words):
    """The lines that the program prints for `program WORDS --help`."""
    if words and words[0] in OF_OTHERS:  # a runner does not follow from one to the other
        program = program.with_name(OF_OTHERS[words[0]])
    done = subprocess.run([*runner, program, *words, "--help"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False,
                          env={**os.environ, **ENVIRONMENT})
    if done.returncode:
        raise Problem(f"{program} --help fails with status {done.returncode}: {done.stderr}")
    return done.stdout.rstrip("\n").split("\n")


def options_of(lines, name):
    """The options among the lines of one block."""
    found = []
    for line in lines:
        match = OPTION.match(line)
        if match:
            arg = match["arg"] or ""
            found.append(Option(match["short"] or "", match["long"], arg.strip("[]=").lstrip("="),
                                arg.startswith("["), match["text"] or ""))
        elif found and line.startswith(" " * 20):
            text = f"{found[-1].text} {line.strip()}".strip()
            found[-1] = found[-1]._replace(text=text)
        else:
            raise Problem(f"{name} --help: this is no option: {line}")
    return found


def paragraphs(lines):
    """Runs of lines between empty ones."""
    run = []
    for line in [*lines, ""]:
        if line.strip():
            run.append(line.rstrip())
        elif run:
            yield run
            run = []


def titled(run):
    """(title, lines) of a paragraph; what stands behind the title is its first line."""
    match = TITLE.match(run[0])
    if not match or (len(run) == 1 and match.end() == len(run[0])):
        return None, run
    first = run[0][match.end():]
    return match[1], [*([first] if first else []), *run[1:]]


def commands_of(lines):
    """(name, brief) of each command in a list; a text may take several lines."""
    found = []
    for line in lines:
        match = COMMAND.match(line)
        if match:
            found.append([match[1], match[2]])
        elif found:
            found[-1][1] += " " + line.strip()
    return [(name, text) for name, text in found if name not in NOT_A_PAGE]


def first_sentence(text):
    return re.split(r"[.:;](?= |$)", text, maxsplit=1)[0]


def read(runner, program, words, brief=""):
    """The help of a program, or of one of its commands, with all commands below it."""
    name = " ".join(words)
    lines = ask(runner, program, words[1:])
    usages = []
    while lines and USAGE.match(lines[0]):
        usages.append(USAGE.match(lines.pop(0))[1])
    summary, options, blocks = [], [], []
    for run in paragraphs(lines):
        if not options and run[0].startswith("  "):
            options = options_of(run, name)
        elif not options:
            summary.extend(run)
        elif run[0].startswith("  ") and not any(title in LISTS for title, _ in blocks):
            raise Problem(f"{name} --help: to what do these lines belong: {run[0]}")
        elif run[0].startswith("  "):  # a list of commands goes on behind an empty line
            blocks[-1][1].extend(run)
        elif not run[0].startswith(ARGP_SAYS):
            blocks.append(titled(run))
    if not usages or not summary or not options:
        raise Problem(f"{name} --help has no usage, no summary or no options")
    children = [read(runner, program, [*words, child], text)
                for title, block in blocks if title in LISTS
                for child, text in commands_of(block)]
    return Help(words, brief or first_sentence(" ".join(summary)), usages, summary, options,
                blocks, children)


def all_of(page):
    """A page and all below it."""
    yield page
    for child in page.children:
        yield from all_of(child)
