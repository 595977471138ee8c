# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""One plain sentence for each figure of the tier simulator: see verdicts.py."""

from drawing import number

KLOC = ("kloc", "kloc, in need")


def best_kloc(r, panel):
    return max(KLOC, key=lambda name: r.only(panel, name))


def times(r, panel, above, below):
    return f"{number(r.only(panel, above) / r.only(panel, below))} times"


def policies(r):
    def words(panel):
        kloc = best_kloc(r, panel)
        return f"{times(r, panel, kloc, 'naive')} naive on {panel} ({kloc})"
    return "KLOC, in its better reading, reaches " + ", ".join(map(words, r.panels))


def controls(r):
    def words(panel):
        return f"{panel} {number(r.only(panel, best_kloc(r, panel)) / r.only(panel, 'naive'))}"
    return ("KLOC, in its better reading, over naive: " + ", ".join(map(words, r.panels)) +
            "; the oracle " + times(r, "phases", "oracle", "naive") + " on phases")


def nodes(r):
    panel = next(iter(r.panels))
    return (f"After the tasks have moved, kloc_numa reaches "
            f"{times(r, panel, 'kloc_numa', 'autonuma')} autonuma on {panel}; all memory local "
            f"would reach {times(r, panel, 'all_local', 'autonuma')} that")


def ratio(r):
    def words(panel):
        kloc = max(KLOC, key=lambda name: r.last(panel, name))
        return f"{number(r.last(panel, kloc) / r.last(panel, 'naive'))} with {panel}"
    return ("At 8 times the bandwidth, KLOC's better reading over naive, the average of the "
            "workloads: " + ", ".join(map(words, r.panels)))


def kinds(r):
    def words(panel):
        rows = [series[0]["value"] for series in r.panels[panel].values()]
        return f"{panel} {number(rows[-1] / rows[0])}"
    return ("All kinds in the groups over none: " + ", ".join(map(words, r.panels)))


def overtakes(r, panel, name):
    """The first x from which on name is above naive."""
    xs = [row["x"] for row in r.of(panel, name)]
    below = [x for x in xs if r.at(panel, name, x) <= r.at(panel, "naive", x)]
    return next((x for x in xs if not below or x > below[-1]), None)


def reuse(r):
    def words(panel):
        x = min((x for x in (overtakes(r, panel, name) for name in KLOC) if x), default=None)
        return f"{panel} from {number(x)} reads on" if x else f"{panel} never"
    return ("KLOC, in its better reading, is above naive with " +
            ", ".join(words(panel) for panel in r.panels if panel.startswith("slow")))


def objects(r):
    panel = "bytes allocated: rocksdb"
    app = r.only(panel, "app")
    return (f"Of the bytes that RocksDB's shape allocates, {number(100 - app)} % are the "
            f"kernel's; of its references, {number(100 - r.only('references: rocksdb', 'app'))} %")


def slow(r):
    placed, moved = "frames placed in slow memory", "moved to slow memory"
    return (f"kloc places {number(r.only(placed, 'kloc'))} frames in slow memory, nimble++ "
            f"{number(r.only(placed, 'nimble++'))}, naive {number(r.only(placed, 'naive'))}; it "
            f"moves {number(r.only(moved, 'kloc'))} objects there, nimble++ "
            f"{number(r.only(moved, 'nimble++'))}")


def memory(r):
    panel = "the index alone"
    return (f"Grouping RocksDB's objects takes {number(r.only(panel, 'rocksdb'))} MB, "
            f"{number(r.only('the index, of fast memory', 'rocksdb'))} % of fast memory; the "
            f"paper says {number(r.panels[panel]['rocksdb'][0]['paper'])} MB")


def claims(r):
    rows = [row for panel in r.panels.values() for series in panel.values() for row in series]
    near = [row for row in rows if 0.8 <= row["value"] / row["paper"] <= 1.25]
    return f"{len(near)} of {len(rows)} numbers are within a quarter of the paper's"


TIER_VERDICTS = {
    "tier-claims": claims, "tier-controls": controls, "tier-kinds": kinds,
    "tier-memory": memory, "tier-nodes": nodes, "tier-objects": objects,
    "tier-policies": policies, "tier-ratio": ratio, "tier-reuse": reuse,
    "tier-slow": slow}
