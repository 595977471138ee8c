# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The rule of dead code: what C defines is used, and not by tests alone.

A name is used where its word stands outside its own definition. A function or a macro that nobody
uses, uses nothing. A member is used where its name stands behind a dot or an arrow, or where a
macro gets it. Two things of one name count as one. So what the rule finds is dead, and there may
be more.
"""

import re
from collections import defaultdict

from tidy_source import C_SUFFIXES, c_files, code_of, line_of, rule, signatures_of

ROOMS = ("core/", "host/", "lib/", "preload/", "cli/", "sim/", "check/", "bench/")
TESTS = "tests/"
# Text that uses names of C and is not C, or makes C.
OTHERS = re.compile(r".*\.(cc|hpp|rs|def|map|patch|mutants)$|check/.*\.py$")

# What only tests use, or nobody by its name, and why it stays.
NEEDED = {
    "kloc_adopt": "the paper's knode_add_obj() for what comes before its file (KLOCs s.4.2.3)",
    "KLOC_RMAP": "one of the paper's kinds of objects; no program here makes such events",
    "SERVICE_BARRIER_LIGHT": "read from settings as a place in a list of names",
    "CACHE_PIN": "chosen by name: lodic-sim cache pin",
    "WAY_READ": "a place in a table of ways: bench/peers.c",
    "WAY_CLOCK": "the same",
    "name_bytes": "a field of linux/fs.h's struct procmap_query",
    "build_id_bytes": "the same",
    "build_id": "the same",
}

WORD = re.compile(r"[A-Za-z_]\w*")
ACCESS = re.compile(r"(?:\.|->)\s*(\w+)")
# A macro's arguments may name a member.
ARGUMENTS = re.compile(r"\b(?:[A-Z][A-Z0-9_]+|offsetof)\(([^;{}]*)")
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:.*\\\n)*.*)$", re.MULTILINE)
ASKED = re.compile(r"^[ \t]*#[ \t]*(?:ifndef|undef)\b.*$", re.MULTILINE)
EXPORTED = re.compile(r"^EXPORT\b[^;{(]*?(\w+)\s*\(", re.MULTILINE)
# The name before the first parenthesis of a line; in capitals it is a macro.
DECLARED = re.compile(r"^([^\s#}(][^\n(]*?)\b(?![A-Z0-9_]+\b)\w+\s*\(", re.MULTILINE)
BLOCK = re.compile(r"\b(struct|union|enum)\b[^;{}()=]*\{")
PASTED = re.compile(r"(\w+_)##|##(_\w+)")
# Words that hold a place: in memory, in a file, in an interface of the kernel.
FILLER = re.compile(r"(align|pad|reserved|unused)\w*$")


def end_of_block(code, at):
    """The place of the brace that closes the one at this place."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(code, at):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.start()
    return len(code)


def members_of(body):
    """(name, place) of each member between the braces of a struct."""
    at = 0
    for piece, last in re.findall(r"([^;{}]*)([;{}]|$)", body):
        pointer = re.search(r"\(\s*\*\s*(\w+)", piece)
        if pointer:
            yield pointer[1], at + pointer.start(1)
        elif len(piece.split()) > 1 and last != "{":
            for found in re.finditer(r"(\w+)(?:\s*\[[^,]*|\s*:[^,]*)?\s*(?:,|$)", piece):
                yield found[1], at + found.start(1)
        at += len(piece) + 1


def values_of(body):
    """(name, place) of each value of an enum but the first: that is what zeroed memory has."""
    for found in re.finditer(r",\s*(\w+)\s*(?=[,=]|$)", body):
        yield found[1], found.start(1)


class Source:
    """What a C file defines, and the words of each function, each macro, and of the rest ("")."""

    def __init__(self, text):
        self.defined = []  # (kind, name, line)
        self.words, self.accesses = defaultdict(set), defaultdict(set)
        self.pasted = set()
        code = self.take_macros(code_of(text))
        self.words[""] |= set(EXPORTED.findall(code))
        lines = code.split("\n")
        for name, _, first, last, _ in signatures_of(text):
            self.note(name, "\n".join(lines[first - 1:last]))
            lines[first - 1:last] = [""] * (last - first + 1)
            if name != "main":
                self.defined.append(("function", name, first))
        self.note("", DECLARED.sub(r"\1 (", self.take_blocks("\n".join(lines))))

    def note(self, owner, code):
        self.words[owner].update(WORD.findall(code))
        self.accesses[owner].update(ACCESS.findall(code))
        for arguments in ARGUMENTS.findall(code):
            self.accesses[owner].update(WORD.findall(arguments))

    def take_macros(self, code):
        for name, body in DEFINE.findall(code):
            self.words[name].update(WORD.findall(body))
            self.accesses[name].update(WORD.findall(body))
            self.pasted.update(PASTED.findall(body))
        for found in DEFINE.finditer(code):
            if found[2].strip() or not found[1].endswith("_H"):
                self.defined.append(("macro", found[1], line_of(code, found.start(1))))
        return DEFINE.sub(lambda m: "\n" * m[0].count("\n"), ASKED.sub("", code))

    def take_blocks(self, code):
        """Enters members and values. Returns the code without their names."""
        pieces, last = [], 0
        for found in BLOCK.finditer(code):
            begin, end = found.end(), end_of_block(code, found.end() - 1)
            kind, names = ("value", values_of) if found[1] == "enum" else ("member", members_of)
            for name, at in names(code[begin:end]):
                self.defined.append((kind, name, line_of(code, begin + at)))
                if begin + at >= last:
                    pieces.append(code[last:begin + at])
                    last = begin + at + len(name)
        return "".join([*pieces, code[last:]])


class Uses:
    """All that is used, found from what no function and no macro has around it."""

    def __init__(self, sources, words):
        self.words, self.accesses = set(words), set(words)
        self.parts = defaultdict(list)
        self.pasted = set()
        for source in sources:
            self.pasted |= source.pasted
            for owner in source.words:
                self.parts[owner].append(source)
        todo = {"", "main", *(self.parts.keys() & self.words)}
        left = set(self.parts)
        while todo:
            left -= todo
            for owner in todo:
                for source in self.parts[owner]:
                    self.words |= source.words[owner]
                    self.accesses |= source.accesses[owner]
            todo = left & self.words or {name for name in left if self.is_pasted(name)}

    def is_pasted(self, name):
        """Does a macro make it from a word that is used?"""
        return any((head or tail) and name.startswith(head) and name.endswith(tail) and
                   name[len(head):len(name) - len(tail)] in self.words
                   for head, tail in self.pasted)

    def has(self, kind, name):
        if kind == "member":
            return name in self.accesses or FILLER.match(name)
        return name in self.words or name.startswith("_") or self.is_pasted(name)


def unused_in(tree):
    """(path, line, kind, name, do tests use it?) of what the product does not use."""
    sources = {path: Source(text) for path, text in c_files(tree)}
    words = {word for path, text in tree.items()
             if OTHERS.match(path) and not path.startswith(TESTS) for word in WORD.findall(text)}
    product = Uses([s for path, s in sources.items() if not path.startswith(TESTS)], words)
    everything = Uses(sources.values(), words)
    for path, source in sources.items():
        for kind, name, line in source.defined if path.startswith(ROOMS) else ():
            if not product.has(kind, name):
                yield path, line, kind, name, everything.has(kind, name)


@rule(bad=[{"core/a.h": "void a_gone(void);\n",
            "core/a.c": "void a_gone(void)\n{\n\ta_gone();\n}\n"},
           {"core/a.c": "void a_one(void)\n{\n}\nvoid a_two(void)\n{\n\ta_one();\n}\n"},
           {"core/a.c": "void a_tried(void)\n{\n}\n",
            "tests/unit/a.c": "int main(void)\n{\n\ta_tried();\n}\n"},
           {"lib/a.h": "struct a {\n\tint gone;\n};\n", "lib/a.c": "int gone;\n"},
           {"lib/a.h": "struct a {\n\tvoid (*gone)(int b);\n};\n"},
           {"sim/a.h": "enum a { A_NONE, A_GONE };\n", "sim/a.c": "int a = A_NONE;\n"},
           {"cli/a.c": "#define GONE 1\n"}, {"tools/tidy_unused.py": ""},
           {"cli/a.c": "#define ONE 1\n#define TWO ONE\n"},
           {"host/a.h": "#ifndef GONE\n#define GONE 1\n#endif\n"}],
      good={"core/a.h": "#ifndef LODIC_CORE_A_H\n#define LODIC_CORE_A_H\n"
                        "struct a {\n\tint n, pad;\n\tstruct b {\n\t\tint (*f)(int c);\n"
                        "\t} more[FEW];\n};\n#define FEW 2\n"
                        "enum e { E_NONE, E_ONE };\n#endif\n",
            "core/a.c": "static int table[] = { [E_ONE] = 1 };\nint a_get(struct a *a)\n{\n"
                        "\treturn a->n + a->more[0].f(1);\n}\n",
            "lib/a.c": "EXPORT int lodic_a(void)\n{\n\treturn a_get();\n}\n",
            "sim/a.c": "#define RUN(x) run_##x()\nvoid run_one(void)\n{\n}\n"
                       "int main(void)\n{\n\tRUN(one);\n}\n"})
def unused(tree):
    """What C defines is used by more than tests: functions, macros, members, values of enums."""
    found = set()
    for path, line, kind, name, is_tested in unused_in(tree):
        found.add(name)
        if name not in NEEDED:
            users = "only tests use" if is_tested else "nothing uses"
            yield path, line, f"{users} the {kind} {name}"
    for name in NEEDED.keys() - found if "tools/tidy_unused.py" in tree else ():
        yield "tools/tidy_unused.py", 1, f"{name} is used, or gone: take it from the list"
