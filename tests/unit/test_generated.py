#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""Generated mutants: a small C text has one of each kind, and each does what it says.

    test_generated.py SOURCE COMPILER...

Without tree-sitter, which tools/wheels.sh installs, it is skipped.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT, CC = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "check" / "generated"),
                os.environ.get("LODIC_WHEELS") or str(ROOT / "build" / "wheels")]

try:
    import report
    import run
    import text
    import tree
    import unit
except ImportError as error:
    if error.name not in ("tree_sitter", "tree_sitter_c"):
        raise
    print(f"{error}: run tools/wheels.sh where pip reaches a package index")
    sys.exit(77)

# Each host function says its first letters.
HOST = r"""
#include <stdio.h>
#include "check/generated/points.h"
#define CHECK(rule, name) do { if (!(rule)) putchar('!'); } while (0)
#define LIMIT 3
typedef unsigned long long u64;
static u64 host_load_acquire(const u64 *p) { printf("la "); return *p; }
static u64 host_load_relaxed(const u64 *p) { printf("lr "); return *p; }
static u64 host_load_dep(const u64 *p) { printf("ld "); return *p; }
static void host_store_release(u64 *p, u64 v) { printf("sr "); *p = v; }
static void host_store_relaxed(u64 *p, u64 v) { printf("sx "); *p = v; }
static void host_fence_acquire(void) { printf("fa "); }
static void host_fence_release(void) { printf("fr "); }
static void host_fence_full(void) { printf("ff "); }
static int host_fence_global(void) { printf("fg "); return 1; }
static void say(const char *what) { printf("%s ", what); }
"""
ORDER = r"""
static u64 order(u64 *p)
{
	u64 v = host_load_acquire(p);

	host_store_release(p, v);
	v = host_load_dep(p);
	host_fence_full();
	if (host_fence_global())
		return v;
	return v;
}
"""
LOGIC = r"""
static u64 logic(u64 a, u64 b, int c)
{
	CHECK(a <= b, "this rule has no mutants");
	if (a <= b && c)
		say("and");
	if (a == b || (c && b))
		say("or");
	while (a < LIMIT) {
		a++;
		if (c)
			break;
	}
	return a;
}

static void plain(u64 *p)
{
	p[0] = 5;
	p[1] = 6;
	say("end");
}

static int boolean(int few)
{
	return few ? few > 1 : true;
}

static void helper(void)
{
	say("only an oracle calls it");
}

static void some_check(void)
{
	helper();
}
"""
MAIN = r"""
int main(void)
{
	u64 words[2] = { 7, 0 }, a;

	printf("%llu | ", order(words));
	a = logic(1, 2, 1);
	printf("%llu ", a);
	a = logic(2, 2, 0);
	printf("%llu | ", a);
	plain(words);
	printf("%llu %llu | ", words[0], words[1]);
	printf("%d%d%d\n", boolean(0), boolean(1), boolean(2));
	if (0)
		some_check();
	return 0;
}
"""
GOOD = ("la sr ld ff fg 7", "and or 2 or 3", "end 5 6", "101")
IF_AND = 'if (a <= b && c) say("and");'
IF_OR = 'if (a == b || (c && b)) say("or");'
WHILE = "while (a < LIMIT) { a++; if (c) break; }"
# change: what one of the four parts becomes.
MUTANTS = {
    "host_load_acquire(p) becomes host_load_relaxed": (0, "lr sr ld ff fg 7"),
    "host_store_release(p, v) becomes host_store_relaxed": (0, "la sx ld ff fg 7"),
    "host_load_dep(p) becomes host_load_relaxed": (0, "la sr lr ff fg 7"),
    "host_fence_full() dropped": (0, "la sr ld fg 7"),
    "host_fence_full() becomes (host_fence_acquire(), host_fence_release())":
        (0, "la sr ld fa fr fg 7"),
    "host_fence_global() dropped": (0, "la sr ld ff 7"),
    "host_fence_global() becomes (host_fence_full(), true)": (0, "la sr ld ff ff 7"),
    "dropped: host_store_release(p, v);": (0, "la ld ff fg 7"),
    "dropped: v = host_load_dep(p);": (0, "la sr ff fg 7"),
    "dropped: return v;": (0, "la sr ld ff fg 7"),
    "negated: host_fence_global()": (0, "la sr ld ff fg 7"),
    "swapped: host_store_release(p, v); | v = host_load_dep(p);": (0, "la ld sr ff fg 7"),
    "swapped: v = host_load_dep(p); | host_fence_full();": (0, "la sr ff ld fg 7"),
    "swapped: host_fence_full(); | if (host_fence_global()) return v;": (0, "la sr ld fg 7"),
    "negated: a <= b && c": (1, "or 2 and or 3"),
    "comparison: a <= b with <": (1, "and or 2 or 3"),
    "operand dropped: a <= b of a <= b && c": (1, "and or 2 or 3"),
    "operand dropped: c of a <= b && c": (1, "and or 2 and or 3"),
    'dropped: say("and");': (1, "or 2 or 3"),
    "negated: a == b || (c && b)": (1, "and 2 3"),
    "operand dropped: a == b of a == b || (c && b)": (1, "and or 2 3"),
    "operand dropped: (c && b) of a == b || (c && b)":
        (1, "and 2 or 3"),
    "operand dropped: c of c && b": (1, "and or 2 or 3"),
    "operand dropped: b of c && b": (1, "and or 2 or 3"),
    'dropped: say("or");': (1, "and 2 3"),
    f"swapped: {IF_AND} | {IF_OR}": (1, "or and 2 or 3"),
    f"else if: {IF_OR} after {IF_AND}": (1, "and 2 or 3"),
    f"swapped: {IF_OR} | {WHILE}": (1, "and or 2 3"),
    f"dropped: {WHILE}": (1, "and or 1 or 2"),
    "negated: a < LIMIT": (1, "and or 1 or 2"),
    "comparison: a < LIMIT with <=": (1, "and or 2 or 4"),
    "off by one: LIMIT in a < LIMIT": (1, "and or 2 or 4"),
    "dropped: a++;": None,  # for ever
    "negated: c": (1, "and or 3 or 3"),
    "dropped: break;": (1, "and or 3 or 3"),
    "swapped: a++; | if (c) break;": (1, "and or 1 or 3"),
    "dropped: p[0] = 5;": (2, "end 7 6"),
    "dropped: p[1] = 6;": (2, "end 5 0"),
    "dropped: say(\"end\");": (2, "5 6"),
    "off by one: 0 in p[0] = 5": (2, "end 7 6"),
    "off by one: 5 in p[0] = 5": (2, "end 6 6"),
    "off by one: 1 in p[1] = 6": None,  # past the end
    "off by one: 6 in p[1] = 6": (2, "end 5 7"),
    "swapped: p[1] = 6; | say(\"end\");": (2, "end 5 6"),
    "moved: p[0] = 5; behind say(\"end\");": (2, "end 5 6"),
    "negated: few": (3, "011"),
    "comparison: few > 1 with >=": (3, "111"),
    "off by one: 1 in few ? few > 1 : true": (3, "100"),
    "negated: true in few ? few > 1 : true": (3, "001"),
}


FLOW = r"""
static int sum(const int *v, int nr)
{
	int all = 0;

	for (int i = 0; i < nr; i++)
		if (v[i] > 1)
			all += v[i];
	return all;
}

static void moves(int *v)
{
	v[0] = 1;
	v[1] = 2;
	if (v[2]) {
		v[3] = 4;
		return;
	}
#ifdef LIMIT
	say("some");
#endif
	v[1] = 3;
	if (v[0] == 1)
		v[0] = 5;
	if (v[0] == 5)
		v[1] += sum(v, 4);
	if (v[1])
		return;
	v[3] = 7;
}
"""
FLOW_MAIN = r"""
int main(void)
{
	int v[4] = { 0, 0, 0, 2 };

	moves(v);
	printf("%d %d %d\n", v[0], v[1], sum(v, 4));
	return 0;
}
"""
FLOW_GOOD = "some 5 13 20"
FLOW_MUTANTS = {
    "first match ends it: if (v[i] > 1) all += v[i];": "some 5 8 5",
    "else if: if (v[0] == 5) v[1] += sum(v, 4); after if (v[0] == 1) v[0] = 5;": "some 5 3 10",
    "else if: if (v[1]) return; after if (v[0] == 5) v[1] += sum(v, 4);": "some 5 13 25",
    "moved: v[1] = 3; behind if (v[0] == 5) v[1] += sum(v, 4);": "some 5 3 10",
}


class Built(unittest.TestCase):
    source, main = "", ""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="lodic-generated-")
        changed, cls.mutants, cls.unread = text.generate({"a.c": cls.source})
        source = pathlib.Path(cls.folder.name) / "a.c"
        cls.program = source.with_suffix("")
        source.write_text(HOST + changed["a.c"] + cls.main)
        subprocess.run([*CC, "-std=gnu11", "-O1", "-w", f"-I{ROOT}", "-o", cls.program, source,
                        ROOT / "check/generated/points.c"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def said(self, number):
        done = subprocess.run([self.program], stdout=subprocess.PIPE, check=True, timeout=60,
                              env={"LODIC_GENERATED": str(number)})
        return [part.strip() for part in done.stdout.decode().split("|")]


class Flow(Built):
    source, main = FLOW, FLOW_MAIN

    def test_no_mutant_changes_nothing(self):
        self.assertEqual(self.unread, [])
        self.assertEqual(self.said(0), [FLOW_GOOD])

    def test_each_mutant_does_what_it_says(self):
        there = {m.change: m.number for m in self.mutants if m.kind == "flow"}
        self.assertEqual(sorted(there), sorted(FLOW_MUTANTS))
        for change, said in FLOW_MUTANTS.items():
            with self.subTest(mutant=change):
                self.assertEqual(self.said(there[change]), [said])


class Units(Built):
    """The program is a unit test: it ends well without a mutant."""

    source = "static int two(void)\n{\n\treturn 2;\n}\n"
    main = "int main(void)\n{\n\treturn two() != 2;\n}\n"

    def test_catch_a_test_fails_tells_which(self):
        folder, name = pathlib.Path(self.folder.name), "below/a"
        (folder / "below").mkdir()
        (folder / name).symlink_to(self.program)
        units = unit.Units(folder, tree.Built(folder, self.program, [name], self.mutants, [], ""),
                           run.Program(self.program))
        units.look(1, lambda *_: mock.Mock())
        number = self.mutants[0].number
        self.assertEqual(units.names(number), [name])
        self.assertEqual(units.catch(number, 1)["what"], name)
        self.assertIsNone(units.catch(number + 1, 1))


class Generated(Built):
    source, main = ORDER + LOGIC, MAIN

    def test_no_mutant_changes_nothing(self):
        self.assertEqual(self.unread, [])
        self.assertEqual(self.said(0), list(GOOD))

    def test_each_change_is_there_once(self):
        self.assertEqual(sorted(m.change for m in self.mutants), sorted(MUTANTS))

    def test_each_mutant_does_what_it_says(self):
        for mutant in self.mutants:
            expected = MUTANTS.get(mutant.change)
            if expected is None:
                continue
            with self.subTest(mutant=mutant.change):
                parts = list(GOOD)
                parts[expected[0]] = expected[1]
                self.assertEqual(self.said(mutant.number), parts)


class Report(unittest.TestCase):
    """What the report makes of a journal and of the list of equivalent mutants."""

    mutants = [text.Mutant(n, "core/frame.c", 10 * n, "f", "logic", f"dropped: a{n};", 0)
               for n in range(1, 6)]
    names = [report.name_of(m) for m in mutants]

    def rows(self, equivalent):
        verdicts = {run.key_of(m): {"key": "", "state": "", "verdict": verdict} for m, verdict in
                    zip(self.mutants, ("caught", "escaped", "escaped"))}
        return list(report.rows_of(self.mutants, verdicts, {1, 2, 3, 4}, equivalent))

    def test_rows_of_each_mutant_has_one_verdict(self):
        rows = self.rows({self.names[1]: "nobody can see it"})
        self.assertEqual([row["verdict"] for row in rows],
                         ["caught", "equivalent", "open", "not run", "unreached"])

    def test_complaints_caught_or_unknown_entries_are_told(self):
        listed = {self.names[0]: "wrong", self.names[1]: "right",
                  ("core/block.h", "g", "dropped: x;", 0): "gone"}
        told = list(report.complaints(self.mutants, self.rows(listed), listed))
        self.assertEqual(len(told), 2)
        self.assertIn("core/block.h", told[0])
        self.assertIn("a1", told[1])

    def test_list_of_the_tree_is_read(self):
        entries = report.read_equivalent()
        self.assertTrue(entries)
        for file, function, _, _ in entries:
            text_of = (ROOT / file).read_text()
            self.assertRegex(text_of, rf"\b{function}\b", file)

    def test_entry_of_is_read_back(self):
        long = self.mutants[0]._replace(change="dropped: " + "some(words); " * 9 + "end();", nth=2)
        path = pathlib.Path(tempfile.mkdtemp(prefix="lodic-entry-")) / "list.toml"
        path.write_text(report.entry_of(long).replace('why = ""', 'why = "because"'))
        self.assertEqual(report.read_equivalent(path), {report.name_of(long): "because"})
        path.unlink()
        path.parent.rmdir()

    def test_first_bad_names_the_strongest_memory_and_how(self):
        good = {"violations": 0, "memory": "sc", "strategy": "random"}
        bad = {**good, "violations": 1, "memory": "tso", "what": "O5: something"}
        crashed = {**good, "violations": 1}
        stuck = {**bad, "what": "livelock: steps"}
        for rows, hung, expected in (
                ([good], False, None), ([good, bad], False, ("rule", "tso")),
                ([good, stuck], False, ("livelock", "tso")),
                ([crashed, bad], False, ("crash", "sc")), ([crashed], True, ("hang", "sc")),
                (None, False, ("crash", "-")), (None, True, ("hang", "-"))):
            found = run.first_bad(run.Ended(rows, 1.0, hung))
            self.assertEqual(found and (found["how"], found["memory"]), expected)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
