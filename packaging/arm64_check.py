#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Builds all of lodic for arm64 with a cross compiler, and runs core's unit tests under qemu-user.
Schedules of the whole product must be the same there as here. The build for here is without
optimization, and its addresses change or stay.

    arm64_check.py --build DIR

mmdebstrap unpacks arm64's libraries into DIR/root, so that this machine's dpkg knows of no other
architecture. qemu-user is no arm64: it has no robust futexes, no io_uring and no membarrier(2). So
pins are atomic exchanges (`lock`), and what asks for one of these is left out and named. Status 77:
it cannot run here, and a line says why.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import apt_sources

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIP = 77
BUILD_S, TEST_S, START_S = 1800, 300, 60
SCHEDULES, SEARCH_S = 500, 1200 # as tools/check.py compares
CROSS = "aarch64-linux-gnu"
QEMU = "qemu-aarch64"
NEEDED = {f"{CROSS}-gcc": f"gcc-{CROSS}", QEMU: "qemu-user", "mmdebstrap": "mmdebstrap",
          "meson": "meson", "ninja": "ninja-build"}
LIBRARIES = ["libc6-dev", "libgcc-12-dev", "libjansson-dev", "liburing-dev", "libcmocka-dev"]
TESTS = ["arena", "batch", "carry", "channel", "count_percpu", "count_share", "counter_fault",
         "counter_table", "hold", "kloc", "kloc_index", "kloc_life", "kloc_moves",
         "kloc_policies", "move", "nodes", "paygo_gate", "process_space", "reclaim",
         "reclaim_carry", "reclaim_move", "service", "settings", "settings_parts"]
LEFT_OUT = {"robust futexes": "view: what readers see when a service dies",
            "madvise(2) for fork(2)": "errors, hold_release: what a forked child has",
            "membarrier(2)": "pins, service_tier, fence: light pins, and the heavy fence",
            "seccomp(2)": "counter: threads that may not use restartable sequences",
            "clone(2) for starts": "start: a service that is nobody's child",
            "speed": "count, count_owned, kloc_random, lodic, check: each takes more than 30 s"}
CROSS_FILE = """# Made by packaging/arm64_check.py.
[binaries]
c = '{cross}-gcc'
ar = '{cross}-gcc-ar'
strip = '{cross}-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['{qemu}', '-L', '{root}']
[built-in options]
c_args = ['--sysroot={root}']
c_link_args = ['--sysroot={root}']
[properties]
sys_root = '{root}'
pkg_config_libdir = '{root}/usr/lib/{cross}/pkgconfig:{root}/usr/share/pkgconfig'
runner = ['{qemu}', '-L', '{root}']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


class Failed(Exception):
    """What is wrong with lodic on arm64."""


def skip(why):
    print(f"arm64-check: skipped: {why}")
    sys.exit(SKIP)


def run(*command, seconds=BUILD_S, **more):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=seconds, **more)


def make_root(root):
    """arm64's libraries, unpacked."""
    stamp = root.with_suffix(".packages")
    if stamp.exists() and stamp.read_text(encoding="ascii") == " ".join(LIBRARIES):
        return
    shutil.rmtree(root, ignore_errors=True)
    name = apt_sources.release()
    if not name:
        skip("this machine is no Debian, and has no sources of it")
    done = run("mmdebstrap", "--quiet", "--arch=arm64", "--variant=extract",
               f"--include={','.join(LIBRARIES)}", name, root,
               *apt_sources.files())
    if done.returncode:
        skip(f"mmdebstrap cannot unpack arm64's libraries: {' '.join(done.stdout.split())[-300:]}")
    stamp.write_text(" ".join(LIBRARIES), encoding="ascii")


def compile_all(build, root):
    """Programs, libraries, man pages and tests."""
    cross = build.parent / "cross.ini"
    cross.write_text(CROSS_FILE.format(cross=CROSS, qemu=QEMU, root=root), encoding="utf-8")
    done = run("sh", ROOT / "tools" / "setup.sh", build, "--cross-file", cross,
               "-Dbuildtype=debugoptimized", "-Dtests=enabled",
               "-Ddebug_checks=true", "-Drocksdb=disabled", cwd=ROOT)
    if not done.returncode:
        done = run("ninja", "-C", build, "-j", min(2, os.cpu_count()))
    if done.returncode:
        raise Failed(f"the build fails:\n{done.stdout[-3000:]}")
    kind = (build / "lodic").read_bytes()[18:20]
    if kind != b"\xb7\x00":  # EM_AARCH64
        raise Failed("the build is not for arm64")
    if not (build / "packaging" / "man" / "man1" / "lodic-run.1").exists():
        raise Failed("the build has no man pages")


def qemu(root, *command, seconds=TEST_S, **more):
    """A program of arm64. Programs that it starts need the variable, and binfmt_misc."""
    return run(QEMU, "-L", root, *command, seconds=seconds, **more)


def unit_tests(build, root):
    """(cases that passed, cases that were skipped)"""
    passed = skipped = 0
    environment = {**os.environ, "LODIC_BUILD": str(build), "LODIC_SOURCE": str(ROOT)}
    for name in TESTS:
        done = qemu(root, build / "tests/unit" / f"test_{name}", env=environment)
        if done.returncode:
            raise Failed(f"test_{name} fails with status {done.returncode}:\n"
                         f"{done.stdout[-3000:]}")
        passed += len(re.findall(r"(?m)^\[ +OK \]", done.stdout))
        skipped += len(re.findall(r"(?m)^\[  SKIPPED \] \w+$", done.stdout))
    return passed, skipped


def read_by_lock(build, root):
    """A service with `lock`, and a program that reads in place through it."""
    with tempfile.TemporaryDirectory(prefix="lodic-arm64-") as folder:
        socket, data = pathlib.Path(folder) / "socket", pathlib.Path(folder) / "data"
        data.write_bytes(bytes(range(256)) * 400)
        with subprocess.Popen([QEMU, "-L", root, build / "lodic", "serve", "--barrier", "lock",
                               "--memory", "8M", "--socket", socket], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as service:
            try:
                end = time.monotonic() + START_S
                while not socket.exists() and service.poll() is None and time.monotonic() < end:
                    time.sleep(0.05)
                done = qemu(root, build / "tests" / "unit" / "example", data, socket)
                stat = qemu(root, build / "lodic", "stat", "--json", "--socket", socket)
            finally:
                service.terminate()
                said = service.communicate()[1].decode()
    expected = f"sum {sum(range(256)) * 400}; 25 blocks in place, 0 copied\n"
    if (done.returncode, done.stdout) != (0, expected):
        raise Failed(f"the example reads wrongly: {done.stdout}{said}")
    if not re.search(r'"light_pins": *false', stat.stdout):
        raise Failed(f"the service's pins are not atomic exchanges: {stat.stdout}")
    return done.stdout.strip()


def schedules_hash(*command):
    """Of schedules of the whole product, which must break no rule."""
    done = run(*command, "--schedules", SCHEDULES, "--json", seconds=SEARCH_S)
    if done.returncode:
        raise Failed(f"{command[0]}: schedules of the whole product fail:\n{done.stdout[-3000:]}")
    return json.loads(done.stdout[done.stdout.index("{"):])["hash"]


def same_schedules(folder, root):
    """The hash that both machines' builds give."""
    here = folder / "here"
    done = run("sh", ROOT / "tools" / "setup.sh", here, "-Dbuildtype=debug", "-Dtests=enabled",
               "-Ddebug_checks=true", cwd=ROOT)
    if not done.returncode:
        done = run("ninja", "-C", here, "-j", min(2, os.cpu_count()), "lodic-whole")
    if done.returncode:
        raise Failed(f"the build for this machine fails:\n{done.stdout[-3000:]}")
    program = here / "lodic-whole"
    hashes = {"arm64": schedules_hash(QEMU, "-L", root, folder / "build" / "lodic-whole"),
              "here": schedules_hash(program),
              "here, at fixed addresses": schedules_hash("setarch", "-R", program)}
    if len(set(hashes.values())) != 1:
        raise Failed(f"schedules of the whole product differ: {hashes}")
    return hashes["arm64"]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    return parser.parse_args()


def main():
    folder = parse_options().build.resolve()
    started = time.monotonic()
    for program, package in NEEDED.items():
        if not shutil.which(program):
            skip(f"there is no {program} (package {package})")
    folder.mkdir(parents=True, exist_ok=True)
    root, build = folder / "root", folder / "build"
    try:
        make_root(root)
        compile_all(build, root)
        print(f"  ok  all of lodic is built for arm64 ({time.monotonic() - started:.0f} s)",
              flush=True)
        passed, skipped = unit_tests(build, root)
        print(f"  ok  {len(TESTS)} unit tests: {passed} cases pass, {skipped} are skipped")
        print(f"  ok  a program reads through a service with lock: {read_by_lock(build, root)}")
        print(f"  ok  {SCHEDULES} schedules of the whole product are the same on arm64 and here: "
              f"{same_schedules(folder, root)}")
        for what, names in LEFT_OUT.items():
            print(f"  --  qemu-user has no {what}. Left out: {names}")
    except (Failed, subprocess.TimeoutExpired) as err:
        print(f"arm64-check: {err}", file=sys.stderr)
        return 1
    print(f"arm64-check: lodic works on arm64 ({time.monotonic() - started:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
