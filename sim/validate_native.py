# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The steps of bench_micro on this machine, native against simulated."""

import pathlib
import re

from validate_rows import number

ROOT = pathlib.Path(__file__).resolve().parent.parent

STEPS = {
    "fetch_add": "fetch-add on one word",
    "cas": "load and compare-and-swap on one word, until done",
    "ping_pong": "a word handed over by load and store, one way",
    "ping_pong_cas": "a word handed over by compare-and-swap, one way",
    "pin": "a ref and an unref of lodic"}


def factor_words(factor):
    if 0.8 <= factor <= 1.25:
        return "agrees within a quarter"
    how = factor if factor > 1 else 1 / factor
    return f"the model is {how:.1f} times too {'slow' if factor > 1 else 'fast'}"


def native_rows(native, simulated):
    theirs = {(row["name"], row["cpus"]): row for row in native["results"]}
    for row in simulated["results"]:
        real = theirs.get((row["name"], row["cpus"]))
        if real and real["ns"]:
            yield row, real, row["ns"] / real["ns"]


def measured_here(topology):
    """Names of the parameters whose source is a measurement on this machine."""
    folder = ROOT / "sim"
    text = (folder / "topologies" / topology).read_text()
    name = re.search(r"^parameters *= *(\S+)", text, re.MULTILINE)[1]
    lines = (folder / "parameters" / name).read_text().splitlines()
    return [line.split("=")[0].strip() for line in lines
            if "# measured" in line and "=" in line.split("#")[0]]


def section(native, simulated):
    machine = native.get("machine", {})
    yield "## 3. This machine, native and simulated"
    yield ""
    yield (f"Native: {machine.get('cpu', 'this machine')}, "
           f"{machine.get('cpus', '?')} CPUs, a virtual machine with neighbours; "
           "`bench_micro --json`. Simulated: `lodic-sim micro`, topology "
           f"{simulated['topology']}, parameters {simulated['parameters']}. The numbers are "
           "ns of one step on one CPU. For ping-pong they are ns of one way.")
    yield ""
    yield "| step | CPUs | native | spread | simulated | band | simulated / native | |"
    yield "|---|---|---|---|---|---|---|---|"
    factors = []
    for row, real, factor in native_rows(native, simulated):
        factors.append(factor)
        yield (f"| {STEPS.get(row['name'], row['name'])} | {row['cpus']} "
               f"| {number(real['ns'])} | {number(real['spread'])} | {number(row['ns'])} "
               f"| {number(row['low'])} .. {number(row['high'])} | {factor:.2f} "
               f"| {factor_words(factor)} |")
    yield ""
    if not factors:
        yield "No step was measured on both sides."
        return
    inputs = measured_here(simulated["topology"])
    if inputs:
        yield (f"These parameters were themselves measured on this machine: "
               f"{', '.join(inputs)}. Some rows follow from one of them alone: the "
               "hand-overs, and those of one CPU. Such a row says how well two measurements "
               "agree, not how good the model is.")
        yield ""
    yield (f"The factors go from {min(factors):.2f} to {max(factors):.2f}. No parameter was "
           "chosen to make this table come out. A factor far from 1 means that the model is "
           "wrong for this processor by that factor. A figure that rests on that step is no "
           "better.")
    yield ""
    yield ("A virtual machine's CPUs may share a cache now and not an hour later. The "
           "parameters come from such a machine. In most runs a hand-over by "
           "compare-and-swap took 26 to 29 ns there, and about 110 in others, steadily "
           "within a run. A contended addition took the same in both. The parameters are "
           "those of the near pair.")
    yield from native_words(native)


def native_words(native):
    """Why two CPUs on one word can be slower in the model than on the machine."""
    theirs = {(row["name"], row["cpus"]): row["ns"] for row in native["results"]}
    alone, add = theirs.get(("fetch_add", 1)), theirs.get(("fetch_add", 2))
    hand_over = theirs.get(("ping_pong_cas", 2))
    # Both CPUs together make an addition each add / 2; what is over the addition itself is
    # an addition's share of a hand-over.
    if not alone or not add or not hand_over or add / 2 <= alone:
        return
    yield ""
    yield (f"Natively, two CPUs that add to one word make an addition every "
           f"{number(add / 2)} ns. The addition itself takes {number(alone)} ns of it, and a "
           f"hand-over takes {number(hand_over)} ns. So the CPU that has the line makes "
           f"about {hand_over / (add / 2 - alone):.0f} additions before it lets the line go. "
           "The model's owner keeps a line for its hold time only. Every figure that reads "
           "blocks has other work between two additions, so there the owner has no second "
           "addition to make.")
