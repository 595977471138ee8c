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
MAY_WAIT = re.compile(r"^PORT_(?:HANGS|WAITS)\b[^;(]*?(\w+)\s*\(", re.MULTILINE)
# A reading thread calls these, and must not wait for anything but the file that it reads. The
# service calls the others in each turn of its main loop, and between two, while all programs wait.
# It may also call in a turn what it has handed on as a pointer at any time.
NEVER_WAITS = {
    "lib/client/attach.c": ("attach_step",),
    "lib/client/channel.c": ("channel_poll",),
    "lib/client/context.c": ("context_reseat", "context_unseat"),
    "lib/client/file.c": ("file_reclaim",),
    "lib/client/lent.c": ("lent_connect", "lent_read", "lent_step"),
    "lib/client/seat.c": ("seat_hint",),
    "lib/client/view.c": ("lodic_view_begin", "lodic_view_valid"),
    "lib/service/loop/service.c": ("service_turn",),
    "lib/service/succession/resize.c": ("resize_next",),
}
# What a function of that file calls all the same: a wait, or a function that leads to one. Why does
# it end soon, or never happen in a turn? The list must get shorter, never longer.
WAITS = {
    "lib/service/loop/service.c": {
        "port_set_wait": "the main loop has nothing to do",
    },
    "lib/service/base/worker.c": {
        "port_lock_take": "nobody holds the lock for longer than a few steps",
        "port_shut": "of a service that is replaced, and ends in a worker",
    },
    "lib/service/file/lease.c": {
        "port_lock_take": "nobody holds it who waits, or looks at more than LOOKS_AT_ONCE leases",
    },
    "lib/service/frame/fence.c": {
        "port_lock_take": "nobody holds it for longer than a few steps",
    },
    "lib/service/succession/hand.c": {
        "port_reopen_name": "9p's server alone is asked, once for each file that goes along",
        "socket_unlisten": "a successor has the path, so that it stays",
    },
    "lib/service/succession/resize.c": {
        "service_shut": "of a service of which nothing was begun",
    },
    "lib/service/tier/policy_record.c": {
        "port_condition_wait_until": "no turn does: it leaves the record to its thread",
        "port_lock_take": "nobody holds it who writes",
    },
}
HANDS_ON = "lib/service/"
# But not these, which other threads call: a job's work(), and what a thread begins with.
JOB = re.compile(r"(?:\.|->)work\s*=\s*(\w+)")
JOB_CALL = re.compile(r"(?:\.|->)work\s*\(")
THREAD = re.compile(r"\bport_thread_start(?:_alone)?\s*\([^;]*")
ONCE = re.compile(r"\bport_once\s*\([^;]*")  # calls it there and then
NOT_CALLED = re.compile(r"\b\w+\b(?!\s*\()")
POINTER = re.compile(r"(?<!\.)(?<!->)\b\w+\b(?!\s*\()")
TYPE = re.compile(r"\b(?:struct|union|enum)\s+\w+")


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


def of_this_thread(code):
    """C without types, and without the functions that other threads call."""
    return THREAD.sub(lambda m: NOT_CALLED.sub("", m[0]), JOB.sub("", TYPE.sub("", code)))


def words_of(body):
    """Each word of a function's text that may be another one, which it calls or hands on."""
    body = of_this_thread(body)
    return set(re.findall(r"\w+", body)) | ({"work()"} if JOB_CALL.search(body) else set())


class Calls:
    """The functions of lib/, and which may call which."""

    def __init__(self, tree):
        self.functions = {}  # (path, name) -> its line, its words
        self.seen = {}       # name -> the paths whose function every file sees
        self.jobs = set()
        handed = []          # (path, name)
        for path, text in c_files(tree, "lib/"):
            if path.startswith(DOOR):
                continue
            self.jobs |= {(path, name) for name in JOB.findall(code_of(text))}
            if path.startswith(HANDS_ON):
                code = ONCE.sub("", of_this_thread(code_of(text)))
                handed += [(path, name) for name in sorted(set(POINTER.findall(code)))]
            for name, signature, line, _, body in signatures_of(text):
                self.functions[path, name] = line, words_of(body)
                if path.endswith(".h") or not re.search(r"\bstatic\b", signature):
                    self.seen.setdefault(name, []).append(path)
        self.handed = [f for path, name in handed for f in self.named(path, name)]

    def named(self, path, name):
        """The functions that a file may mean by this name."""
        if (path, name) in self.functions:
            return [(path, name)]
        return [(at, name) for at in self.seen.get(name, ())]

    def of(self, function):
        """The functions that this one may call, in order."""
        path, words = function[0], self.functions[function][1]
        found = self.jobs & self.functions.keys() if "work()" in words else set()
        return sorted(found.union(*(self.named(path, word) for word in words)))


def ways_to_wait(calls, roots, marked, waits):
    """Each way to a function that may wait: [(path, name), ..., (None, name)]. Adds to waits what
    is allowed and met."""
    by, todo, found = dict.fromkeys(roots), list(roots), []
    while todo:
        function = todo.pop()
        path, words = function[0], calls.functions[function][1]
        allowed = words & WAITS.get(path, {}).keys()
        waits |= {(path, name) for name in allowed}
        found += [(function, name) for name in sorted(words & marked - allowed)]
        for other in calls.of(function):
            if other not in by and other[1] not in marked | allowed:
                by[other] = function
                todo.append(other)
    for function, name in found:
        way = [(None, name)]
        while function:
            way.append(function)
            function = by[function]
        yield way[::-1]


DOOR_SAMPLE = "PORT_HANGS int64_t port_read(int fd);\nPORT_WAITS void\nport_sleep(u64 ns);\n" \
              "int port_dup(int fd);\nPORT_WAITS int port_set_wait(int set);\n"
STEP = "int attach_step(void)\n{\n\treturn attach_ask();\n}\n"
TURN = "static void service_wait(void)\n{\n\tport_set_wait(1);\n}\n" \
       "void service_turn(void)\n{\n\tservice_wait();\n\topening_begin();\n}\n"
WORK = "static void opening_work(void)\n{\n\tport_read(1);\n}\n"


@rule(bad=[{"lib/port.h": DOOR_SAMPLE,
            "lib/client/attach.c": STEP + "int attach_ask(void)\n{\n\tport_sleep(1);\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/client/attach.c": STEP,
            "lib/client/channel.c": "int attach_ask(void)\n{\n\treturn ask(done);\n}\n"
                                    "static void done(void)\n{\n\tport_read(fd);\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/lines.h": "PORT_HANGS bool lines_next(void);\n",
            "lib/client/attach.c": "int attach_step(void)\n{\n\treturn lines_next();\n}\n"},
           {"lib/client/attach.c": "int attach_go(void)\n{\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/service/loop/service.c": TURN,
            "lib/service/client/opening.c": "int opening_begin(void)\n{\n\tport_read(1);\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/service/loop/service.c": TURN,
            "lib/service/client/opening.c": "static void done(void)\n{\n\tport_read(1);\n}\n"
                                            "int opening_begin(void)\n{\n\tj.done = done;\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/service/loop/service.c": TURN,  # nobody's worker
            "lib/service/client/opening.c": WORK + "int opening_begin(void)\n{\n"
                                            "\tj.work = opening_work;\n\tj->work(j);\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/service/loop/service.c": TURN,
            "lib/service/base/worker.c": WORK + "int opening_begin(void)\n{\n"
                                         "\tport_thread_start(opening_work(), 1);\n}\n"},
           {"lib/port.h": DOOR_SAMPLE,
            "lib/service/client/opening.c": "int ask(void)\n{\n\tport_read(1);\n}\n",
            "lib/service/loop/wire.c": "void service_wire(void)\n{\n\tx = (t){ ask, };\n}\n"},
           {"lib/port.h": DOOR_SAMPLE,  # it waits no more
            "lib/service/loop/service.c": "void service_turn(void)\n{\n}\n"}],
      good={"lib/port.h": DOOR_SAMPLE,
            "lib/client/attach.c": STEP + "int attach_ask(void)\n{\n\tport_dup(1);\n}\n"
                                   "int attach_wait(void)\n{\n\tport_sleep(1);\n}\n",
            "lib/service/loop/service.c": TURN,
            "lib/service/loop/a.c": "void service_begin(void)\n{\n\tport_once(&o, begin);\n}\n"
                                    "static void begin(void)\n{\n\tport_read(1);\n}\n",
            "lib/client/read.c": "int job(void)\n{\n\treturn port_read(1);\n}\n",
            "lib/service/client/opening.c": WORK + "int opening_begin(void)\n{\n"
                                            "\tj = (struct job){ .work = opening_work };\n"
                                            "\tport_thread_start(&t, opening_work, x);\n}\n",
            # of the same name
            "lib/service/hold/a.c": WORK, "lib/service/client/a.c": WORK + "int ask(void)\n{\n}\n"})
def port_waits(tree):
    """What must never wait calls nothing that a header of lib/ marks."""
    calls, roots, met = Calls(tree), [], set()
    marked = {name for _, text in c_files(tree, "lib/") for name in MAY_WAIT.findall(text)}
    for path, name in ((path, name) for path in NEVER_WAITS for name in NEVER_WAITS[path]):
        if (path, name) in calls.functions:
            roots.append((path, name))
        elif path in tree:
            yield path, 1, f"there is no {name}(), which tools/tidy_port.py follows"
    for way in ways_to_wait(calls, roots + calls.handed, marked, met):
        yield (way[0][0], calls.functions[way[0]][0],
               " -> ".join(name for _, name in way) + "() may wait")
    for path, name in ((path, name) for path in WAITS for name in WAITS[path]):
        leads = name in marked or any(any(ways_to_wait(calls, [f], marked, set()))
                                      for f in calls.functions if f[1] == name)
        if path in tree and not ((path, name) in met and leads):
            yield path, 1, f"{name}() is not waited for: take it out of tools/tidy_port.py"
