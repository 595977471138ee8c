#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Text with all mutants in it, one of which is chosen at run time: what lodic-check is made of.

    weave.py --plan DIR                      names the rows' files and the sources that they change
    weave.py --out DIR --deps FILE SOURCE    writes these, and headers, and a table of the mutants

A function that a row changes is written once more, as NAME__mutant_N, where N is the row's number.
The function itself begins with a look at check_mutant_now. Functions begin in column 0 and end with
a } there, so there is no need for a parser. A row may add functions; it may change nothing else.
"""

import argparse
import hashlib
import pathlib
import re
import sys

sys.dont_write_bytecode = True
import rows

# Each woven file reads it, so that a new header makes all objects anew.
STAMP = '#include "woven.h"'


class Function:
    """One definition: the lines of its head, then its body with both braces. first, last: where it
    stands in the file."""

    def __init__(self, lines, first, brace, last):
        self.lines, self.first, self.last = lines[first:last + 1], first, last
        self.head = lines[first:brace]
        self.body = lines[brace:last + 1]
        text = re.sub(r"__attribute__\(\(.*?\)\)", "", " ".join(self.head))
        found = re.search(r"(\w+)\((.*)\)\s*$", text)
        if not found:
            raise ValueError(f"not read as a function: {text}")
        self.name = re.search(r"(\w+)\(", text)[1]
        self.is_void = bool(re.search(rf"\bvoid\s+{self.name}\(", text))
        self.is_static = text.startswith("static") or "_INLINE " in text
        self.arguments = names_of(text[text.index(f"{self.name}(") + len(self.name) + 1:
                                       text.rindex(")")])


def names_of(text):
    """Names of parameters: "u32 a, u64 b[2], void (*f)(int)" -> [a, b, f]."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    parts = [part.strip() for part in parts]
    if parts == ["void"]:
        return []
    return [(re.search(r"\(\*(\w+)\)", part) or re.search(r"(\w+)\s*(?:\[[^]]*\])*$", part))[1]
            for part in parts]


def is_head(line):
    return line and not line.startswith(("#", "}", "/*", " *")) and not line.endswith((";", "*/"))


def functions(lines):
    """All functions of a file, in order."""
    found, after = [], 0
    for brace, line in enumerate(lines):
        if line != "{":
            continue
        first = brace
        while first > after and is_head(lines[first - 1]):
            first -= 1
        last = lines.index("}", brace)
        found.append(Function(lines, first, brace, last))
        after = last + 1
    return found


def outside(lines, inside):
    """What is not of a function, without comments and blanks."""
    kept, at = [], 0
    for function in inside:
        kept += lines[at:function.first]
        at = function.last + 1
    text = re.sub(r"/\*.*?\*/", "", "\n".join(kept + lines[at:]), flags=re.DOTALL)
    return [line for line in text.splitlines() if line.strip()]


def searched():
    """The rows that lodic-check looks for: (number, row)."""
    return list(enumerate((row for row in rows.parse() if row.searches), 1))


def paths(numbered):
    return sorted({path for _, row in numbered for path in rows.paths_of(row)})


def clones_of(number, row, path, lines):
    """{name: lines of what the row makes of that function}. "": functions that it adds."""
    changed = rows.changed(row, path, lines)
    old, new = functions(lines), functions(changed)
    if outside(lines, old) != outside(changed, new):
        raise rows.Problem(row.where, f"{row.name}: changes text outside of functions in {path}")
    before = {function.name: function for function in old}
    added = [function for function in new if function.name not in before]
    touched = [function for function in new
               if function.name in before and before[function.name].lines != function.lines]
    names = [function.name for function in added + touched]
    result = {}
    for function in added + touched:
        text = "\n".join(function.lines)
        for name in names:
            # Its own name, and those of added functions. Calls of a changed one find it anyway.
            if name == function.name or name not in before:
                text = re.sub(rf"(?<![\w.>]){name}\(", f"{name}__mutant_{number}(", text)
        if not function.is_static:
            text = "static " + text
        result[function.name] = text.split("\n")
    first = min((new.index(function) for function in touched), default=0)
    # What is added stands before the first one that calls it.
    if added:
        heads = [line for function in added for line in result.pop(function.name)]
        result[new[first].name] = heads + result[new[first].name]
    return result


def dispatch(function, cases):
    lines = ["\tswitch (check_mutant_now) {"]
    call = ", ".join(function.arguments)
    for number, name in cases:
        target = f"{function.name}__mutant_{number}({call});"
        lines.append(f"\tcase {number}: /* {name} */")
        lines += [f"\t\t{target}", "\t\treturn;"] if function.is_void else [f"\t\treturn {target}"]
    return lines + ["\tdefault:", "\t\tbreak;", "\t}"]


def woven(path, numbered):
    """The text of a file with all its mutants."""
    lines = rows.DISK[path].splitlines()
    cases = {}
    for number, row in numbered:
        if path in rows.paths_of(row):
            for name, text in clones_of(number, row, path, lines).items():
                cases.setdefault(name, []).append((number, row.name, text))
    out, at = [], 0
    for function in functions(lines):
        if function.name not in cases:
            continue
        out += lines[at:function.first]
        out += ["#pragma GCC diagnostic push", rows.BROKEN]
        for _, name, text in cases[function.name]:
            out += [f"/* {name} */", *text]
        out += ["#pragma GCC diagnostic pop", f'#line {function.first + 1} "{path}"']
        out += function.head + ["{"]
        out += dispatch(function, [(number, name) for number, name, _ in cases[function.name]])
        out += [f'#line {function.last - len(function.body) + 3} "{path}"', *function.body[1:]]
        at = function.last + 1
    return "\n".join([STAMP, f'#line 1 "{path}"', *out, *lines[at:]]) + "\n"


def table(numbered):
    """What check/case.h declares."""
    lines = ["/* Generated by check/mutants/weave.py from check/mutants/. */",
             '#include "check/case.h"', "", "const struct check_mutant check_mutants[] = {"]
    for number, row in numbered:
        search = row.searches[0]
        lines.append(f'\t{{ {number}, "{row.name}", "{search.scenario}", "{search.scheme}", '
                     f'CHECK_{search.memory.upper()}, "{row.rule}", {search.budget}, '
                     f'{"true" if search.movers else "false"} }},')
    return "\n".join([*lines, "\t{ .number = CHECK_NO_MUTANT },", "};", ""])


def sources(names):
    return [name for name in names if name.endswith(".c")]


def flat(path):
    return path.replace("/", "_")


def put(path, text):
    """Leaves a file that is so already: ninja goes by times."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def write(out):
    """Sources stand side by side in out, which is what meson knows. Headers have their path."""
    numbered = searched()
    digest = hashlib.sha256()
    for path in paths(numbered):
        text = woven(path, numbered)
        digest.update(text.encode())
        put(out / flat(path) if path.endswith(".c") else out / "woven" / path, text)
    put(out / "mutants.c", table(numbered))
    # All objects read this one: what changes a header makes them anew.
    put(out / "woven.h", f"/* {digest.hexdigest()} */\n")
    return paths(numbered)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", type=pathlib.Path, metavar="DIR",
                        help="print rows and sources; make a place for headers below DIR")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--deps", type=pathlib.Path, metavar="FILE")
    parser.add_argument("planned", nargs="*", help="what --plan printed")
    options = parser.parse_args()
    try:
        if options.plan:
            (options.plan / "woven").mkdir(parents=True, exist_ok=True)
            print("\n".join(rows.row_files() + sources(paths(searched()))))
            return
        written = write(options.out)
    except rows.Problem as problem:
        sys.exit(f"weave: {problem}")
    if sources(written) != options.planned:
        sys.exit("weave: rows change other sources than before: meson setup --reconfigure")
    read = [rows.ROOT / path for path in written + rows.row_files()]
    read += [pathlib.Path(__file__), pathlib.Path(rows.__file__)]
    options.deps.write_text("mutants.c: " + " ".join(map(str, read)) + "\n")


if __name__ == "__main__":
    main()
