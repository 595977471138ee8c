#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The rules of sim/validate.py: each one is broken in a small sample, and must be named.

Usage: test_validate.py SOURCE
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv[1])
PYTHON = "/usr/bin/python3"
VALIDATE = SOURCE / "sim" / "validate.py"
SECONDS = 60
sys.path.insert(0, str(SOURCE / "sim"))
import validate_rows  # noqa: E402

HEAD = """\
# scaling: a sample
# paper: LODIC Fig. 14
# parameters: xeon-ex {hash}
# topology: 8x15
panel,series,x,unit,value,low,high,kind,paper,version,commit,parameters,seed
"""
LINES = ["one block,lodic,120,Mops/s,170,160,180,predicted,164.16",
         "one block,atomic,120,Mops/s,2.5,2.4,2.6,fitted,2.52554",
         "ratio to atomic,lodic,120,ratio,68,60,70,fitted,65",
         "one block,lodic,1,Mops/s,1.5,1.4,1.6,predicted,"]
ROWS = [
    {"id": "lodic", "source": "LODIC s.5.2.4", "figure": "scaling", "panel": "one block",
     "series": "lodic", "points": [[120, 164.16]], "unit": "Mops/s", "kind": "predicted"},
    {"id": "atomic", "source": "LODIC s.5.2.3", "figure": "scaling", "panel": "one block",
     "series": "atomic", "points": [[120, 2.52554]], "unit": "Mops/s", "kind": "fitted"},
    {"id": "speed-up", "source": "LODIC s.5.2.3", "figure": "scaling",
     "panel": "ratio to atomic", "series": "lodic", "points": [[120, 65]], "unit": "ratio",
     "kind": "fitted", "over": "atomic"}]


def toml_of(entry):
    """Numbers, strings and lists are the same in TOML as in JSON."""
    return "[[row]]\n" + "".join(f"{key} = {json.dumps(value)}\n"
                                 for key, value in entry.items())


def statements():
    """Those of the tree: the samples have no fault there."""
    text = (SOURCE / "sim" / "rows.toml").read_text()
    return text[text.index("\n[[statement]]\n"):]


class Sample(unittest.TestCase):
    def setUp(self):
        self.rows = [dict(row) for row in ROWS]
        self.lines = list(LINES)
        self.files = {}
        self.statements = statements()

    def run_rules(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            listed = folder / "rows.toml"
            listed.write_text("\n".join(map(toml_of, self.rows)) + "\n" +
                              self.statements)
            (folder / "scaling.csv").write_text(HEAD.format(hash="1234") +
                                                "\n".join(self.lines) + "\n")
            for file, text in self.files.items():
                (folder / file).write_text(text)
            return subprocess.run(
                [PYTHON, str(VALIDATE), "--check", "rows", "--rows", str(listed),
                 "--figures", str(folder)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, check=False, timeout=SECONDS)

    def refused(self, message):
        done = self.run_rules()
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"validate: {message}\n")

    def change(self, row, **more):
        self.rows[row] = {**self.rows[row], **more}


class Rules(Sample):
    def test_sample_as_it_is_passes(self):
        done = self.run_rules()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_row_listed_twice_is_refused(self):
        self.rows.append({**ROWS[0], "id": "again"})
        self.refused("row again: it has the place of row lodic")

    def test_id_listed_twice_is_refused(self):
        self.rows.append({**ROWS[0], "panel": "another", "pending": "x", "kind": "fitted"})
        self.refused("row lodic: it stands twice in the list")

    def test_number_counted_twice_is_refused(self):
        self.lines.append("threads,pte,1,Mops/s,170,160,180,predicted,164.16")
        self.rows.append({**ROWS[0], "id": "table3", "panel": "threads", "series": "pte",
                          "points": [[1, 164.16]]})
        self.refused("row table3: it is the number of row lodic, counted twice; one of them "
                     "needs same_as")
        self.change(3, same_as="lodic")
        self.assertEqual(self.run_rules().stderr, "")

    def test_same_as_another_number_is_refused(self):
        self.lines.append("threads,pte,2,Mops/s,60,50,70,predicted,58.87")
        self.rows.append({**ROWS[0], "id": "table3", "panel": "threads", "series": "pte",
                          "points": [[2, 58.87]], "same_as": "lodic"})
        self.refused("row table3: it is not the same number as lodic")

    def test_row_twice_in_csv_is_refused(self):
        self.lines.append(LINES[0])
        self.refused("row lodic: it stands 2 times in scaling.csv")

    def test_other_kind_in_csv_is_refused(self):
        self.lines[0] = LINES[0].replace("predicted", "explained")
        self.refused("row lodic: it is predicted in the list and explained in scaling.csv")

    def test_other_number_in_csv_is_refused(self):
        self.lines[0] = LINES[0].replace("164.16", "164.2")
        self.refused("row lodic: the paper says 164.16 in the list and 164.2 in scaling.csv")

    def test_missing_row_is_refused(self):
        del self.lines[0]
        self.refused("row lodic: scaling.csv has no such row (one block: lodic)")

    def test_unlisted_row_is_refused(self):
        self.lines[3] += "1.6"
        self.refused("row one block: lodic at 1: scaling.csv has it with a number of the paper, "
                     "and sim/rows.toml does not list it")

    def test_pending_row_that_csv_has_is_refused(self):
        self.change(0, pending="not yet")
        self.refused("row lodic: it is no longer pending: scaling.csv has it")

    def test_ratio_to_fitted_as_predicted_is_refused(self):
        self.lines[2] = LINES[2].replace("fitted", "predicted")
        self.change(2, kind="predicted")
        done = self.run_rules()
        self.assertEqual(done.returncode, 1)
        self.assertIn("validate: row speed-up: it is a ratio to atomic, which is fitted, so it "
                      "is fitted and not predicted\n", done.stderr)

    def test_ratio_that_hides_what_it_is_to_is_refused(self):
        self.lines[2] = LINES[2].replace("fitted", "predicted")
        del self.rows[2]["over"]
        self.change(2, kind="predicted", over_unlisted="something else")
        self.refused("row speed-up: it is a ratio to atomic, which is fitted there")

    def test_ratio_to_nothing_is_refused(self):
        self.lines[2] = LINES[2].replace("ratio to atomic", "mapped over not").replace(
            "fitted", "predicted")
        del self.rows[2]["over"]
        self.change(2, kind="predicted", panel="mapped over not")
        self.refused("row speed-up: it is a ratio, and does not say to what (over, "
                     "over_unlisted)")

    def test_explained_without_why_is_refused(self):
        self.lines[0] = LINES[0].replace("predicted", "explained")
        self.change(0, kind="explained")
        self.refused("row lodic: it is explained, and does not say why")

    def test_statement_that_is_not_listed_is_refused(self):
        self.statements = self.statements.replace('id = "lodic-scales"', 'id = "else"')
        done = self.run_rules()
        self.assertEqual((done.returncode, done.stderr), (
            1, "validate: statement else: sim/validate_claims.py does not ask it\n"
            "validate: statement lodic-scales: sim/rows.toml does not list it\n"))

    def test_figures_of_two_parameter_files_are_refused(self):
        self.files["weak.csv"] = HEAD.format(hash="5678").replace("scaling", "weak")
        self.refused("weak.csv and scaling.csv are of different texts of xeon-ex")


class Lists(unittest.TestCase):
    def test_lists_of_the_tree_keep_their_rules(self):
        done = subprocess.run([PYTHON, str(VALIDATE), "--check", "list"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              timeout=SECONDS)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_page_of_the_tree_has_the_rows_of_the_list(self):
        result = json.loads((SOURCE / "doc" / "validation.json").read_text())
        listed = validate_rows.read_list(SOURCE / "sim" / "rows.toml")
        self.assertEqual([(row["id"], row["kind"], row["paper"]) for row in result["rows"]],
                         [(row.id, row.kind, row.paper)
                          for row in validate_rows.rows_of(listed)])
        self.assertEqual([one["id"] for one in result["statements"]],
                         [one["id"] for one in listed["statement"]])
        self.assertTrue({row["kind"] for row in result["rows"]} <= set(validate_rows.KINDS))

    def test_parameter_that_differs_is_named(self):
        entry = {"name": "hit", "value": 2, "band": [1, 4]}

        fits = "low_hit = 10 70\nhigh_hit = 11 71\n"

        def wrong(text):
            return list(validate_rows.check_parameters({"parameter": [entry]}, text))
        self.assertEqual(wrong("hit = 2 # assumed, band 1..4: x\n" + fits), [])
        self.assertEqual(wrong("hit = 3 # band 1..4\n" + fits),
                         ["parameter hit: it is 3, and 2 in sim/parameters.toml"])
        self.assertEqual(wrong("hit = 2 # band 1..5\n" + fits),
                         ["parameter hit: its band in sim/parameters.toml is another one"])
        self.assertEqual(wrong(fits),
                         ["parameter hit: sim/parameters/xeon-ex does not have it"])
        self.assertEqual(wrong("hit = 2 # band 1..4\nhigh_hit = 11 71\n"),
                         ["parameter low_hit: sim/parameters/xeon-ex does not have it"])
        self.assertEqual(wrong("hit = 2 # band 1..4\nstore = 1\n" + fits),
                         ["parameter store: sim/parameters.toml does not list it"])


class Verdicts(unittest.TestCase):
    def test_verdict_by_band(self):
        for band, paper, verdict in (
                ((90, 100, 110), 105, "inside"), ((75, 100, 125), 76, "inside"),
                ((74, 100, 110), 100, "too wide to say"),
                ((90, 100, 126), 100, "too wide to say"),
                ((90, 100, 110), 220, "outside: 2.00 times too low"),
                ((90, 100, 110), 45, "outside: 2.00 times too high"),
                ((50, 100, 200), 400, "outside: 2.00 times too low")):
            self.assertEqual(validate_rows.verdict_of(*band, paper), verdict)

    def test_score_counts_predicted_rows_once(self):
        rows = validate_rows.rows_of({"row": [
            ROWS[0], ROWS[1], {**ROWS[0], "id": "again", "same_as": "lodic"},
            {**ROWS[0], "id": "later", "points": [[96, 10]], "pending": "not yet"}]})
        for row in rows[:3]:
            row.found = [{"low": 160, "value": 170, "high": 180}]
        score = validate_rows.score_of(rows)
        self.assertEqual((score["predicted"], score["inside"], score["pending"]), (1, 1, 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
