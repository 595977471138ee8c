#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Installs the packages by apt in a system of its own, and uses them there as an ordinary user.

    deb_check.py --packages DIR [--keep]

The system is one that mmdebstrap makes from this machine's apt sources. Nothing of this machine
changes. First come two builds of the packages with the same bytes, into DIR. Status 77: it cannot
run here, and a line says why.
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
import deb

SKIP = 77
SECONDS = 900
TAIL_LINES = 20
TOOLS = ["fio", "gcc", "libc6-dev", "man-db", "pkg-config", "python3", "sqlite3"]
USER = "reader"
HOME = "/srv/reader"
# Where apt and its helpers keep their own records. What a package leaves lies elsewhere.
RECORDS = re.compile(r"(var/lib/(dpkg|apt|systemd)|var/cache|var/log|etc/ld\.so\.cache|debs|proc|"
                     r"srv|tmp|run|root|etc/(passwd|group|shadow|gshadow|subuid|subgid)-?)(/|$)")
CHROOT = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or "chroot"
NAMESPACES = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]

# What the user does, and what the output must match. Each runs in the same folder.
STEPS = [
    ("man lodic", "man lodic | cat", r"lodic - a page cache that processes share"),
    ("man 3 lodic_unpin", "man 3 lodic_unpin | cat", r"lodic_unpin\(\)"),
    ("man lodic.conf", "man lodic.conf | cat", r"lodic\.conf - settings"),
    ("lodic --version", "lodic --version", r"lodic [\d.]+ \(\w+"),
    ("a C program, compiled by pkg-config",
     "cp /usr/share/doc/liblodic-dev/examples/example.c . && head -c 50000 /dev/zero >zeros && "
     "cc -Wall -Werror -o sum example.c $(pkg-config --cflags --libs lodic) && ./sum zeros",
     r"sum 0; 13 blocks in place, 0 copied"),
    ("lodic run -- fio",
     "fio --name=write --filename=data --rw=write --bs=64k --size=8M --verify=crc32c "
     "--do_verify=0 >/dev/null && lodic run --report=fio.report --json -- "
     "fio --name=read --filename=data --rw=randread --bs=4k --size=8M --ioengine=psync --loops=20 "
     "--invalidate=0 --thread >/dev/null && cat fio.report", "served"),
    ("lodic run -- sqlite3",
     "sqlite3 data.db 'create table t as with recursive n(i) as (select 1 union all select i + 1 "
     "from n where i < 100000) select i, hex(randomblob(40)) as h from n; "
     "create index at on t(h)' && lodic run --report=sql.report --json -- sqlite3 -readonly "
     "data.db 'select sum(i) from t' 'select count(*) from t where h > 0' && cat sql.report",
     "served"),
    ("lodic who, lodic files", "lodic who && lodic files", r"data"),
    ("lodic-check", "lodic-check --scenario fold --scheme lodic --schedules 60", "0 violations"),
    ("lodic-sim", "lodic-sim drbh --cpus 1,2 --schemes atomic --no-band", "topology 8x15"),
    ("completion in bash", "bash -c 'source /usr/share/bash-completion/completions/lodic && "
     "COMP_WORDS=(lodic re) COMP_CWORD=1 && _lodic && echo ${COMPREPLY[@]}'", r"^resize$"),
]
PYTHON_STEP = ("python3 -c 'import lodic'",
               "python3 -c 'import lodic; print(lodic.__file__)'", r"/usr/lib/python3")
SERVED = {"lodic run -- fio": "/data", "lodic run -- sqlite3": "/data.db"}


class Failed(Exception):
    """What is wrong with the packages."""


def skip(why):
    print(f"{pathlib.Path(sys.argv[0]).stem.replace('_', '-')}: skipped: {why}")
    sys.exit(SKIP)


def run(*command, **more):
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=SECONDS, **more)


def make_system(root, variant="apt", packages=tuple(TOOLS)):
    """A minimal Debian, with what the checks need. No network, no mmdebstrap: a skip."""
    if os.geteuid() != 0:
        skip("it needs root, for mmdebstrap and chroot(2)")
    for program in "mmdebstrap", "unshare", "chroot":
        if not shutil.which(program):
            skip(f"there is no {program}")
    name = apt_sources.release()
    if not name:
        skip("this machine is no Debian, and has no sources of it")
    done = run("mmdebstrap", "--quiet", "--mode=root", f"--variant={variant}",
               "--skip=cleanup/apt", f"--include={','.join(packages)}", name, root,
               *apt_sources.files())
    if done.returncode:
        skip(f"mmdebstrap cannot make a system: {' '.join(done.stdout.split())[-300:]}")
    if os.path.exists("/etc/resolv.conf"):
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")


def as_root(root, command):
    """Runs a command line in the system."""
    done = run(*NAMESPACES, f"--mount-proc={root}/proc", CHROOT, root, "/bin/sh", "-ec", command,
               env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                    "DEBIAN_FRONTEND": "noninteractive"})
    if done.returncode:
        raise Failed(f"{command}\n{tail(done.stdout)}")
    return done.stdout


def tail(text):
    return "\n".join(text.rstrip().split("\n")[-TAIL_LINES:])


def files_of(root):
    found = set()
    for folder, folders, names in os.walk(root):
        own = os.path.relpath(folder, root)
        found |= {os.path.normpath(os.path.join(own, name)) for name in names + folders}
    return {name for name in found if not RECORDS.match(name)}


def check_served(name, output):
    """Has the cache served reads of the file?"""
    reports = [json.loads(line) for line in output.split("\n") if line.startswith("{")]
    served = sum(line.get("served", 0) for line in reports
                 if line.get("path", "").endswith(SERVED[name]))
    if not served:
        raise Failed(f"{name}: the cache has served nothing of {SERVED[name]}:\n{tail(output)}")
    return f"{served} reads served from the cache"


def use(root, steps):
    """All steps in one life of the system, so that the service is there for all."""
    mark = "=== step "
    script = "".join(f"echo '{mark}{i}'\n({command}) 2>&1 || echo \"=== status $?\"\n"
                     for i, (_, command, _) in enumerate(steps))
    done = run(*NAMESPACES, f"--mount-proc={root}/proc", CHROOT, f"--userspec={USER}:{USER}", root,
               "/bin/sh", "-c", f"cd ~ && {{\n{script}}}",
               env={"PATH": "/usr/bin:/bin", "HOME": HOME, "LC_ALL": "C.UTF-8"})
    parts = done.stdout.split(mark)[1:]
    if len(parts) != len(steps):
        raise Failed(f"the user's shell ends early:\n{tail(done.stdout)}")
    for (name, command, expected), part in zip(steps, parts):
        output = part.split("\n", 1)[1]
        if "=== status" in output or not re.search(expected, output, re.MULTILINE):
            raise Failed(f"{name}: {command}\n{tail(output)}")
        detail = check_served(name, output) if name in SERVED else \
            re.search(f".*(?:{expected}).*", output)[0].strip().split("\n")[-1]
        print(f"  ok  {name}: {detail}", flush=True)


def check(root, packages):
    before = files_of(root)
    (root / "debs").mkdir()
    for path in packages:
        shutil.copy(path, root / "debs")
    as_root(root, "apt-get install -y --no-install-recommends /debs/*.deb")
    print(f"  ok  apt installs {', '.join(path.name.split('_')[0] for path in packages)}")
    as_root(root, f"useradd --create-home --home-dir {HOME} {USER}")
    python = any(path.name.startswith("python3-lodic_") for path in packages)
    use(root, STEPS + [PYTHON_STEP] * python)
    names = " ".join(path.name.split("_")[0] for path in packages)
    as_root(root, f"apt-get purge -y --autoremove {names}")
    left = sorted(files_of(root) - before)
    if left:
        raise Failed(f"purge leaves {', '.join(left)}")
    if re.search("lodic", as_root(root, "dpkg-query -W")):
        raise Failed("purge leaves a package in dpkg's records")
    print("  ok  purge leaves nothing")


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=pathlib.Path, required=True)
    parser.add_argument("--keep", action="store_true", help="take the packages that are there")
    return parser.parse_args()


def main():
    options = parse_options()
    started = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-deb-check-"))
    folder.chmod(0o755)
    try:
        make_system(folder / "root")
        print(f"  ok  mmdebstrap makes a system ({time.monotonic() - started:.0f} s)", flush=True)
        if not options.keep and deb.make(options.packages.resolve(), twice=True):
            raise Failed("the packages could not be built twice with the same bytes")
        packages = sorted(options.packages.glob("*.deb"))
        if not packages:
            raise Failed(f"{options.packages} has no package")
        check(folder / "root", packages)
        print(f"deb-check: {len(packages)} packages work "
              f"({time.monotonic() - started:.0f} s)")
    except Failed as err:
        print(f"deb-check: {err}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
