# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What must never wait: a step of a reading thread, and a turn of the service."""

import re

from tidy_source import c_files, code_of, line_of, rule, signatures_of

DOOR = ("lib/posix/",)
MARK = re.compile(r"^.*\bPORT_(?:HANGS|WAITS)\b", re.MULTILINE)
MARK_STANDS = re.compile(r"#\s*define |PORT_\w+$")
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
        "port_shut": "of a service that is replaced, and ends in a worker; or of a local file",
    },
    "lib/service/file/direct.c": {
        "service_close_file": "of a local file, of which there is another descriptor",
    },
    "lib/service/file/files.c": {
        "service_close_file": "of a local file that is small",
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
    "lib/service/tier/policy_record.c": {
        "port_condition_wait_until": "no turn does: it leaves the record to its thread",
        "port_lock_take": "nobody holds it who writes",
    },
}
HANDS_ON = "lib/service/"
# But not these, which other threads call: a job's work(), and what a thread begins with.
JOB = re.compile(r"\bworker_job_init\s*\([^;]*,\s*(\w+),\s*\w+\)")
JOB_CALL = re.compile(r"(?:\.|->)work\s*\(")
THREAD = re.compile(r"\bport_thread_start(?:_alone)?\s*\([^;]*")
ONCE = re.compile(r"\bport_once\s*\([^;]*")  # calls it there and then
NOT_CALLED = re.compile(r"\b\w+\b(?!\s*\()")
POINTER = re.compile(r"(?<!\.)(?<!->)\b\w+\b(?!\s*\()")
TYPE = re.compile(r"\b(?:struct|union|enum)\s+\w+")
# What stands for its words as a function does: a function on one line, a macro, and a variable of
# the file that begins with a value.
ONE_LINE = re.compile(r"^(?![#\s])[^\n;{}=]*?(\w+)\([^\n;{}]*\)\s*\{([^\n]*)\}[ \t]*$",
                      re.MULTILINE)
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
VARIABLE = re.compile(r"^(?![#\s])\}?[^;{}]*?(\w+)(?:\[[^\]]*\])*(?:\)\s*\([^;{}=]*\))?\s*"
                      r"=(?!=)([^;]*);", re.MULTILINE)


def of_this_thread(code):
    """C without types, and without the functions that other threads call."""
    return THREAD.sub(lambda m: NOT_CALLED.sub("", m[0]), JOB.sub("", TYPE.sub("", code)))


def words_of(body):
    """Each word of a function's text that may be another one, which it calls or hands on."""
    body = of_this_thread(body)
    return set(re.findall(r"\w+", body)) | ({"work()"} if JOB_CALL.search(body) else set())


def callers_in(text):
    """(name, line, words, whether other files see it) of each function, macro and variable."""
    for name, signature, line, _, body in signatures_of(text):
        yield name, line, words_of(body), not re.search(r"\bstatic\b", signature)
    code = code_of(text)
    for found in (f for kind in (ONE_LINE, MACRO, VARIABLE) for f in kind.finditer(code)):
        yield (found[1], line_of(text, found.start(1)), words_of(found[2]),
               not re.search(r"\bstatic\b|#", found[0]))


class Calls:
    """The functions of lib/ and core/, and which may call which."""

    def __init__(self, tree):
        self.functions = {}  # (path, name) -> its line, its words
        self.seen = {}       # name -> the paths whose function every file sees
        self.jobs = set()
        handed = []          # (path, name)
        for path, text in c_files(tree, "lib/", "core/"):
            if path.startswith(DOOR):
                continue
            self.jobs |= {(path, name) for name in JOB.findall(code_of(text))}
            if path.startswith(HANDS_ON):
                code = ONCE.sub("", of_this_thread(code_of(text)))
                handed += [(path, name) for name in sorted(set(POINTER.findall(code)))]
            for name, line, words, shared in callers_in(text):
                words |= self.functions.get((path, name), (0, set()))[1]
                self.functions[path, name] = line, words
                if path.endswith(".h") or shared:
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
                                            "\tworker_job_init(j, 0, opening_work, done);\n"
                                            "\tj->work(j);\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/service/loop/service.c": TURN,
            "lib/service/base/worker.c": WORK + "int opening_begin(void)\n{\n"
                                         "\tport_thread_start(opening_work(), 1);\n}\n"},
           {"lib/port.h": DOOR_SAMPLE,
            "lib/service/client/opening.c": "int ask(void)\n{\n\tport_read(1);\n}\n",
            "lib/service/loop/wire.c": "void service_wire(void)\n{\n\tx = (t){ ask, };\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/client/attach.c": STEP,
            "lib/client/ask.h": "#define attach_ask() \\\n\tport_read(1)\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/client/attach.c": STEP,
            "lib/client/ask.h": "static inline int attach_ask(void) { return port_read(1); }\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/client/attach.c": STEP,
            "lib/client/ask.c": "static const struct step steps[] = {\n\t{ work },\n};\n"
                                "int attach_ask(void)\n{\n\treturn steps[0].work();\n}\n"
                                + "static void work(void)\n{\n\tport_read(1);\n}\n"},
           {"lib/port.h": DOOR_SAMPLE, "lib/client/attach.c": STEP,
            "core/a.c": "int attach_ask(void)\n{\n\treturn port_read(1);\n}\n"},
           {"lib/port.h": "int PORT_WAITS port_read(int fd);\n"},
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
                                            "\tworker_job_init(j, 0, opening_work, done);\n"
                                            "\tport_thread_start(&t, opening_work, x);\n}\n",
            # of the same name
            "lib/service/hold/a.c": WORK, "lib/service/client/a.c": WORK + "int ask(void)\n{\n}\n"})
def port_waits(tree):
    """What must never wait calls nothing that a header of lib/ marks."""
    calls, roots, met = Calls(tree), [], set()
    for path, text in c_files(tree, "lib/"):
        for found in MARK.finditer(code_of(text)):
            if not MARK_STANDS.match(found[0]):
                yield path, line_of(text, found.start()), "a mark begins its line"
    marked = {name for _, text in c_files(tree, "lib/") for name in MAY_WAIT.findall(text)}
    for path, name in ((path, name) for path in NEVER_WAITS for name in NEVER_WAITS[path]):
        if (path, name) in calls.functions:
            roots.append((path, name))
        elif path in tree:
            yield path, 1, f"there is no {name}(), which tools/tidy_waits.py follows"
    for way in ways_to_wait(calls, roots + calls.handed, marked, met):
        yield (way[0][0], calls.functions[way[0]][0],
               " -> ".join(name for _, name in way) + "() may wait")
    for path, name in ((path, name) for path in WAITS for name in WAITS[path]):
        leads = name in marked or any(any(ways_to_wait(calls, [f], marked, set()))
                                      for f in calls.functions if f[1] == name)
        if path in tree and not ((path, name) in met and leads):
            yield path, 1, f"{name}() is not waited for: take it out of tools/tidy_waits.py"


# What service_close() and port_close() may close in the service: the last word of what they are
# given, and why that waits for no file. What leads to a client's file goes by service_close_file()
# or worker_close(), which have marks or a thread.
CLOSE = re.compile(r"\b(?:port_close|service_close)\s*\(")
CLOSED = re.compile(r"(\w+)\s*(?:\[[^\]]*\]\s*)?\)\s*;")
OURS = {
    "epoll": "a set of descriptors", "watches": "another, of folders",
    "wake": "an event", "event": "an event", "done": "an event", "stop": "an event",
    "broken": "an event", "spare": "an event", "breaks": "of signals", "ears": "of signals",
    "signals": "of signals", "process": "a process",
    "socket": "a socket, which client_drain() has emptied", "listening": "a socket",
    "unheard": "a socket, at the end",
    "ends": "two sockets", "lock": "beside our socket, whose folder is believed to answer",
    "reader_fd": "memory", "kept_fd": "memory", "ret_fd": "memory",
    "close_after": "what a reply has lent: memory, a socket, a name (O_PATH)",
}
OURS_HERE = {
    "lib/service/base/limits.c": {"fds": "events"},
    "lib/service/base/socket.c": {"fd": "a socket"},
    "lib/service/base/base.c": {"fd": "what its callers name"},
    "lib/service/client/place.c": {"fd": "memory"},
    "lib/service/hold/hold_load.c": {"fd": "memory"},
    "lib/service/hold/holds.c": {"fd": "memory"},
    "lib/service/memory/memory.c": {"fd": "memory", "own": "memory"},
    "lib/service/memory/pages.c": {"fd": "the kernel's own file"},
    "lib/service/succession/succession.c": {"fds": "memory, a lock, and names (O_PATH)"},
    "lib/service/succession/takeover.c": {"fd": "a name (O_PATH), in a worker"},
}


def closes_in(text):
    """(line, word) of each."""
    code = code_of(text)
    for found in CLOSE.finditer(code):
        word = CLOSED.search(code, found.end())
        if not re.search(r"\b(?:void|int)\s+$", code[:found.start()]):
            yield line_of(text, found.start()), word[1] if word else "?"


@rule(bad=[{"lib/service/file/files.c": "\tservice_close(&f->fd);\n"},
           {"lib/service/client/client.c": "\tport_close(x->fds[i]);\n"},
           {"lib/service/file/files.c": "#define GO(f) service_close(&(f)->fd)\n"},
           {"lib/service/base/limits.c": "\tservice_close(&s->wake);\n"}],  # fds no more
      good={"lib/service/base/base.h": "void service_close(int *fd);\n",
            "lib/service/base/base.c": "void service_close(int *fd)\n{\n\tport_close(*fd);\n}\n",
            "lib/service/base/limits.c": "\tport_close(fds[--nr]);\n",
            "lib/service/client/a.c": "\tservice_close(&s->wake);\n\tservice_close_file(&f->fd);\n",
            "lib/client/channel.c": "\tport_close(fd);\n"})
def service_closes(tree):
    """The service closes nothing where it stands that leads to a client's file."""
    for path, text in c_files(tree, HANDS_ON):
        here, met = OURS_HERE.get(path, {}), set()
        for line, word in closes_in(text):
            met.add(word)
            if word not in here and word not in OURS:
                yield path, line, f"{word}: service_close_file() or worker_close(), if it is a file"
        for word in sorted(here.keys() - met):
            yield path, 1, f"{word} is not closed: take it out of tools/tidy_waits.py"
