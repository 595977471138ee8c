# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The rules of prose that a program can check: the words, and the length of sentences.

What is read: comments of C, comments and docstrings of Python, comments of files whose
licence stands behind a '#', Markdown, reStructuredText and the cover letter outside code, and
the strings of programs.
"""

import ast
import re

from tidy_source import C_SUFFIXES, C_TOKEN, is_python, rule

MAX_WORDS = 25
MAX_SEMICOLONS = 1

PAGE_SUFFIXES = (".md", ".rst", "-cover.txt")
HASHES = re.compile(r"\A(.*\n){0,2}# SPDX-")
# Other people's licences, and text whose hash stands beside results (doc/figures/drbh.svg).
NOT_OURS = ("LICENSES/", "sim/parameters/", "sim/topologies/")

BANNED = [
    (re.compile(r"(?:(?<=[.:;] )|(?<=^)(?=W))(who(?:ever)?|Whatever)(?= (?:is|has|\w{3,}s)\b"
                r"(?![^.?!]*\?))"), "name the actor: the reader, the service, the function"),
    (re.compile(r"(?:^|(?<=[.!?:;(] )|(?<=[.!?:;(]))\s*(Who(?:ever)?|Whom(?:ever)?|Whosever)\b"
                r"(?![^.?!]*\?)"), "name the actor: the reader, the service, the function"),
    (re.compile(r"\b([Ww]hoever)\b"), "name the actor: the reader, the service, the function"),
    (re.compile(r"\b([Hh]e|[Hh]is|[Hh]im|[Hh]imself|[Ss]he|[Hh]er|[Hh]ers)\b"),
     "a process is an 'it'"),
    (re.compile(r"\b(by and by|of late|to be had|can be had|as ever|unawares)\b", re.IGNORECASE),
     "say it in plain words"),
]
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|cf|vs|Fig|Figs|Eq|eq|et al|etc|No|approx|resp|St)\.$")
WORD = re.compile(r"[A-Za-z0-9]")
# A picture, a table or an interleaving, not a sentence.
PICTURE = re.compile(r"\S\s{3,}\S|[-=]{3,}|(?<!\|)\|(?!\|).*(?<!\|)\|(?!\|)|"
                     r"^\s*[|+`'^v]+\s*$|-->|<--|\t\S")
BULLET = re.compile(r"^\s*(?:[-*+]|\d+[.)]|[A-Z]\d{1,2}'?)\s+")


def c_comments(text):
    """(first line, lines) of each comment; neighbouring // lines count as one."""
    for found in C_TOKEN.finditer(text):
        if not found[0].startswith("/"):
            continue
        first = text.count("\n", 0, found.start()) + 1
        body = found[0]
        if body.startswith("/*"):
            body = re.sub(r"^/\*+|\*+/$", "", body)
        else:
            body = re.sub(r"^\s*//", "", body, flags=re.MULTILINE)
        yield first, [re.sub(r"^\s*\*(?: |$)?", "", line) for line in body.split("\n")]


def hash_comments(text):
    """(first line, lines) of each run of '#' lines, and of each comment behind code."""
    first, block = None, []
    for i, line in enumerate(text.split("\n")):
        found = re.match(r"\s*#(?!!)[: ]?(.*)", line)
        behind = re.match(r"(?!\s*#)(?:[^\"'#]|\"[^\"]*\"|'[^']*')*\s# (.*)", line)
        if behind:
            yield i + 1, [behind[1]]
        if found:
            first = first or i + 1
            block.append("" if found[1].startswith("SPDX-License-Identifier") else found[1])
        elif block:
            yield first, block
            first, block = None, []
    if block:
        yield first, block


def python_comments(text):
    """Comments, and strings that stand alone (docstrings)."""
    yield from hash_comments(text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and \
                isinstance(node.value.value, str):
            yield node.lineno, node.value.value.split("\n")


def indent_of(line):
    return len(line) - len(line.lstrip())


def page_blocks(text):
    """Paragraphs, list items and table cells of a page; code is left out."""
    fenced, first, block = False, None, []
    for i, line in enumerate(text.split("\n") + [""]):
        fence = line.lstrip().startswith("```")
        if fence:
            fenced = not fenced
        heading = line.startswith(("#", ".. ", "<!--"))
        cells = line.startswith("|")
        code = fenced or fence or (not block and line.startswith(("    ", "\t")))
        # The term of a definition in reStructuredText ends where its indented text begins.
        term = block and not BULLET.match(block[0]) and indent_of(line) != indent_of(block[0])
        if block and (not line.strip() or code or heading or cells or term or
                      BULLET.match(line)):
            yield first, block
            first, block = None, []
        if cells:
            for cell in line.strip("|").split("|"):
                yield i + 1, [cell, None]
        elif line.strip() and not code and not heading:
            first = first or i + 1
            block.append(line)


def blocks_of(path, text):
    if path.endswith(C_SUFFIXES):
        return c_comments(text)
    if path.endswith(PAGE_SUFFIXES):
        return page_blocks(text)
    if is_python(path, text):
        return python_comments(text)
    if HASHES.match(text):
        return hash_comments(text)
    return ()


def plain(line):
    """Code in back quotes, links and addresses are one word each."""
    line = re.sub(r"``?[^`]*``?", "`code`", line)
    line = re.sub(r"\]\([^)]*\)", "]", line)
    return re.sub(r"https?://\S+", "link", line)


def sentences(lines):
    """(line number in the block, sentence). A bullet, a blank line and a picture end one."""
    at, words = 0, []
    for i, line in enumerate([*lines, ""]):
        if line is None:
            continue
        bullet = BULLET.match(line)
        if not line.strip() or PICTURE.search(line) or bullet:
            if words:
                yield at, " ".join(words)
            words = []
            if not bullet:
                continue
            line = line[bullet.end():]
        for word in plain(line).split():
            if not words:
                at = i
            words.append(word)
            if re.search(r"[.!?][\"')\]]*$", word) and not ABBREVIATIONS.search(word):
                yield at, " ".join(words)
                words = []
    if words:
        yield at, " ".join(words)


def strings_of(path, text):
    """(line, string) of each literal in a program, which may be shown to somebody."""
    if path.endswith(C_SUFFIXES):
        for found in C_TOKEN.finditer(text):
            if found[0].startswith('"'):
                yield text.count("\n", 0, found.start()) + 1, found[0][1:-1]
    elif is_python(path, text):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value


def is_ours(path):
    return not path.startswith(NOT_OURS) and not path.startswith("tools/tidy")


@rule(bad=[{"a.c": "/* Who frees it waits. */\n"},
           {"a.h": "/* A frame. Whoever\n * reads it loses his pin. */\n"},
           {"a.c": "/* Whatever lies there is old. */\n"},
           {"a.c": "/* It is taken; who waits looks again. */\n"},
           {"a.py": '"""It comes by and by."""\n'},
           {"a.md": "| a | who: his page |\n"},
           {"a.c": 'f("he is gone");\n'}, {"a.py": 'f("he is gone")\n'},
           {"a.c": "/* Wait until he's done. */\n"}, {"kernel/a": "# SPDX-\nx=1 # his page\n"},
           {"a.c": "/* It goes to whoever asks. */\n"}],
      good={"a.c": '/* Who frees it? The reader does. */\nf("who: x");\n',
            "a.h": "/* The reader who waits. Whatever the reader does, it holds. */\n",
            "a.md": "    Who frees it waits\n"})
def prose_words(tree):
    """Prose names its actor: no 'Who does X' for a subject, no he or his for a process."""
    for path, text in tree.items():
        if not is_ours(path):
            continue
        for first, lines in blocks_of(path, text):
            for at, sentence in sentences(lines):
                for pattern, why in BANNED:
                    for found in pattern.finditer(sentence):
                        yield path, first + at, f"'{found[1]}': {why}"
        for line, string in strings_of(path, text):
            for pattern, why in BANNED:
                for word in pattern.finditer(string):
                    yield path, line, f"'{word[1]}': {why}"


LONG = "word " * 26 + "end."


@rule(bad=[{"a.c": f"/* {LONG} */\n"}, {"a.md": f"- {LONG}\n"},
           {"a.rst": f"``a``\n    {LONG}\n"}, {"a.md": f"1. x\n   {LONG}\n"},
           {"sim/t/a": f"#!/bin/sh\n# SPDX-\n# {LONG}\n"}, {"a.py": f'"""{LONG}"""\n'},
           {"a.h": "/* one; two; three. */\n"}, {"a.py": f"x = 1  # {LONG}\n"},
           {"a.c": f"// {'word ' * 20}\n// {'word ' * 6}\n"}],
      good={"a.c": f"/*\n * O1 {'word ' * 25}\n * O2 {'word ' * 25}\n */\n",
            "a.md": f"    {LONG}\n\n| {LONG} | b |\n", "a.py": f'f("x"\n  "{LONG}")\n',
            "a.rst": f"``a``\n    {'word ' * 20}\n``b``\n    {'word ' * 20}\n",
            "a.sh": f"# SPDX-License-Identifier: MIT\n# {'word ' * 24} end.\n"})
def prose_length(tree):
    """A sentence has at most 25 words and one semicolon; cells of tables are not counted."""
    for path, text in tree.items():
        if not is_ours(path):
            continue
        for first, lines in blocks_of(path, text):
            if lines[-1] is None:
                continue
            for at, sentence in sentences(lines):
                nr = sum(1 for word in sentence.split() if WORD.search(word))
                if nr > MAX_WORDS:
                    yield path, first + at, f"{nr} words in a sentence: {sentence[:50]}..."
                elif sentence.count(";") > MAX_SEMICOLONS:
                    yield path, first + at, f"more than one semicolon: {sentence[:50]}..."
