#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes what completes the programs' commands and options in bash and in zsh, from --help.

    completion.py --output DIR [--runner EMULATOR] PROGRAM...
"""

import argparse
import pathlib
import re
import shlex
import shutil
import sys

import help_text

# What an argument is, by its name in --help. Other names complete to nothing.
FILES = ("FILE", "PATH", "GLOB", "NAME|FILE")
KINDS = {**dict.fromkeys(FILES, "file"), "DIR": "folder"}
BY_OPTION = {"--user": "user", "--group": "group"}
CHOICE = re.compile(r"[a-z]+(\|[a-z]+)+$")
PROGRAM = re.compile(r"\b(CMD|PROGRAM)\b")
ZSH = {"file": "_files", "folder": "_files -/", "user": "_users", "group": "_groups"}


def kind_of(option):
    """What completes the value of an option. "none": nothing does. "": it takes no value."""
    if not option.arg:
        return ""
    if CHOICE.match(option.arg):
        return "words:" + option.arg.replace("|", " ")
    return BY_OPTION.get(option.long) or KINDS.get(option.arg, "none")


def argument_of(page):
    """What the words behind a command's options are."""
    usage = " ".join(page.usages)
    if PROGRAM.search(usage):
        return "program"
    return "file" if re.search(r"\bFILE\b", usage) else "none"


def bash_tables(top):
    for page in help_text.all_of(top):
        name = " ".join(page.words)
        words = []
        for option in page.options:
            needs = option.arg and not option.optional
            words += [option.long + "=" * bool(needs), *([option.short] if option.short else [])]
            kind = kind_of(option)
            for form in filter(None, (option.long, option.short)):
                if kind:  # a value that may be left out follows only upon '='
                    key = shlex.quote(f"{name} {form}")
                    yield f"_lodic_values[{key}]={shlex.quote('=' * option.optional + kind)}"
        yield f"_lodic_options[{shlex.quote(name)}]={shlex.quote(' '.join(words))}"
        yield f"_lodic_arguments[{shlex.quote(name)}]={argument_of(page)}"
        if page.children:
            children = " ".join([*(child.words[-1] for child in page.children), "help"])
            yield f"_lodic_commands[{shlex.quote(name)}]={shlex.quote(children)}"


def bash(top, common):
    name = top.words[0]
    return common + "\n" + "\n".join([*bash_tables(top), f"complete -F _lodic {name}"]) + "\n"


def zsh_text(text):
    """The first sentence of a text, for a place between brackets."""
    text = re.split(r"(?<=\w)(?:[.;:](?= |$)| \()", text, maxsplit=1)[0]
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def zsh_options(page):
    for option in page.options:
        forms = [form for form in (option.short, option.long) if form]
        several = "be given again" in option.text or "May be repeated" in option.text
        rest = f"[{zsh_text(option.text)}]"
        if option.arg:
            kind = kind_of(option)
            action = f"({kind.removeprefix('words:')})" if kind.startswith("words:") else \
                ZSH.get(kind, "")
            rest += f"{'::' if option.optional else ':'}{zsh_text(option.arg)}:{action}"
        for form in forms:
            joined = "" if not option.arg else "-" if option.optional else "+"
            if form == option.long:
                joined = {"": "", "-": "=-", "+": "="}[joined]
            first = "*" if several else f"({' '.join(forms)})"
            yield shlex.quote(f"{first}{form}{joined}{rest}")


def zsh_case(page):
    """The branch of one command."""
    name = " ".join(page.words)
    words = list(zsh_options(page))
    if page.children:
        words += ["'(-)1: :->command'", "'(-)*:: :->rest'"]
    elif argument_of(page) == "program":
        words += ["'(-):command:_command_names -e'", "'(-)*::arguments:_normal'"]
    elif argument_of(page) == "file":
        words.append("'*:file:_files'")
    yield f"\t({shlex.quote(name)})"
    yield "\t\t_arguments -s -S -C \\\n" + " \\\n".join(f"\t\t\t{word}" for word in words)
    if page.children:
        briefs = [shlex.quote(f"{child.words[-1]}:{child.brief.rstrip('.')}")
                  for child in page.children] + ["'help:Explain a command'"]
        yield "\t\tcommands=(\n" + "\n".join(f"\t\t\t{brief}" for brief in briefs) + "\n\t\t)"
    yield "\t\t;;"


ZSH_HEAD = """#compdef {names}
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Made by packaging/completion.py from the programs' --help.

# Completes the words of the command $1, as "lodic bench pin".
_lodic_at()
{{
	local curcontext=$curcontext state line name=$1
	local -a commands
	typeset -A opt_args
	case $name in"""
ZSH_TAIL = """	esac
	case $state in
	(command)
		_describe -t commands command commands
		;;
	(rest)
		if [[ $line[1] == help ]]; then
			_describe -t commands command commands
		else
			_lodic_at "$name $line[1]"
		fi
		;;
	esac
}

_lodic_at "$service"
"""


def zsh(tops):
    names = " ".join(top.words[0] for top in tops)
    lines = [ZSH_HEAD.format(names=names)]
    for top in tops:
        for page in help_text.all_of(top):
            lines += zsh_case(page)
    return "\n".join(lines) + "\n" + ZSH_TAIL


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", required=True, type=pathlib.Path, help="a new folder")
    parser.add_argument("--runner", action="append", default=[],
                        help="what runs the programs, where this machine cannot")
    parser.add_argument("programs", nargs="+", type=pathlib.Path)
    return parser.parse_args()


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    options = parse_options()
    common = pathlib.Path(__file__).with_suffix(".bash").read_text(encoding="utf-8")
    try:
        tops = [help_text.read(options.runner, program.resolve(), [program.name])
                for program in options.programs]
    except help_text.Problem as err:
        print(f"completion.py: {err}", file=sys.stderr)
        return 1
    shutil.rmtree(options.output, ignore_errors=True)
    for top in tops:
        write(options.output / "bash" / top.words[0], bash(top, common))
    write(options.output / "zsh" / "_lodic", zsh(tops))
    return 0


if __name__ == "__main__":
    sys.exit(main())
