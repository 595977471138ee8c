# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One plain sentence for each figure, computed from its rows.

A verdict that finds a row missing, as in a quick run, gives way to the figure's title.
"""

from drawing import number
from figure_data import HIDDEN
from tier_verdicts import TIER_VERDICTS

# As lodic-sim drbh has it (sim/drbh_verdict.h): below this share of its own peak at the
# most CPUs, a scheme has collapsed.
COLLAPSE = 0.5
# A counter that fills less often than this, in one hour, lasts.
LASTS_AN_HOUR = 1


class Rows:
    """A figure's rows by panel, series and x; KeyError or IndexError where there are none."""

    def __init__(self, figure):
        self.panels = figure.panels

    def of(self, panel, series):
        return sorted(self.panels[panel][series], key=lambda row: row["x"])

    def at(self, panel, series, x):
        return next(row["value"] for row in self.of(panel, series) if row["x"] == x)

    def last(self, panel, series):
        return self.of(panel, series)[-1]["value"]

    def first(self, panel, series):
        return self.of(panel, series)[0]["value"]

    def last_x(self, panel, series):
        return self.of(panel, series)[-1]["x"]

    def only(self, panel, series):
        return self.panels[panel][series][0]["value"]


def time_words(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{number(ns / size)} {unit}"
    return f"{number(ns)} ns"


def percent(share):
    return f"{100 * share:.0f} %"


def collapse_after(rows):
    """The x of the peak, or None where the last value is no collapse."""
    peak = max(rows, key=lambda row: row["value"])
    return peak["x"] if rows[-1]["value"] < COLLAPSE * peak["value"] else None


def scaling(r):
    panel, moves = "one block, all CPUs", "line transfers of an operation"
    after = collapse_after(r.of(panel, "atomic"))
    atomic = (f"atomic collapses after {after:g} CPUs" if after else
              f"atomic reaches {number(r.last(panel, 'atomic'))} Mops/s on "
              f"{r.last_x(panel, 'atomic'):g} CPUs")
    return (f"lodic stays at {r.last(moves, 'lodic'):.1f} line transfers an operation; "
            f"{atomic}")


def readme(r):
    panel = "one block, all CPUs"
    after = collapse_after(r.of(panel, "atomic"))
    times = r.last(panel, "lodic") / r.first(panel, "lodic")
    return (f"lodic reads {number(times)} times as much on {r.last_x(panel, 'lodic'):g} CPUs "
            "as on one; atomic " +
            (f"collapses after {after:g}" if after else "does not collapse"))


def maximum(r):
    panel, series = "full counters in an hour", "5 bits, zipf 0.98"
    lasting = [row["x"] for row in r.of(panel, series) if row["value"] < LASTS_AN_HOUR]
    if not lasting:
        return "5 bits are too few: a counter fills up within an hour"
    return (f"5 bits last for {max(lasting):g} threads in a process: under Zipf's law a "
            "counter fills up less than once an hour")


def breakdown(r):
    panel = "one block: atomic"
    xfs = next(name for name in r.panels if name.startswith("one block, XFS"))
    cpus = r.last_x(panel, "counter")
    return (f"On {cpus:g} CPUs a read with atomic waits {time_words(r.last(panel, 'counter'))} "
            f"for the counter and goes on for {time_words(r.last(panel, 'the rest'))}; with "
            f"{xfs.rpartition(' ')[2]} under XFS's lock it waits "
            f"{time_words(r.last(xfs, 'inode lock'))} for the inode")


def held(r):
    panel = "from ref to unref"
    cpus = r.last_x(panel, "atomic")
    return (f"A reference lasts {time_words(r.first(panel, 'atomic'))} on one CPU; on "
            f"{cpus:g}, {time_words(r.last(panel, 'atomic'))} with atomic and "
            f"{time_words(r.last(panel, 'lodic'))} with lodic")


def memory(r):
    panel = "as the paper reckons, 780 GB and 120 CPUs"
    mapped = r.last_x(panel, "LODIC, 120 processes")
    return (f"With {mapped:g} MB mapped, LODIC counts in "
            f"{number(r.last(panel, 'LODIC, 120 processes'))} MB and RefCache in "
            f"{number(r.last(panel, 'RefCache'))} MB, by the paper's arithmetic")


def costs(r):
    one, all_cpus = "counting: one CPU", "counting: all CPUs, one block"

    def words(scheme):
        ends = [time_words(r.only(panel, scheme)) for panel in (one, all_cpus)]
        return (f"stays at {ends[0]}" if ends[0] == ends[1] else
                f"goes from {ends[0]} to {ends[1]}") + f" with {scheme}"
    return ("From one CPU to all, the cost of counting one read "
            f"{words('atomic')}, and {words('lodic')}")


def query(r):
    panel = "nobody holds it"
    users = r.last_x(panel, "lodic")
    return (f"lodic needs {time_words(r.first(panel, 'lodic'))} to see that none of "
            f"{r.of(panel, 'lodic')[0]['x']:g} users holds a block, and "
            f"{time_words(r.last(panel, 'lodic'))} for {users:g} users; atomic needs "
            f"{time_words(r.last(panel, 'atomic'))}")


def reclaim(r):
    panel = "all blocks of 1 GB"
    users = r.last_x(panel, "lodic (10%)")

    def words(series):
        return time_words(1e6 * r.last(panel, series))
    return (f"With a tenth mapped by {users:g} processes, lodic frees 1 GB in "
            f"{words('lodic (10%)')}; paygo takes {words('paygo')}, refcache "
            f"{words('refcache')}, atomic {words('atomic')}")


def drop(r):
    panel, crossing = "all blocks of 1 GB", "lodic (100%) is slower than paygo from"

    def words(series):
        return time_words(1e6 * r.at(panel, series, 45))
    ends = sorted(r.only(crossing, f"query, {how}")
                  for how in ("misses overlap", "one miss at a time"))
    return (f"With all of 1 GB mapped, lodic's query becomes slower than paygo's between "
            f"{number(ends[0])} and {number(ends[1])} processes; at 45 it takes "
            f"{words('lodic (100%)')}, paygo's {words('paygo')} to "
            f"{words('paygo, one miss at a time')}")


def walk(r):
    panel = "one process at a time"
    users = r.last_x(panel, "file space")
    return (f"With {users:g} processes a reader finds its pte in "
            f"{time_words(r.last(panel, 'process space'))} through process space, "
            f"{time_words(r.last(panel, 'file space'))} through file space")


def latency(r):
    rows = r.of("mapped over not mapped", "process space")
    return (f"A mapped read takes {percent(rows[0]['value'] - 1)} longer than one that is not "
            f"mapped; the paper says {percent(rows[0]['paper'] - 1)}")


def mapping(r):
    panel = "mapped for 100 us, touched"
    users = r.last_x(panel, "lodic")
    return (f"While {users:g} processes map and unmap the file, readers keep "
            f"{percent(r.last(panel, 'lodic'))} of their throughput with lodic and "
            f"{percent(r.last(panel, 'lodic_file'))} with lodic_file")


def sleepers(r):
    panel, series = "mapping processes: 20", "lodic_file, sleeps"
    short, users = r.of(panel, series)[0]["x"], 20
    lost = r.at("lost by one mapping, of all readers' time", series, users)
    second = 1 - r.at("left with a second of sleep, reckoned", series, users)
    return (f"Mapped for {short:g} us by {users} processes, readers through file space keep "
            f"{percent(r.first(panel, series))} under a lock that sleeps; a mapping costs "
            f"them {time_words(1e3 * lost)}, with a second of sleep {100 * second:.2f} %")


def threads(r):
    panel, mine = "120 threads read one block", "a context each (liblodic)"
    many = r.last_x(panel, mine)
    slow = sorted(r.last(panel, f"pte, {where}") for where in ("side by side", "far apart"))
    return (f"With {many:g} threads on each pte, all read {number(slow[0])} to "
            f"{number(slow[1])} million times a second; with a context each, "
            f"{number(r.last(panel, mine))}")


def processes(r):
    panel = "kept, far apart"
    threads = r.last_x(panel, "lodic")

    def kept(scheme):
        return f"{scheme} {percent(r.last(panel, scheme))}"
    return (f"With {threads:g} threads a process, far apart, what is left of the rate at one "
            f"thread a process: {kept('lodic')}, {kept('hybrid')}, {kept('paygo')}")


def curve24(r):
    known = r.of("shape", "paygo over atomic, 24 threads")[0]
    best = r.of("atomic is best with", "atomic")[0]
    return (f"On 24 CPUs paygo reads {number(known['value'])} times as much as atomic, and the "
            f"measured one {number(known['paper'])}; atomic is best at {best['value']:g} "
            f"threads, the measured one at {best['paper']:g}")


def drains(r):
    panel = "120 CPUs read one block"
    often = 1000

    def words(series):
        return percent(r.at(panel, series, often) / r.first(panel, series))
    return (f"While all CPUs fold their tables {often} times a second, readers keep "
            f"{words('paygo_fold')} of their rate with paygo_fold, "
            f"{words('hybrid, 16 threads a process')} with hybrid and 16 threads a process")


def entries(r):
    panel = "4 KiB by Zipf's law"
    mib = r.last_x(panel, "atomic")

    def words(series):
        return f"{number(r.last(panel, series))} with {series}"
    return (f"Reads of {mib:g} MiB by Zipf's law, Mops/s: {words('atomic')}, "
            f"{words('64 entries, filled')}, {words('512 entries, filled')}, "
            f"{words('4096 entries, filled')}, {words('paygo')}")


def applications(r):
    works = sorted(row["x"] for row in r.of("50 processes, over atomic", "lodic"))
    work = min(works, key=lambda x: abs(x - 8))
    return (f"With {work:g} us of other work a request, lodic serves "
            f"{number(r.at('50 processes, over atomic', 'lodic', work))} times atomic's "
            f"requests on 50 processes, "
            f"{number(r.at('100 processes, over atomic', 'lodic', work))} times on 100")


def spectrum(r):
    panel = "reads of 64 bytes"

    def kept(scheme):
        return percent(r.last(panel, scheme) / r.first(panel, scheme))
    return (f"From {r.of(panel, 'paygo')[0]['x']:g} to {r.last_x(panel, 'paygo'):g} MiB, "
            f"refcache keeps {kept('refcache')} of its throughput, paygo {kept('paygo')}, "
            f"atomic {kept('atomic')}")


def weak(r):
    panel = "random reads from ten files, by threads"
    ends = {name: r.last(panel, name) for name in r.panels[panel] if name not in HIDDEN}
    order = sorted(ends, key=ends.get, reverse=True)
    return (f"On {r.last_x(panel, order[0]):g} threads and many blocks, {order[0]} reads "
            f"most ({number(ends[order[0]])} Mops/s), then " +
            ", ".join(f"{name} ({number(ends[name])})" for name in order[1:]))


def anchor(r):
    panel = "96 CPUs, one block"
    splits = [row["x"] for row in r.of(panel, "paygo")]
    split = min(splits, key=lambda x: abs(x - 1000))

    def kept(scheme):
        return percent(r.at(panel, scheme, split) / r.first(panel, scheme))
    return (f"With {split / 1e4:g} % of references returned on another CPU, paygo keeps "
            f"{kept('paygo')} of its throughput, lodic {kept('lodic')}")


def reclaim_paygo(r):
    def words(scheme):
        return f"{scheme} in {time_words(1e6 * r.only('without readers', scheme))}"
    late = [name for name in r.panels["without readers"]
            if name not in r.panels["with readers"] and name not in HIDDEN]
    tail = f"; under readers {', '.join(late)} does not end in time" if late else ""
    return (f"{words('atomic').replace(' in ', ' frees 4 GiB in ')}, {words('refcache')}, "
            f"{words('lodic')}, {words('paygo')}{tail}")


def xfs(r):
    panel, ratio = "one block, all CPUs, XFS", "ratio to atomic"
    cpus = r.last_x(panel, "lodic")
    best = max(r.of(panel, "lodic"), key=lambda row: row["value"])
    return (f"Under XFS's inode lock lodic is best at {best['x']:g} CPUs; on {cpus:g} it makes "
            f"{number(r.last(ratio, 'lodic'))} times atomic's reads, and the paper says 2 at "
            "most")


VERDICTS = {
    **TIER_VERDICTS,
    "anchor": anchor, "applications": applications, "breakdown": breakdown,
    "breakdown-paygo": breakdown, "costs": costs, "drains": drains,
    "curve24": curve24, "drop": drop,
    "entries": entries, "held": held, "latency": latency, "mapping": mapping,
    "maximum": maximum, "memory": memory,
    "processes": processes, "query": query, "reclaim": reclaim, "reclaim-paygo": reclaim_paygo,
    "scaling": scaling, "scaling-paygo": scaling, "spectrum": spectrum,
    "sleepers": sleepers, "threads": threads, "walk": walk, "weak": weak, "xfs": xfs}


def verdict_of_readme(figure):
    return readme(Rows(figure))


def verdict_of(figure):
    try:
        return VERDICTS[figure.name](Rows(figure))
    except (KeyError, IndexError, StopIteration, ZeroDivisionError):
        return figure.title
