# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The rooms of the house, in order: what each is for, and which rooms it may include.

ARCHITECTURE.md shows this table between its markers; `tools/tidy.py --rooms` prints it.
"""

import ast
import collections
import re
import sys

from tidy_source import (OF_LINUX, c_files, code_of, includes_of, is_python, line_of, rule,
                         signatures_of, without_comments)

# name: a folder, or one file. what: for the page. may: prefixes of what its C files include
# besides themselves. imports: Python modules that are neither its own nor in the standard library.
Room = collections.namedtuple("Room", "name what may imports", defaults=((),))

CORE = ("core/*", "host/host.h")
HOST = ("host/host.h", "host/random.h")
SERVICE = (*CORE, "host/random.h", "core/cache/", "core/kloc/", "include/", "lib/*", "lib/port/",
           "lib/port/limit.h", "lib/service/service.h")
# The rooms of the service, the lowest first.
SERVICE_FLOORS = ("base", "memory", "tier", "file", "frame", "hold", "client", "succession", "loop")


def below(floor):
    """The rooms of the service below this one; all of them without one."""
    floors = SERVICE_FLOORS[:SERVICE_FLOORS.index(floor)] if floor else SERVICE_FLOORS
    return [f"lib/service/{name}/" for name in floors]


ROOMS = [
    Room("include/", "what is installed: `lodic.h`, and `inline.h` by choice; `counter.h`; "
         "guards in C++", ()),
    Room("host/host.h", "the contract between core and a machine: 34 functions at most", ()),
    Room("host/random.h", "pseudo-random numbers for hosts, tests and measurements",
         ("host/host.h",)),
    Room("core/*", "what all of core shares: blocks, frames, ptes and the gate on one pte",
         ("host/host.h",)),
    Room("core/cache/", "the shared cache: arena, contexts, translation, proofs, eviction",
         CORE),
    Room("core/count/", "the counting schemes behind one contract", CORE),
    Room("core/counter/", "PAYGO for a program's own objects: references, and an exact kill",
         CORE),
    Room("core/kloc/", "what belongs to a file goes to fast or slow memory together; policies",
         CORE),
    Room("core/owned/", "LODIC with the owned gate: process spaces, reverse mapping",
         (*CORE, "core/count/")),
    Room("host/fiber/", "the fibers on which the two simulated hosts run tasks", ()),
    Room("host/posix/", "the host that is this machine", HOST),
    Room("host/check/", "the host that searches schedules", (*HOST, "host/fiber/")),
    Room("host/sim/", "the host that counts what many CPUs would cost", (*HOST, "host/fiber/")),
    Room("check/", "`lodic-check`: scenarios, the oracle, `mutants/`, rules broken by hand; "
         "`generated/`, mutants of core's and lib's text",
         ("core/", *HOST, "host/check/", "include/"), ("tree_sitter", "tree_sitter_c")),
    Room("preload/run_recorded.h", "what a recorded program did: the shim writes it, `lodic-sim` "
         "reads it", ()),
    Room("sim/", "`lodic-sim`: topologies, parameters, workloads; `cache/`, the shipped cache; "
         "`tier/`, two tiers of memory; the papers' `figures/`",
         ("core/", *HOST, "host/sim/", "preload/run_recorded.h"), ("matplotlib",)),
    Room("lib/port.h", "the only door between lib/ and the operating system", ()),
    Room("lib/port/guest.h", "its part that the shim alone wants", ("lib/port.h",)),
    Room("lib/port/limit.h", "its part for the limits of a process", ("lib/port.h",)),
    Room("lib/port/", "its parts that the service alone wants, a subject each", ("lib/port.h",)),
    Room("lib/posix/", "the door on Linux", ("host/host.h", "lib/port.h", "lib/port/guest.h",
                                             "lib/port/limit.h", "lib/port/")),
    Room("lib/service/service.h", "how a program runs the service, and finds it", ()),
    Room("lib/cgroup.h", "how much memory control groups allow a process", ()),
    Room("lib/look.h", "how a program looks at a service: its files and readers",
         ("include/",)),
    Room("lib/value.h", "how people write numbers, sizes and times", ()),
    Room("lib/escape.h", "how every command writes a name that a stranger has chosen", ()),
    Room("lib/*", "what client and service agree on: the wire, the settings, the socket's path",
         ("include/", "lib/port.h", "host/host.h", "lib/service/service.h", "lib/value.h")),
    Room("lib/service/trial.h", "how a program measures a service, piece by piece",
         ("include/", "lib/service/service.h")),
    Room("lib/service/base/", "the service's log, events, socket, and threads that may stick",
         SERVICE),
    Room("lib/service/memory/", "an arena's memory: segments, huge pages, nodes",
         (*SERVICE, *below("memory"))),
    Room("lib/service/tier/", "which frames are free, in two tiers; the policy of where blocks go",
         (*SERVICE, *below("tier"))),
    Room("lib/service/file/", "files that are held: proofs, leases, and why one goes",
         (*SERVICE, *below("file"))),
    Room("lib/service/frame/", "what becomes of frames: filled, visited, moved, taken back",
         (*SERVICE, *below("frame"))),
    Room("lib/service/hold/", "ranges of files in memory of their own",
         (*SERVICE, *below("hold"))),
    Room("lib/service/client/", "the programs that are connected, and what they may ask",
         (*SERVICE, *below("client"))),
    Room("lib/service/succession/", "how a service is made, changes its size, and gives way",
         (*SERVICE, *below("succession"))),
    Room("lib/service/loop/", "the main loop: what happens in a turn, and at a tick",
         (*SERVICE, *below("loop"))),
    Room("lib/service/*", "`trial.c`: a service that a program measures piece by piece",
         (*SERVICE, "lib/service/trial.h", *below(None))),
    Room("lib/client/", "a program's side of liblodic: attach, context, file, read, pin, hold",
         (*CORE, "core/cache/", "include/", "lib/*", "lib/service/service.h")),
    Room("lib/counter/", "a program's own objects: domains, threads, guards",
         (*CORE, "core/counter/", "include/", "lib/huge.h", "lib/port.h")),
    Room("preload/", "the shim that `lodic map` and `lodic run` put into other programs",
         ("host/host.h", "core/cache/", "include/", "lib/client/", "lib/escape.h",
          "lib/port.h", "lib/port/guest.h", "lib/port/limit.h", "preload/run_recorded.h")),
    Room("host/whole/", "the host that is a simulated machine: all of lib/ runs on it",
         (*HOST, "host/fiber/", "lib/port.h", "lib/port/guest.h", "lib/port/limit.h",
          "lib/port/", "preload/go.h", "preload/next_names.h", "preload/own.h",
          "preload/run.h")),
    Room("python/", "the package for Python: an extension over `lodic.h`, and `python/lodic`",
         ("include/", "host/host.h", "lib/stat_list.h"),
         ("_lodic_auto", "fsspec", "numpy", "safetensors", "torch")),
    Room("check/whole/", "`lodic-whole`: service and clients as they are, on the simulated "
         "machine", (*HOST, "host/whole/", "include/", "lib/port.h", "lib/port/",
                     "lib/service/service.h", "lib/look.h", "lib/settings.h",
                     "lib/wire.h", "lib/reason.h", "core/cache/arena.h", "core/pte.h")),
    Room("cli/", "the program `lodic`", ("include/", *HOST, "lib/escape.h", "lib/value.h",
                                         "lib/cgroup.h", "lib/look.h",
                                         "lib/service/service.h", "lib/settings.h",
                                         "lib/settings_list.h", "lib/stat_list.h",
                                         "preload/go.h", "preload/map_environment.h",
                                         "preload/run_environment.h", "preload/run_recorded.h",
                                         "preload/run_seen.h", "preload/run_totals.h")),
    Room("rocksdb/", "`liblodic-rocksdb.so`: a file system for RocksDB, in C++", ("include/",)),
    Room("rust/", "the crate `lodic`: guards in Rust", ()),
    Room("kernel/", "LODIC, PAYGO and both as patches on Linux 6.12, and what tests them", (),
         ("rows",)),  # of check/mutants/
    Room("packaging/", "man pages, completion, Debian packages: made from what the rest says", ()),
    Room("bench/", "`lodic-bench` (`lodic bench`, `lodic demo`); what `make bench` runs; plots",
         (*CORE, "core/cache/", "core/count/", "core/owned/", "host/posix/", "host/random.h",
          "include/", "lib/look.h", "lib/service/service.h", "lib/service/trial.h",
          "lib/settings.h", "cli/cli.h", "cli/command.h", "cli/leftover.h", "cli/own_cache.h",
          "cli/series.h", "cli/text.h"),
         ("matplotlib", "drawing", "duckdb",  # sim/figures/drawing.py
          "lodic", "numpy", "safetensors")),
    Room("tests/", "`unit/`, `outside/`, `stress/`, `crash/`, `chaos/`, `fuzz/`, `cli/`, "
         "`map/`, `run/`, `rocksdb/`, `rust/`, `install/`, `python/`, `packaging/`, "
         "`recipes/`, the mutants' "
         "builds", ("",),
         ("duck", "nginx",  # of bench/
          "validate_rows",  # of sim/
          "report", "run", "text", "tree", "unit",  # of check/generated/
          "rows", "weave",  # of check/mutants/
          "dask", "distributed", "fsspec", "lodic", "numpy", "pandas", "pyarrow", "safetensors",
          "torch")),
    Room("tools/", "dependencies, the installer, the check driver, the rules as a test", (),
         ("rows",)),  # of check/mutants/
    Room("doc/", "words, recipes, paper map, decisions, races met", ("include/",)),
]
# The floors inside a room, from the bottom up: words are files, x.c and x.h together. Folders in it
# are not looked at.
FLOORS = {
    "preload/": (
        "glob go map_environment next_names run_environment run_recorded run_seen",
        "memory run_totals shim",
        "next own",
        "own_calls",
        "fds line loader",
        "map_state run_print run_state run_watched",
        "map_options run_calls run_report",
        "map_report run_files run_record",
        "map_pages run_place",
        "map run_leave",
        "run_threads",
        "run_await run_map",
        "run",
        "hooks start",
        "hooks_exec hooks_fd hooks_map hooks_read hooks_rights hooks_uring hooks_wait",
        "hooks_process",
    ),
}
# A function may have another name for the linker.
AS_NAME = re.compile(r'\bHOOKS_AS\("(\w+)"\)')
CALL = re.compile(r"(?<![.>\w])([a-z_]\w*)\(")
# What an installed header may ask of a program's C library.
LIBC_HEADERS = {"stddef.h", "stdint.h", "stdbool.h", "sys/types.h", "sys/uio.h"}
# The public headers are found without their folder.
PUBLIC = re.compile(r"^lodic/")
OTHER_HALF = "the other half is "
MARKERS = ("<!-- rooms -->", "<!-- /rooms -->")


def is_in(path, place):
    """Is this file in the room or folder? `core/*` is core's own files without its folders."""
    if place.endswith("*"):
        return path.startswith(place[:-1]) and "/" not in path[len(place) - 1:]
    return path.startswith(place) if place.endswith("/") or not place else path == place


def room_of(path):
    found = [room for room in ROOMS if is_in(path, room.name)]
    return max(found, key=lambda room: len(room.name), default=None)


def page_table():
    """The table of rooms, as ARCHITECTURE.md shows it."""
    lines = ["| room | what it is for | its C files may include |", "|---|---|---|"]
    for room in ROOMS:
        may = ", ".join(f"`{place}`" for place in room.may)
        if room.may == ("",):
            may = "everything"
        lines.append(f"| `{room.name}` | {room.what} | {may or '-'} |")
    return "\n".join(lines) + "\n"


@rule(bad=[{"core/a.c": '#include "lib/wire.h"\n'},
           {"core/a.c": "#include <stdint.h>\n"},
           {"core/a.c": '#include "core/cache/arena.h"\n'},
           {"core/cache/a.c": '#include "core/count/count.h"\n'},
           {"core/count/a.c": '#include "core/owned/rmap.h"\n'},
           {"host/posix/a.c": '#include "core/frame.h"\n'},
           {"lib/client/a.c": '#include "cli/cli.h"\n'},
           {"lib/service/base/a.c": '#include "lib/client/client.h"\n'},
           {"lib/service/base/a.c": '#include "lib/service/file/files.h"\n'},
           {"lib/service/frame/a.h": '#include "lib/service/loop/run.h"\n'},
           {"cli/a.c": '#include "core/frame.h"\n'},
           {"cli/a.c": '#include "bench/measure/rig.h"\n'},
           {"bench/a.c": '#include "cli/memory.h"\n'},
           {"include/lodic/a.h": "#include <pthread.h>\n"},
           {"lib/a.c": "#include <host_impl.h>\n"},
           {"core/a.c": '#include "frame.h"\n'},
           {"cli/a.c": "#include <core/a.h>\n", "core/a.h": ""},
           {"cli/a.c": '#include "cli/../core/a.h"\n'},
           {"new/a.c": '#include "host/host.h"\n'},
           {"kernel/tests/a.c": '#include "core/frame.h"\n'}],
      good={"core/a.c": '#include "host/host.h"\n/* #include <stdio.h> */\n',
            "core/owned/a.c": '#include "core/count/count.h"\n#include "core/pte.h"\n',
            "cli/a.c": '#include <stdio.h>\n#include "lib/service/service.h"\n',
            "lib/service/loop/a.c": '#include "lib/service/base/base.h"\n',
            "lib/service/a.c": '#include "lib/service/loop/run.h"\n',
            "lib/client/a.c": '#include "core/frame.h"\n#include "lodic/lodic.h"\n',
            "tests/unit/a.c": '#include "sim/machine.h"\n',
            "kernel/files/lodic/mm/a.c": '#include "internal.h"\n',
            "kernel/tests/a.c": '#include "lib.h"\n'})
def rooms(tree):
    """A room's C files include what ROOMS says, and never a room below their own."""
    for path, text in c_files(tree):
        room = room_of(path)
        if not room:
            yield path, 1, "in no room of tools/tidy_rooms.py"
            continue
        for at, kind, name in includes_of(text):
            target = PUBLIC.sub("include/lodic/", name)
            if kind == "<" and target not in tree:
                yield from include_of_system(path, at, name)
            elif path.startswith(OF_LINUX):
                if path.startswith("kernel/tests/") and "/" in name:
                    yield path, at, f'the guest\'s programs have only kernel/tests/, not "{name}"'
            elif ".." in name or \
                    not any(is_in(target, place) for place in (room.name, *room.may)):
                yield path, at, f'{room.name} must not include "{name}"'


def include_of_system(path, at, name):
    if path.startswith("core/"):
        yield path, at, f"core/ must not include <{name}>: host/host.h has it"
    if path.startswith("include/") and name not in LIBC_HEADERS:
        yield path, at, f"an installed header must not include <{name}>"
    if name == "host_impl.h" and path != "host/host.h":
        yield path, at, "host_impl.h is reached through host/host.h only"


@rule(bad=[{"ARCHITECTURE.md": "<!-- rooms -->\n| `a/` | x | `b/` |\n| `b/` | x | - |\n"},
           {"ARCHITECTURE.md": "<!-- rooms -->\n| `b/` | x | - |\n| `a/*` | x | `a/c/`, `b/` |\n"},
           {"ARCHITECTURE.md": "<!-- rooms -->\n| `a/b/` | x | - |\n| `c/` | x | `a/` |\n"
                               "| `a/d/` | x | - |\n"}],
      good={"ARCHITECTURE.md": "| `z/` | x | `y/` |\n<!-- rooms -->\n| `b/` | x | - |\n"
                               "| `a/` | x | `b/c.h` |\n| `t/` | x | all |\n<!-- /rooms -->\n"
                               "| `z/` | x | `y/` |\n"})
def rooms_in_order(tree):
    """In the table of rooms, a room may include only rooms above it."""
    page = tree.get("ARCHITECTURE.md", "")
    text = page.partition(MARKERS[0])[2].partition(MARKERS[1])[0]
    rows = re.findall(r"^\| `([^`]+)` \|[^|]*\|([^|]*)\|$", text, re.MULTILINE)
    names = [name for name, _ in rows]
    for i, (room, may) in enumerate(rows):
        for place in re.findall(r"`([^`]+)`", may):
            if not any(is_in(place, name) or name.startswith(place) for name in names[:i]) or \
                    any(name.startswith(place) for name in names[i:]):
                yield ("ARCHITECTURE.md", line_of(page, page.find(f"| `{room}` |")),
                       f"{room} may not include {place}, which is not above it")


@rule(bad=[{"core/a.h": '#include "core/b.h"\n', "core/b.h": '#include "core/a.h"\n'},
           {"a.h": '/* the other half is b.h */\n#include "b.h"\n', "b.h": '#include "a.h"\n'},
           {"a.h": '#include "b.h"\n', "b.h": '#include "c.h"\n', "c.h": '#include "a.h"\n'},
           {"kernel/tests/a.h": '#include "a.h"\n'}],
      good={"a.h": '/* the other half is b.h */\n#include "b.h"\n',
            "b.h": '/* the other half is a.h */\n#include "a.h"\n',
            "c.h": '#include "a.h"\n'})
def include_circles(tree):
    """No circle of #includes, but for two headers that each say: the other half is x.h."""
    arrows = {}
    for path, text in c_files(tree):
        beside = path.rpartition("/")[0] + "/"
        arrows[path] = [(at, place) for at, _, name in includes_of(text)
                        for place in (PUBLIC.sub("include/lodic/", name), beside + name)
                        if place in tree]
    for path in arrows:
        reached, todo = set(), [name for _, name in arrows[path]]
        while todo:
            name = todo.pop()
            if name in reached or declared_halves(tree, path, name):
                continue
            reached.add(name)
            todo += [other for _, other in arrows.get(name, ())]
        if path in reached:
            yield path, arrows[path][0][0], "includes itself through other files"


def floor_of(floors, path):
    stem = path.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    return stem, next((i for i, stems in enumerate(floors) if stem in stems.split()), None)


SAMPLE = {"preload/own_calls.c": '#include "preload/next.h"\n', "preload/next.h": "",
          "preload/fds.c": "bool fds_may(void)\n{\n\town_look();\n}\n",
          "preload/fds.h": "bool fds_may(void);\n"}


@rule(bad=[{"preload/own.c": '#include "preload/fds.h"\n', "preload/fds.h": ""},
           {"preload/fds.h": '#include "preload/line.h"\n', "preload/line.h": ""},
           {"preload/new.c": "int a;\n"},
           {**SAMPLE, "preload/own.h": "bool fds_may(void);\nstatic void own_look(void)\n{\n"
                                       "\tfds_may();\n}\n"},
           {"preload/hooks_fd.c": 'int hooks_dup(int fd) HOOKS_AS("dup");\n',
            "preload/run.c": "void run_copy(void)\n{\n\tdup(1);\n}\n"}],
      good={**SAMPLE, "preload/own.h": "void own_look(void);\n",
            "preload/run.c": "void run_copy(void)\n{\n\tx->dup(1);\n\t/* dup() */\n}\n",
            "preload/hooks_fd.c": 'int hooks_dup(int fd) HOOKS_AS("dup");\n',
            "preload/posix/new.h": '#include "preload/own.h"\n'})
def floors(tree):
    """A file of a room in FLOORS includes and calls only what lies on a floor below its own."""
    for room, order in FLOORS.items():
        files = [(path, text, *floor_of(order, path)) for path, text in c_files(tree, room)
                 if "/" not in path.removeprefix(room)]
        homes = {}
        for path, text, stem, floor in files:
            if floor is None:
                yield path, 1, f"on no floor of {room} in tools/tidy_rooms.py"
                continue
            for name, signature, *_ in signatures_of(text):
                if not re.match(r"\s*static (?!inline)", signature):
                    homes[name] = stem, floor
            homes |= dict.fromkeys(AS_NAME.findall(without_comments(text)), (stem, floor))
        for path, text, stem, floor in files:
            if floor is None:
                continue
            for at, _, name in includes_of(text):
                other, its = floor_of(order, name)
                if name in tree and name.startswith(room) and other != stem and its is not None \
                        and its >= floor:
                    yield path, at, f'"{name}" is on no lower floor'
            code = code_of(text)
            for _, _, first, last, _ in signatures_of(text):
                body = "\n".join(code.split("\n")[first - 1:last])
                for found in CALL.finditer(body):
                    other, its = homes.get(found[1], (stem, floor))
                    if other != stem and its >= floor:
                        yield (path, first + body.count("\n", 0, found.start()),
                               f"{found[1]}() of {other} is on no lower floor")


def declared_halves(tree, a, b):
    if a not in tree or b not in tree:
        return False
    return (OTHER_HALF + b in tree[a] or OTHER_HALF + b.rsplit("/", 1)[-1] in tree[a]) and \
        (OTHER_HALF + a in tree[b] or OTHER_HALF + a.rsplit("/", 1)[-1] in tree[b])


# Folders whose files call each other downwards only.
INSIDE = ("lib/service/", "lib/client/")
# Headers that only put structs together: to see one is not to call.
STRUCTS = ("/state.h", "/whole.h")


def calls_inside(tree):
    """By file without its ending: which others it includes, and where."""
    arrows = collections.defaultdict(dict)
    for path, text in c_files(tree):
        if not path.startswith(INSIDE):
            continue
        for at, _, name in includes_of(text):
            if name in tree and name[:-2] != path[:-2] and not name.endswith(STRUCTS):
                arrows[path[:-2]].setdefault(name[:-2], (path, at))
    return arrows


@rule(bad=[{"lib/client/a.c": '#include "lib/client/b.h"\n', "lib/client/b.h": "",
            "lib/client/b.c": '#include "lib/client/a.h"\n', "lib/client/a.h": ""},
           {"lib/service/base/a.c": '#include "lib/service/base/b.h"\n',
            "lib/service/base/b.c": '#include "lib/service/base/c.h"\n',
            "lib/service/base/c.c": '#include "lib/service/base/a.h"\n',
            "lib/service/base/a.h": "/* the other half is c.h */", "lib/service/base/b.h": "",
            "lib/service/base/c.h": ""}],
      good={"lib/client/a.c": '#include "lib/client/a.h"\n#include "lib/client/b.h"\n',
            "lib/client/b.c": '#include "lib/client/a.h"\n',
            "lib/client/a.h": "/* the other half is b.h */",
            "lib/client/b.h": "/* the other half is a.h */",
            "lib/service/base/c.c": '#include "lib/service/base/state.h"\n',
            "lib/service/base/state.h": '#include "lib/service/base/c.h"\n',
            "lib/service/base/c.h": ""})
def calls_go_down(tree):
    """Inside lib/, two files never need each other, unless their headers say: the other half."""
    arrows = calls_inside(tree)

    def goes_on(file):
        return [other for other in arrows.get(file, ())
                if not declared_halves(tree, file + ".h", other + ".h")]

    for file in list(arrows):
        reached, todo = set(), goes_on(file)
        while todo:
            other = todo.pop()
            if other not in reached:
                reached.add(other)
                todo += goes_on(other)
        if file in reached:
            path, at = next(where for other, where in arrows[file].items()
                            if other == file or other in reached)
            yield path, at, "needs itself through other files"


@rule(bad=[{"lib/service/frame/a.c": '#include "lib/service/file/state.h"\n'},
           {"lib/service/loop/a.c": '#include "lib/service/base/state.h"\n'},
           {"cli/a.c": '#include "lib/service/succession/whole.h"\n'}],
      good={"lib/service/file/a.c": '#include "lib/service/file/state.h"\n',
            "lib/service/succession/whole.h": '#include "lib/service/file/state.h"\n',
            "lib/service/loop/a.c": '#include "lib/service/succession/whole.h"\n',
            "tests/unit/a.c": '#include "lib/service/base/state.h"\n'})
def room_structs(tree):
    """What a room of the service owns is seen by that room, and by the top as a whole."""
    for path, text in c_files(tree):
        if path.startswith("tests/"):
            continue
        for at, _, name in includes_of(text):
            if not name.startswith("lib/service/") or not name.endswith(STRUCTS):
                continue
            may = [name.rpartition("/")[0] + "/"]
            may += ["lib/service/succession/whole.h"] if name.endswith("/state.h") else \
                ["lib/service/loop/", "lib/service/trial.c"]
            if not path.startswith(tuple(may)):
                yield path, at, f'"{name}" is for {", ".join(may)}'


def modules_of(tree, room):
    """What the room's Python files can be imported as: by name, or as a package's part."""
    names = set()
    for path in tree:
        if path.startswith(room.name) and path.endswith(".py"):
            names |= {part.removesuffix(".py") for part in path[len(room.name):].split("/")}
    return names


@rule(bad=[{"kernel/tool/a.py": "import requests\n"},
           {"tools/a.py": "from kernel.tool import work\n"},
           {"kernel/run": "#!/usr/bin/python3\nimport check\n", "tools/check.py": ""}],
      good={"kernel/tool/a.py": "import os.path\nfrom tool import work\n",
            "kernel/tool/work.py": "import sys\n",
            "sim/plot.py": "import matplotlib.pyplot as plt\n"})
def python_imports(tree):
    """A Python file imports the standard library, its own room, and what ROOMS adds."""
    for path, text in tree.items():
        room = room_of(path)
        if not room or not is_python(path, text):
            continue
        own = modules_of(tree, room) | set(room.imports)
        for node in ast.walk(ast.parse(text)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                first = name.split(".")[0]
                if first not in own and first not in sys.stdlib_module_names:
                    yield path, node.lineno, f"{room.name} must not import {name}"


@rule(bad=[{"ARCHITECTURE.md": "# A house\n"},
           {"ARCHITECTURE.md": "<!-- rooms -->\n| room |\n<!-- /rooms -->\n"}],
      good={"ARCHITECTURE.md": f"<!-- rooms -->\n{page_table()}<!-- /rooms -->\n"})
def rooms_page(tree):
    """ARCHITECTURE.md shows the table of rooms as it is."""
    text = tree.get("ARCHITECTURE.md")
    if text is None:
        return
    first, last = (text.find(marker) for marker in MARKERS)
    if first < 0 or last < 0:
        yield "ARCHITECTURE.md", 1, f"no table of rooms between {' and '.join(MARKERS)}"
    elif text[first + len(MARKERS[0]) + 1:last] != page_table():
        yield ("ARCHITECTURE.md", line_of(text, first),
               "the table differs: put in what `tools/tidy.py --rooms` prints")
