#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Linux with user-counts.patch and nothing else of ours: builds it, tests it, counts instructions.

    kernel/extra/user-counts/try.py            # checkpatch, build, test, count
    kernel/extra/user-counts/try.py test       # only that, and what it needs
    kernel/extra/user-counts/try.py test --long        # 10^4 processes that end while they count
    kernel/extra/user-counts/try.py test --debug       # with KASAN and lockdep
    kernel/extra/user-counts/try.py count      # the table of README.md
    kernel/extra/user-counts/try.py broken     # each rule of broken.py: does its case notice?

It works in build/kernel, as kernel/run does, and goes on where it was stopped.
"""

import argparse
import os
import pathlib
import shutil
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

from broken import BROKEN  # noqa: E402
from tool import guest, kbuild, measure, report, series  # noqa: E402
from tool.work import ROOT, Failed, Steps, Work, digest, end_on_signals, say  # noqa: E402

NAME = "user-counts"
PATCH = HERE / f"{NAME}.patch"
ON, CHECKS = (f"../extra/{NAME}/{name}" for name in ("on", "checks"))
# kernel -> (flavour of its folder, its fragments)
KERNELS = {"measured": (NAME, ["base", ON]),
           "tested": (NAME, ["base", ON, CHECKS]),
           "debug": (f"{NAME}-debug", ["base", "debug", ON, CHECKS])}
OBJECTS = 1520
FOLDER = "kernel"  # of Linux: where the patch adds its source
TEST, COUNT = "user_counts", "user_counts_bench"
LIMIT_S, LONG_S = 300, 3600
DEBUG_SLOW = 5


def patched(work):
    """The base with the patch, in a work tree of its own. Git writes only the files in which
    the new commit differs from the last one, so make builds nothing else again."""
    tree = work.vanilla = work.folder / NAME
    kbuild.FLAVOURS[NAME] = (False, [], OBJECTS)
    kbuild.prepare_base(work, NAME)
    key = digest(PATCH, work.git("rev-parse", "base"))
    if work.stamped(f"{NAME}-patch", key):
        return
    env = work.env(GIT_INDEX_FILE=str(work.folder / f"{NAME}.index"))
    work.git("read-tree", "base", cwd=tree, env=env)
    work.git("apply", "--cached", PATCH, cwd=tree, env=env)
    files = work.git("write-tree", cwd=tree, env=env).strip()
    commit = work.git("commit-tree", files, "-p", "base", "-m", NAME, cwd=tree, env=env).strip()
    work.git("checkout", "-q", "--detach", commit, cwd=tree)
    work.stamp(f"{NAME}-patch", key)


def kernel(work, name):
    """One of KERNELS, kept: two of them share a folder, and differ by one object."""
    flavour, names = KERNELS[name]
    kbuild.FLAVOURS[flavour] = (False, names, OBJECTS)
    image = work.folder / f"{NAME}-{name}.bzImage"
    key = digest(PATCH, work.git("rev-parse", "base"), *kbuild.fragments(flavour))
    if not (image.exists() and work.stamped(image.name, key)):
        shutil.copy(kbuild.build(work, flavour), image)
        work.stamp(image.name, key)
    return image


def check(work):
    """checkpatch.pl --strict, and no warning with W=1."""
    said = series.checkpatch_mail(work, PATCH.read_bytes())
    if said:
        raise Failed(said)
    kernel(work, "measured")
    source = work.vanilla / FOLDER / "user_counts.c"
    source.touch()
    said = kbuild.make(work, NAME, "W=1", f"{FOLDER}/{source.stem}.o")
    if "warning" in said:
        raise Failed(said)


def test(work, debug, long):
    name = "debug" if debug else "tested"
    image = kernel(work, name)
    report.SLOW[f"{NAME}-debug"] = DEBUG_SLOW
    one = report.Test(TEST, str(LONG_S if long else LIMIT_S), [])
    return report.run_tests(work, image, KERNELS[name][0], [one],
                            append=["lodic.long"] if long else [])


def notices(work, image, name, case):
    """Whether that case fails, or the kernel itself reports."""
    one = report.Test(TEST, str(LIMIT_S), [])
    report.run_boot(work, image, NAME, [one], [], f"{NAME}-{name}")
    failed = [line.strip() for line in one.lines if report.NOT_OK.match(line)]
    mine = [line for line in failed if f" {case}:" in line]
    said = (mine or one.reports or [f"unnoticed ({one.reason or one.verdict})"])[0]
    say(f"broken: {name}: {said}")
    return bool(mine or one.reports)


def broken(work, names):
    """Breaks one rule after the other in the work tree, and puts the text back. names: only
    these."""
    flavour, fragments = KERNELS["tested"]
    kbuild.FLAVOURS[flavour] = (False, fragments, OBJECTS)
    kbuild.build(work, flavour)
    rules = [rule for rule in BROKEN if not names or rule[0] in names]
    source = work.vanilla / FOLDER / "user_counts.c"
    text = source.read_text()
    noticed = 0
    if wrong := [name for name, _, texts in rules if any(text.count(t) != 1 for t in texts)]:
        raise Failed(f"broken.py: not once in {source}: {' '.join(wrong)}")
    try:
        for name, case, texts in rules:
            changed = text
            for old, new in texts.items():
                changed = changed.replace(old, new)
            source.write_text(changed)
            kbuild.make(work, flavour, "bzImage")
            noticed += notices(work, work.out(flavour) / "arch/x86/boot/bzImage", name, case)
    finally:
        source.write_text(text)
        work.unstamp(f"build-{flavour}")
    return noticed, len(rules) - noticed


def count(work):
    """Prints the table of README.md."""
    image = kernel(work, "measured")
    work.unstamp(f"program-{COUNT}")  # its key does not have the library's headers
    lines, _, ended = guest.boot(work, image, "icount", guest.kernel_line([COUNT], []),
                                 f"{NAME}-count", lambda _: LIMIT_S)
    rows = [m.groups() for m in map(measure.ROW.match, lines) if m]
    if ended != "done" or not rows:
        raise Failed(f"the guest did not measure: see {work.logs}/{NAME}-count.ktap")
    say("| case | other objects held | instructions |\n|---|---|---|")
    for row in rows:
        say(f"| {' | '.join(row)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("what", nargs="?", choices=["check", "test", "count", "broken"])
    parser.add_argument("names", nargs="*", help="broken: only these rules")
    parser.add_argument("--long", action="store_true", help="10^4 processes, not 10^2")
    parser.add_argument("--debug", action="store_true", help="test with KASAN and lockdep")
    options = parser.parse_args()
    work = Work(os.environ.get("LODIC_KERNEL_WORK") or ROOT / "build/kernel", os.cpu_count())
    work.lock()
    steps = Steps()
    if steps.step("fetch", series.fetch, work) and steps.step("patch", patched, work):
        if options.what in (None, "check"):
            steps.step("checkpatch --strict, W=1", check, work)
        if options.what in (None, "test"):
            steps.step("test", test, work, options.debug, options.long)
        if options.what in (None, "count"):
            steps.step("count", count, work)
        if options.what == "broken":
            steps.step("rules broken on purpose", broken, work, options.names)
    steps.end()


if __name__ == "__main__":
    end_on_signals()
    try:
        main()
    except Failed as err:
        sys.exit(f"try: {err}")
