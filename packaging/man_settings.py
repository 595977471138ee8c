# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""lodic.conf(5), from doc/settings.md."""

import re

import roff

LINK = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
MARK = re.compile(r"`([^`]+)`|\*([^*]+)\*")
FILES = ("/etc/lodic.conf", "~/.config/lodic.conf")
NUMBERED = re.compile(r"(\d+\.) +(.*)$")


def linked(found):
    """A link to a page of doc/ names it from the root of the source."""
    text, target = found[1], found[2]
    if re.match(r"https?:", target):
        return f"{text} ({target})"
    return f"doc/{target}" if text == target else text


def words(text):
    """Markdown's running text, in roff."""
    text = LINK.sub(linked, text)
    out, at = [], 0
    for found in MARK.finditer(text):
        out.append(roff.escape_words(text[at:found.start()]))
        out.append(roff.bold(found[1]) if found[1] else roff.italic(found[2]))
        at = found.end()
    return "".join(out) + roff.escape_words(text[at:])


def cells_of(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def write_table(out, lines):
    """A table of keys: what each is, and the value that it has by default."""
    head = cells_of(lines[0])
    for line in lines[2:]:
        key, text, default = cells_of(line)
        out.tagged(words(key), f"{words(text[0].upper() + text[1:])}. "
                               f"{head[2].capitalize()}: {words(default)}.")


def write_block(out, lines):
    """A run of lines between empty ones."""
    if lines[0].startswith("|"):
        write_table(out, lines)
    elif lines[0].startswith("    "):
        out.code([line[4:] for line in lines])
    elif NUMBERED.match(lines[0]):
        for line in lines:
            found = NUMBERED.match(line)
            if found:
                out.bullet(words(found[2]), found[1])
            else:
                out.lines.append(roff.guarded(words(line.strip())))
    else:
        out.paragraph(words(" ".join(line.strip() for line in lines)))


def page(text, version):
    """(file name, text) of the page."""
    out = roff.Page("lodic.conf", 5, version, "settings of the cache that lodic's programs share")
    out.heading("Synopsis")
    out.lines += [".br\n".join(f"{roff.bold(name)}\n" for name in FILES).rstrip("\n")]
    out.heading("Description")
    for block in re.split(r"\n{2,}", text.strip()):
        lines = block.split("\n")
        lines = [line for line in lines if not line.startswith(("<!--", "# "))]
        if lines and lines[0].startswith("## "):
            out.heading(lines[0][3:])
        elif lines:
            write_block(out, lines)
    out.see_also([("lodic", 1), ("lodic-serve", 1), ("lodic-stat", 1), ("liblodic", 3)])
    return "man5/lodic.conf.5", out.text()
