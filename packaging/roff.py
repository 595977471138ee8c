# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""A man page in roff's man macros, piece by piece."""

import re

ESCAPES = {"\\": "\\e", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti", '"': "\\(dq"}
# A hyphen inside a word; every other one is a minus, which can be copied into a shell.
HYPHEN = re.compile(r"(?<=[A-Za-z])-(?=[A-Za-z])")
# What is bold in running text: options, calls, and what stands in quotation marks of code.
MARKED = re.compile(r"`([^`']+)['`]|(?<![\w-])(--?[a-z][a-z0-9-]*)|\b(lodic_\w+\(\))|"
                    r"(?<![\w(/.-])(-E[A-Z0-9]+)\b")
PAGES = {"doc/settings.md": "lodic.conf(5)", "settings.md": "lodic.conf(5)"}


def escape(text):
    """Text as it is, with each '-' a minus."""
    return "".join(ESCAPES.get(c, "\\-" if c == "-" else c) for c in text)


def escape_words(text):
    """Running text: a hyphen stays a hyphen."""
    return escape(HYPHEN.sub("\0", text)).replace("\0", "-")


def bold(text):
    return f"\\fB{escape(text)}\\fP" if text else ""


def italic(text):
    return f"\\fI{escape(text)}\\fP" if text else ""


def prose(text):
    """Running text with its marks."""
    for name, page in PAGES.items():
        text = re.sub(rf"(?<![\w/]){re.escape(name)}", page, text)
    out, at = [], 0
    for found in MARKED.finditer(text):
        out += [escape_words(text[at:found.start()]), bold(found[found.lastindex])]
        at = found.end()
    return "".join(out) + escape_words(text[at:])


def guarded(line):
    """A line of text that roff must not take for a request."""
    return "\\&" + line if line[:1] in (".", "'") else line


class Page:
    """Collects lines. Text is given in roff already (prose(), bold() ...) unless it says so."""

    def __init__(self, name, section, version, brief, others=()):
        """others: more names under which man(1) finds the page."""
        self.name, self.section = name, section
        volume = {1: "User Commands", 3: "Library Functions", 5: "File Formats"}[section]
        self.lines = [
            ".\\\" SPDX-License-Identifier: GPL-2.0-only OR MIT",
            ".\\\" Made by packaging/man.py from the programs, headers and pages it describes.",
            f'.TH {escape(name.upper())} {section} "" "lodic {version}" "{volume}"',
            ".nh", ".ad l"]
        self.heading("Name")
        names = ", ".join(map(escape, dict.fromkeys([name, *others])))
        self.lines.append(f"{names} \\- {prose(brief)}")

    def heading(self, text):
        self.lines.append(f'.SH {escape(text.upper())}')

    def subheading(self, text):
        self.lines.append(f'.SS {escape(text)}')

    def paragraph(self, text):
        self.lines += [".PP", guarded(text)]

    def tagged(self, tag, text):
        self.lines += [".TP", guarded(tag), guarded(text) if text else "\\&"]

    def bullet(self, text, mark="\\(bu"):
        self.lines += [f".IP {mark} 4", guarded(text)]

    def code(self, lines):
        """Plain lines, as they stand."""
        self.lines += [".PP", ".in +4n", ".nf"]
        self.lines += [guarded(escape(line.expandtabs(8))) for line in lines]
        self.lines += [".fi", ".in"]

    def see_also(self, names):
        """names: (name, section) of other pages."""
        self.heading("See also")
        self.lines.append(",\n".join(f"{bold(name)}({section})" for name, section in names
                                     if (name, section) != (self.name, self.section)))

    def text(self):
        return "\n".join(self.lines) + "\n"


def link(name, section):
    """A page that is another page by a second name."""
    return f".so man{section}/{name}.{section}\n"
