# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Configuring and building: kernels from the same fragments, each in its own folder.

A build goes on where it was stopped. It says first how much there is to do, and then how far
it is.
"""

import lzma
import os
import pathlib
import re
import shutil
import time

from tool import series
from tool.work import KERNEL, Failed, digest, say

CONFIG = KERNEL / "config"
# flavour -> (patched?, fragments, objects of a complete build: the last one counted)
FLAVOURS = {
    "normal": (True, ["base", "lodic"], 2000),
    "debug": (True, ["base", "lodic", "debug"], 2100),
    "release": (True, ["base", "release"], 2000),
    "kloc": (True, ["base", "release", "kloc"], 2000),
    "vanilla": (False, ["base", "vanilla"], 2000),
    # Outside CI.
    "debian": (True, ["base", "lodic", "debian"], 2700),
    "kcsan": (True, ["base", "lodic", "kcsan"], 2000),
    "observe": (True, ["base", "lodic", "observe"], 2100),
    "proofs": (True, ["base", "lodic", "proofs"], 2500),
    # Parts of two kernels: what each patch touches, with what it adds and without.
    "each": (True, ["base", "lodic", "each"], 200),
    "each-off": (True, ["base", "each"], 200),
}
EACH = ("each", "each-off")
# Compiled after every patch, beside the folders of the files that it changes.
EACH_FOLDERS = {"mm", "arch/x86/mm"}
# An unfinished series need not have these.
OURS = ("CONFIG_LODIC", "CONFIG_FOLIOREF", "CONFIG_PAYGO", "CONFIG_HYBRID", "CONFIG_USER_COUNTS",
        "CONFIG_KLOC")
# What tinyconfig is for the others: Debian's own configuration.
DEBIAN_PACKAGE = "linux-config-6.12"
DEBIAN_CONFIG = pathlib.Path("/usr/src/linux-config-6.12/config.amd64_none_amd64.xz")
# CPU seconds of one object, the rest of make and the links included. 1,990 objects took 17
# CPU minutes with an empty compiler cache, and 6 with a full one.
SECONDS_PER_OBJECT = 0.52
CACHED_SECONDS_PER_OBJECT = 0.18
PROGRESS_SECONDS = 30
COMPILED = re.compile(r"^  (CC|AS)\s")


def fragments(flavour):
    patched, names, _ = FLAVOURS[flavour]
    if patched and not series.topics():
        names = [n for n in names if n not in ("lodic", "release", "kloc")]
    return [CONFIG / f"{name}.config" for name in names]


def tree_of(work, flavour):
    if flavour in EACH:
        return work.folder / "each"
    return work.tree if FLAVOURS[flavour][0] else work.vanilla


def prepare_base(work, flavour):
    """The base in a work tree of its own, so that no build disturbs another."""
    base, tree = work.git("rev-parse", "base").strip(), tree_of(work, flavour)
    if (tree / "Makefile").exists() and work.stamped(tree.name, base):
        return
    say(f"build: the tree {tree.name}, half a minute")
    shutil.rmtree(tree, ignore_errors=True)
    work.git("worktree", "prune")
    work.run(["git", "worktree", "add", "-q", "--detach", tree, "base"], "fetch.log",
             cwd=work.tree)
    work.stamp(tree.name, base)


def make_env(work):
    """Nothing of the day, the person or the machine gets into the kernel."""
    return work.env(KBUILD_BUILD_TIMESTAMP="Thu Jan  1 00:00:00 UTC 1970",
                    KBUILD_BUILD_USER="lodic", KBUILD_BUILD_HOST="lodic",
                    KBUILD_BUILD_VERSION="1",
                    CCACHE_DIR=str(work.folder / "ccache"), CCACHE_BASEDIR=str(work.folder),
                    CCACHE_NOHASHDIR="1", CCACHE_MAXSIZE="3G", CCACHE_COMPRESSLEVEL="1")


def make(work, flavour, *targets, on_line=None):
    words = ["make", "-C", tree_of(work, flavour), f"O={work.out(flavour)}", f"-j{work.jobs}",
             "ARCH=x86_64", "CC=ccache gcc", *targets]
    return work.run(words, f"build-{flavour}.log", env=make_env(work), on_line=on_line)


# -- configuration -------------------------------------------------------------------------

def requested(paths):
    """symbol -> value, as the fragments ask; the last one wins. 'n' for not set."""
    wanted = {}
    for path in paths:
        for line in path.read_text().splitlines():
            if found := re.match(r"(CONFIG_\w+)=(.*)$", line):
                wanted[found[1]] = found[2]
            elif found := re.match(r"# (CONFIG_\w+) is not set$", line):
                wanted[found[1]] = "n"
            elif line.strip() and not line.startswith("#"):
                raise Failed(f"kernel/config/{path.name}: '{line}' is no setting")
    return wanted


def check_survived(config, wanted, may_lack=None):
    """Kconfig drops what it cannot satisfy, without a word. We do not. may_lack: the start of
    the names that an unfinished series need not have."""
    have = dict(re.findall(r"^(CONFIG_\w+)=(.*)$", config.read_text(), re.MULTILINE))
    lost = [f"{name}={value} asked, {have.get(name, 'n')} got" for name, value in wanted.items()
            if have.get(name, "n") != value and not (may_lack and name.startswith(may_lack))]
    if lost:
        raise Failed("symbols that did not survive olddefconfig (a dependency is missing, or "
                     "the name is wrong):\n" + "\n".join(lost))


def start_config(work, flavour):
    """What the fragments are merged into: tinyconfig, or what Debian builds into its kernel."""
    if flavour != "debian":
        make(work, flavour, "tinyconfig")
        return
    if not DEBIAN_CONFIG.exists():
        raise Failed(f"{DEBIAN_CONFIG} is not there: apt-get install {DEBIAN_PACKAGE}")
    lines = lzma.decompress(DEBIAN_CONFIG.read_bytes()).decode().splitlines(keepends=True)
    text = "".join(line for line in lines if not line.endswith("=m\n"))
    (work.out(flavour) / ".config").write_text(text)


def configure(work, flavour):
    """The start, our fragments, olddefconfig. make compares symbols, not the file's time."""
    out, paths = work.out(flavour), fragments(flavour)
    tree = tree_of(work, flavour)
    start = [DEBIAN_CONFIG] if flavour == "debian" and DEBIAN_CONFIG.exists() else []
    key = digest(work.git("rev-parse", "base"), *paths, *start,
                 work.git("diff", "base", "--", "*Kconfig*", cwd=tree))
    if (out / ".config").exists() and work.stamped(f"config-{flavour}", key):
        return
    out.mkdir(exist_ok=True)
    start_config(work, flavour)
    work.run(["scripts/kconfig/merge_config.sh", "-m", "-O", out, out / ".config", *paths],
             f"build-{flavour}.log", cwd=tree, env=make_env(work))
    make(work, flavour, "olddefconfig")
    check_survived(out / ".config", requested(paths), OURS if flavour in EACH else None)
    work.stamp(f"config-{flavour}", key)


# -- build ---------------------------------------------------------------------------------

class Progress:
    """Counts what make compiles; speaks up now and then."""

    def __init__(self, flavour, todo):
        self.flavour, self.todo = flavour, todo
        self.done = 0
        self.began = self.spoke = time.monotonic()

    def __call__(self, line):
        self.done += bool(COMPILED.match(line))
        now = time.monotonic()
        if now - self.spoke < PROGRESS_SECONDS:
            return
        self.spoke = now
        rest = ""
        if 0 < self.done < self.todo:
            left = (now - self.began) * (self.todo - self.done) / self.done
            rest = f", {minutes(left)} to go"
        say(f"build {self.flavour}: {self.done} of about {max(self.todo, self.done)} objects{rest}")


def minutes(seconds):
    return "under a minute" if seconds < 55 else f"about {round(seconds / 60)} min"


def objects(out):
    return sum(1 for p in out.rglob("*.o") if p.name not in ("built-in.o", "vmlinux.o"))


def announce(work, flavour):
    """Says what there is to do and how long it may take; returns the objects to compile."""
    total = int(work.note(f"objects-{flavour}") or FLAVOURS[flavour][2])
    todo = max(total - objects(work.out(flavour)), 0)
    if not todo:
        say(f"build: {flavour}, what changed since the last time")
        return 0
    cpus = os.cpu_count() or 1
    ours = max(min(work.jobs, cpus) * min(cpus / (os.getloadavg()[0] + work.jobs), 1), 0.1)
    say(f"build: {flavour}, about {todo} objects with -j{work.jobs}: "
        f"{minutes(todo * SECONDS_PER_OBJECT / ours)} when none is in the compiler cache, "
        f"{minutes(todo * CACHED_SECONDS_PER_OBJECT / ours)} when all are "
        f"(with this machine's load of now, {os.getloadavg()[0]:.1f})")
    return todo


def build(work, flavour="normal", as_is=False):
    """bzImage of one flavour; returns its path. as_is: the tree may have changed since apply."""
    image = work.out(flavour) / "arch/x86/boot/bzImage"
    if not FLAVOURS[flavour][0]:
        prepare_base(work, flavour)
    elif not work.note("apply") and not as_is:
        raise Failed("no series is applied yet: run apply")
    head = work.git("rev-parse", "HEAD", cwd=tree_of(work, flavour)).strip()
    configure(work, flavour)
    key = digest(head, work.out(flavour) / ".config")
    if image.exists() and work.stamped(f"build-{flavour}", key) and not as_is:
        say(f"build: the {flavour} kernel is up to date")
        return image
    progress = Progress(flavour, announce(work, flavour))
    before = time.monotonic()
    make(work, flavour, "bzImage", on_line=progress)
    work.stamp(f"build-{flavour}", "" if as_is else key)
    work.stamp(f"objects-{flavour}", "", str(objects(work.out(flavour))))
    say(f"build: {flavour}, {progress.done} objects in {time.monotonic() - before:.0f} s, "
        f"{image.stat().st_size / 1e6:.1f} MB")
    return image


def each_targets(work, commit):
    """The folders of what a patch changes, and mm, for make."""
    names = work.git("diff-tree", "-r", "--no-commit-id", "--name-only", commit).split()
    folders = EACH_FOLDERS | {os.path.dirname(n) for n in names if n.endswith(".c")}
    tree = tree_of(work, "each")
    return [f"{f}/" for f in sorted(folders)
            if (tree / f / "Makefile").exists() and not f.startswith(("tools/", "mm/", "Doc"))]


def each_builds(work, first=None):
    """After every commit of the series mm and what it changes compile without a warning, with
    the series' options and without. Only `build` shows that the whole kernel links. first: the
    topic to begin at."""
    passed = failed = 0
    prepare_base(work, "each")
    tree = tree_of(work, "each")
    todo = list(series.commits(work))
    begin = [topic for topic, _ in todo].index(first) if first else 0
    for topic, commit in todo[begin:]:
        work.git("checkout", "-q", "--detach", commit, cwd=tree)
        targets = each_targets(work, commit)
        for flavour in EACH:
            before = time.monotonic()
            try:
                configure(work, flavour)
                make(work, flavour, *targets)
                verdict = "ok"
                passed += 1
            except Failed as err:
                verdict = f"FAILED\n{err}"
                failed += 1
            say(f"each-builds: {topic:<24} {flavour:<8} {time.monotonic() - before:5.0f} s  "
                f"{verdict}")
    return passed, failed
