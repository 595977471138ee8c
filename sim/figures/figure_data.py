# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The CSV files of `lodic-sim figure`, read."""

import csv

# Schemes that files have and tables leave out: one counts nothing, one is there to be copied
# (count_scheme_is_shown() in core/count/count.h).
HIDDEN = {"null", "template"}


class Figure:
    """One CSV file: what its head says, and its rows by panel and series."""

    def __init__(self, path):
        self.head, self.panels = {}, {}
        with open(path, newline="") as f:
            lines = f.read().splitlines()
        body = [line for line in lines if not line.startswith("# ")]
        for line in lines:
            if line.startswith("# "):
                key, _, value = line[2:].partition(": ")
                self.head.setdefault(key, value)
        self.name = lines[0][2:].partition(":")[0]
        for row in csv.DictReader(body):
            for key in ("x", "value", "low", "high"):
                row[key] = float(row[key])
            row["paper"] = float(row["paper"]) if row["paper"] else None
            self.panels.setdefault(row["panel"], {}).setdefault(row["series"],
                                                                []).append(row)

    @staticmethod
    def is_figure(path):
        """Is it one of ours, and not some other program's CSV?"""
        with open(path) as f:
            return "panel,series,x,unit,value,low,high,kind,paper" in f.read()

    @property
    def title(self):
        return self.head[self.name]

    @property
    def simulated(self):
        return self.head["simulated"] == "yes"

    def caption(self):
        how = (f"simulated on {self.head['topology']}, parameters {self.head['parameters']}, "
               f"seed {self.head['seed']}, bands over {self.head['machines']} machines"
               if self.simulated else "not simulated: draws and arithmetic")
        return (f"{self.head['paper']}; {how}. Modelled: {self.head['modelled']}. "
                f"Not modelled: {self.head['not modelled']}.")


def paper_anywhere(rows):
    """The paper's number, when it does not say at which x."""
    numbers = {row["paper"] for row in rows}
    if len(rows) > 2 and len(numbers) == 1 and all(row["kind"] == "consequence" for row in rows):
        return numbers.pop()
    return None
