# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The rules of code: what core may use, how long things are, what they are called."""

import ast
import pathlib
import re
import sys

from tidy_source import (C_SUFFIXES, OF_LINUX, c_files, code_of, comments_of, functions_of,
                         line_of, rule, signatures_of)

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "check/mutants"))
import rows  # noqa: E402

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_HOST_FUNCTIONS = 34

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
TYPEDEF_T = re.compile(r"\btypedef\b[^;{]*\b(\w+_t)\s*(\[[^]]*\])?\s*;|^}\s*(\w+_t)\s*;",
                       re.MULTILINE)
GUARD = re.compile(r"^#ifndef (\w+)\n#define (\w+)$", re.MULTILINE)
# Headers that mean another thing at each place that includes them.
NO_GUARD = {"core/count/count_list.h", "core/kloc/policy_list.h", "cli/command_list.h",
            "lib/settings_list.h", "lib/stat_list.h", "sim/tier/cost_list.h",
            "sim/tier/work_list.h"}

PREFIXED = ("core/", "host/", "lib/", "check/", "sim/", "cli/", "bench/command/",
            "bench/measure/")
# A file, or a folder, whose functions have one more prefix, because it holds one more thing.
MODULES = {
    "bench/command/": ("bench",),
    "check/arena_world": ("world",),
    "check/own_world": ("lodic",),  # what lodic/counter.h calls
    "cli/": ("command",),
    # The door once more, and the things of the machine that several of its files share.
    "host/whole/": ("port", "description", "event", "fd", "files", "inode", "leases", "mappings",
                    "go", "next",  # what the shim lacks there
                    "mark", "members", "pipe", "process", "program", "task", "waiters", "watches",
                    "words", "machine"),
    "check/whole/": ("programs", "world"),  # what host/whole asks of it; its programs
    "lib/posix/": ("port",),
    "core/owned/process_space": ("vma", "rmap"),
    "host/posix/older": ("gettid", "strerrordesc", "strerrorname"),  # names of glibc
    "lib/client/": ("lodic",),
    "lib/counter/": ("lodic",),
    "lib/service/file": ("files",),
    "bench/measure/measure": ("cell",),
    "bench/measure/shared": ("__wrap",),  # the linker's name
    "bench/measure/workload": ("access",),
    "sim/drbh_fit": ("fit",),
    "sim/drbh_table": ("table",),
}


@rule(bad=[{"core/a.c": "double a;\n"},
           {"core/a.c": "volatile int a;\n"}, {"core/a.c": "p = malloc(3);\n"},
           {"core/a.c": '__asm__ ("");\n'}, {"core/a.c": "__thread int a;\n"}],
      good={"core/a.c": 'int free_one;\n/* double malloc( */ f("float");\n',
            "lib/a.c": "double a;\n"})
def core_language(tree):
    """core/ is freestanding C11: no C library, no assembler, no floating point."""
    for path, text in c_files(tree, "core/"):
        code = code_of(text)
        for pattern, why in CORE_FORBIDDEN:
            for found in re.finditer(pattern, code):
                yield path, line_of(text, found.start()), f"{found[0].strip()}: {why}"


@rule(bad=[{"core/a.c": "#ifdef __KERNEL__\n"}, {"core/a.h": "#if defined(__x86_64__)\n"}],
      good={"core/a.c": "#ifdef LODIC_DEBUG\n"})
def core_host_macros(tree):
    """core/ does not ask where it runs."""
    for path, text in c_files(tree, "core/"):
        for i, line in enumerate(code_of(text).split("\n")):
            if HOST_MACRO.search(line):
                yield path, i + 1, "a host's macro in core/"


@rule(bad=[{"core/a.c": "int f(int a)\n{\n\treturn f(a);\n}\n"},
           {"core/a.c": "void f(int a)\n{\n\tg(a);\n}\n",
            "core/b.c": "void g(int a)\n{\n\tf(a);\n}\n"}],
      good={"core/a.c": "int f(int a)\n{\n\treturn a->f(1) + g();\n}\n"})
def core_recursion(tree):
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


@rule(bad=[{"a.c": "\n" * 601}], good={"a.c": "\n" * 600, "a.md": "\n" * 900})
def file_length(tree):
    """One subject per file: at most 600 lines."""
    for path, text in tree.items():
        lines = len(text.splitlines())
        if path.endswith((*C_SUFFIXES, ".py", ".sh")) and lines > MAX_FILE_LINES:
            yield path, lines, f"{lines} lines, more than {MAX_FILE_LINES}"


@rule(bad=[{"a.c": "static int f(void)\n{\n" + "\tx();\n" * 60 + "}\n"},
           {"a.py": "def f():\n" + "    f()\n" * 60}],
      good={"a.c": "int f(void)\n{\n\treturn 1;\n}\n"})
def function_length(tree):
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


@rule(bad=[{"lib/a.c": "__atomic_load_n(&a, 0);\n"},
           {"core/a.c": "atomic_load_explicit(&a, 0);\n"},
           {"core/a.c": "__sync_synchronize();\n"},
           {"cli/a.c": "#include <stdatomic.h>\n"}],
      good={"host/a.c": "__atomic_load_n(&a, 0);\n",
            "include/lodic/inline.h": "__atomic_load_n(&a, 0);\n",
            "core/a.c": "atomic_word_ref(&a); /* atomic_load() */\n",
            "kernel/files/lodic/mm/a.c": "atomic_fetch_add(1, &a);\n"})
def atomics(tree):
    """Atomics only through host_*, with the order in the name."""
    for path, text in c_files(tree):
        # Programs have these headers without a host.
        if path.startswith(("host/", "include/lodic/inline.h", "include/lodic/counter.h",
                            *OF_LINUX)):
            continue
        for found in ATOMIC.finditer(code_of(text)):
            yield path, line_of(text, found.start()), f"{found[0]}: use host_*"


@rule(bad=[{"host/host.h": "".join(f"u64 host_f{i}(u64 a);\n" for i in range(35))}],
      good={"host/host.h": "u64 host_f(u64 a);\n/* host_g(); */\n"})
def host_functions(tree):
    """host/host.h has at most 34 functions."""
    text = tree.get("host/host.h", "")
    names = set(re.findall(r"\b(host_\w+)\s*\([^;{]*\)\s*;", code_of(text)))
    if len(names) > MAX_HOST_FUNCTIONS:
        yield "host/host.h", 1, f"{len(names)} functions, more than {MAX_HOST_FUNCTIONS}"


@rule(bad=[{"lib/a.h": "typedef struct a a_t;\n"},
           {"lib/a.h": "typedef struct {\n\tint a;\n} a_t;\n"}],
      good={"lib/a.h": "typedef uint64_t u64;\n"})
def type_names(tree):
    """struct frame, not frame_t: no typedef of ours ends in _t."""
    for path, text in c_files(tree):
        for found in TYPEDEF_T.finditer(code_of(text)):
            yield path, line_of(text, found.start()), f"typedef {found[1] or found[3]}"


def prefixes_of(path):
    """What the name of a function in this file may begin with."""
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    words = stem.split("_")
    names = {"_".join(words[:n]) for n in range(1, len(words) + 1)}
    names |= {name.removesuffix("s") for name in names}
    names |= set(path.split("/")[1:-1] or path.split("/")[-2:-1])
    if path.startswith("host/"):
        names.add("host")
    for place, more in MODULES.items():
        if path.startswith(place):
            names |= set(more)
    return names


@rule(bad=[{"lib/client/pin.c": "int grab(void)\n{\n}\n"},
           {"core/cache/arena.h": "static inline int take_it(void)\n{\n}\n"},
           {"core/cache/arena.c": "int arenas(void)\n{\n}\n"},
           {"lib/client/file_map.c": "int map_it(void)\n{\n}\n"}],
      good={"lib/client/pin.c": "int lodic_pin(void)\n{\n}\nstatic int grab(void)\n{\n}\n",
            "core/owned/count_owned_file.c": "int count_owned_sum(void)\n{\n}\n",
            "core/cache/arena.c": "int cache_read(void)\n{\n}\n",
            "bench/measure/methods.c": "int method_run(void)\n{\n}\n"})
def prefix(tree):
    """A function that others call begins with the name of its file or folder."""
    for path, text in c_files(tree, *PREFIXED):
        names = prefixes_of(path)
        for name, signature, line, _, _ in signatures_of(text):
            if path.endswith(".c") and re.match(r"\s*static\b", signature) or name == "main":
                continue
            if not any(name == n or name.startswith(n + "_") for n in names):
                yield path, line, f"{name}(): begin it with {path.rsplit('/', 1)[-1][:-2]}_"


@rule(bad=[{"core/a.h": "#ifndef CORE_A_H\n#define CORE_A_H\n"}, {"lib/a.h": "int a;\n"},
           {"core/a.h": "#ifndef LODIC_CORE_A_H\n#define LODIC_CORE_B_H\n"}],
      good={"core/b/a_b.h": "#ifndef LODIC_CORE_B_A_B_H\n#define LODIC_CORE_B_A_B_H\n",
            "include/lodic/lodic.h": "#ifndef LODIC_LODIC_H\n#define LODIC_LODIC_H\n"})
def header_guards(tree):
    """A header's guard is LODIC_ and its path."""
    for path, text in c_files(tree):
        if not path.endswith(".h") or path in NO_GUARD or path.startswith(OF_LINUX):
            continue
        words = re.sub(r"\W", "_", path.removeprefix("include/lodic/")).upper()
        found = GUARD.search(text)
        if not found or set(found.groups()) != {"LODIC_" + words}:
            yield path, 1, f"no guard LODIC_{words}"


def words_of_code(tree):
    """Every word of the code, and of what stands for code: patches, programs in Python."""
    words = set()
    for path, text in tree.items():
        if path.endswith(C_SUFFIXES):
            words |= set(re.findall(r"\w+", code_of(text)))
        elif path.endswith((".py", ".patch")):
            words |= set(re.findall(r"\w+", text))
    return words


@rule(bad=[{"core/cache/arena.c": "/* arena_gone() does it */\n"},
           {"doc/a.md": "`lodic_gone()`\n", "include/lodic/lodic.h": "int lodic_pin(void);\n"}],
      good={"core/cache/arena.c": "int arena_take(void);\n/* arena_take(), madvise_free() */\n",
            "doc/a.md": "`arena_take()`\n"})
def dead_functions(tree):
    """A function that a comment or a page names, and whose prefix is a file of ours, exists."""
    heads = {path.rsplit("/", 1)[-1].split(".")[0].split("_")[0]
             for path, _ in c_files(tree) if path.startswith((*PREFIXED, "include/"))}
    words = words_of_code(tree)
    for path, text in tree.items():
        if path.startswith("kernel/"):
            continue
        if path.endswith(C_SUFFIXES):
            text = comments_of(text)
        elif not path.endswith(".md"):
            continue
        for found in re.finditer(r"\b([a-z]+)(_\w+)\(\)", text):
            if found[1] in heads and found[1] + found[2] not in words:
                yield path, line_of(text, found.start()), f"there is no {found[1]}{found[2]}()"


ROW = "mutant no-x\nrule X1: x\ntest unit/test_x\n@@ core/x.c\n-\tx();\n"
ROWS = "check/mutants/core/x.c.mutants"


@rule(bad=[{ROWS: ROW, "core/x.c": "y();\n"},
           {ROWS: ROW, "core/x.c": "\tx();\n\tx();\n"},
           {ROWS: ROW},
           {ROWS: ROW + ROW, "core/x.c": "\tx();\n"},
           {ROWS: ROW.replace("test unit/test_x\n", ""), "core/x.c": "\tx();\n"},
           {ROWS: ROW.replace("-", " "), "core/x.c": "\tx();\n"},
           {ROWS: ROW.replace("x.c", "y.c"), "core/y.c": "\tx();\n"},
           {"kernel/files/x.mutants": ROW, "core/x.c": "y();\n"}],
      good={ROWS: ROW, "core/x.c": "{\n\tx();\n}\n",
            "kernel/files/x.mutants": ROW.replace("no-x", "no-y")})
def mutants(tree):
    """A named mutant finds its text, once, and something finds the mutant (check/mutants/)."""
    yield from rows.problems(tree)
