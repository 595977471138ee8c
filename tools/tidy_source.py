# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What the rules of tidy share: how a rule is written down, and how C is taken apart.

A tree is a dict: path -> text. A rule is a function whose docstring is the rule. It looks at
a tree and yields (path, line, what is wrong). Its decorator holds the samples: trees that
break it, and a tree that does not.
"""

import functools
import re

C_SUFFIXES = (".c", ".h")
# Text of Linux, and programs that run on one. Its own rules (checkpatch.pl) say what it includes
# and how it counts.
OF_LINUX = ("kernel/files/", "kernel/tests/", "kernel/extra/")
# Neighbouring // lines are one comment.
C_TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*(?:\n[ \t]*//[^\n]*)*|"
                     r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.MULTILINE)

RULES = []


def rule(bad, good):
    """Enters a rule with its samples."""
    def enter(function):
        function.title = function.__name__.replace("_", "-")
        function.bad, function.good = bad, good
        RULES.append(function)
        return function
    return enter


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def blank(found):
    """Spaces in its place; lines stay lines."""
    return re.sub(r"[^\n]", " ", found[0])


@functools.cache
def code_of(text):
    """C without comments and literals, at the same places."""
    return C_TOKEN.sub(blank, text)


def without_comments(text):
    return C_TOKEN.sub(lambda m: blank(m) if m[0][0] == "/" else m[0], text)


@functools.cache
def comments_of(text):
    """The comments alone, at the same places."""
    pieces, last = [], 0
    for found in C_TOKEN.finditer(text):
        pieces.append(re.sub(r"[^\n]", " ", text[last:found.start()]))
        pieces.append(found[0] if found[0][0] == "/" else blank(found))
        last = found.end()
    return "".join(pieces) + re.sub(r"[^\n]", " ", text[last:])


def is_python(path, text):
    return path.endswith(".py") or re.match(r"#!.*\bpython", text)


def c_files(tree, *folders):
    for path, text in tree.items():
        if path.endswith(C_SUFFIXES) and (not folders or path.startswith(folders)):
            yield path, text


def includes_of(text):
    """(line, '"' or '<', name) of each #include."""
    for found in INCLUDE.finditer(without_comments(text)):
        yield line_of(text, found.start(1)), found[1], found[2]


def signatures_of(text):
    """(name, signature, first line, last line, body) of each C function: its braces stand
    alone in the first column."""
    lines = code_of(text).split("\n")
    start = None
    for i, line in enumerate(lines):
        if line.rstrip() == "{":
            start = i
        elif line.startswith("}") and start is not None:
            head, j = [], start - 1
            while j >= 0 and lines[j].strip() and not re.search(r"[;}]\s*$|^#", lines[j]):
                head.insert(0, lines[j])
                j -= 1
            signature = re.sub(r"__attribute__\s*\(\(.*?\)\)(?!\))", "", " ".join(head))
            name = re.search(r"(\w+)\s*\(", signature)
            yield (name[1] if name else "?", signature, start + 1, i + 1,
                   "\n".join(lines[start:i + 1]))
            start = None


def functions_of(text):
    """(name, first line, last line, body) of each C function."""
    for name, _, first, last, body in signatures_of(text):
        yield name, first, last, body
