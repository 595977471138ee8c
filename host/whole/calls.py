#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Writes the table of calls: each function of the door, and the errnos that its comment allows.

    calls.py OUT.h OUT.c lib/port.h lib/port/*.h

So the headers are the one place that says what may fail: a simulated machine draws its faults from
them. "As port_create()" and "what port_look_at() says" stand for the errnos of that function, and
PORT_FILE_ERRNOS for its list. PORT_WAITS and PORT_HANGS are marks of a call.
"""

import re
import sys

PIECE = re.compile(r"/\*(?P<comment>.*?)\*/|(?P<code>[^/]+|/)", re.DOTALL)
DECLARED = re.compile(r"^(?:PORT_\w+\s+)?[\w ]*?[\w*]\s*\*?\b(port_\w+)\s*\(", re.MULTILINE)
MARKED = re.compile(r"^PORT_(HANGS|WAITS)\b[^;(]*?\b(port_\w+)\s*\(", re.MULTILINE)
SAME_AS = re.compile(r"(?:[Aa]s|[Ww]hat|[Ll]ike)\s+(port_\w+)\(\)")
# The caller's own mistakes: no machine makes them.
NEVER = {"EBADF", "EFAULT", "ENOTSOCK"}


def words(text):
    return " ".join(re.sub(r"^\s*\*", "", line).strip() for line in text.splitlines())


def functions(headers):
    """name -> (its own errnos, the functions whose errnos it has as well, its header)."""
    found, file_errnos = {}, []
    for header in headers:
        with open(header, encoding="utf-8") as file:
            text = file.read()
        comment = ""
        for piece in PIECE.finditer(text):
            if piece["comment"] is not None:
                comment = words(piece["comment"])
                if "PORT_FILE_ERRNOS stands for" in comment:
                    file_errnos = re.findall(r"-(E[A-Z0-9]+)", comment)
                continue
            for name in DECLARED.findall(piece["code"]):
                errnos = re.findall(r"-(E[A-Z0-9]+)", comment)
                if "PORT_FILE_ERRNOS" in comment:
                    errnos += file_errnos
                others = SAME_AS.findall(comment)
                if comment.startswith("The same") and found:
                    others.append(list(found)[-1])
                if "those of both" in comment:
                    others += list(found)[-2:]
                found.setdefault(name, (errnos, others, header))
                comment = "" # it says nothing of those that follow
    return found


def errnos_of(found, name, seen):
    if name not in found or name in seen:
        return []
    own, others, _ = found[name]
    return own + [e for other in others for e in errnos_of(found, other, seen | {name})]


def marks_of(headers):
    """{name: HANGS or WAITS}"""
    marks = {}
    for header in headers:
        with open(header, encoding="utf-8") as file:
            marks |= {name: mark for mark, name in MARKED.findall(file.read())}
    return marks


def main():
    header, tables, *headers = sys.argv[1:]
    found = functions(headers)
    rows = {name: [e for e in dict.fromkeys(errnos_of(found, name, frozenset()))
                   if e not in NEVER] for name in sorted(found)}
    marks = marks_of(headers)
    most = max(len(errnos) for errnos in rows.values())
    with open(header, "w", encoding="utf-8") as file:
        file.write("/* Made by host/whole/calls.py from the headers of the door. */\n"
                   "#ifndef LODIC_WHOLE_CALLS_H\n#define LODIC_WHOLE_CALLS_H\n\nenum call {\n")
        file.writelines(f"\tCALL_{name[5:].upper()},\n" for name in rows)
        file.write("\tNR_CALLS\n};\n\n"
                   f"#define CALL_MOST_ERRNOS {most}\n"
                   "struct call_errnos {\n\tint nr;\n\tint errnos[CALL_MOST_ERRNOS];\n};\n"
                   "extern const char *const call_names[NR_CALLS];\n"
                   "extern const struct call_errnos call_errnos[NR_CALLS];\n"
                   "/* The calls of lib/port/guest.h: none but the shim makes them. */\n"
                   "extern const unsigned char call_is_guest[NR_CALLS];\n"
                   "/* HANGS: what it asks may never answer. WAITS: for others. */\n"
                   "enum call_mark { CALL_MARK_NONE, CALL_MARK_WAITS, CALL_MARK_HANGS };\n"
                   "extern const unsigned char call_marks[NR_CALLS];\n"
                   "#endif\n")
    with open(tables, "w", encoding="utf-8") as file:
        file.write("/* Made by host/whole/calls.py from the headers of the door. */\n"
                   '#include "whole_calls.h"\n\n#include <errno.h>\n\n'
                   "const char *const call_names[NR_CALLS] = {\n")
        file.writelines(f'\t"{name}",\n' for name in rows)
        file.write("};\nconst struct call_errnos call_errnos[NR_CALLS] = {\n")
        file.writelines(f"\t{{ {len(errnos)}, {{ {', '.join(errnos) or '0'} }} }},\n"
                        for errnos in rows.values())
        file.write("};\nconst unsigned char call_is_guest[NR_CALLS] = {\n")
        file.writelines(f"\t{int(found[name][2].endswith('guest.h'))},\n" for name in rows)
        file.write("};\nconst unsigned char call_marks[NR_CALLS] = {\n")
        file.writelines(f"\tCALL_MARK_{marks.get(name, 'NONE')},\n" for name in rows)
        file.write("};\n")


if __name__ == "__main__":
    main()
