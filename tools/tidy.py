#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The project's rules as a test.

Each rule is a function whose docstring is the rule. It looks at the tree (a dict: path ->
text) and yields (path, line, what is wrong). SAMPLES holds, for each rule, a small tree
that breaks it and one that does not; --self-test runs those. A rule nobody can break is
not a rule.
"""

import argparse
import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_HOST_FUNCTIONS = 30

TEXT_SUFFIXES = {".c", ".h", ".py", ".sh", ".md", ".map", ".in", ".txt", ".supp"}
TEXT_NAMES = {"meson.build", "Makefile", "run", ".clang-format", ".gitignore"}
C_SUFFIXES = (".c", ".h")

# Folder -> what its C files may include with quotes. The longest prefix wins.
MAY_INCLUDE = {
    "core/": ("host/host.h", "core/"),
    "host/": ("host/",),
    "lib/": ("core/", "host/host.h", "lib/", "lodic/"),
    "check/": ("core/", "host/", "check/"),
    "sim/": ("core/", "host/", "sim/"),
    # Alone in a strange program: nothing that would have to be linked.
    "preload/": ("host/host.h", "preload/"),
    # The command line is a user of the public headers; it also runs the service, and
    # measures bare atomics; and it tells the shim what to do.
    "measure/": ("lodic/", "measure/", "host/host.h"),
    "cli/": ("lodic/", "measure/", "cli/", "lib/service/service.h",
             "preload/map_environment.h"),
    "include/": ("lodic/",),
}
# Text of Linux: its own rules (checkpatch.pl) say what it includes and how it counts.
OF_LINUX = ("kernel/files/", "kernel/tests/")
# What an installed header may ask of a program's C library.
LIBC_HEADERS = {"stddef.h", "stdint.h", "stdbool.h", "sys/types.h", "sys/uio.h"}

CORE_FORBIDDEN = [
    (r"\b(float|double)\b", "floating point in core"),
    (r"\bvolatile\b|\b(__)?asm(__)?\b", "no volatile, no assembler in core"),
    (r"\b(malloc|calloc|realloc|free|alloca|aligned_alloc)\s*\(", "host_alloc() instead"),
    (r"\b(printf|fprintf|snprintf|abort|exit|assert)\s*\(", "core has no C library"),
    (r"\b(pthread|thread_local|_Thread_local|__thread)\w*", "core knows no threads"),
]
HOST_MACRO = re.compile(r"#\s*(?:if|ifdef|ifndef|elif)\b.*\b(__linux__|__KERNEL__|__x86_64__|"
                        r"__aarch64__|__unix__|_WIN32|__APPLE__|__SANITIZE_\w+|_GNU_SOURCE)")
ATOMIC = re.compile(r"\b(atomic_(load|store|exchange|compare_exchange|fetch|flag|thread_fence|"
                    r"signal_fence)\w*|__atomic_\w+|__sync_\w+)\s*\(|\b_Atomic\b|stdatomic\.h")
PAPER = re.compile(r"\((LODIC|PAYGO|KLOC)\s+(s\.[^()]*)\)")
RULE_ID = re.compile(r"(?<!\w)([A-Z]\d{1,2})(?!\w|-[A-Z]{2})")
RULE_DEFINED = re.compile(r"^ \* ([A-Z]\d{1,2}) ", re.MULTILINE)
NOT_RULE_IDS = {"C11", "C17"}


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def blank(found):
    """Spaces in its place; lines stay lines."""
    return re.sub(r"[^\n]", " ", found[0])


C_TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)


def code_of(text):
    """C without comments and literals, at the same places."""
    return C_TOKEN.sub(blank, text)


def without_comments(text):
    return C_TOKEN.sub(lambda m: blank(m) if m[0][0] == "/" else m[0], text)


def comments_of(text):
    """The comments alone, at the same places."""
    pieces, last = [], 0
    for found in C_TOKEN.finditer(text):
        pieces.append(re.sub(r"[^\n]", " ", text[last:found.start()]))
        pieces.append(found[0] if found[0][0] == "/" else blank(found))
        last = found.end()
    return "".join(pieces) + re.sub(r"[^\n]", " ", text[last:])


def c_files(tree, *folders):
    for path, text in tree.items():
        if path.endswith(C_SUFFIXES) and (not folders or path.startswith(folders)):
            yield path, text


def functions_of(text):
    """(name, first line, last line, body) of each C function: its braces stand alone in
    the first column."""
    lines = code_of(text).split("\n")
    start = None
    for i, line in enumerate(lines):
        if line.rstrip() == "{":
            start = i
        elif line.startswith("}") and start is not None:
            head, j = [], start - 1
            while j >= 0 and lines[j].strip() and not re.search(r"[;}]\s*$|^#", lines[j]):
                head.insert(0, lines[j])
                j -= 1
            signature = re.sub(r"__attribute__\s*\(\(.*?\)\)(?!\))", "", " ".join(head))
            name = re.search(r"(\w+)\s*\(", signature)
            yield (name[1] if name else "?", start + 1, i + 1,
                   "\n".join(lines[start:i + 1]))
            start = None


def rule_spdx(tree):
    """Every file names its licence in its first three lines."""
    for path, text in tree.items():
        # A mail is no file of its own: what it adds has the line.
        if path.startswith(("LICENSES/", "kernel/patches/")):
            continue
        if "SPDX-License-Identifier: " not in "\n".join(text.split("\n")[:3]):
            yield path, 1, "no SPDX-License-Identifier in the first three lines"


def rule_dependence(tree):
    """core -> host/host.h; lib, sim -> core; cli -> public headers; nothing else."""
    for path, text in c_files(tree):
        folder = path.split("/")[0] + "/"
        allowed = MAY_INCLUDE.get(folder)
        for found in re.finditer(r'^\s*#\s*include\s*(["<])([^">]+)[">]',
                                 without_comments(text), re.MULTILINE):
            kind, name = found[1], found[2]
            at = line_of(text, found.start(1))
            if kind == '"' and allowed and not name.startswith(allowed):
                yield path, at, f'{folder} must not include "{name}"'
            if kind == '"' and path.startswith("kernel/tests/") and "/" in name:
                yield path, at, f'the guest\'s programs have only kernel/tests/, not "{name}"'
            if kind == "<" and folder == "core/":
                yield path, at, f"core/ must not include <{name}>: host/host.h has it"
            if kind == "<" and folder == "include/" and name not in LIBC_HEADERS:
                yield path, at, f"an installed header must not include <{name}>"
            if kind == "<" and name == "host_impl.h" and path != "host/host.h":
                yield path, at, "host_impl.h is reached through host/host.h only"


def rule_core_language(tree):
    """core/ is freestanding C11: no C library, no assembler, no floating point."""
    for path, text in c_files(tree, "core/"):
        code = code_of(text)
        for pattern, why in CORE_FORBIDDEN:
            for found in re.finditer(pattern, code):
                yield path, line_of(text, found.start()), f"{found[0].strip()}: {why}"


def rule_core_host_macros(tree):
    """core/ does not ask where it runs."""
    for path, text in c_files(tree, "core/"):
        for i, line in enumerate(code_of(text).split("\n")):
            if HOST_MACRO.search(line):
                yield path, i + 1, "a host's macro in core/"


def rule_core_recursion(tree):
    """No function in core/ calls itself, not even through others: stacks are small."""
    where, calls = {}, {}
    for path, text in c_files(tree, "core/"):
        for name, first, _, body in functions_of(text):
            where[name] = (path, first)
            called = re.findall(r"(?<![\w.>])(\w+)\s*\(", body)
            calls.setdefault(name, set()).update(called)
    for name in calls:
        seen, todo = set(), list(calls[name])
        while todo:
            other = todo.pop()
            if other in seen or other not in calls:
                continue
            seen.add(other)
            todo += calls[other]
        if name in seen:
            yield (*where[name], f"{name}() can call itself")


def rule_file_length(tree):
    """One subject per file: at most 600 lines."""
    for path, text in tree.items():
        lines = len(text.splitlines())
        if path.endswith((*C_SUFFIXES, ".py", ".sh")) and lines > MAX_FILE_LINES:
            yield path, lines, f"{lines} lines, more than {MAX_FILE_LINES}"


def rule_function_length(tree):
    """A function fits a screen or two: at most 60 lines."""
    for path, text in tree.items():
        found = []
        if path.endswith(C_SUFFIXES):
            found = [(n, a, b) for n, a, b, _ in functions_of(text)]
        elif path.endswith(".py"):
            found = [(d.name, d.lineno, d.end_lineno) for d in ast.walk(ast.parse(text))
                     if isinstance(d, ast.FunctionDef)]
        for name, first, last in found:
            lines = last - first + 1
            if lines > MAX_FUNCTION_LINES:
                yield path, first, f"{name}(): {lines} lines, more than {MAX_FUNCTION_LINES}"


def rule_atomics(tree):
    """Atomics only through host_*, with the order in the name."""
    for path, text in c_files(tree):
        if path.startswith(("host/", *OF_LINUX)):
            continue
        for found in ATOMIC.finditer(code_of(text)):
            yield path, line_of(text, found.start()), f"{found[0]}: use host_*"


def rule_host_functions(tree):
    """host/host.h has at most 30 functions."""
    text = tree.get("host/host.h", "")
    names = set(re.findall(r"\b(host_\w+)\s*\([^;{]*\)\s*;", code_of(text)))
    if len(names) > MAX_HOST_FUNCTIONS:
        yield "host/host.h", 1, f"{len(names)} functions, more than {MAX_HOST_FUNCTIONS}"


def rule_paper_references(tree):
    """A citation such as (LODIC s.4.3) stands in doc/paper-map.md."""
    known = set(re.findall(r"^\|\s*(LODIC|PAYGO|KLOC) s\.([\d.]+)",
                           tree.get("doc/paper-map.md", ""), re.MULTILINE))
    for path, text in tree.items():
        if not path.endswith((*C_SUFFIXES, ".md")) or path == "doc/paper-map.md":
            continue
        # A comment's line ends inside the brackets count as spaces.
        flat = re.sub(r"\n[ \t]*\*?", lambda m: " " * len(m[0]), text)
        for found in PAPER.finditer(flat):
            for section in re.findall(r"s\.(\d+(?:\.\d+)*)", found[2]):
                if (found[1], section) not in known:
                    yield (path, line_of(text, found.start()),
                           f"{found[1]} s.{section} is not in doc/paper-map.md")


def rule_decisions(tree):
    """A decision that is named, as ADR and four digits, exists in doc/adr/."""
    known = {m[1] for path in tree if (m := re.match(r"doc/adr/(\d{4})-", path))}
    for path, text in tree.items():
        for found in re.finditer(r"\bADR-(\d+)", text):
            if path != "tools/tidy.py" and found[1] not in known:
                yield path, line_of(text, found.start()), f"no doc/adr/{found[1]}-*.md"


def rule_rule_ids(tree):
    """A rule that a comment names (I1, O3 ...) is written down: a line ' * O3 what it says'."""
    defined = set()
    for _, text in c_files(tree, "core/", "lib/", "host/"):
        defined |= set(RULE_DEFINED.findall(text))
    for path, text in c_files(tree, "core/", "lib/", "host/"):
        for found in RULE_ID.finditer(comments_of(text)):
            if found[1] not in defined and found[1] not in NOT_RULE_IDS:
                yield path, line_of(text, found.start()), f"rule {found[1]} is defined nowhere"


def rule_names(tree):
    """struct frame, not frame_t: no typedef of ours ends in _t."""
    for path, text in c_files(tree):
        for found in re.finditer(r"\btypedef\b[^;{]*\b(\w+_t)\s*(\[[^]]*\])?\s*;|^}\s*(\w+_t)\s*;",
                                 code_of(text), re.MULTILINE):
            yield path, line_of(text, found.start()), f"typedef {found[1] or found[3]}"


def rule_ascii(tree):
    """C sources are ASCII."""
    for path, text in c_files(tree):
        for i, line in enumerate(text.split("\n")):
            if not line.isascii():
                yield path, i + 1, "not ASCII"


def rule_paths(tree):
    """Nothing names a place on somebody's own machine."""
    for path, text in tree.items():
        for found in re.finditer(r"(?<![\w.}])/(home|Users)/", text):
            if path != "tools/tidy.py":
                yield path, line_of(text, found.start()), f"a path of one machine: {found[0]}"


def rule_mutants(tree):
    """Each mutant of core/mutant.h is in the checker's tables or among the native tests."""
    enum = re.search(r"enum mutant \{(.*?)\}", code_of(tree.get("core/mutant.h", "")), re.DOTALL)
    names = re.findall(r"MUTANT_(\w+)", enum[1]) if enum else []
    native = dict(re.findall(r"^\s*'(\d+)': \['(\w+)'", tree.get("tests/meson.build", ""),
                             re.MULTILINE))
    searched = {found[1] for path, text in c_files(tree, "check/")
                for found in re.finditer(r"\{\s*MUTANT_(\w+),", text)}
    for number, name in enumerate(names):
        if name in ("NONE", "NR"):
            continue
        if native.get(str(number), name).upper() != name:
            yield "tests/meson.build", 1, f"mutant {number} is {name.lower()} in core/mutant.h"
        if str(number) not in native and name not in searched:
            yield "core/mutant.h", 1, f"nothing has to find {name.lower()}"
    for number in native:
        if int(number) >= len(names) - 1:
            yield "tests/meson.build", 1, f"mutant {number} is not in core/mutant.h"


RULES = [value for name, value in list(globals().items()) if name.startswith("rule_")]

LONG_BODY = "static int f(void)\n{\n" + "\tx();\n" * 60 + "}\n"
MUTANT_H = "enum mutant {\n\tMUTANT_NONE,\n\tMUTANT_NO_PIN, /* x */\n\tMUTANT_NR\n};\n"
# rule -> (trees that break it, a tree that does not)
SAMPLES = {
    "rule_spdx": ([{"a.c": "int a;\n"}, {"b.md": "\n\n\n<!-- SPDX-License-Identifier: MIT -->"}],
                  {"a.sh": "#!/bin/sh\n# SPDX-License-Identifier: MIT\n"}),
    "rule_dependence": ([{"core/a.c": '#include "lib/wire.h"\n'},
                         {"core/a.c": "#include <stdint.h>\n"},
                         {"host/a.c": '#include "core/frame.h"\n'},
                         {"lib/a.c": '#include "measure/cli.h"\n'},
                         {"cli/a.c": '#include "core/frame.h"\n'},
                         {"cli/a.c": '#include "lib/client/client.h"\n'},
                         {"include/lodic/a.h": "#include <pthread.h>\n"},
                         {"lib/a.c": "#include <host_impl.h>\n"},
                         {"kernel/tests/a.c": '#include "core/frame.h"\n'}],
                        {"core/a.c": '#include "host/host.h"\n/* #include <stdio.h> */\n',
                         "cli/a.c": '#include <stdio.h>\n#include "lib/service/service.h"\n',
                         "lib/a.c": '#include "core/frame.h"\n#include "lodic/lodic.h"\n',
                         "kernel/files/lodic/mm/a.c": '#include "internal.h"\n',
                         "kernel/tests/a.c": '#include "lib.h"\n'}),
    "rule_core_language": ([{"core/a.c": "double a;\n"},
                            {"core/a.c": "volatile int a;\n"}, {"core/a.c": "p = malloc(3);\n"},
                            {"core/a.c": '__asm__ ("");\n'}, {"core/a.c": "__thread int a;\n"}],
                           {"core/a.c": 'int free_one;\n/* double malloc( */ f("float");\n',
                            "lib/a.c": "double a;\n"}),
    "rule_core_host_macros": ([{"core/a.c": "#ifdef __KERNEL__\n"},
                               {"core/a.h": "#if defined(__x86_64__)\n"}],
                              {"core/a.c": "#ifdef LODIC_DEBUG\n"}),
    "rule_core_recursion": ([{"core/a.c": "int f(int a)\n{\n\treturn f(a);\n}\n"},
                             {"core/a.c": "void f(int a)\n{\n\tg(a);\n}\n",
                              "core/b.c": "void g(int a)\n{\n\tf(a);\n}\n"}],
                            {"core/a.c": "int f(int a)\n{\n\treturn a->f(1) + g();\n}\n"}),
    "rule_file_length": ([{"a.c": "\n" * 601}], {"a.c": "\n" * 600, "a.md": "\n" * 900}),
    "rule_function_length": ([{"a.c": LONG_BODY},
                              {"a.py": "def f():\n" + "    f()\n" * 60}],
                             {"a.c": "int f(void)\n{\n\treturn 1;\n}\n"}),
    "rule_atomics": ([{"lib/a.c": "__atomic_load_n(&a, 0);\n"},
                      {"core/a.c": "atomic_load_explicit(&a, 0);\n"},
                      {"core/a.c": "__sync_synchronize();\n"},
                      {"cli/a.c": "#include <stdatomic.h>\n"}],
                     {"host/a.c": "__atomic_load_n(&a, 0);\n",
                      "core/a.c": "atomic_word_ref(&a); /* atomic_load() */\n",
                      "kernel/files/lodic/mm/a.c": "atomic_fetch_add(1, &a);\n"}),
    "rule_host_functions": ([{"host/host.h": "".join(f"u64 host_f{i}(u64 a);\n"
                                                     for i in range(31))}],
                            {"host/host.h": "u64 host_f(u64 a);\n/* host_g(); */\n"}),
    "rule_paper_references": ([{"core/a.h": "/* (LODIC s.9.9) */\n"},
                               {"core/a.h": "/* (LODIC\n * s.4.3, s.4.4) */\n",
                                "doc/paper-map.md": "| LODIC s.4.3 | x |\n"}],
                              {"core/a.h": "/* as (LODIC\n * s.4.3, Fig. 6) */\n",
                               "doc/paper-map.md": "| LODIC s.4.3 embedding | x |\n"}),
    "rule_decisions": ([{"core/a.h": "/* ADR-" + "0009 */\n"}],
                       {"core/a.h": "/* ADR-" + "0009 */\n", "doc/adr/0009-x.md": ""}),
    "rule_rule_ids": ([{"core/a.c": "/* O3: after the fence */\n"}],
                      {"core/a.h": "/*\n * O3 first this\n */\n",
                       "core/b.c": "/* O3. S3-FIFO, C11 */\n"}),
    "rule_names": ([{"lib/a.h": "typedef struct a a_t;\n"},
                    {"lib/a.h": "typedef struct {\n\tint a;\n} a_t;\n"}],
                   {"lib/a.h": "typedef uint64_t u64;\n"}),
    "rule_ascii": ([{"core/a.c": "/* \u2192 */\n"}], {"a.md": "\u2192\n"}),
    "rule_paths": ([{"a.md": "see /" + "home/me/main\n"}], {"a.md": "homework/a, ./work/b\n"}),
    "rule_mutants": ([{"core/mutant.h": MUTANT_H, "tests/meson.build": ""},
                      {"core/mutant.h": MUTANT_H,
                       "tests/meson.build": "  '1': ['no_pin'],\n  '2': ['gone'],\n"}],
                     {"core/mutant.h": MUTANT_H, "check/a.c": "\t{ MUTANT_NO_PIN, 1 },\n"}),
}


def self_test():
    """Each rule catches what it is there for, and lets good text pass."""
    wrong = 0
    for rule in RULES:
        bad, good = SAMPLES[rule.__name__]
        for tree in bad:
            if not list(rule(tree)):
                print(f"tidy: {rule.__name__} does not catch {tree}")
                wrong += 1
        for problem in rule(good):
            print(f"tidy: {rule.__name__} blames good text: {problem}")
            wrong += 1
    print(f"tidy: {len(RULES)} rules, {wrong} that do not work")
    return wrong


def read_tree():
    """The files that are, or would be, in the repository."""
    try:
        listed = subprocess.run(
            ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others",
             "--exclude-standard"], cwd=ROOT, capture_output=True, check=True)
        paths = sorted(set(listed.stdout.decode().split("\0")) - {""})
    except (OSError, subprocess.CalledProcessError):
        paths = sorted(str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                       if not {".git", "build", "__pycache__"} & set(p.parts))
    tree = {}
    for path in paths:
        p = ROOT / path
        if p.is_file() and (p.suffix in TEXT_SUFFIXES or p.name in TEXT_NAMES):
            tree[path] = p.read_text(encoding="utf-8", errors="replace")
    return tree


def main():
    parser = argparse.ArgumentParser(
        description="The project's rules as a test.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="rules:\n" + "\n".join(f"  {r.__name__.removeprefix('rule_'):<18} {r.__doc__}"
                                      for r in RULES))
    parser.add_argument("--self-test", action="store_true", help="test the rules themselves")
    options = parser.parse_args()
    if options.self_test:
        return 1 if self_test() else 0

    tree = read_tree()
    problems = 0
    for rule in RULES:
        for path, line, message in rule(tree):
            print(f"{path}:{line}: {message}")
            problems += 1
    print(f"tidy: {len(tree)} files, {len(RULES)} rules, {problems} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
