#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The crate of rust/: its declarations are lodic.h's, and its own tests pass.

    test_rust.py SOURCE BUILD

The tests run in a copy below BUILD, without a network. Where cargo has no crate `bytes`, the copy
is without that feature.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SECONDS = 240
OLDEST = (1, 63)  # Debian 12's
source, build = (pathlib.Path(path).resolve() for path in sys.argv[1:3])

SIMPLE = {"c_char": "char", "c_int": "int", "c_uint": "unsigned int", "c_void": "void",
          "off_t": "off_t", "ssize_t": "ssize_t", "u32": "uint32_t", "u64": "uint64_t",
          "usize": "size_t"}
STRUCT = re.compile(r"pub struct (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FUNCTION = re.compile(r"pub fn (\w+)\((.*?)\)\s*(?:-> ([^;]+))?;", re.DOTALL)


def run(command, **more):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=SECONDS, **more)


def c_type(rust):
    """A type of ffi.rs in C."""
    rust = rust.strip()
    for prefix, const in ("*const ", " const"), ("*mut ", ""):
        if rust.startswith(prefix):
            return f"{c_type(rust.removeprefix(prefix))}{const} *"
    return SIMPLE.get(rust) or f"struct {rust}"


def fields_of(text):
    """(name, type) of each field or argument."""
    return re.findall(r"(?:pub )?(\w+): ([^,\n]+?)\s*(?:,|$)", text, re.MULTILINE)


def as_c(text):
    """The declarations of ffi.rs as a program in C, which no compiler takes if one differs."""
    lines = ["#include <stddef.h>", "#include <lodic/lodic.h>"]
    for name, body in STRUCT.findall(text):
        lines.append(f"struct mine_{name} {{")
        fields = fields_of(body)
        lines += [f"\t{c_type(kind)} {field};" for field, kind in fields]
        lines.append("};")
        ours, theirs = f"struct mine_{name}", f"struct {name}"
        lines.append(f'_Static_assert(sizeof({ours}) == sizeof({theirs}), "{name}");')
        for field, kind in fields:
            lines.append(f"_Static_assert(offsetof({ours}, {field}) == offsetof({theirs}, {field})"
                         f', "{name}.{field}");')
            if field != "scheme":  # an enum there
                lines.append("_Static_assert(__builtin_types_compatible_p(__typeof__((("
                             f'{theirs} *)0)->{field}), {c_type(kind)}), "{name}.{field}");')
    for name, arguments, result in FUNCTION.findall(text):
        kinds = ", ".join(c_type(kind) for _, kind in fields_of(arguments)) or "void"
        lines.append(f"{c_type(result) if result else 'void'} {name}({kinds});")
    wait = re.search(r"LODIC_WAIT: c_uint = (\d+);", text)[1]
    lines.append(f'_Static_assert(LODIC_WAIT == {wait}, "LODIC_WAIT");')
    return "\n".join(lines) + "\n"


class Crate(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rust-", dir=build))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def compiles(self, text):
        (self.folder / "ffi.c").write_text(text, encoding="ascii")
        done = run(["gcc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I",
                    source / "include", self.folder / "ffi.c"])
        return done.returncode == 0, done.stdout

    def test_declarations_are_those_of_lodic_h(self):
        text = (source / "rust/src/ffi.rs").read_text(encoding="ascii")
        self.assertGreater(len(FUNCTION.findall(text)), 15)
        self.assertEqual(len(STRUCT.findall(text)), 4)
        same, said = self.compiles(as_c(text))
        self.assertTrue(same, said)
        for ours, other in (("flags: c_uint,\n        ret", "ret"),
                            ("hold_limit: u64", "hold_limit: u32"),
                            ("pub data: *const c_void", "pub data: *mut c_void"),
                            ("fd: c_int", "fd: c_uint"), ("-> ssize_t", "-> c_int"),
                            ("    pub reaped: u64,\n", ""),
                            ("WAIT: c_uint = 1", "WAIT: c_uint = 2")):
            self.assertIn(ours, text)
            self.assertFalse(self.compiles(as_c(text.replace(ours, other)))[0], other)

    def test_crate_has_the_version(self):
        version = re.search(r"^  version: '([^']*)'", (source / "meson.build").read_text(
            encoding="utf-8"), re.MULTILINE)[1]
        self.assertIn(f'\nversion = "{version}"\n',
                      (source / "rust/Cargo.toml").read_text(encoding="utf-8"))

    def test_cargo_test_passes(self):
        crate = self.folder / "crate"
        shutil.copytree(source / "rust", crate, ignore=shutil.ignore_patterns("target", "*.lock"))
        env = {**os.environ, "LODIC_BUILD": str(build), "LODIC_LIB_DIR": str(build),
               "LD_LIBRARY_PATH": str(build), "CARGO_TARGET_DIR": str(build / "rust")}
        more = ["--features", "bytes"]
        if run(["cargo", "fetch", "--offline"], cwd=crate, env=env).returncode:
            print("the crate `bytes` is not here: without the feature of that name")
            toml = (crate / "Cargo.toml").read_text(encoding="utf-8")
            (crate / "Cargo.toml").write_text(
                toml.replace('["dep:bytes"]', "[]").partition("[dependencies]")[0],
                encoding="utf-8")
            more = []
        done = run(["cargo", "test", "--offline", *more], cwd=crate, env=env)
        self.assertEqual(done.returncode, 0, done.stdout)
        passed = sum(map(int, re.findall(r"test result: ok. (\d+) passed", done.stdout)))
        self.assertGreaterEqual(passed, 11, done.stdout)
        self.assertNotIn("warning", done.stdout)


def why_not():
    """Why cargo cannot run here; None: it can."""
    for name in "cargo", "rustc":
        if not shutil.which(name):
            return f"{name} is not installed"
        done = run([name, "--version"])
        if done.returncode:
            return f"{name} does not run: {done.stdout.strip()[-100:]}"
    found = re.search(r"rustc (\d+)\.(\d+)", done.stdout)
    if tuple(map(int, found.groups())) < OLDEST:
        return f"rustc is older than {OLDEST[0]}.{OLDEST[1]}"
    return None


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"no tests of the crate: {reason}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
