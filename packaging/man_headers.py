# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The man pages of the library, from the comments of its headers."""

import header_text
import help_text
import roff

COMPILE = "cc program.c $(pkg-config --cflags --libs lodic)"
# A page of lodic.h: its functions, the first of which names it, and what they do. Each function of
# the header is in one page.
GROUPS = [
    (["lodic_attach", "lodic_detach"], "connect this process to the cache, and end that"),
    (["lodic_context_open", "lodic_context_close"], "a reader of the cache for one thread"),
    (["lodic_open", "lodic_close", "lodic_file_cached"], "a file that is read through the cache"),
    (["lodic_read", "lodic_readv"], "read from the cache, or else from the kernel"),
    (["lodic_pin", "lodic_pinv", "lodic_unpin"], "keep a cached block where it is, and look at it"),
    (["lodic_view_begin", "lodic_view_valid"], "look at a cached block that nothing keeps"),
    (["lodic_prefetch"], "ask for a part of a file"),
    (["lodic_hold", "lodic_hold_ready", "lodic_hold_event", "lodic_hold_data", "lodic_hold_bytes",
      "lodic_hold_fd", "lodic_release"], "a range of a file as memory of any thread"),
    (["lodic_stat", "lodic_context_stat"], "what the cache and a context have done"),
    (["lodic_strerror", "lodic_version", "lodic_scheme_name"], "errors and names as text"),
]
OTHERS = [("lodic-reason", 3), ("lodic-counter", 3), ("lodic-inline", 3)]


def write_blocks(out, blocks, headings):
    """The blocks of a comment. headings: `heading` or `subheading` of out."""
    in_section = False
    for block in blocks:
        text = roff.prose(" ".join(block.lines))
        if block.kind == "heading":
            headings(block.lines[0])
            in_section = True
        elif block.kind == "code":
            out.code(block.lines)
        elif block.kind == "bullet":
            out.bullet(text)
        elif block.kind == "error":
            for value, meaning in header_text.errors(block):
                out.tagged(roff.bold(value), roff.prose(meaning))
        elif block.kind == "term":
            out.tagged(roff.bold(block.tag), text)
        else:
            if in_section and headings == out.heading:
                out.heading("Notes")
                in_section = False
            out.paragraph(text)


def write_synopsis(out, header, items):
    out.heading("Synopsis")
    out.lines += [".nf", roff.bold(f"#include <lodic/{header}>")]
    for item in items:
        if item.kind == "function":
            first, *more = item.code
            out.lines += ["", roff.bold(first), *(roff.bold(" " * 8 + line) for line in more)]
    out.lines += ["", f"{roff.escape(COMPILE)}", ".fi"]


def write_items(out, items):
    """Types as they stand; functions that share a comment under one heading."""
    for i, item in enumerate(items):
        if item.kind == "function" and (item.comment or items[i - 1].kind != "function"):
            names = [item.name]
            for other in items[i + 1:]:
                if other.kind != "function" or other.comment:
                    break
                names.append(other.name)
            out.subheading(", ".join(f"{name}()" for name in names))
        write_blocks(out, header_text.blocks(item.comment), out.subheading)
        if item.kind == "type":
            out.code(item.code)


def grouped(items):
    """The items of each page of GROUPS. What is no function belongs to the next one; an enum
    without a name gives values of the function before it."""
    page_of = {name: group[0] for group, _ in GROUPS for name in group}
    found = {group[0]: [] for group, _ in GROUPS}
    waiting, last = [], ""
    for item in items:
        if item.kind == "function":
            if item.name not in page_of:
                raise help_text.Problem(f"lodic.h has {item.name}(), and no page of GROUPS in "
                                        "packaging/man_headers.py has it")
            last = page_of.pop(item.name)
            found[last] += [*waiting, item]
            waiting = []
        elif last and item.code and item.code[0].startswith("enum {"):
            found[last].append(item)
        else:
            waiting.append(item)
    if page_of:
        raise help_text.Problem(f"lodic.h has no {', '.join(page_of)}(), which GROUPS in "
                                "packaging/man_headers.py names")
    return found


def links_to(page, names):
    for name in names:
        if name != page:
            yield f"man3/{name}.3", roff.link(page, 3)


def library_pages(text, version):
    """liblodic(3), and a page for each group of functions."""
    top, items = header_text.read(text)
    blocks = header_text.blocks(top)
    name, brief = blocks.pop(0).lines[0].rstrip(".").split(": ")
    out = roff.Page(name, 3, version, brief)
    write_synopsis(out, "lodic.h", [])
    write_blocks(out, blocks, out.heading)
    out.heading("Functions")
    for group, what in GROUPS:
        out.tagged(", ".join(f"{roff.bold(function)}(3)" for function in group),
                   roff.prose(what[0].upper() + what[1:] + "."))
    out.see_also([("lodic", 1), ("lodic.conf", 5), *OTHERS])
    yield "man3/liblodic.3", out.text()
    for group, what in GROUPS:
        own = grouped(items)[group[0]]
        out = roff.Page(group[0], 3, version, what, group)
        write_synopsis(out, "lodic.h", own)
        out.heading("Description")
        write_items(out, own)
        out.see_also([("liblodic", 3), *((other[0], 3) for other, _ in GROUPS)])
        yield f"man3/{group[0]}.3", out.text()
        yield from links_to(group[0], group)


def header_page(name, brief, header, parts, version):
    """A page for a whole header. parts: its opening comment, its items, and more sections."""
    top, items, more = parts
    names = [item.name for item in items if item.kind == "function"]
    out = roff.Page(name, 3, version, brief, names)
    write_synopsis(out, header, items)
    out.heading("Description")
    write_blocks(out, header_text.blocks(top), out.subheading)
    out.heading("Functions")
    write_items(out, items)
    for title, lines in more:
        out.heading(title)
        write_blocks(out, header_text.blocks(lines), out.subheading)
    out.see_also([("liblodic", 3), ("lodic-bench-counter", 1), *OTHERS])
    yield f"man3/{name}.3", out.text()
    yield from links_to(name, names)


def promise(item):
    """inline.h names a function of lodic.h, and means its promise."""
    name = item.comment[0] if item.comment else ""
    if item.kind != "function" or not name.endswith("()"):
        return item
    return item._replace(comment=[f"Promises what {name} promises."])


def pages(folder, version):
    """(file name, text) of all pages of section 3. folder: of the headers."""
    def header(name):
        return (folder / name).read_text(encoding="ascii")

    yield from library_pages(header("lodic.h"), version)
    counter, items = header_text.read(header("counter.h"), end="---- The rest of this file")
    cxx, _ = header_text.read(header("counter.hpp"))
    yield from header_page("lodic-counter", "count references to a program's own objects",
                           "counter.h", (counter, items, [("C++", cxx)]), version)
    inline, items = header_text.read(header("inline.h"), begin="---- what a program calls")
    items = [promise(item) for item in items if item.kind == "type" or
             item.name == "lodic_inline_init" or item.name.endswith("_inline")]
    yield from header_page("lodic-inline", "the short ways of liblodic, compiled into a program",
                           "inline.h", (inline, items, []), version)
    yield from header_page("lodic-reason", "why a function of liblodic has failed", "reason.h",
                           (*header_text.read(header("reason.h")), []), version)
