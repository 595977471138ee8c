# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The door of lib/: what may reach the operating system past lib/port.h."""

import re

from tidy_source import c_files, code_of, includes_of, line_of, rule

DOOR = ("lib/port_posix", "lib/posix/")
# Folders that still have their own system calls. The list must get shorter, never longer.
NOT_YET = ("lib/service/",)
# Headers by which a program reaches files, sockets, memory, time, users and processes.
IO_HEADERS = re.compile(
    r"(?:sys|linux|asm|net|netinet|arpa)/.*|(?:aio|dirent|fcntl|ftw|glob|grp|ifaddrs|liburing|"
    r"mqueue|netdb|poll|pwd|sched|semaphore|signal|spawn|termios|time|unistd|utime|wordexp)\.h")
# What other headers have besides. open_memstream(3) writes to memory, and may stay.
IO_CALLS = re.compile(r"\b(f?d?open|freopen|popen|tmpfile|getenv|setenv|system|remove|rename)"
                      r"\s*\(")
# The shim serves reads in signal handlers, where libc's own memory may be in use.
HEAP = re.compile(r"\b(malloc|calloc|realloc|free|strdup|strndup|v?asprintf)\b")
NO_HEAP = ("lib/client/", "lib/counter/")


@rule(bad=[{"lib/a.c": "#include <unistd.h>\n"},
           {"lib/client/a.c": "#include <sys/socket.h>\n"},
           {"lib/client/a.h": "#include <fcntl.h>\n"},
           {"lib/counter/a.c": "#include <sys/mman.h>\n"},
           {"lib/a.c": "#include <time.h>\n"},
           {"lib/new/a.c": "#include <liburing.h>\n"},
           {"lib/a.c": "\tfile = fopen(path, \"re\");\n"},
           {"lib/a.c": "\tfile = fdopen (fd, \"w\");\n"},
           {"lib/client/a.c": "\tvalue = getenv(name);\n"},
           {"lib/client/a.c": "\tp = calloc(1, n);\n"},
           {"lib/client/a.c": "\tpthread_key_create(&key, free);\n"},
           {"lib/client/a.c": "#include <os_impl.h>\n"},
           {"preload/a.c": "#include <os_impl.h>\n"}],
      good={"lib/port_posix_fd.c": "#include <unistd.h>\n#include <os_impl.h>\n",
            "lib/posix/os_impl.h": "#include <fcntl.h>\n\treturn calloc(nr, bytes);\n",
            "lib/service/base/a.c": "#include <sys/epoll.h>\n\tfile = fopen(path, \"re\");\n",
            "lib/client/a.c": "#include <errno.h>\n#include <pthread.h>\n#include <string.h>\n"
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
        calls = [IO_CALLS] * within + [HEAP] * path.startswith(NO_HEAP)
        for found in (f for call in calls for f in call.finditer(code_of(text))):
            yield path, line_of(text, found.start()), f"{found[1]}(): lib/port.h has it"
