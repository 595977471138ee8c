# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""How much of the kernel's stack the read path needs, with the series and without it."""

import csv
import re
import subprocess

from tool import kbuild
from tool.work import KERNEL, Failed, say

# object -> functions, in the order of the table
FUNCTIONS = {
    "mm/filemap.o": ["filemap_read", "filemap_read_plain", "filemap_read_counting",
                     "filemap_get_pages", "filemap_get_pages_counting",
                     "filemap_get_read_batch", "filemap_get_read_batch_counting"],
    "mm/shmem.o": ["shmem_file_read_iter"],
}
# The counting instance may use so much more than vanilla's filemap_read(), and the plain
# one no more at all.
COUNTING_MORE = 128
RETURN_ADDRESS = 8
RESULT = KERNEL / "results/frames.csv"


def frame(lines):
    """Bytes that a function's beginning takes: its pushes, what it subtracts from the stack
    pointer, and the return address. The same as GCC's -fstack-usage."""
    size = RETURN_ADDRESS
    for line in lines:
        if re.search(r"\bpush +%r", line):
            size += 8
        elif found := re.search(r"\bsub +\$0x([0-9a-f]+),%rsp", line):
            return size + int(found[1], 16)
        elif found := re.search(r"\badd +\$0xf+([0-9a-f]{2}),%rsp", line):
            return size + 0x100 - int(found[1], 16)
        elif re.search(r"\b(pop +%r|ret\b)", line):
            break
    return size


def frames_of(path):
    """function -> bytes, of one object file."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], check=True,
                          capture_output=True, text=True).stdout
    found = {}
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        if lines and (name := re.match(r"[0-9a-f]+ <(\w+)>:$", lines[0])):
            found[name[1]] = frame(lines[1:])
    return found


def check(rows):
    """What the series promises."""
    vanilla = rows["filemap_read"]["vanilla"]
    plain = rows["filemap_read_plain"]["release"]
    counting = rows["filemap_read_counting"]["release"]
    if plain > vanilla:
        raise Failed(f"filemap_read_plain() needs {plain} bytes, vanilla {vanilla}")
    if counting > vanilla + COUNTING_MORE:
        raise Failed(f"filemap_read_counting() needs {counting} bytes, vanilla {vanilla}")


def frames(work):
    """Prints the frames of both kernels, and keeps them."""
    rows = {name: {} for names in FUNCTIONS.values() for name in names}
    for flavour in ("vanilla", "release"):
        if flavour == "vanilla":
            kbuild.prepare_base(work, flavour)
        kbuild.configure(work, flavour)
        for path in FUNCTIONS:
            kbuild.make(work, flavour, path)
            for name, size in frames_of(work.out(flavour) / path).items():
                if name in rows:
                    rows[name][flavour] = size
    RESULT.parent.mkdir(exist_ok=True)
    with open(RESULT, "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(["function", "vanilla", "series"])
        writer.writerows([name, row.get("vanilla", ""), row.get("release", "")]
                         for name, row in rows.items())
    for name, row in rows.items():
        say(f"frames: {name:<32} {row.get('vanilla', '-'):>5} {row.get('release', '-'):>5}")
    check(rows)
