#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs the measurements of `make bench` and keeps what they say.

bench/results/ keeps pin, memory, huge, count, kv, whole and peers, each as .json and .csv, and
count_user.json, counter.json and micro.json. The numbers in README and doc/measured.md come from
them, and from scale-16.csv, which bench/scale.py made on a larger machine. The pictures are
build/figures/pin.png, count.png and counter.png.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
# How a row came about: the last columns of each CSV file.
RUN_COLUMNS = ["version", "commit", "parameters", "seed"]
# Schemes that files have and tables leave out: one counts nothing, one is there to be copied.
HIDDEN = {"null", "template"}


def measure(command):
    """Runs command, which prints JSON; its progress goes to our stderr."""
    print("bench:", " ".join(command), flush=True)
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"bench: `{' '.join(command)}` failed with status {done.returncode}")
    return done.stdout.decode()


def keep(name, text):
    (RESULTS / f"{name}.json").write_text(text)
    return json.loads(text)


def measure_huge(lodic, build):
    return keep("huge", measure(["bench/huge.py", "--lodic", lodic, "--workdir", build,
                                 "--csv", "bench/results/huge.csv"]))


def keep_memory_csv(result):
    run = {name: result.get(name, "unknown") for name in RUN_COLUMNS}
    rows = [{**row, **run} for row in result["results"]]
    machine = result["machine"]
    facts = [f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['kernel']}",
             f"commit {result['commit']}", f"seed {result['seed']}",
             f"cache {result['cache_bytes']} bytes"]
    with open(RESULTS / "memory.csv", "w", newline="") as f:
        f.write(f"# {'; '.join(facts)}\n")
        writer = csv.DictWriter(f, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def say_goals(result):
    for goal in result["goals"]:
        bound = "at_least" if "at_least" in goal else "at_most"
        value = goal["value"]
        shown = value if isinstance(value, str) else f"{value:.2f}"
        verdict = "" if goal.get("met", True) else "  MISSED"
        print(f"  {goal['what']:<52} {shown:>8}  "
              f"({bound.replace('_', ' ')} {goal[bound]:g}){verdict}")


def say_memory(result):
    for row in result["results"]:
        print(f"  {row['contexts']:>3} contexts: "
              f"{row['bytes_per_frame']:.1f} bytes/frame, "
              f"{row['bytes_per_context']} bytes/context, "
              f"{row['bytes_per_mapped_block']:.1f} bytes/mapped block")


def say_peers(result):
    for row in result["results"]:
        if row["ns"] is not None:
            print(f"  {row['way']:<14} threads: {row['threads']} {short_ns(row['ns']):>6} ns")


def short_rate(mops):
    """None: not measurable."""
    return "n/m" if mops is None else f"{mops:.0f}" if mops >= 100 else f"{mops:.3g}"


def doc_scale(path, schemes=("private", "percpu", "hazard", "paygo", "refcache", "lodic",
                             "hybrid", "frozen", "atomic", "snzi")):
    """What bench/scale.py kept of a machine with many CPUs: one hot block, or object."""
    with open(path, newline="") as f:
        lines = list(f)
    comments = [line[2:].strip() for line in lines if line.startswith("#")]
    rows = [row for row in csv.DictReader(line for line in lines if line[0] != "#")
            if row["walk"] == "hot" and row["objects"] == "1" and row["mops"] and
            row["scheme"] not in HIDDEN]
    yield f"{comments[0].replace('; ', ', ')}."
    yield "`make bench-scale`, million a second of all CPUs."
    cpus = sorted({int(row["cpus"]) for row in rows})
    for title, source, workers, alone in (
            ("Pins of liblodic between processes", "pin", "processes", True),
            ("Counters alone, processes", "count", "processes", True),
            ("Counters alone, 16 threads of one user", "count", "threads", False)):
        chosen = {(row["scheme"], int(row["cpus"])): float(row["mops"]) for row in rows
                  if (row["source"], row["workers"], row["per_user"] == "1") ==
                  (source, workers, alone)}
        names = [name for name in dict.fromkeys(name for name, _ in chosen)
                 if source == "pin" or name in schemes]
        yield ""
        yield f"| {title} | {' | '.join(map(str, cpus))} |"
        yield "|---" * (len(cpus) + 1) + "|"
        for name in names:
            yield f"| {name} | {' | '.join(short_rate(chosen.get((name, n))) for n in cpus)} |"


def doc_goals(goals):
    yield "| ratio | measured | wanted | |"
    yield "|---|---|---|---|"
    for goal in goals:
        bound = "at_least" if "at_least" in goal else "at_most"
        value = goal["value"]
        shown = value if isinstance(value, str) else f"{value:.2f}"
        verdict = "met" if goal.get("met", True) else "**missed**"
        if isinstance(value, str):
            verdict = ""
        yield (f"| {goal['what']} | {shown} | {bound.replace('_', ' ')} {goal[bound]:g} "
               f"| {verdict} |")


def doc_hot(results):
    yield "| method | bytes | processes | 10^6/s | spread | ratio to lodic_pin | slots |"
    yield "|---|---|---|---|---|---|---|"
    for row in results:
        if row["access"] != "hot" or row["mops"] is None:
            continue
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.3g}"
        yield (f"| {row['method']} | {row['bytes']} | {row['processes']} | "
               f"{row['mops']:.4g} | {row['spread']:.2g} | {ratio} | {row['slots']} |")


def doc_memory(rows):
    yield "| contexts | bytes/frame | bytes/context | bytes/mapped block |"
    yield "|---|---|---|---|"
    for row in rows:
        yield (f"| {row['contexts']} | {row['bytes_per_frame']:.1f} | "
               f"{row['bytes_per_context']} | {row['bytes_per_mapped_block']:.1f} |")


def doc_huge(huge):
    machine = huge["machine"]
    yield f"{machine['cpu']}, {machine['cpus']} CPUs. `bench/huge.py`: random blocks, a cache of"
    yield (f"{huge['cache_bytes'] >> 20} MiB, {huge['pairs']} pairs of runs. The ratio is huge "
           "pages over small ones,")
    yield "the median over the pairs."
    yield ""
    yield "| method | bytes | processes | huge, 10^6/s | small, 10^6/s | ratio | spread |"
    yield "|---|---|---|---|---|---|---|"
    for row in huge["results"]:
        yield (f"| {row['method']} | {row['bytes']} | {row['processes']} | "
               f"{row['huge_mops']:.4g} | {row['small_mops']:.4g} | {row['ratio']:.2f} | "
               f"{row['spread']:.2f} |")


def visible(rows):
    return [row for row in rows if row["scheme"] not in HIDDEN]


def short_ns(ns):
    return f"{ns:.1f}" if ns < 100 else f"{ns:.0f}"


def count_column(row):
    return row["walk"] if row["objects"] == 1 else f"{row['walk']} {row['objects']}"


def in_order(values):
    """Each value once, in the order in which the values first came."""
    return list(dict.fromkeys(values))


def shown_cell(row):
    """ns, and in brackets the ratio, as far as the run could measure them."""
    if row is None or row["ns"] is None:
        return ""
    if row["ratio"] is None:
        return short_ns(row["ns"])
    return f"{short_ns(row['ns'])} ({row['ratio']:.3g})"


def doc_count(results, cpus):
    """Schemes down, walks across."""
    rows = [row for row in visible(results) if row["cpus"] == cpus]
    columns = in_order(count_column(row) for row in rows)
    cells = {(row["scheme"], count_column(row)): row for row in rows}
    yield "| scheme | " + " | ".join(columns) + " |"
    yield "|---|" + "---|" * len(columns)
    for scheme in in_order(row["scheme"] for row in rows):
        shown = [shown_cell(cells.get((scheme, column))) for column in columns]
        yield f"| {scheme} | " + " | ".join(shown) + " |"


def doc_costs(costs):
    most = max(row["objects"] for row in costs)
    yield f"| scheme | per object | per CPU | per user | taken with {most} objects |"
    yield "|---|---|---|---|---|"
    for row in visible(costs):
        if row["objects"] == most:
            yield (f"| {row['scheme']} | {row['object_bytes']} | {row['cpu_bytes']} | "
                   f"{row['user_bytes']} | {row['taken_bytes']} |")


def doc_user(count, user):
    """Two threads, each a user of its own, and both of one user."""
    cpus = user["results"][0]["cpus"]
    own = {row["scheme"]: row for row in count["results"]
           if row["walk"] == "hot" and row["cpus"] == cpus}
    yield "| scheme | each a user of its own | all of one user |"
    yield "|---|---|---|"
    for row in visible(user["results"]):
        yield (f"| {row['scheme']} | {shown_cell(own.get(row['scheme']))} | "
               f"{shown_cell(row)} |")


def doc_micro(micro):
    yield "| step | CPUs | ns | spread | |"
    yield "|---|---|---|---|---|"
    for row in micro["results"]:
        if row["ns"] is not None and not row["promise"]:
            yield (f"| {row['name']} | {row['cpus']} | {row['ns']:.3g} | "
                   f"{row['spread']:.2g} | {row['what']} |")
    yield ""
    for row in micro["ratios"]:
        if row["ratio"] is not None:
            yield (f"- {row['name']} costs {row['ratio']:.2f} of {row['over']}, CPUs: "
                   f"{row['cpus']} (spread {row['spread']:.2g})")
    for row in micro.get("gains", []):
        if row["ratio"] is not None:
            yield (f"- 2 CPUs do {row['ratio']:.2f} times as many steps of {row['name']} as 1 "
                   f"(spread {row['spread']:.2g})")


def doc_promises(micro):
    """Each row has the promises of the rows above as well."""
    yield "| promise | ns | more | |"
    yield "|---|---|---|---|"
    before = {}
    for row in micro["results"]:
        if not row["promise"] or row["cpus"] != 1 or row["ns"] is None:
            continue
        # Both kinds of pins are compared with the same read.
        over = before.get("counted" if row["name"] == "locked" else "last")
        more = "" if over is None else figure(row["ns"] - over, 1)
        yield f"| {row['name']} | {figure(row['ns'], 1)} | {more} | {row['what']} |"
        before["last"] = before[row["name"]] = row["ns"]


def figure(value, digits=2):
    return "" if value is None else f"{value:.{digits}f}"


def machine_of(result):
    return f"{result['machine']['cpu']}, commit {result['commit']}"


def doc_kv(kv):
    """One table for each setting."""
    yield f"`bench_kv`, {machine_of(kv)}:"
    yield from textwrap.wrap(f"{kv['parameters']}.", 95)
    for setting in in_order(row["setting"] for row in kv["results"]):
        rows = [row for row in kv["results"] if row["setting"] == setting]
        cold = setting == "cold"
        yield from ["", f"### {setting}: a cache of {rows[0]['cache_bytes'] >> 20} MiB", ""]
        yield ("| keys | method | 10^6 gets/CPU s | spread | over pread | over mmap "
               "| service | copied |" + (" kernel reads a block |" if cold else ""))
        yield "|---|---|---|---|---|---|---|---|" + ("---|" if cold else "")
        for row in rows:
            copied = sum(value for key, value in row.items() if key.startswith("copied_"))
            share = row["service_share"] or 0
            yield (f"| {row['keys']} | {row['method']} | {figure(row['mgets'])} "
                   f"| {figure(row['spread'])} | {figure(row['over_pread'])} "
                   f"| {figure(row['over_mmap'])} | {100 * share:.0f} % "
                   f"| {100 * copied:.0f} % |"
                   + (f" {figure(row['kernel_reads'])} |" if cold else ""))
    yield from ["", *doc_goals(kv["goals"])]


def doc_whole(hold):
    """One table for each size."""
    yield f"`bench_whole`, {machine_of(hold)}:"
    yield from textwrap.wrap(f"{hold['parameters']}. The service read {hold['holds_read']} "
                             f"ranges; {hold['huge_percent']} % of the largest hold lay in "
                             "huge pages.", 95)
    for size in in_order(row["bytes"] for row in hold["results"]):
        name = f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
        yield from ["", f"### A file of {name}", ""]
        yield ("| start | processes | way | first us | last ms | random ns | again us "
               "| memory MiB |")
        yield "|---|---|---|---|---|---|---|---|"
        rows = [row for row in hold["results"] if row["bytes"] == size]
        for row in sorted(rows, key=lambda row: (row["start"], row["processes"])):
            yield (f"| {row['start']} | {row['processes']} | {row['way']} "
                   f"| {figure(row['first_us'], 1)} | {figure(row['last_us'] / 1e3)} "
                   f"| {figure(row['random_ns'], 1)} | {figure(row.get('again_us'), 1)} "
                   f"| {figure(row['memory_bytes'] / (1 << 20), 1)} |")
    yield from ["", *doc_goals(hold["goals"])]


def doc_peers(peers):
    yield f"`bench_peers`, {machine_of(peers)}:"
    yield from textwrap.wrap(f"{peers['parameters']}. ns on each thread.", 95)
    yield ""
    yield "| way | threads | ns | spread | lodic_pin's rate over this one's | slots |"
    yield "|---|---|---|---|---|---|"
    for row in peers["results"]:
        yield (f"| {row['way']} | {row['threads']} | {figure(row['ns'], 1)} "
               f"| {figure(row['spread'], 1)} | {figure(row['ratio'])} | {row['slots']} |")


def doc_counting(count, user, micro, notes):
    """The schemes of core/, by themselves."""
    yield "## Counting: every scheme"
    yield ""
    yield from [
        f"`bench_count`, {count['rounds']} rounds. Nanoseconds for a ref and an unref on one",
        "CPU; in brackets the rate over `atomic`'s, all CPUs together. hot: one object; round,",
        "random N: over N objects. bench/results/count.csv has two schemes more, "
        f"{' and '.join(sorted(HIDDEN))}."]
    for cpus in in_order(row["cpus"] for row in count["results"]):
        yield from ["", f"### CPUs: {cpus}", "", *doc_count(count["results"], cpus)]
    yield from ["", f"### Threads of one user: hot, CPUs: {user['results'][0]['cpus']}", "",
                *doc_user(count, user)]
    yield from ["", "### Bytes", "", *doc_costs(count["costs"]), "", *notes["Counting"], ""]
    yield from ["## Steps that counting is made of", "", *doc_micro(micro), "",
                *notes["Steps"]]


def read_notes():
    """bench/notes.md: heading -> lines."""
    notes, at = {}, []
    for line in (ROOT / "bench" / "notes.md").read_text().splitlines():
        if line.startswith("## "):
            at = notes[line[3:]] = []
        elif at or line:
            at.append(line)
    return {name: "\n".join(lines).strip().splitlines() for name, lines in notes.items()}


def write_doc(pin, memory, huge, kv, hold, peers, count, user, micro):
    """doc/measured.md: README points to it. bench/notes.md says what its numbers mean."""
    machine = pin["machine"]
    notes = read_notes()
    lines = ["<!-- SPDX-License-Identifier: GPL-2.0-only OR MIT -->",
             "<!-- Written by bench/run.py from bench/results/ and bench/notes.md. -->",
             "# Measured", "",
             f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['kernel']}.",
             f"`make bench` at commit {pin['commit']}. Methods alternate in one run, and numbers",
             "are medians of undisturbed slots. The spread is the interquartile range. A ratio",
             "is the median of the ratios of each round.", "",
             "## One hot block: wanted and measured", "",
             *doc_goals(pin["goals"]), "",
             *notes["One hot block"], "",
             "## One hot block: all methods", "",
             *doc_hot(pin["results"]), "",
             "## From 1 to 16 CPUs", "",
             *doc_scale(RESULTS / "scale-16.csv"), "", *notes["16 CPUs"], "",
             "## Memory", "",
             *doc_memory(memory["results"]), "",
             "All accesses: bench/results/pin.csv; `make bench` draws them to "
             "build/figures/pin.png.", "",
             "## Huge pages", "",
             *doc_huge(huge), "",
             *notes["Huge pages"], "",
             "## The service's own work", "",
             *notes["The service"], "",
             "## A key-value reader", "",
             *doc_kv(kv), "", *notes["A key-value reader"], "",
             "## Whole files as one range", "",
             *doc_whole(hold), "", *notes["Holds"], "",
             "## Beside RocksDB's caches", "",
             *doc_peers(peers), "", *notes["RocksDB"], "",
             "## What each promise costs", "",
             f"`bench_micro`, {machine_of(micro)}: one hot block, 64 bytes of it,",
             "on one CPU. Each row has the promises of the rows above it as well.", "",
             *doc_promises(micro), "", *notes["Promises"], "",
             *doc_counting(count, user, micro, notes), "",
             "All rows: bench/results/count.csv and micro.json; `make bench` draws "
             "build/figures/count.png."]
    (ROOT / "doc" / "measured.md").write_text("\n".join(lines) + "\n")


def say_count(count):
    """The hot object alone; the rest is in the document."""
    for row in visible(count["results"]):
        if row["walk"] == "hot" and row["ns"] is not None:
            ratio = "" if row["ratio"] is None else f"{row['ratio']:6.2f} of atomic's rate"
            print(f"  CPUs: {row['cpus']:<3} {row['scheme']:<12} "
                  f"{short_ns(row['ns']):>7} ns {ratio}")


def plot(name, build, kind="csv"):
    subprocess.run(["/usr/bin/python3", "bench/plot.py", f"bench/results/{name}.{kind}",
                    str(pathlib.Path(build) / "figures" / f"{name}.png")], cwd=ROOT,
                   check=True)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build", help="where lodic was built")
    parser.add_argument("--rounds", default="100",
                        help="rounds of `lodic bench pin` (default: 100)")
    parser.add_argument("--count-rounds", default="60",
                        help="rounds of bench_count, bench_micro and bench_peers "
                             "(default: 60)")
    parser.add_argument("--kv-rounds", default="15", help="rounds of bench_kv (default: 15)")
    parser.add_argument("--file", default="", help="the file to read")
    parser.add_argument("--no-plot", action="store_true", help="draw nothing")
    parser.add_argument("--only", action="append", metavar="NAME",
                        choices=list(MEASUREMENTS),
                        help="measure only this, and keep what bench/results/ says of the "
                             "others; may be given again")
    parser.add_argument("--document", action="store_true",
                        help="measure nothing: write doc/measured.md from bench/results/")
    return parser.parse_args()


def measure_pin(options):
    lodic = str(pathlib.Path(options.build) / "lodic")
    extra = ["--file", options.file] if options.file else []
    return keep("pin", measure([lodic, "bench", "pin", "--json", "--rounds", options.rounds,
                                "--csv", "bench/results/pin.csv"] + extra))


def measure_memory(options):
    lodic = str(pathlib.Path(options.build) / "lodic")
    extra = ["--file", options.file] if options.file else []
    memory = keep("memory", measure([lodic, "bench", "memory", "--json"] + extra))
    keep_memory_csv(memory)
    return memory


def measure_program(name, options, *arguments, result=None):
    """One of bench/'s own programs."""
    program = str(pathlib.Path(options.build) / "bench" / f"bench_{name}")
    return keep(result or name, measure([program, "--json", *arguments]))


def csv_of(name):
    return ["--csv", f"bench/results/{name}.csv"]


def measure_user(options):
    # If a scheme counts by process, threads of one process share its words.
    cpus = str(min(2, json.loads((RESULTS / "count.json").read_text())["machine"]["cpus"]))
    return measure_program("count", options, "--walk", "hot", "--objects", "1", "--cpus", cpus,
                           "--per-user", cpus, "--rounds", options.count_rounds,
                           result="count_user")


def measure_counter(options):
    lodic = str(pathlib.Path(options.build) / "lodic")
    return keep("counter", measure([lodic, "bench", "counter", "--json", "--crowd", "2000",
                                    "--rounds", options.count_rounds]))


def say_counter(counter):
    for goal in counter["goals"]:
        bound = "at most" if goal["at_most"] else "at least"
        value = "-" if goal["value"] is None else f"{goal['value']:.2f}"
        print(f"  {goal['name']:44} {value:>6}  ({bound} {goal['bound']:.2f})  {goal['verdict']}")


# In the order in which they run.
MEASUREMENTS = {
    "pin": measure_pin,
    "memory": measure_memory,
    "huge": lambda o: measure_huge(str(pathlib.Path(o.build) / "lodic"), o.build),
    "count": lambda o: measure_program("count", o, "--rounds", o.count_rounds,
                                       *csv_of("count")),
    "count_user": measure_user,
    "micro": lambda o: measure_program("micro", o, "--rounds", o.count_rounds),
    "counter": measure_counter,
    "kv": lambda o: measure_program("kv", o, "--rounds", o.kv_rounds, *csv_of("kv")),
    "whole": lambda o: measure_program("whole", o, *csv_of("whole")),
    "peers": lambda o: measure_program("peers", o, "--rounds", o.count_rounds,
                                       *csv_of("peers")),
}


def say_all(results):
    print("\none hot block, what is promised and what was measured:")
    say_goals(results["pin"])
    print("\na key-value reader, gets in a second of CPU time:")
    say_goals(results["kv"])
    print("\nwhole files as one range:")
    say_goals(results["whole"])
    print("\na hot entry beside RocksDB's caches:")
    say_peers(results["peers"])
    print("\nmemory:")
    say_memory(results["memory"])
    print("\na ref and an unref of one hot object:")
    say_count(results["count"])
    print("\na get and a put of a program's own object:")
    say_counter(results["counter"])


def main():
    options = parse_options()
    wanted = [] if options.document else options.only or list(MEASUREMENTS)
    RESULTS.mkdir(parents=True, exist_ok=True)
    results = {}
    for name, run in MEASUREMENTS.items():
        results[name] = (run(options) if name in wanted
                         else json.loads((RESULTS / f"{name}.json").read_text()))
    write_doc(*(results[name] for name in ("pin", "memory", "huge", "kv", "whole", "peers",
                                           "count", "count_user", "micro")))
    if options.document:
        return
    say_all(results)
    if not options.no_plot:
        plot("pin", options.build)
        plot("count", options.build)
        plot("counter", options.build, "json")
    print("\nresults in bench/results/ and doc/measured.md")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
