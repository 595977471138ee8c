# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""What no paper says: what the kernel series asks the model of its own schemes."""

from validate_rows import number

# The kernel series asks this of hybrid: so much of its rate at one thread a process.
KEPT_AT_LEAST = 0.9


def row_at(figure, panel, series, x):
    return next(row for row in figure.panels[panel][series] if row["x"] == x)


def processes_rows(figure):
    """Threads a process, and for each scheme its rate, what is left of it, and how many lines
    move."""
    schemes = ["atomic", "paygo", "paygo_fold", "lodic", "hybrid"]
    place = "far apart"
    yield f"| threads a process, {place} | " + " | ".join(schemes) + " |"
    yield "|---|" + "---|" * len(schemes)
    for x in sorted(row["x"] for row in figure.panels[f"kept, {place}"]["lodic"]):
        cells = []
        for scheme in schemes:
            mops, kept, moves = (
                row_at(figure, f"{what}, {place}", scheme, x)["value"]
                for what in ("reads", "kept", "line transfers of an operation"))
            cells.append(f"{number(mops)}, {kept:.2f}, {moves:.2f}")
        yield f"| {x:g} | " + " | ".join(cells) + " |"


def processes_words(figure):
    lowest = min((row["low"], panel, row["x"]) for panel, series in figure.panels.items()
                 if panel.startswith("kept, ") for row in series["hybrid"] if row["x"] > 1)
    holds = "It does" if lowest[0] >= KEPT_AT_LEAST else "**It does not**"
    return (f"All 120 CPUs read one block of 4 KiB. A cell has the rate in Mops/s, its ratio to "
            "the rate at one thread a process, and the line transfers of an operation. "
            "`hybrid` must keep "
            f"{KEPT_AT_LEAST:g}. {holds}: over all placings and the whole band, it keeps at "
            f"least {lowest[0]:.2f} ({lowest[1].removeprefix('kept, ')}, {lowest[2]:g} "
            "threads).")


ENTRIES = ["64 entries, filled", "512 entries, filled", "4096 entries, filled",
           "512 entries, at a failed cas"]


def entries_rows(figure):
    for panel, series in figure.panels.items():
        if series[next(iter(series))][0]["unit"] != "Mops/s":
            continue
        names = ["atomic"] + [name for name in ENTRIES if name in series] + ["paygo"]
        yield ""
        yield f"| {panel}: MiB | " + " | ".join(names) + " |"
        yield "|---|" + "---|" * len(names)
        for row in series["atomic"]:
            yield f"| {row['x']:g} | " + " | ".join(
                number(row_at(figure, panel, name, row["x"])["value"])
                for name in names) + " |"


def most_gain(figure, panel, more, less):
    return max(row["value"] / row_at(figure, panel, less, row["x"])["value"]
               for row in figure.panels[panel][more])


def entries_words(figure):
    any_block, zipf, _ = [panel for panel, series in figure.panels.items()
                          if next(iter(series.values()))[0]["unit"] != "percent"]
    small, middle, large = ENTRIES[:3]
    held = {name: rows[0] for name, rows in
            figure.panels["files kept in memory at most, blocks of 4 KiB"].items()}
    yield (f"512 entries read at most {most_gain(figure, any_block, middle, small):.2f} times "
           "as much as 64 where all blocks are alike, and "
           f"{most_gain(figure, zipf, middle, small):.2f} times under Zipf's law. 4096 entries "
           f"read at most {most_gain(figure, any_block, large, middle):.2f} and "
           f"{most_gain(figure, zipf, large, middle):.2f} times as much as 512. The first of "
           "these takes a file of 4 to 16 MiB whose blocks are all alike and of 4 KiB each. In "
           "folios of 64 KiB such a file has no more than 256 objects. On "
           f"{held[middle]['x']:g} CPUs, 4096 entries can keep {number(held[large]['value'])} "
           f"MB in memory, and 512 entries {number(held[middle]['value'])} MB. A table of 4096 "
           "takes 128 KiB of a CPU's caches instead of 16 KiB. With caches of the "
           "machine's size, as the rows of 64 bytes have them, no row moved by more than 6 %. We "
           "therefore take 512.")
    yield ""
    yield ("So a CPU's entries hold 2 MiB of blocks of 4 KiB at most. The number of entries "
           "bounds no bytes where folios are large: 512 folios of 2 MiB are 1 GiB. The largest "
           "file of PAYGO Fig. 10 is 32 such folios. A bound of 64 MiB a CPU therefore costs "
           "none of these files anything. Together the CPUs should never hold more than a "
           "small share of the memory. That share is a decision, and the model says nothing "
           "of it.")


def own_processes(figure):
    yield ""
    yield "### Processes of several threads"
    yield ""
    yield processes_words(figure)
    yield ""
    yield from processes_rows(figure)


def own_entries(figure):
    yield ""
    yield "### How many entries a CPU's table needs"
    yield ""
    yield ("In the kernel an entry of PAYGO's table owns a reference. So it stays when nobody "
           "holds its block, until it has been idle for some time. 96 CPUs read files of 1 to "
           "64 MiB at random, in Mops/s. A filled table has an entry for every block that "
           "there is room for. At a failed cas: as the kernel makes entries, a few "
           "milliseconds after the start.")
    yield from entries_rows(figure)
    yield ""
    yield from entries_words(figure)


def section(figures):
    yield "## 4. What no paper says"
    for name, part in (("processes", own_processes), ("entries", own_entries)):
        if name in figures:
            yield from part(figures[name])
        else:
            yield from ("", f"The figure {name} was not run.")
