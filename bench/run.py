#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Runs the measurements of `make bench` and keeps what they say.

bench/results/pin.{json,csv} and memory.{json,csv} are kept in the repository; README's
numbers come from them. build/figures/pin.png: the picture of pin.csv.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"


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


def keep_memory_csv(result):
    rows = result["results"]
    with open(RESULTS / "memory.csv", "w", newline="") as f:
        machine = result["machine"]
        f.write(f"# {machine['cpu']}, {machine['cpus']} CPUs, {machine['kernel']}; "
                f"commit {result['commit']}; seed {result['seed']}; "
                f"cache {result['cache_bytes']} bytes\n")
        writer = csv.DictWriter(f, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def say_goals(result):
    for goal in result["goals"]:
        bound = "at_least" if "at_least" in goal else "at_most"
        value = goal["value"]
        shown = value if isinstance(value, str) else f"{value:.2f}"
        verdict = "" if goal.get("met", True) else "  MISSED"
        print(f"  {goal['what']:<48} {shown:>8}  "
              f"({bound.replace('_', ' ')} {goal[bound]:g}){verdict}")


def say_memory(result):
    for row in result["results"]:
        print(f"  {row['contexts']:>3} contexts: "
              f"{row['bytes_per_frame']:.1f} bytes/frame, "
              f"{row['bytes_per_context']} bytes/context, "
              f"{row['bytes_per_mapped_block']:.1f} bytes/mapped block")


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


def write_doc(pin, memory):
    """doc/measured.md: what README points to. bench/notes.md says what it means."""
    machine = pin["machine"]
    lines = ["<!-- SPDX-License-Identifier: GPL-2.0-only OR MIT -->",
             "<!-- Written by bench/run.py from bench/results/ and bench/notes.md. -->",
             "# Measured", "",
             f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['kernel']}; commit "
             f"{pin['commit']}; `make bench`. Methods alternate in one run; medians of "
             "undisturbed slots; spread is the interquartile range; a ratio is the median "
             "of the ratios of each round.", "",
             "## One hot block: wanted and measured", "",
             *doc_goals(pin["goals"]), "",
             *(ROOT / "bench" / "notes.md").read_text().splitlines()[1:], "",
             "## One hot block: all methods", "",
             *doc_hot(pin["results"]), "",
             "## Memory", "",
             *doc_memory(memory["results"]), "",
             "All accesses: bench/results/pin.csv; `make bench` draws it to "
             "build/figures/pin.png."]
    (ROOT / "doc" / "measured.md").write_text("\n".join(lines) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--build", default="build", help="where lodic was built")
    parser.add_argument("--rounds", default="100", help="rounds of `lodic bench pin`")
    parser.add_argument("--file", default="", help="the file to read")
    parser.add_argument("--no-plot", action="store_true", help="draw nothing")
    options = parser.parse_args()

    lodic = str(pathlib.Path(options.build) / "lodic")
    extra = ["--file", options.file] if options.file else []
    RESULTS.mkdir(parents=True, exist_ok=True)
    pin = keep("pin", measure([lodic, "bench", "pin", "--json",
                               "--rounds", options.rounds,
                               "--csv", "bench/results/pin.csv"] + extra))
    memory = keep("memory", measure([lodic, "bench", "memory", "--json"] + extra))
    keep_memory_csv(memory)
    write_doc(pin, memory)
    print("\none hot block, promised and measured:")
    say_goals(pin)
    print("\nmemory:")
    say_memory(memory)
    if not options.no_plot:
        figure = pathlib.Path(options.build) / "figures" / "pin.png"
        subprocess.run(["/usr/bin/python3", "bench/plot.py", "bench/results/pin.csv",
                        str(figure)], cwd=ROOT, check=True)
    print("\nresults in bench/results/ and doc/measured.md")


if __name__ == "__main__":
    main()
