#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Uses the wheel in a minimal system that has neither jansson nor liburing, as an ordinary user.

    wheel_check.py --wheels DIR

The system is one that mmdebstrap makes from this machine's apt sources, with python3 added.
Nothing of this machine changes. Status 77: it cannot run here, and a line says why.
"""

import argparse
import pathlib
import re
import shutil
import sys
import tempfile
import time

from deb_check import CHROOT, NAMESPACES, Failed, make_system, run, skip, tail

NOBODY = 65534
PROGRAM = """
import os, subprocess, sys
import lodic

path, data = "data", bytes(range(256)) * 8192
with open(path, "wb") as file:
    file.write(data)
cache = lodic.Cache(os.path.abspath("socket"), memory=32 << 20, idle_exit=5)
with cache.open(path) as file:
    file.prefetch()
    assert bytes(file.hold()) == data
    assert file.read(100, 5) == data[5:105]
    assert file.cached, file.why_not
stat = cache.stat()
assert stat["holds"] == 1 and stat["hits"] > 0, stat
program = [sys.executable, "-m", "lodic"]
reads = "import os; f = os.open('data', 0)\\nfor i in range(9999): os.pread(f, 99, i)"
for _ in range(20): # on a busy machine the service answers when the program has ended
    subprocess.run([*program, "run", "--socket", "socket", "--", sys.executable, "-c", reads],
                   check=True)
    served = cache.stat()["hits"] - stat["hits"]
    if served:
        break
assert served, "`lodic run` serves nothing"
print("a hold, reads from the cache,", "io_uring" if stat["io_uring"] else "no io_uring",
      f"and {served} reads served by `lodic run`")
subprocess.run([*program, "stat", "--socket", "socket", "--json"], check=True, stdout=-3)
"""


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=pathlib.Path, required=True)
    return parser.parse_args()


def in_system(root, command, user=NOBODY):
    """Runs a command line in the system; returns what it prints."""
    done = run(*NAMESPACES, f"--mount-proc={root}/proc", CHROOT, f"--userspec={user}:{user}", root,
               "/bin/sh", "-ec", command, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                                               "HOME": "/srv", "PYTHONPATH": "/opt/site"})
    if done.returncode:
        raise Failed(tail(done.stdout))
    return done.stdout


def check(root, wheel):
    libraries = in_system(root, "ldconfig -p")
    if re.search("libjansson|liburing", libraries):
        raise Failed("the system has jansson or liburing, so it shows nothing")
    done = run(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
               "--root-user-action", "ignore", "--target", root / "opt" / "site", wheel)
    if done.returncode:
        raise Failed(tail(done.stdout))
    (root / "srv" / "program.py").write_text(PROGRAM, encoding="utf-8")
    (root / "srv").chmod(0o777)
    says = in_system(root, "cd /srv && python3 program.py")
    print(f"  ok  {says.splitlines()[0]}")


def main():
    options = parse_options()
    started = time.monotonic()
    wheels = list(options.wheels.glob("*.whl"))
    if len(wheels) != 1:
        skip(f"{options.wheels} has {len(wheels)} wheels: `make wheel-manylinux` makes one")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="lodic-wheel-check-"))
    folder.chmod(0o755)
    try:
        print("wheel-check: mmdebstrap makes a system: about a minute", flush=True)
        make_system(folder / "root", "minbase", ["python3"])
        print(f"  ok  a system with python3 alone ({time.monotonic() - started:.0f} s)", flush=True)
        check(folder / "root", wheels[0])
        print(f"wheel-check: {wheels[0].name} works ({time.monotonic() - started:.0f} s)")
    except Failed as err:
        print(f"wheel-check: {err}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
