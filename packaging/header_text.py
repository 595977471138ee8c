# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A public header, as data: its opening comment, and what it declares, each with its comment."""

import collections
import re

# kind: "free" (a comment of its own), "type" (a struct or enum with its fields) or "function".
# name: of a function, else "". comment: its lines. code: its lines, as they stand.
Item = collections.namedtuple("Item", "kind name comment code")

TOKEN = re.compile(r"/\*.*?\*/|[ \t]*#(?:[^\n\\]|\\.|\\\n)*\n|extern \"C\" \{\n|\}\n(?=#endif)|"
                   r"\n[ \t]*(?=\n)|\s", re.DOTALL)
FUNCTION = re.compile(r"\b(lodic_\w+)\(")
BODY = re.compile(r"(?:struct|enum)(?: \w+)? \{")
DROPPED = re.compile(r"\b(?:LODIC_COUNTER_FORCED|LODIC_INLINE_FN|static inline) ")
# A block of a comment. kind: "text", "heading", "bullet", "error", "term" or "code".
Block = collections.namedtuple("Block", "kind tag lines")
ERROR = re.compile(r"(-E[A-Z0-9]+(?:, (?:-E[A-Z0-9]+|[a-z][^:.]*))*|0|1|true|false): +(.*)$")
NEXT_ERROR = re.compile(r"(?<=\.) (?=(?:-E[A-Z0-9]+(?:, -E[A-Z0-9]+)*|0|1|true|false): )")
TERM = re.compile(r"  (\w+) {2,}(\S.*)$")


def lines_of_comment(text):
    body = re.sub(r"^/\*+|\*+/$", "", text).split("\n")
    lines = [re.sub(r"^\s*\*(?: |(?=\t)|$)", "", line).rstrip() for line in body]
    lines[0] = lines[0].lstrip()
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def end_of(text, at):
    """Where a declaration ends: behind its ';', or behind the body of an inline function."""
    depth = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = text.index("*/", at) + 2
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if depth == 0 and (text[at - 1] == ";" or
                           (text[at - 1] == "}" and not text.startswith(";", at)
                            and not re.match(r"[ \t]*\w", text[at:]))):
            return at
    return at


def item_of(code, comment):
    """A declaration: a prototype without its body, or a type; None: no page shows it."""
    if BODY.match(code):
        return Item("type", "", comment, code.split("\n"))
    head = code.split("{")[0].rstrip().rstrip(";")
    function = FUNCTION.search(head)
    if not function:
        return Item("free", "", comment, []) if comment else None
    head = DROPPED.sub("", head) + ";"
    return Item("function", function[1], comment, [line.strip() for line in head.split("\n")])


def read(text, begin="", end=""):
    """(lines of the opening comment, items between the lines that contain begin and end)"""
    comments = re.findall(r"/\*.*?\*/", text, re.DOTALL)
    top = lines_of_comment(comments[1])
    at = text.index(begin) if begin else text.index(comments[1]) + len(comments[1])
    if begin:
        at = text.index("*/", at) + 2
    text = text[at:text.index(end) if end else len(text)]
    if end:
        text = text[:text.rindex("/*")]
    items, comment, at = [], [], 0
    while at < len(text):
        token = TOKEN.match(text, at)
        if token and token[0].startswith("/*"):
            comment, at = lines_of_comment(token[0]), token.end()
        elif token:
            if comment and token[0].count("\n") and text.startswith("\n", token.end()):
                items.append(Item("free", "", comment, []))
                comment = []
            at = token.end()
        else:
            until = end_of(text, at)
            item = item_of(text[at:until], comment)
            items += [item] if item else []
            comment, at = [], until
            if text[at:].split("\n", 1)[0].strip().startswith("/*"):  # what it is, behind it
                at = text.index("*/", at) + 2
    return top, items


def blocks(lines):
    """The blocks of a comment, in order."""
    found, last = [], None
    for i, line in enumerate(lines):
        follows = lines[i + 1] if i + 1 < len(lines) else ""
        error, term = ERROR.match(line), TERM.match(line)
        if not line:
            last = None
        elif line.startswith("\t"):
            if not found or found[-1].kind != "code":
                found.append(Block("code", "", []))
            elif last is None:
                found[-1].lines.append("")
            last = found[-1]
            last.lines.append(line[1:])
        elif line.startswith("- ") or error or term:
            kind = "error" if error else "term" if term else "bullet"
            match = error or term
            last = Block(kind, match[1] if match else "", [match[2] if match else line[2:]])
            found.append(last)
        elif last and last.kind != "code" and not ends(last, line):
            last.lines.append(line.strip())
        else:
            heading = last is None and not line.endswith((".", ":")) and \
                (follows.startswith("- ") or TERM.match(follows))
            last = Block("heading" if heading else "text", "", [line])
            found.append(last)
            last = None if heading else last
    return found


def errors(block):
    """(value, what it means) of each result that a block tells; several may share a line."""
    text = f"{block.tag}: {' '.join(block.lines)}"
    return [ERROR.match(part).groups() for part in NEXT_ERROR.split(text)]


def ends(block, line):
    """Does a line that is not indented begin something new behind an item?"""
    return block.kind in ("error", "bullet", "term") and not line.startswith(" ") and \
        block.lines[-1].endswith((".", ":")) and line[0].isupper()
