# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The door of lib/: what may reach the operating system past lib/port.h."""

import re

from tidy_source import c_files, code_of, functions_of, includes_of, line_of, rule

DOOR = ("lib/port_posix", "lib/posix/")
# Folders that still have their own system calls. The list must get shorter, never longer.
NOT_YET = (
    "lib/service/file/",
    "lib/service/frame/",
    "lib/service/hold/",
    "lib/service/memory/",
    "lib/service/succession/",
    "lib/service/tier/",
)
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
MAY_WAIT = re.compile(r"^PORT_(?:HANGS|WAITS)\b[^;(]*?(\w+)\s*\(", re.MULTILINE)
# A reading thread calls these, and must not wait for anything but the file that it reads.
NEVER_WAITS = {
    "lib/client/attach.c": ("attach_step",),
    "lib/client/channel.c": ("channel_poll",),
    "lib/client/context.c": ("context_reseat", "context_unseat"),
    "lib/client/file.c": ("file_reclaim",),
    "lib/client/lent.c": ("lent_connect", "lent_read", "lent_step"),
    "lib/client/seat.c": ("seat_hint",),
    "lib/client/view.c": ("lodic_view_begin", "lodic_view_valid"),
}


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
           {"preload/a.c": "#include <os_impl.h>\n"}],
      good={"lib/port_posix_fd.c": "#include <unistd.h>\n#include <os_impl.h>\n",
            "lib/posix/os_impl.h": "#include <fcntl.h>\n\treturn calloc(nr, bytes);\n",
            "lib/service/hold/a.c": "#include <sys/mman.h>\n\tfile = fopen(path, \"re\");\n"
                                  "\tfree(p);\n",
            "lib/client/a.c": "#include <errno.h>\n#include <string.h>\n"
                              "/* #include <unistd.h>, and free() it */\n\tport_free(p);\n",
            "lib/a.c": "#include <stdio.h>\n\tfile = open_memstream(&text, &n);\n\tfree(text);\n",
            "cli/a.c": "#include <unistd.h>\n"})
def port_door(tree):
    """lib/ reaches the system by lib/port.h alone."""
    for path, text in c_files(tree):
        if path.startswith(DOOR):
            continue
        within = path.startswith("lib/") and not path.startswith(NOT_YET)
        for at, kind, name in includes_of(text):
            if name == "os_impl.h":
                yield path, at, "os_impl.h is for lib/port_posix_*.c only"
            elif within and kind == "<" and IO_HEADERS.fullmatch(name):
                yield path, at, f"<{name}>: lib/port.h is the way to the system"
        calls = [IO_CALLS] * within + [HEAP] * (within and path.startswith(NO_HEAP))
        for found in (f for call in calls for f in call.finditer(code_of(text))):
            yield path, line_of(text, found.start()), f"{found[1]}(): lib/port.h has it"


def calls_of(tree):
    """function -> (path, line, each word of its text that may be another function)."""
    calls = {}
    for path, text in c_files(tree, "lib/"):
        if not path.startswith(DOOR + NOT_YET):
            for name, line, _, body in functions_of(text):
                calls[name] = path, line, set(re.findall(r"\w+", code_of(body)))
    return calls


DOOR_SAMPLE = "PORT_HANGS int64_t port_read(int fd);\nPORT_WAITS void\nport_sleep(u64 ns);\n" \
              "int port_dup(int fd);\n"
STEP = "int attach_step(void)\n{\n\treturn attach_ask();\n}\n"


@rule(bad=[{"lib/port.h": DOOR_SAMPLE,
            "lib/client/attach.c": STEP + "int attach_ask(void)\n{\n\tport_sleep(1);\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/client/attach.c": STEP,
            "lib/client/channel.c": "int attach_ask(void)\n{\n\treturn ask(done);\n}\n"
                                    "static void done(void)\n{\n\tport_read(fd);\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/lines.h": "PORT_HANGS bool lines_next(void);\n",
            "lib/client/attach.c": "int attach_step(void)\n{\n\treturn lines_next();\n}\n"},
           {"lib/client/attach.c": "int attach_go(void)\n{\n}\n"}],
      good={"lib/port.h": DOOR_SAMPLE,
            "lib/client/attach.c": STEP + "int attach_ask(void)\n{\n\tport_dup(1);\n}\n"
                                   "int attach_wait(void)\n{\n\tport_sleep(1);\n}\n"})
def port_waits(tree):
    """What must never wait calls nothing that lib/port.h marks."""
    calls = calls_of(tree)
    marked = {name for _, text in c_files(tree, "lib/") for name in MAY_WAIT.findall(text)}
    for path, root in ((path, root) for path in NEVER_WAITS for root in NEVER_WAITS[path]):
        if root not in calls:
            if path in tree:
                yield path, 1, f"there is no {root}(), which tools/tidy_port.py follows"
            continue
        by, todo = {root: None}, [root]
        while todo:
            name = todo.pop()
            for other in sorted((calls[name][2] & (marked | calls.keys())) - by.keys()):
                by[other] = name
                todo += [other] * (other not in marked)
        for wait in sorted(marked & by.keys()):
            way = [wait]
            while by[way[-1]]:
                way.append(by[way[-1]])
            yield *calls[root][:2], f"{' -> '.join(reversed(way))}() may wait"
