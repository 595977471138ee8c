# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Who looks into which struct of the service: its text is followed from variables to members."""

import collections
import functools
import re

from tidy_source import c_files, code_of, line_of, rule, signatures_of

PLACE = "lib/service/"
MOST = 10
# Seen by more, and why.
OPEN = {
    "service_options": "what a user asks for; each room reads what concerns it",
}

STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{")
OF_STRUCT = re.compile(r"\bstruct\s+(\w+)[\s*]+(?:const\s+)?(\w+)")
# Another variable of the same declaration; a parameter has a type of its own.
NEXT = re.compile(r"[\s*]*(\w+)\s*(?=[=;,\[])")
CHAIN = re.compile(r"(?<![\w.>])(\w+)(?=\s*(?:->|\.|\[|\())")
CAST = re.compile(r"\(\(struct (\w+) \*\)[^()]*\)(?=->)")
STEP = re.compile(r"\s*(?:->|\.)\s*(\w+)")


def closing(text, at):
    """Behind the bracket that closes the one at this place."""
    pair = text[at] + {"(": ")", "[": "]", "{": "}"}[text[at]]
    depth = 0
    for found in re.compile("[" + re.escape(pair) + "]").finditer(text, at):
        depth += 1 if found[0] == pair[0] else -1
        if depth == 0:
            return found.end()
    return len(text)


def members_of(name, body):
    """member -> the struct that it is of, or None; what lies in a struct without a name too."""
    members = {}
    while "{" in body:
        at = body.index("{")
        end = closing(body, at)
        members |= members_of(name, body[at + 1:end - 1])
        body = re.sub(r"\b(?:struct|union)\s*$", f"struct {name} ", body[:at]) + body[end:]
    for declaration in body.split(";"):
        of = re.match(r"\s*(?:const\s+)?struct\s+(\w+)", declaration)
        pointer = re.search(r"\(\*(\w+)\)\s*\(", declaration)
        names = [pointer[1]] if pointer else \
            re.findall(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?::\s*\d+\s*)?(?=,|$)", declaration.strip())
        members |= dict.fromkeys(names, of[1] if of and not pointer else None)
    return members


def variables_of(text):
    """variable or parameter -> its struct"""
    variables = {}
    for found in OF_STRUCT.finditer(text):
        variables[found[2]] = found[1]
        at = found.end()
        while at < len(text) and text[at] not in ";)":
            if text[at] in "([{":
                at = closing(text, at)
                continue
            other = NEXT.match(text, at + 1) if text[at] == "," else None
            if other:
                variables[other[1]] = found[1]
            at = other.end() if other else at + 1
    return variables


def looks(text, structs, returns):
    """Each (struct, member) that a function's text names."""
    variables = variables_of(text)
    starts = [(found.end(), found[1]) for found in CAST.finditer(text)]
    for found in CHAIN.finditer(text):
        at, of = found.end(), variables.get(found[1])
        if text[at:].lstrip()[:1] == "(":
            at, of = closing(text, text.index("(", at)), returns.get(found[1])
        starts.append((at, of))
    for at, of in starts:
        while of in structs:
            while text[at:at + 1] == "[":
                at = closing(text, at)
            step = STEP.match(text, at)
            if not step or step[1] not in structs[of]:
                break
            yield of, step[1]
            at, of = step.end(), structs[of][step[1]]


@functools.cache
def structs_in(text):
    code = code_of(text)
    return {found[1]: members_of(found[1], code[found.end():closing(code, found.end() - 1) - 1])
            for found in STRUCT.finditer(code)}


def seen(tree):
    """struct -> file -> the members that it names"""
    structs, returns = {}, {}
    users = collections.defaultdict(lambda: collections.defaultdict(set))
    for _, text in c_files(tree, PLACE):
        structs |= structs_in(text)
        returns |= {found[2]: found[1] for found in
                    re.finditer(r"\bstruct (\w+) \*?(\w+)\(", code_of(text))}
    for path, text in c_files(tree, PLACE):
        if not path.endswith(".c"):
            continue
        for _, signature, _, _, body in signatures_of(text):
            for of, member in looks(code_of(signature + body), structs, returns):
                users[of][path].add(member)
    return users


HEADER = "struct base {\n\tint *fd;\n\tstruct base *older;\n};\n" \
         "struct base *base_of(const struct files *files);\n"
USER = "int a(const struct base *x)\n{\n\treturn x->fd[0];\n}\n"
MANY = {f"lib/service/a{i}.c": USER for i in range(MOST)}


@rule(bad=[{"lib/service/state.h": HEADER, **MANY, "lib/service/b.c": USER},
           {"lib/service/state.h": HEADER, **MANY,
            "lib/service/b.c": "int b(struct files *f)\n{\n\treturn *base_of(f)->older->fd;\n}\n"},
           {"lib/service/state.h": HEADER + "struct whole {\n\tstruct base bases[2];\n};\n", **MANY,
            "lib/service/b.c": "int b(void *arg)\n{\n\tstruct whole *c = NULL, *w = arg;\n\n"
                               "\treturn *w->bases[1].fd;\n}\n"},
           {"lib/service/state.h": HEADER, **MANY,
            "lib/service/b.c": "int b(void *arg)\n{\n\treturn *((struct base *)arg)->fd;\n}\n"}],
      good={"lib/service/state.h": HEADER, **MANY,
            "lib/service/b.c": "int b(struct other *x, struct base *s)\n{\n\tc(s);\n"
                               "\treturn x->fd;\t/* s->fd */\n}\n",
            "tests/unit/a.c": USER})
def structs_seen_by_few(tree):
    """At most ten .c files of the service name a member of one struct."""
    users = seen(tree)
    for path, text in c_files(tree, PLACE):
        for found in STRUCT.finditer(code_of(text)):
            files = users.get(found[1], ())
            if len(files) > MOST and found[1] not in OPEN:
                yield (path, line_of(text, found.start()),
                       f"{len(files)} files look into struct {found[1]}: "
                       + ", ".join(sorted(file.removeprefix(PLACE) for file in files)))
