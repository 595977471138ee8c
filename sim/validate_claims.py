# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The papers' statements of order, each asked of the figures.

sim/rows.toml lists them: source, words, and why the model disagrees where it does.
Here is only how each is asked. Both must have the same names.
"""

from validate_rows import number

CAUSE_NOT_KNOWN = "cause not known"
# What the papers ran, where this tree has it beside its own scheme of that name.
RIVAL = "_sv6"


class Asked:
    """The figures' rows, by name and x. KeyError or IndexError where a row is missing."""

    def __init__(self, figures):
        self.figures = figures

    def panel(self, figure, panel):
        return self.figures[figure].panels[panel]

    def name(self, figure, panel, series):
        """The papers' own code, where the figure has it."""
        rival = series + RIVAL
        return rival if rival in self.panel(figure, panel) else series

    def row(self, figure, panel, series, x):
        name = self.name(figure, panel, series)
        for row in self.panel(figure, panel)[name]:
            if row["x"] == x:
                return row
        raise KeyError(f"{figure}: {panel}: {name} at {x:g}")

    def value(self, figure, panel, series, x):
        return self.row(figure, panel, series, x)["value"]

    def xs(self, figure, panel, series):
        name = self.name(figure, panel, series)
        return sorted(row["x"] for row in self.panel(figure, panel)[name])


# The model cannot tell schemes apart that are closer than this.
RESOLUTION = 1.2


def above(big, small):
    """True or False where the bands are apart and by enough, None where not."""
    if max(big["value"], small["value"]) < RESOLUTION * min(big["value"], small["value"]):
        return None
    if big["low"] > small["high"]:
        return True
    if big["high"] < small["low"]:
        return False
    return None


def compare(figure, panel, big, small, x):
    def ask(c):
        a, b = c.row(figure, panel, big, x), c.row(figure, panel, small, x)
        names = [c.name(figure, panel, series) for series in (big, small)]
        return above(a, b), (f"{names[0]} {number(a['value'])}, "
                             f"{names[1]} {number(b['value'])} {a['unit']}")
    return ask


SLIGHTLY = 1.5


def slightly(figure, panel, big, small, x):
    """Is big ahead, and by less than SLIGHTLY?"""
    def ask(c):
        holds, numbers = compare(figure, panel, big, small, x)(c)
        a, b = c.row(figure, panel, big, x)["value"], c.row(figure, panel, small, x)["value"]
        if holds is None or a < b:
            return holds, numbers
        return (holds if a < SLIGHTLY * b else False), f"{numbers}: times {a / b:.3g}"
    return ask


def grows(figure, panel, series, least=None, most=None):
    """Is the factor from the first x to the last within the limits?"""
    def ask(c):
        xs = c.xs(figure, panel, series)
        first, last = (c.row(figure, panel, series, x) for x in (xs[0], xs[-1]))
        factor = last["value"] / first["value"]
        holds = (least is None or factor >= least) and (most is None or factor <= most)
        return holds, f"times {factor:.3g} from {xs[0]:g} to {xs[-1]:g}"
    return ask


def break_even(c):
    sizes = c.xs("spectrum", "reads of 64 bytes", "refcache")
    for size in sizes:
        vanilla = c.value("spectrum", "reads of 64 bytes", "atomic", size)
        refcache = c.value("spectrum", "reads of 64 bytes", "refcache", size)
        if vanilla > refcache:
            return 8 <= size <= 32, f"vanilla is ahead from {size:g} MiB on"
    return False, f"vanilla is not ahead up to {sizes[-1]:g} MiB"


GIGABYTE = "all blocks of 1 GB"
PER_CORE = ("paygo", "refcache")


# How PAYGO's READ-ALL goes in `drop`: as many misses at once as a processor has, or one.
OVERLAP, SERIAL = "paygo", "paygo, one miss at a time"


def quarter(c):
    """Against PAYGO, however its misses overlap, and RefCache."""
    lodic = c.value("drop", GIGABYTE, "lodic (10%)", 45)
    theirs = {name: c.value("drop", GIGABYTE, name, 45) for name in (OVERLAP, SERIAL)}
    theirs["refcache"] = c.value("reclaim", GIGABYTE, "refcache", 45)
    return (lodic < min(theirs.values()) / 4, f"lodic {number(lodic)} ms, " +
            ", ".join(f"{name} {number(value)} ms" for name, value in theirs.items()))


def all_hot(c):
    """From how many processes on is LODIC slower? 40 must lie between the two ways of READ-ALL."""
    first, second = (c.panel("drop", "lodic (100%) is slower than paygo from")[f"query, {way}"][0]
                     for way in ("misses overlap", "one miss at a time"))
    return (first["low"] <= 40 <= second["high"],
            f"from {number(first['value'])} processes on if misses overlap, from "
            f"{number(second['value'])} with one at a time")


def saturates(c):
    xs = c.xs("applications", "requests of 6 us", "atomic")
    best = max(xs, key=lambda x: c.value("applications", "requests of 6 us", "atomic", x))
    return 20 <= best <= 40, f"atomic is best at {best:g} processes, for requests of 6 us"


def first_with_readers(c):
    figure, panel = "reclaim-paygo", "with readers"
    refcache = c.name(figure, "without readers", "refcache")
    if refcache not in c.panel(figure, panel) and c.row(figure, "without readers", refcache, 0):
        return False, f"{refcache} does not come to an end while readers go on"
    three = {name: c.value(figure, panel, name, 1) for name in ("atomic", refcache, "paygo")}
    return (min(three, key=three.get) == refcache,
            ", ".join(f"{name} {number(v)} ms" for name, v in three.items()))


def split_share(c):
    slow = c.value("anchor", "96 CPUs, one block", "paygo", 1000)
    none = c.value("anchor", "96 CPUs, one block", "paygo", 0)
    return slow > 0.95 * none, f"at 1 in 1000 PAYGO keeps {100 * slow / none:.1f} %"


def server(c):
    panel = "50 processes, over atomic"
    refcache, lodic = (c.row("applications", panel, name, 8) for name in ("refcache", "lodic"))
    return (above(refcache, lodic) is not True,
            f"ratio {number(refcache['value'])} and {number(lodic['value'])}")


def per_core(c):
    """Over 500 ms, and of that size, with few sharers as with many."""
    xs = c.xs("drop", GIGABYTE, OVERLAP)
    overlap, serial = ([c.row("drop", GIGABYTE, way, x) for x in (xs[0], xs[-1])]
                       for way in (OVERLAP, SERIAL))
    refcache = [c.value("reclaim", GIGABYTE, "refcache", x) for x in (xs[0], xs[-1])]
    paygo = all(a["low"] <= 500 and b["high"] >= 500 for a, b in zip(overlap, serial))
    return (paygo and min(refcache) >= 500,
            f"paygo {number(overlap[1]['value'])} to {number(serial[1]['value'])} ms, refcache "
            f"{number(refcache[0])} to {number(refcache[1])} ms")


def vanilla_frees_first(c):
    x = c.xs("reclaim", GIGABYTE, "atomic")[-1]
    atomic = c.row("reclaim", GIGABYTE, "atomic", x)
    others = [(name, c.row("reclaim", GIGABYTE, name, x)) for name in
              (*PER_CORE, "lodic (10%)", "lodic (100%)")]
    name, least = min(others, key=lambda other: other[1]["value"])
    return (above(least, atomic),
            f"atomic {number(atomic['value'])} ms, next {name} {number(least['value'])} ms")


def left_while_mapping(panel, scheme, low=0.0, high=float("inf")):
    def ask(c):
        left = c.value("mapping", panel, scheme, 5)
        return low < left < high, f"{left:.2f} left"
    return ask


def contention_stays_local(c):
    panel, worst = "120 threads read one block", {}
    for place in ("side by side", "far apart"):
        series = f"pte and lock, {place}"
        values = [c.value("threads", panel, series, x) for x in c.xs("threads", panel, series)]
        if sorted(values, reverse=True) != values:
            return False, f"{place}: {', '.join(map(number, values))} Mops/s"
        worst[place] = values[-1]
    x = c.xs("threads", panel, "atomic")[-1]
    atomic = c.value("threads", panel, "atomic", x)
    return (min(worst.values()) > RESOLUTION * atomic,
            f"{number(min(worst.values()))} at {x:g} threads, atomic {number(atomic)} Mops/s")


def none_scales(c):
    panel, most = "one block, all CPUs, XFS", {}
    for scheme in ("atomic", "refcache", "paygo", "lodic"):
        xs = c.xs("xfs", panel, scheme)
        most[scheme] = (c.value("xfs", panel, scheme, xs[-1]) /
                        c.value("xfs", panel, scheme, xs[0]))
    return (max(most.values()) < 10, ", ".join(f"{name} times {number(f)}"
                                               for name, f in most.items()) +
            f" from {xs[0]:g} to {xs[-1]:g}")


def both_scale(c):
    factors = {}
    for scheme in ("paygo", "refcache"):
        xs = c.xs("scaling-paygo", "one block, all CPUs", scheme)
        first, last = (c.value("scaling-paygo", "one block, all CPUs", scheme, x)
                       for x in (xs[0], xs[-1]))
        factors[scheme] = last / first
    return (min(factors.values()) > 0.8 * xs[-1] / xs[0],
            ", ".join(f"{name} times {number(f)}" for name, f in factors.items()) +
            f" from {xs[0]:g} to {xs[-1]:g}")


ONE = "one block, all CPUs"
TEN = "random reads from ten files, by threads"
ASK = {
    "lodic-scales": grows("scaling", ONE, "lodic", least=90),
    "file-space-fails": grows("scaling", ONE, "lodic_file", most=10),
    "server-as-refcache": server,
    "server-saturates": saturates,
    "reclaim-tenth": quarter,
    "reclaim-all": all_hot,
    "reclaim-per-core": per_core,
    "reclaim-vanilla": vanilla_frees_first,
    "query-grows": grows("query", "nobody holds it", "lodic", least=4),
    "mapping-process": left_while_mapping("mapped for 100 us, not touched", "lodic", low=0.8),
    "mapping-file": left_while_mapping("mapped for 10 us, not touched", "lodic_file",
                                       high=0.02),
    "table3-falls": contention_stays_local,
    "paygo-refcache-scale": both_scale,
    "refcache-over-vanilla": compare("scaling-paygo", ONE, "refcache", "atomic", 96),
    "refcache-over-paygo": slightly("scaling-paygo", ONE, "refcache", "paygo", 96),
    "snzi-over-vanilla": slightly("scaling-paygo", ONE, "snzi", "atomic", 96),
    "vanilla-over-snzi": compare("weak", TEN, "atomic", "snzi", 96),
    "paygo-over-refcache": compare("weak", TEN, "paygo", "refcache", 96),
    "refcache-falls": grows("spectrum", "reads of 64 bytes", "refcache", most=0.5),
    "collisions-halve": grows("spectrum", "reads of 4 KiB", "refcache", most=0.5),
    "paygo-stays": grows("spectrum", "reads of 64 bytes", "paygo", least=0.7),
    "break-even": break_even,
    "splits-free": split_share,
    "drop-read": first_with_readers,
    "xfs-stays": none_scales,
    "drop-rest": compare("reclaim-paygo", "without readers", "refcache", "atomic", 0),
}


def check_statements(listed):
    """Messages: where the list and ASK differ."""
    seen = set()
    for entry in listed.get("statement", []):
        name = entry["id"]
        if name in seen:
            yield f"statement {name}: it stands twice in the list"
        seen.add(name)
        if "pending" in entry:
            if name in ASK:
                yield f"statement {name}: it is pending, and sim/validate_claims.py asks it"
        elif name not in ASK:
            yield f"statement {name}: sim/validate_claims.py does not ask it"
    for name in ASK:
        if name not in seen:
            yield f"statement {name}: sim/rows.toml does not list it"


def answer(entry, asked):
    """A statement for JSON and for the page."""
    record = {"id": entry["id"], "source": entry["source"], "says": entry["says"], "model": "",
              "verdict": "pending", "cause": ""}
    if "pending" in entry:
        record["model"] = entry["pending"]
        return record
    try:
        holds, record["model"] = ASK[entry["id"]](asked)
    except (KeyError, ZeroDivisionError, IndexError) as error:
        holds, record["model"] = None, f"no row {error}"
    record["verdict"] = {True: "agrees", False: "disagrees", None: "open"}[holds]
    if holds is False:
        record["cause"] = entry["cause"] or CAUSE_NOT_KNOWN
    return record


def answers(listed, figures):
    asked = Asked(figures)
    return [answer(entry, asked) for entry in listed.get("statement", [])]
