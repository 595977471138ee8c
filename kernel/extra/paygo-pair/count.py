#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Instructions of a pread() under folioref=paygo, with each patch of this folder.

    kernel/extra/paygo-pair/count.py           # builds the release kernel for each, and counts
    kernel/extra/paygo-pair/count.py pinned    # only this one, and the series without a patch
    kernel/extra/paygo-pair/count.py --test    # four processors run two tests with each kernel

It works in build/kernel, as kernel/run does, and prints the table of README.md. --test takes the
kernels that were built for the table.
"""

import argparse
import os
import pathlib
import shutil
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tool import guest, kbuild, measure, report, series  # noqa: E402
from tool.work import ROOT, Failed, Work, end_on_signals, say  # noqa: E402

PATCHES = ["spin-lock", "preempt-count", "pinned", "pinned-only"]
PAYGO = ["folioref=paygo", "paygo_at_once"]
SERIES = "series"
TESTS = ["paygo_correct", "paygo_stress"]
LIMIT_S = 300


class Enough(Exception):
    """The case that we want has been measured."""


def count(work, image, name, words):
    """Bytes -> instructions of the case not-mapped, as measure.count() has them."""
    found = {}

    def look(line):
        m = measure.ROW.match(line)
        if m and m[1] == "not-mapped":
            found[int(m[2])] = float(m[3])
        elif m:
            raise Enough

    try:
        guest.boot(work, image, "icount", guest.kernel_line(["bench_instructions"], words),
                   f"pair-{name}", lambda _: LIMIT_S, look)
    except Enough:
        return found
    raise Failed(f"the guest did not measure: see {work.logs}/pair-{name}.ktap")


def kept(work, name):
    return work.folder / f"pair-{name}.bzImage"


def kernel(work, name):
    """The release kernel with the series, and one more patch when it is named. It is kept."""
    work.git("reset", "-q", "--hard", work.note("apply"))
    if name != SERIES:
        work.git("apply", "--index", HERE / f"{name}.patch")
        work.git("commit", "-q", "-m", name)
    return shutil.copy(kbuild.build(work, "release"), kept(work, name))


def variants(work, names):
    """Name -> instructions, of vanilla's way, of the series, and of each patch."""
    image = kernel(work, SERIES)
    rows = {"_refcount": count(work, image, "refcount", []),
            SERIES: count(work, image, SERIES, PAYGO)}
    for name in names:
        rows[name] = count(work, kernel(work, name), name, PAYGO)
        say(f"{name}: {rows[name]}")
    return rows


def table(rows):
    base = rows[SERIES]
    yield "| variant | pread of 64 bytes | of 64 KiB | more for a pair, 1 folio | 16 folios |"
    yield "|---|---|---|---|---|"
    for name, row in rows.items():
        yield (f"| {name} | {row[64]:g} | {row[65536]:g} | {row[64] - base[64]:+g} | "
               f"{(row[65536] - base[65536]) / 16:+.4g} |")


def run_tests(work, names):
    for name in names:
        say(f"-- {name}")
        tests = [t for t in report.chosen("paygo") if t.name in TESTS]
        if report.run_tests(work, kept(work, name), f"pair-{name}", tests)[1]:
            raise Failed(f"{name} is wrong: see {work.logs}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--test", action="store_true")
    parser.add_argument("names", nargs="*", default=PATCHES)
    options = parser.parse_args()
    work = Work(os.environ.get("LODIC_KERNEL_WORK") or ROOT / "build/kernel", os.cpu_count())
    if options.test:
        run_tests(work, options.names)
        return
    work.lock()
    series.fetch(work, None)
    series.apply(work)
    try:
        rows = variants(work, options.names)
    finally:
        work.git("reset", "-q", "--hard", work.note("apply"))
    print("\n".join(table(rows)))


if __name__ == "__main__":
    end_on_signals()
    try:
        main()
    except Failed as err:
        sys.exit(f"count: {err}")
