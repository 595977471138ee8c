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
# Headers by which a program reaches files, sockets, memory, time, users and processes.
IO_HEADERS = re.compile(
    r"(?:sys|linux|asm|net|netinet|arpa)/.*|(?:aio|dirent|fcntl|ftw|glob|grp|ifaddrs|liburing|"
    r"mqueue|netdb|poll|pthread|pwd|sched|semaphore|signal|spawn|termios|threads|time|unistd|"
    r"utime|wordexp)\.h")
# What other headers have besides. open_memstream(3) writes to memory, and may stay.
IO_CALLS = re.compile(r"\b(f?d?open|freopen|popen|tmpfile|getenv|setenv|system|remove|rename)"
                      r"\s*\(")
# The shim serves reads in signal handlers, where libc's own memory may be in use. The service has
# one way to get memory.
HEAP = re.compile(r"\b(malloc|calloc|realloc|free|strdup|strndup|v?asprintf)\b")
NO_HEAP = ("lib/client/", "lib/counter/", "lib/service/")
# The inside of the shim runs on a simulated machine, too: several processes beside each other,
# whose start the machine calls.
EDGE_ONLY = {"dlfcn.h", "elf.h", "link.h", "preload/next.h", "preload/own_calls.h"}
ALONE = re.compile(r"\b(constructor|destructor)\b|^[ \t]*static (?!inline\b)([^;{}()=]*)[;=]",
                   re.MULTILINE)
CONSTANT = re.compile(r"const\b[^*]*|.*\*\s*const\b[^*]*", re.DOTALL)
KEPT_ERRNO = re.compile(r"\berror = errno;|\berrno = (?:\w+->)?error;")


@rule(bad=[{"lib/a.c": "#include <unistd.h>\n"},
           {"lib/client/a.c": "#include <sys/socket.h>\n"},
           {"lib/client/a.h": "#include <fcntl.h>\n"},
           {"lib/counter/a.c": "#include <sys/mman.h>\n"},
           {"lib/a.c": "#include <time.h>\n"},
           {"lib/new/a.c": "#include <liburing.h>\n"},
           {"lib/client/a.h": "#include <pthread.h>\n"},
           {"lib/a.c": "\tfile = fopen(path, \"re\");\n"},
           {"lib/a.c": "\tfile = fdopen (fd, \"w\");\n"},
           {"lib/client/a.c": "\tvalue = getenv(name);\n"},
           {"lib/client/a.c": "\tp = calloc(1, n);\n"},
           {"lib/client/a.c": "\tpthread_key_create(&key, free);\n"},
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
      good={"lib/posix/fd.c": "#include <unistd.h>\n#include <os_impl.h>\n",
            "lib/posix/os_impl.h": "#include <fcntl.h>\n\treturn calloc(nr, bytes);\n",
            "lib/client/a.c": "#include <errno.h>\n#include <string.h>\n"
                              "/* #include <unistd.h>, and free() it */\n\tport_free(p);\n",
            "lib/a.c": "#include <stdio.h>\n\tfile = open_memstream(&text, &n);\n\tfree(text);\n",
            "preload/hooks_a.c": "#include <sys/stat.h>\n#include \"preload/own_calls.h\"\n",
            "preload/posix/os_impl.h": "#include <fcntl.h>\n",
            "preload/a.c": '#include "lib/port/guest.h"\n#include "preload/own.h"\n',
            "cli/a.c": "#include <unistd.h>\n"})
def port_door(tree):
    """lib/, and the inside of preload/, reach the system by lib/port.h alone."""
    for path, text in c_files(tree):
        if path.startswith(DOOR):
            continue
        inside = is_inside(path)
        within = inside or path.startswith("lib/")
        for at, kind, name in includes_of(text):
            if name == "os_impl.h":
                yield path, at, "os_impl.h is for lib/posix/*.c only"
            elif within and kind == "<" and IO_HEADERS.fullmatch(name) or \
                    inside and name in EDGE_ONLY:
                yield path, at, f"{name}: lib/port.h is the way to the system"
        calls = [IO_CALLS] * within + [HEAP] * (inside or path.startswith(NO_HEAP))
        for found in (f for call in calls for f in call.finditer(code_of(text))):
            yield path, line_of(text, found.start()), f"{found[1]}(): lib/port.h has it"


def is_inside(path):
    return path.startswith("preload/") and not path.startswith(tuple(EDGE))


@rule(bad=[{"preload/a.c": "static int nr;\n"},
           {"preload/a.c": "static const char *name = 0;\n"},
           {"preload/a.c": "int a(void)\n{\n\tstatic u64 last[4];\n}\n"},
           {"preload/a.c": "__attribute__((constructor)) static void start(void)\n{\n}\n"},
           {"preload/a.c": "\treturn errno == ENOENT;\n"}],
      good={"preload/a.c": "#include <errno.h>\nstatic const u32 a[] = { 1 };\n"
                           "static const char *const names[2];\nstatic inline int b(int c)\n{\n"
                           "\tint error = errno;\n\n"
                           "\terrno = error;\n}\nstatic bool d(void);\n",
            "preload/start.c": "__attribute__((constructor)) static void start(void)\n{\n}\n",
            "preload/own_calls.c": "static int nr;\n\treturn errno;\n"})
def shim_inside(tree):
    """The shim's inside has its state in struct shim, and no errno for a reason."""
    for path, text in c_files(tree, "preload/"):
        if not is_inside(path):
            continue
        code = code_of(text)
        for found in ALONE.finditer(code):
            at = line_of(text, found.start())
            if found[1]:
                yield path, at, f"{found[1]}: preload/start.c calls what begins and ends"
            elif not CONSTANT.fullmatch(found[2]):
                yield path, at, f"{found[2].strip()}: preload/shim.h has what the shim remembers"
        for found in re.finditer(r"\berrno\b(?!\.h)", KEPT_ERRNO.sub(blank, code)):
            yield path, line_of(text, found.start()), "errno: the functions of the door return why"
