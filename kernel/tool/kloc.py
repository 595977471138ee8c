# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What KLOC costs where it is off, and where it is on.

Instructions, bytes, the read path's code, and how often a CPU's list has the knode that is used.
"""

import csv
import re
import shlex
import subprocess

from tool import guest, kbuild, measure
from tool.work import Failed, say

# column, kernel, its command line. The first is what the others are compared with: KLOC's own
# cost is the difference between two kernels of the same series. What code() compares shows that
# the functions with hooks are vanilla's there.
KERNELS = [("without KLOC", "release", []),
           ("KLOC, off", "kloc", ["kloc_slow=1"]),
           ("kloc=on", "kloc", ["kloc=on", "kloc_slow=1"])]
# Addresses of a program's own memory, drawn at random, change a short copy by five instructions.
FIXED = "norandmaps"
FLAVOURS = ("vanilla", "release", "kloc")
# Instructions that these may take more where KLOC is off, and a read of the cache at any time.
LIMITED = ("open", "close", "allocate")
OFF_MORE = 4
READ_MORE = 0
MACHINE = "icount-tier"
LIST = re.compile(r"^\s*([a-z][a-zA-Z0-9_-]*),(\d+),(\d+)$")
LIMIT_S = 500

# -- instructions --------------------------------------------------------------------------


def check_instructions(columns):
    """What the series promises of KLOC."""
    base, off, on = (columns[name] for name in ("without KLOC", "KLOC, off", "kloc=on"))
    for (case, size), n in base.items():
        is_read = case == "read"
        if (is_read or case.startswith(LIMITED)) and \
                off[case, size] - n > (READ_MORE if is_read else OFF_MORE):
            raise Failed(f"{case} takes {off[case, size] - n:g} instructions more with KLOC off")
        if is_read and on[case, size] - n > READ_MORE:
            raise Failed(f"a read takes {on[case, size] - n:g} instructions more with kloc=on")


def instructions(work):
    columns = {name: measure.count(work, name, flavour, [*words, FIXED], "bench_kloc", MACHINE)
               for name, flavour, words in KERNELS}
    measure.keep(columns, "kloc_instructions.csv")
    measure.put_table("kloc-instructions", measure.table(columns))
    check_instructions(columns)


# -- bytes ---------------------------------------------------------------------------------

TYPES = ["struct page", "struct folio", "struct inode", "struct address_space",
         "struct ext4_inode_info", "struct knode"]
# Of the two together a file that was opened may have so many.
INODE_MORE = 64


def size_of(work, flavour, types):
    """type -> bytes, by the compiler and the options of one object of that kernel."""
    tree, out = kbuild.tree_of(work, flavour), work.out(flavour)
    command = re.match(r"savedcmd_\S+ := (.*?)(?: ;.*)?$",
                       (out / "mm/.filemap.o.cmd").read_text().splitlines()[0])[1]
    words = shlex.split(command)
    headers = ["<linux/fs.h>", "<linux/mm_types.h>", f'"{tree}/fs/ext4/ext4.h"']
    if "struct knode" in types:
        headers.append(f'"{tree}/mm/kloc.h"')
    source, target = work.folder / "sizes.c", work.folder / "sizes.o"
    source.write_text("".join(f"#include {h}\n" for h in headers) + "".join(
        f"char {t.replace(' ', '_')}[sizeof({t})];\n" for t in types))
    at = words.index("-o")
    work.run([*words[:at], "-o", target, source], f"build-{flavour}.log", cwd=out,
             env=kbuild.make_env(work))
    said = subprocess.run(["nm", "-S", target], check=True, capture_output=True, text=True).stdout
    found = {m[2]: int(m[1], 16)
             for m in re.finditer(r"^\S+ (\S+) \w (struct_\w+)$", said, re.MULTILINE)}
    return {t: found[t.replace(" ", "_")] for t in types}


def sizes(work):
    rows = {}
    for flavour in FLAVOURS:
        make_objects(work, flavour, ["mm/filemap.o"])
        rows[flavour] = size_of(work, flavour, TYPES if flavour == "kloc" else TYPES[:-1])
    with open(measure.RESULTS / "kloc_bytes.csv", "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(["type", *FLAVOURS])
        writer.writerows([t, *(rows[k].get(t, "") for k in FLAVOURS)] for t in TYPES)
    lines = ["| bytes | vanilla | without KLOC | with KLOC |", "|---|---|---|---|"]
    lines += [f"| {t} | " + " | ".join(str(rows[k].get(t, "")) for k in FLAVOURS) + " |"
              for t in TYPES]
    measure.put_table("kloc-bytes", lines)
    more = {t: rows["kloc"][t] - rows["release"].get(t, 0) for t in TYPES}
    if more["struct page"] or more["struct folio"]:
        raise Failed("a page has become larger")
    if more["struct inode"] + more["struct knode"] > INODE_MORE:
        raise Failed(f"a file has {more['struct inode'] + more['struct knode']} bytes more")


# -- the read path's code ------------------------------------------------------------------

# object -> functions that a read of cached pages runs, functions that have a hook
CODE = {
    "fs/read_write.o": (["vfs_read"], []),
    "fs/ext4/file.o": (["ext4_file_read_iter"], []),
    "mm/filemap.o": (["generic_file_read_iter", "filemap_read", "filemap_read_plain",
                      "filemap_read_counting", "filemap_get_pages",
                      "filemap_get_read_batch", "filemap_get_read_batch_counting"],
                     ["__filemap_get_folio", "do_read_cache_folio", "filemap_create_folio"]),
    "mm/swap.o": (["folio_mark_accessed"], []),
    "fs/open.o": ([], ["do_dentry_open"]),
    "fs/file_table.o": ([], ["__fput"]),
    "fs/inode.o": ([], ["inode_init_always_gfp", "drop_nlink", "clear_nlink", "evict"]),
    "mm/readahead.o": ([], ["page_cache_ra_unbounded", "page_cache_ra_order",
                            "readahead_expand"]),
}


def make_objects(work, flavour, objects):
    if flavour == "vanilla":
        kbuild.prepare_base(work, flavour)
    kbuild.configure(work, flavour)
    kbuild.make(work, flavour, *objects)


def plain(line):
    """An instruction or a relocation, without what only says where something lies."""
    line = re.sub(r"^\s*[0-9a-f]+:\s*", "", line)
    line = re.sub(r"\s*#.*$", "", line)
    line = re.sub(r"\b[0-9a-f]+ (<\w)", r"\1", line)
    return re.sub(r"(\s\.[\w.]+)[-+]0x[0-9a-f]+$", r"\1", line).strip()


def functions_of(path):
    """function -> its instructions and relocations, of one object file."""
    text = subprocess.run(["objdump", "-d", "-r", "--no-show-raw-insn", path], check=True,
                          capture_output=True, text=True).stdout
    found = {}
    for block in text.split("\n\n"):
        lines = block.strip().splitlines()
        if lines and (name := re.match(r"[0-9a-f]+ <([\w.]+)>:$", lines[0])):
            code = [plain(line) for line in lines[1:]]
            while code and code[-1].startswith(("nop", "xchg   %ax,%ax", "cs nop", "data16")):
                code.pop()
            found[name[1]] = code
    return found


def compare(old, new):
    """What has become of a function: '=' nothing, 'offsets' of fields, or how many instructions
    more it has."""
    if old is None or new is None:
        return "" if old == new else "inline" if new is None else "new"
    if old == new:
        return "="
    blind = [[re.sub(r"0x[0-9a-f]+\(", "N(", line) for line in code] for code in (old, new)]
    if blind[0] == blind[1]:
        return "offsets"
    nr = [sum("R_X86_64" not in line for line in code) for code in (old, new)]
    return f"{nr[1] - nr[0]:+d} of {nr[0]}"


def code(work):
    """Compares functions of three kernels. Those of a read must be the same with KLOC, and those
    with hooks the same as vanilla's without it."""
    found = {}
    for flavour in FLAVOURS:
        make_objects(work, flavour, list(CODE))
        found[flavour] = {name: text for path in CODE
                          for name, text in functions_of(work.out(flavour) / path).items()}
    rows, wrong = [], []
    for path, (reads, hooks) in CODE.items():
        for name in reads + hooks:
            vanilla, series, kloc = (found[k].get(name) for k in FLAVOURS)
            row = [name, "read" if name in reads else "hook", compare(vanilla, series),
                   compare(series, kloc)]
            rows.append(row)
            if row[3 if name in reads else 2] not in ("", "=", "offsets", "new"):
                wrong.append(name)
    lines = ["| function | | vanilla -> without KLOC | without KLOC -> with |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {a} | {b} |" for name, kind, a, b in rows if a or b]
    measure.put_table("kloc-code", lines)
    if wrong:
        raise Failed(f"these should be the same code: {', '.join(wrong)}")


# -- the lists of CPUs ---------------------------------------------------------------------


def lists(work):
    image = kbuild.build(work, "kloc")
    say("kloc: lists")
    lines, _, ended = guest.boot(work, image, MACHINE,
                                 guest.kernel_line(["kloc_lists"], ["kloc=on", "kloc_slow=1"]),
                                 "kloc-lists", lambda _: LIMIT_S)
    rows = [(m[1], int(m[2]), int(m[3])) for m in map(LIST.match, lines) if m]
    if ended != "done" or not rows:
        raise Failed(f"the guest did not measure: see {work.logs}/kloc-lists.ktap")
    with open(measure.RESULTS / "kloc_lists.csv", "w", newline="", encoding="utf-8") as f:
        writer = csv.writer(f, lineterminator="\n")
        writer.writerow(["workload", "hits", "misses"])
        writer.writerows(rows)
    text = ["| workload | uses | in the list | % |", "|---|---|---|---|"]
    text += [f"| {name} | {hits + misses} | {hits} | {100 * hits / (hits + misses):.1f} |"
             for name, hits, misses in rows]
    measure.put_table("kloc-lists", text)


PARTS = {"code": code, "bytes": sizes, "instructions": instructions, "lists": lists}


def cost(work, parts):
    """Measures, and keeps: CSVs in kernel/results/ and the tables in kernel/README.md."""
    if unknown := set(parts) - set(PARTS):
        raise Failed(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    for part in parts or PARTS:
        PARTS[part](work)
