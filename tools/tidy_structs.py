# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Who looks into which struct of the service: its text is followed from variables to members."""

import collections
import functools
import re

from tidy_source import c_files, code_of, includes_of, line_of, rule, signatures_of

PLACE = "lib/service/"
MOST = 10

STRUCT = re.compile(r"\bstruct\s+(\w+)\s*\{")
OF_STRUCT = re.compile(r"\bstruct\s+(\w+)[\s*]+(?:const\s+)?(\w+)")
# Another variable of the same declaration; a parameter has a type of its own.
NEXT = re.compile(r"[\s*]*(\w+)\s*(?=[=;,\[])")
CHAIN = re.compile(r"(?<![\w.>])(\w+)(?=\s*(?:->|\.|\[|\())")
CAST = re.compile(r"\(\*?\(struct (\w+) \*\)[^()]*\)(?=->|\.)")
# One of several, or what one points to.
PAREN = re.compile(r"(?<![\w\])])\(([^()]*)\)(?=->|\.)")
ALONE = re.compile(r"(?<![\w.>])\w+\b(?!\s*(?:->|\.|\[|\())")
# A value with its members named.
VALUE = re.compile(r"\bstruct\s+(\w+)(?:\s+\w+)?\s*(?:\[[^\]]*\]\s*)*[=)]\s*(?=\{)")
FILE_WIDE = re.compile(r"^(?:(?:static|extern|const|_Thread_local) )*struct (\w+)[\s*]+"
                       r"(?:const\s+)?(\w+)\s*[\[=;,]", re.MULTILINE)
NAMED = re.compile(r"\.(\w+)((?:\.\w+|\[[^\]]*\])*)\s*=\s*(?!=)")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([^)]*)\)((?:\\\n|[^\n])*(?:->|\.)"
                   r"(?:\\\n|[^\n])*)", re.MULTILINE)
MACRO_CALL = re.compile(r"\b(\w+)(?=\()")
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


def named_in(text, at, of, structs):
    """Each (struct, member) that a value in braces names; at: where they open."""
    end, at, inner = closing(text, at), at + 1, of
    while at < end - 1:
        named = NAMED.match(text, at)
        if named:
            if named[1] in structs.get(of, ()):
                yield of, named[1]
            inner = structs.get(of, {}).get(named[1]) if not named[2] else None
            at = named.end()
        elif text[at] == "{":  # a member's, or an element's
            yield from named_in(text, at, inner, structs)
            at, inner = closing(text, at), of
        else:
            inner = of if text[at] == "," else inner
            at = closing(text, at) if text[at] in "([" else at + 1


def with_macros(text, macros):
    """A function's text, and behind it what its macros that look into something stand for."""
    pieces = [text]
    for found in MACRO_CALL.finditer(text):
        if found[1] in macros:
            parameters, body = macros[found[1]]
            given = text[found.end() + 1:closing(text, found.end()) - 1].split(",")
            named = dict(zip(parameters, given))
            pieces.append(re.sub(r"\w+", lambda m, named=named: named.get(m[0], m[0]), body))
    return "\n".join(pieces)


def looks(text, structs, returns, variables):
    """Each (struct, member) that a function's text names. variables: of the file."""
    variables = variables | variables_of(text)
    starts = [(found.end(), found[1]) for found in CAST.finditer(text)]
    starts += [(found.end(), variables.get(word)) for found in PAREN.finditer(text)
               for word in ALONE.findall(found[1])]
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
    structs, returns, macros = {}, {}, {}
    users = collections.defaultdict(lambda: collections.defaultdict(set))
    for _, text in c_files(tree, PLACE):
        structs |= structs_in(text)
        returns |= {found[2]: found[1] for found in
                    re.finditer(r"\bstruct (\w+) \*?(\w+)\(", code_of(text))}
        macros |= {found[1]: (found[2].replace(" ", "").split(","), found[3])
                   for found in MACRO.finditer(code_of(text))}
    found = {path: named_by(text, structs, returns, macros)
             for path, text in c_files(tree, PLACE)}
    for path in found:
        if not path.endswith(".c"):
            continue
        # What a header does inline, each file does that includes it.
        headers = [name for _, kind, name in includes_of(tree[path]) if kind == '"']
        for at in (path, *headers):
            for of, member in found.get(at, ()):
                users[of][path].add(member)
    return users


def named_by(text, structs, returns, macros):
    """Each (struct, member) that a file names."""
    code = code_of(text)
    wide = {found[2]: found[1] for found in FILE_WIDE.finditer(code)}
    members = {pair for found in VALUE.finditer(code)
               for pair in named_in(code, found.end(), found[1], structs)}
    for _, signature, _, _, body in signatures_of(text):
        members.update(looks(with_macros(signature + body, macros), structs, returns, wide))
    return members


HEADER = "struct base {\n\tint *fd;\n\tstruct base *older;\n};\n" \
         "struct base *base_of(const struct files *files);\n"
USER = "int a(const struct base *x)\n{\n\treturn x->fd[0];\n}\n"
MANY = {f"lib/service/a{i}.c": USER for i in range(MOST)}


BODIES = ["\treturn (*x).fd[0];\n", "\treturn *(x ? x : y)->fd;\n",
          "\treturn *(*(struct base *)p).fd;\n", "\tp = (struct base){ .fd = 0 };\n",
          "\tstruct base z = { .fd = 0 };\n", "\tstruct base z[] = { { .older = 0 } };\n",
          "\tstruct whole z = { .nr = 1, .bases = { [0] = { .fd = 0 } } };\n",
          "\treturn *BASE_FD(x);\n", "\treturn *wide.fd;\n", "\treturn *wide_too[1].fd;\n"]
SAMPLE = {"lib/service/state.h": HEADER + "struct whole {\n\tint nr;\n\tstruct base bases[2];\n};\n"
                                 "#define BASE_FD(x) ((x)->fd)\n", **MANY}


@rule(bad=[*({**SAMPLE, "lib/service/b.c": "static struct base wide;\n"
                                           "static const struct base wide_too[2];\n"
                                           f"int b(struct base *x)\n{{\n{body}}}\n"}
             for body in BODIES),
           {**SAMPLE, "lib/service/b.h": "static inline " + USER,
            "lib/service/b.c": '#include "lib/service/b.h"\n'},
           {**SAMPLE, "lib/service/b.c": "static struct base wide = { .older = &other };\n"},
           {**SAMPLE, "lib/service/b.c": USER},
           {"lib/service/state.h": HEADER, **MANY,
            "lib/service/b.c": "int b(struct files *f)\n{\n\treturn *base_of(f)->older->fd;\n}\n"},
           {"lib/service/state.h": HEADER + "struct whole {\n\tstruct base bases[2];\n};\n", **MANY,
            "lib/service/b.c": "int b(void *arg)\n{\n\tstruct whole *c = NULL, *w = arg;\n\n"
                               "\treturn *w->bases[1].fd;\n}\n"},
           {"lib/service/state.h": HEADER, **MANY,
            "lib/service/b.c": "int b(void *arg)\n{\n\treturn *((struct base *)arg)->fd;\n}\n"}],
      good={"lib/service/state.h": HEADER, **MANY,
            "lib/service/b.c": "int b(struct other *x, struct base *s)\n{\n\tc(s);\n"
                               "\tstruct other t = { .fd = s };\n\n"
                               "\treturn x->fd + (*x).fd;\t/* s->fd */\n}\n",
            "tests/unit/a.c": USER})
def structs_seen_by_few(tree):
    """At most ten .c files of the service name a member of one struct."""
    users = seen(tree)
    for path, text in c_files(tree, PLACE):
        for found in STRUCT.finditer(code_of(text)):
            files = users.get(found[1], ())
            if len(files) > MOST:
                yield (path, line_of(text, found.start()),
                       f"{len(files)} files look into struct {found[1]}: "
                       + ", ".join(sorted(file.removeprefix(PLACE) for file in files)))
