# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The door of lib/ and preload/: what may reach the operating system past lib/port.h."""

import re

from tidy_source import blank, c_files, code_of, includes_of, line_of, rule, signatures_of

DOOR = ("lib/posix/",)
# The shim's edge: what libc is to the program, and how the door goes past that. It decides as
# little as it can, and takes types of the system apart. All else in preload/ is the shim's inside.
EDGE = {
    "preload/hooks": "stands in for functions of libc, by their own types",
    "preload/next.": "finds libc's functions by the loader",
    "preload/own_calls.": "calls the system past the hooks",
    "preload/posix/": "is how lib/posix/*.c call the system inside the shim",
    "preload/loader.": "reads files as the loader does",
    "preload/go.": "looks at what the loader has put in memory",
    "preload/start.c": "is what the loader calls",
}
# What is no door: words, numbers and text.
HEADERS = set("assert.h ctype.h errno.h fnmatch.h limits.h stdarg.h stdbool.h stddef.h stdint.h "
              "stdio.h stdlib.h string.h".split())
LIBC = set("fnmatch isdigit isspace memchr memcmp memcpy memmove memset snprintf sscanf strchr "
           "strchrnul strcmp strcpy strcspn strerror strlen strncat strncmp strncpy strrchr strspn "
           "strstr strtol strtoul strtoull va_end va_start vsnprintf".split())
# One file has these as well, and why.
MORE = {
    "lib/client/start.c": ({"dlfcn.h", "dladdr"}, "asks the loader where the library lies"),
    "lib/settings_file.c": ({"fclose", "fprintf", "free", "open_memstream"},
                            "writes a file's text to memory"),
}
# The functions of these may be called; what preload/hooks define is libc's by name.
KNOWN = ("core/", "host/", "include/", "lib/", "preload/")
HOOKS = "preload/hooks"
CALL = re.compile(r"(?<!\.)(?<!->)\b([a-z_]\w*)(?=\s*\()|(?<!\w)(?<!if )\(([a-z_]\w*)\)\s*\(")
NO_CALL = re.compile(r"(?:\w+_t|[usi]\d+|void|bool|char|int|short|long|signed|unsigned|double|"
                     r"float|if|while|for|switch|return|sizeof|offsetof|defined|do|else|"
                     r"static_assert|_[A-Z]\w+|__builtin_\w+)")
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
POINTER = re.compile(r"\(\*\s*(?:const\s+)?(\w+)(?:\[\w*\])?\)\s*\(")
# The shim serves reads in signal handlers, where libc's own memory may be in use. The service has
# one way to get memory. These may not even be handed on.
HEAP = re.compile(r"\b(malloc|calloc|realloc|free|strdup|strndup|v?asprintf)\b")
# The inside of the shim runs on a simulated machine, too: several processes beside each other,
# whose start the machine calls.
EDGE_ONLY = {"preload/next.h", "preload/own_calls.h"}
STATE = {"preload/shim.c": "what the shim remembers"}
STARTS = re.compile(r"\b(constructor|destructor)\b")
LOCAL = re.compile(r"^[ \t]+static\s+([^;=]*)", re.MULTILINE)
NO_VARIABLE = re.compile(r"(?:typedef|extern|_?[Ss]tatic_assert)\b.*|"
                         r"(?:struct|union|enum)\s*\w*\s*(?:\{\s*\})?", re.DOTALL)
CONSTANT = re.compile(r"(?:static\s+)?const\b[^*]*|.*\*\s*const\b[^*]*", re.DOTALL)
KEEPS = re.compile(r"((?:\w+->)?\berror) = errno;|\berrno = (?:\w+->)?error;")
# strtoull(3) has no other way to say it.
READS_ERRNO = {"lib/value.h": re.compile(r"\berrno = 0;|\bif \(errno\)")}
CALLS_PORT = {"lib/posix/memory.c": "void port_free(void *p)\n{\n}\n"}


def known_in(tree):
    """The names of all functions and macros that are this project's."""
    known = set()
    for path, text in c_files(tree, *KNOWN):
        if not path.startswith(HOOKS):
            known |= {name for name, *_ in signatures_of(text)} | set(MACRO.findall(code_of(text)))
    return known


def strangers_in(text, known):
    """(place, name) of each call of a function that is neither known nor a pointer here."""
    code = ATTRIBUTE.sub(blank, code_of(text))
    known = known | set(POINTER.findall(code))
    for found in CALL.finditer(code):
        name = found[1] or found[2]
        if name not in known and not NO_CALL.fullmatch(name):
            yield found.start(1 if found[1] else 2), name


@rule(bad=[{"lib/a.c": "#include <unistd.h>\n"},
           {"lib/client/a.c": "#include <sys/socket.h>\n"},
           {"lib/client/a.h": "#include <fcntl.h>\n"},
           {"lib/a.c": "#include <fts.h>\n"},
           {"lib/a.c": "#include <dlfcn.h>\n"},
           {"lib/new/a.c": "#include <liburing.h>\n"},
           {"lib/client/a.h": "#include <pthread.h>\n"},
           {"lib/a.c": "\tfile = fopen(path, \"re\");\n"},
           {"lib/a.c": "\tfile = fdopen (fd, \"w\");\n"},
           {"lib/a.c": "\treturn (fopen)(path, \"re\");\n"},
           {"lib/a.c": "\tpath = realpath(path, NULL);\n"},
           {"lib/a.c": "\tfputs(text, stderr);\n"},
           {"lib/a.c": "extern int close(int);\n"},
           {"lib/a.c": "\t_exit(1);\n"},
           {"lib/a.c": "\tclose(fd);\n", "preload/hooks_fd.c": "int close(int fd)\n{\n}\n"},
           {"lib/a.c": "#define LOOK(fd) fstat(fd, &x)\n"},
           {"lib/client/a.c": "\tvalue = getenv(name);\n"},
           {"lib/client/a.c": "\tp = calloc(1, n);\n"},
           {"lib/client/a.c": "\tpthread_key_create(&key, free);\n"},
           {"lib/client/a.c": "\tx.end = free;\n"},
           {"lib/service/base/a.c": "\tfree(p);\n"},
           {"lib/client/a.c": "#include <os_impl.h>\n"},
           {"preload/a.c": "#include <os_impl.h>\n"},
           {"preload/a.c": "#include <sys/stat.h>\n"},
           {"preload/run_a.h": "#include <pthread.h>\n"},
           {"preload/a.c": "#include <link.h>\n"},
           {"preload/a.c": '#include "preload/own_calls.h"\n'},
           {"preload/a.c": '#include "preload/next.h"\n'},
           {"preload/a.c": "\ttext = getenv(name);\n"},
           {"preload/a.c": "\tp = malloc(n);\n"}],
      good={**CALLS_PORT,
            "lib/posix/fd.c": "#include <unistd.h>\n#include <os_impl.h>\n\tclose(fd);\n",
            "lib/posix/os_impl.h": "#include <fcntl.h>\n\treturn calloc(nr, bytes);\n",
            "lib/client/a.c": "#include <errno.h>\n#include <string.h>\n"
                              "#define TWICE(n) ((n) * 2)\n"
                              "/* #include <unistd.h>, and free() it */\n\tport_free(p);\n"
                              "static void go(void (*step)(int))\n{\n\tstep((int)strlen(x));\n"
                              "\tops->close(TWICE(1));\n}\n",
            "lib/settings_file.c": "#include <stdio.h>\n\tfile = open_memstream(&text, &n);\n"
                                   "\tfree(text);\n",
            "preload/hooks_a.c": "#include <sys/stat.h>\n#include \"preload/own_calls.h\"\n",
            "preload/posix/os_impl.h": "#include <fcntl.h>\n",
            "preload/a.c": '#include "lib/port/guest.h"\n#include "preload/own.h"\n',
            "cli/a.c": "#include <unistd.h>\n"})
def port_door(tree):
    """lib/, and the inside of preload/, reach the system by lib/port.h alone."""
    known = known_in(tree) | LIBC
    for path, text in c_files(tree):
        if path.startswith(DOOR):
            continue
        inside = is_inside(path)
        within, more = inside or path.startswith("lib/"), MORE.get(path, (set(),))[0]
        for at, kind, name in includes_of(text):
            if name == "os_impl.h":
                yield path, at, "os_impl.h is for lib/posix/*.c only"
            elif within and kind == "<" and name not in HEADERS | more or \
                    inside and name in EDGE_ONLY:
                yield path, at, f"{name}: lib/port.h is the way to the system"
        if not within:
            continue
        handed = [(f.start(), f[1]) for f in HEAP.finditer(code_of(text)) if f[1] not in more]
        for at, name in {*handed, *strangers_in(text, known | more)}:
            yield path, line_of(text, at), f"{name}(): lib/port.h has it, or LIBC of tidy_port.py"


def is_inside(path):
    return path.startswith("preload/") and not path.startswith(tuple(EDGE))


def outermost(code):
    """C without preprocessor lines and what stands in braces, at the same places."""
    code = ATTRIBUTE.sub(blank, re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", blank, code, flags=re.MULTILINE))
    pieces, depth, last = [], 0, 0
    for found in re.finditer(r"[{}]", code):
        piece = code[last:found.start()]
        pieces += [re.sub(r"[^\n]", " ", piece) if depth else piece,
                   found[0] if depth + (found[0] == "{") == 1 else " "]
        depth += 1 if found[0] == "{" else -1
        last = found.end()
    return "".join(pieces) + code[last:]


def variables_in(text):
    """(place, declaration) of each variable that outlives a call and is not constant."""
    code = code_of(text)
    for found in LOCAL.finditer(code):
        if not CONSTANT.fullmatch(found[1]):
            yield found.start(1), found[1]
    top = re.sub(r"\)(\s*)\{(\s*)\}", r")\1;\2 ", outermost(code))  # a function's body
    for found in re.finditer(r"[^;]+;", top):
        declaration = found[0].rstrip(";").split("=")[0].strip()
        if "(" in declaration and not re.match(r"[^(]*\(\s*\*", declaration):
            continue  # a function
        if declaration and not NO_VARIABLE.fullmatch(declaration) and \
                not CONSTANT.fullmatch(declaration.replace(")", "")):
            yield found.start() + len(found[0]) - len(found[0].lstrip()), declaration


@rule(bad=[{"preload/a.c": "static int nr;\n"},
           {"preload/a.c": "u64 report_nr;\n"},
           {"preload/a.c": "int a(void)\n{\n}\n\n_Thread_local u64 x = 1;\n"},
           {"preload/a.c": "static struct {\n\tconst int a;\n} x;\n"},
           {"preload/a.c": "static void (*hook)(int);\n"},
           {"preload/a.h": "static const char *name = 0;\n"},
           {"preload/a.c": "int a(void)\n{\n\tstatic u64 last[4];\n}\n"},
           {"preload/a.c": "int a(void)\n{\n\tstatic struct {\n\t\tint b;\n\t} last;\n}\n"},
           {"preload/a.c": "__attribute__((constructor)) static void start(void)\n{\n}\n"}],
      good={"preload/a.c": "#include <errno.h>\nstatic const u32 a[] = { 1 };\n"
                           "static const char *const names[2];\nstatic inline int b(int c)\n{\n"
                           "\tstatic const u32 two = 2;\n}\nstatic bool d(void);\n"
                           "struct e {\n\tint f;\n};\nextern struct shim shim;\n"
                           "enum { G = 1 };\nstatic int (*const h)(int) = b;\n",
            "preload/shim.c": "struct shim shim;\n",
            "preload/start.c": "__attribute__((constructor)) static void start(void)\n{\n}\n",
            "preload/own_calls.c": "static int nr;\n"})
def shim_inside(tree):
    """The shim's inside has its state in struct shim, and no start or end of its own."""
    for path, text in c_files(tree, "preload/"):
        if not is_inside(path):
            continue
        for found in STARTS.finditer(code_of(text)):
            yield (path, line_of(text, found.start()),
                   f"{found[1]}: preload/start.c calls what begins and ends")
        for at, declaration in variables_in(text) if path not in STATE else ():
            yield (path, line_of(text, at),
                   f"{' '.join(declaration.split())}: preload/shim.h has what the shim remembers")


@rule(bad=[{"preload/a.c": "\treturn errno == ENOENT;\n"},
           {"lib/service/a.c": "\tif (errno)\n"},
           {"lib/client/a.c": "int a(void)\n{\n\tint error = errno;\n\n"
                              "\tif (error == ENOENT)\n\t\tb();\n\terrno = error;\n}\n"},
           {"lib/value.h": "\tif (errno == ERANGE)\n"}],
      good={"preload/a.c": "#include <errno.h>\nint a(struct b *b)\n{\n\tint error = errno;\n\n"
                           "\tb->error = 1;\n\terrno = error;\n}\n",
            "preload/fds.c": "void a(struct b *b)\n{\n\tb->error = errno;\n"
                             "\terrno = b->error;\n}\n",
            "lib/value.h": "\terrno = 0;\n\tif (errno)\n\t\treturn 1;\n",
            "lib/posix/fd.c": "\treturn -errno;\n",
            "preload/own_calls.c": "\treturn errno;\n"})
def errno_kept(tree):
    """lib/ and the shim's inside keep errno for the program; nobody reads it for a reason."""
    for path, text in c_files(tree, "lib/", "preload/"):
        if path.startswith(DOOR) or path.startswith("preload/") and not is_inside(path):
            continue
        code = KEEPS.sub(blank, code_of(text))
        if path in READS_ERRNO:
            code = READS_ERRNO[path].sub(blank, code)
        for found in re.finditer(r"\berrno\b(?!\.h)", code):
            yield path, line_of(text, found.start()), "errno: the functions of the door return why"
        for _, _, first, _, body in signatures_of(text):
            for kept in {found[1] for found in KEEPS.finditer(body) if found[1]}:
                other = KEEPS.sub(blank, body)
                for found in re.finditer(rf"(?<!\.)(?<!->)\b{re.escape(kept)}\b", other):
                    yield (path, first + line_of(body, found.start()) - 1,
                           f"{kept}: it is errno, kept for the program alone")
