# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The man pages of the programs and their commands, from what --help says."""

import itertools

import help_text
import roff

SECTION_OF = {"Exit status": "Exit status", "Examples": "Examples"}
CHANGES = {"lodic": "a page cache that processes share"}  # a name's line, where --help has none
NOTE = ("What is named doc/*.md here is a page below share/doc/lodic, where lodic is installed, "
        "and in its source.")


def name_of(page):
    return "-".join(page.words)


def brief_of(page):
    text = page.brief.rstrip(".")
    return CHANGES.get(name_of(page), text[0].lower() + text[1:])


def write_options(out, options):
    out.heading("Options")
    for option in options:
        tag = roff.bold(option.long)
        if option.arg:
            value = "=" + roff.italic(option.arg)
            tag += f"[{value}]" if option.optional else value
        if option.short:
            tag = f"{roff.bold(option.short)}, {tag}"
        out.tagged(tag, roff.prose(option.text))


def write_lines(out, lines):
    """A paragraph, and indented lines as they stand."""
    for indented, run in itertools.groupby(lines, key=lambda line: line.startswith("  ")):
        if indented:
            out.code([line[2:] for line in run])
        else:
            out.paragraph(roff.prose(" ".join(run)))


def write_commands(out, title, page):
    out.heading(title)
    for child in page.children:
        out.tagged(f"{roff.bold(name_of(child))}(1)", roff.prose(child.brief))


def pages_of(top, version, programs):
    """(file name, text) for a program and all its commands. programs: which have pages at all."""
    pages = list(help_text.all_of(top))
    for page in pages:
        out = roff.Page(name_of(page), 1, version, brief_of(page))
        out.heading("Synopsis")
        for i, usage in enumerate(page.usages):
            out.lines += [".br"] * bool(i) + [roff.bold(" ".join(page.words)) + " " +
                                              roff.escape(usage.removeprefix(
                                                  " ".join(page.words)).strip())]
        out.heading("Description")
        write_lines(out, page.summary)
        plain = [lines for title, lines in page.blocks
                 if title not in SECTION_OF and title not in help_text.LISTS]
        for lines in plain:
            write_lines(out, lines)
        write_options(out, page.options)
        for title, lines in page.blocks:
            if title in help_text.LISTS:
                write_commands(out, title, page)
            elif title in SECTION_OF:
                out.heading(SECTION_OF[title])
                write_lines(out, [lines[0][0].upper() + lines[0][1:], *lines[1:]])
        if "doc/" in "".join(out.lines):
            out.heading("Notes")
            out.paragraph(roff.prose(NOTE))
        out.see_also([*((name_of(other), 1) for other in pages if other in page.children or
                        page in other.children), *relatives(page, programs)])
        yield f"man1/{name_of(page)}.1", out.text()


def relatives(page, programs):
    if page.words[0] != "lodic":
        return [("lodic", 1)]
    if len(page.words) > 1:
        return [("lodic.conf", 5)]
    return [*((name, 1) for name in sorted(programs) if name != "lodic"), ("liblodic", 3),
            ("lodic.conf", 5)]
