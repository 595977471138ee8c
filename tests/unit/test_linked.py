#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""liblodic.so holds only what its exported functions need, and exports lodic_* alone.

    test_linked.py NINJA BUILD_FOLDER LIBRARY

An object needs another one if it refers to a function or variable that the other defines.
Every object in the library must be needed, directly or by way of others, by one that
defines an exported function. Which objects are candidates, ninja says.
"""

import pathlib
import subprocess
import sys

PREFIX = "lodic_"


def output(*command, **more):
    return subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, text=True,
                          check=True, **more).stdout


def symbols(path, *options):
    """(name, type) of each symbol; lower case types are local."""
    for line in output("nm", "-P", *options, path).splitlines():
        words = line.split()
        if len(words) >= 2 and not words[0].endswith(":"):
            yield words[0].split("@")[0], words[1]


def candidates(ninja, build, library):
    """The objects that the library's link could take, by path."""
    inputs = False
    for line in output(ninja, "-C", build, "-t", "query", library).splitlines():
        name = line.strip().lstrip("| ").strip()
        if line.startswith("  outputs"):
            return
        inputs = inputs or line.startswith("  input")
        if inputs and name.endswith(".o"):
            yield build / name
        elif inputs and name.endswith(".a"):
            for member in output("ar", "t", name, cwd=build).splitlines():
                # Only a thin archive knows the folders of its members.
                thick = build / (name + ".p") / pathlib.Path(member).name
                yield thick if thick.exists() else build / member


def not_needed(objects, exported):
    """objects: name -> (symbols it defines, symbols it refers to)."""
    owner = {symbol: name for name, (defined, _) in objects.items() for symbol in defined}
    todo = [owner[symbol] for symbol in exported]
    needed = set()
    while todo:
        name = todo.pop()
        if name not in needed:
            needed.add(name)
            todo += [owner[symbol] for symbol in objects[name][1] if symbol in owner]
    return sorted(set(objects) - needed)


def self_test():
    objects = {"a": ({"lodic_x"}, {"f", "libc"}), "b": ({"f"}, {"g"}), "c": ({"g"}, set()),
               "d": ({"h"}, {"f"})}
    assert not_needed(objects, {"lodic_x"}) == ["d"]
    assert not_needed(objects, {"lodic_x", "h"}) == []


def main():
    ninja, build = sys.argv[1], pathlib.Path(sys.argv[2])
    library = str(pathlib.Path(sys.argv[3]).resolve().relative_to(build.resolve()))
    self_test()
    exported = {name for name, kind in symbols(build / library, "-D", "--defined-only")
                if kind != "A"}
    inside = {name for name, _ in symbols(build / library, "--defined-only")}
    objects = {}
    for path in candidates(ninja, build, library):
        defined = {name for name, kind in symbols(path, "--defined-only") if kind.isupper()}
        # The linker takes an object whole or not at all.
        if defined & inside:
            objects[path.name] = (defined, {name for name, _ in symbols(path, "-u")})
    faults = [f"{name} is linked, but nothing calls it" for name in not_needed(objects, exported)]
    faults += [f"{name} is exported" for name in sorted(exported) if not name.startswith(PREFIX)]
    print(f"{library}: {len(objects)} objects, {len(exported)} exported functions")
    for fault in faults:
        print(f"{library}: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
