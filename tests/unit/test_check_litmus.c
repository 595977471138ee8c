/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Litmus tests of the checker's memories: small programs, each with one outcome, and the memories
 * in which it may come out. What may must be met, and what may not must never be. The names are
 * those of the literature (Alglave et al., TOPLAS'14). doc/check.md explains the table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/support/axioms.h"

#define SEED 1u
#define SCHEDULES 6000u /* of each strategy */

/* A task is a row of steps, as tests/support/litmus.h has them. */
static const struct litmus {
	const char *name;
	const char *may; /* y or n: sc, tso, pso, weak */
	const char *outcome;
	bool one_cpu;
	const char *tasks[LITMUS_TASKS];
} table[] = {
	/* A store, and a load after it. */
	{ "SB", "nyyy", "r0=0 r1=0", 0, { "x=1; r0=y", "y=1; r1=x" } },
	{ "SB, released and acquired", "nyyy", "r0=0 r1=0", 0,
	  { "x=1 release; r0=y acquire", "y=1 release; r1=x acquire" } },
	{ "SB, full fences", "nnnn", "r0=0 r1=0", 0,
	  { "x=1; full; r0=y", "y=1; full; r1=x" } },
	{ "SB, one full fence", "nyyy", "r0=0 r1=0", 0, { "x=1; full; r0=y", "y=1; r1=x" } },
	{ "SB, RMWs", "nnnn", "r0=0 r1=0", 0, { "x+=1; r0=y", "y+=1; r1=x" } },
	{ "SB, a cas that fails", "nyyy", "r0=0 r1=0", 0,
	  { "x=1; r2=z?1; r0=y", "y=1; full; r1=x" } },
	{ "SB, light and heavy", "nnnn", "r0=0 r1=0", 0,
	  { "x=1; light; r0=y", "y=1; heavy; r1=x" } },
	{ "SB, heavy alone", "nnyy", "r0=0 r1=0", 0, { "x=1; r0=y", "y=1; heavy; r1=x" } },
	{ "SB, light alone", "nyyy", "r0=0 r1=0", 0,
	  { "x=1; light; r0=y", "y=1; light; r1=x" } },
	{ "SB, one CPU", "nnnn", "r0=0 r1=0", 1, { "x=1; r0=y", "y=1; r1=x" } },
	{ "R", "nyyy", "r0=0 y=2", 0, { "x=1; y=1", "y=2; r0=x" } },
	{ "R, full fences", "nnnn", "r0=0 y=2", 0, { "x=1; full; y=1", "y=2; full; r0=x" } },
	/* Two stores, and two loads. */
	{ "MP", "nnyy", "r0=1 r1=0", 0, { "x=1; y=1", "r0=y; r1=x" } },
	{ "MP, released", "nnny", "r0=1 r1=0", 0, { "x=1; y=1 release", "r0=y; r1=x" } },
	{ "MP, acquired", "nnyy", "r0=1 r1=0", 0, { "x=1; y=1", "r0=y acquire; r1=x" } },
	{ "MP, released and acquired", "nnnn", "r0=1 r1=0", 0,
	  { "x=1; y=1 release", "r0=y acquire; r1=x" } },
	{ "MP, released and dependent", "nnnn", "r0=1 r1=0", 0,
	  { "x=1; y=1 release", "r0=y; r1=x dep" } },
	{ "MP, the first load dependent", "nnny", "r0=1 r1=0", 0,
	  { "x=1; y=1 release", "r0=y dep; r1=x" } },
	{ "MP, release and acquire fences", "nnnn", "r0=1 r1=0", 0,
	  { "x=1; release; y=1", "r0=y; acquire; r1=x" } },
	{ "MP, a release fence alone", "nnny", "r0=1 r1=0", 0,
	  { "x=1; release; y=1", "r0=y; r1=x" } },
	{ "MP, an acquire fence alone", "nnyy", "r0=1 r1=0", 0,
	  { "x=1; y=1", "r0=y; acquire; r1=x" } },
	{ "MP, a release fence too early", "nnyy", "r0=1 r1=0", 0,
	  { "release; x=1; y=1", "r0=y acquire; r1=x" } },
	{ "MP, an acquire fence too early", "nnny", "r0=1 r1=0", 0,
	  { "x=1; y=1 release", "acquire; r0=y; r1=x" } },
	{ "MP, the first store released", "nnyy", "r0=1 r1=0", 0,
	  { "x=1 release; y=1", "r0=y acquire; r1=x" } },
	{ "MP, light fences", "nnyy", "r0=1 r1=0", 0,
	  { "x=1; light; y=1", "r0=y acquire; light; r1=x" } },
	{ "MP, released by an RMW", "nnnn", "r0=1 r1=0", 0, { "x=1; y+=1", "r0=y acquire; r1=x" } },
	{ "MP, acquired by a cas", "nnnn", "r0=1 r1=0", 0, { "x=1; y=1 release", "r0=y?1; r1=x" } },
	{ "MP, a release sequence", "nnnn", "r0=2 r1=0", 0,
	  { "x=1; y=1 release", "y+=1", "r0=y acquire; r1=x" } },
	{ "MP, a release sequence of stores", "nnnn", "r0=2 r1=0", 0,
	  { "x=1; y=1 release; y=2", "r0=y acquire; r1=x" } },
	{ "MP, a release sequence around an RMW", "nnnn", "r2=1 y=3 r0=3 r1=0", 0,
	  { "x=1; y=1 release; y=3", "r2=y+1", "r0=y acquire; r1=x" } },
	{ "MP, a release sequence around a store", "nnnn", "r0=3 r1=0", 0,
	  { "x=1; y=1 release; y=3", "y=2", "r0=y acquire; r1=x" } },
	{ "MP, a release sequence broken", "nnyy", "r2=1 r0=3 r1=0", 0,
	  { "x=1; y=1 release; z=1", "r2=z acquire; y=3", "r0=y acquire; r1=x" } },
	{ "MP, a cas fails on an old value", "nnny", "r0=1 r1=0", 0,
	  { "x=1; y=1 release", "r0=y; r1=x?1" } },
	{ "MP, a cas after an acquire", "nnnn", "r0=1 r1=0", 0,
	  { "x=1; y=1 release", "r0=y acquire; r1=x?1" } },
	/* A load, and a store after it: no memory here lets a store go before a load. */
	{ "LB", "nnnn", "r0=1 r1=1", 0, { "r0=x; y=1", "r1=y; x=1" } },
	{ "S", "nnyy", "r0=1 x=2", 0, { "x=2; y=1", "r0=y; x=1" } },
	{ "S, released", "nnnn", "r0=1 x=2", 0, { "x=2; y=1 release", "r0=y; x=1" } },
	/* Three and four tasks. */
	{ "WRC", "nnny", "r0=1 r1=1 r2=0", 0, { "x=1", "r0=x; y=1", "r1=y; r2=x" } },
	{ "WRC, released and acquired", "nnnn", "r0=1 r1=1 r2=0", 0,
	  { "x=1", "r0=x; y=1 release", "r1=y acquire; r2=x" } },
	{ "WRC, an RMW reads first", "nnny", "r0=1 r1=1 r2=0", 0,
	  { "x=1", "r0=x+1; y=1", "r1=y; r2=x" } },
	{ "ISA2", "nnyy", "r0=1 r1=1 r2=0", 0, { "x=1; y=1", "r0=y; z=1", "r1=z; r2=x" } },
	{ "ISA2, released and acquired", "nnnn", "r0=1 r1=1 r2=0", 0,
	  { "x=1; y=1 release", "r0=y acquire; z=1 release", "r1=z acquire; r2=x" } },
	{ "IRIW", "nnny", "r0=1 r1=0 r2=1 r3=0", 0, { "x=1", "y=1", "r0=x; r1=y", "r2=y; r3=x" } },
	{ "IRIW, acquired", "nnny", "r0=1 r1=0 r2=1 r3=0", 0,
	  { "x=1", "y=1", "r0=x acquire; r1=y acquire", "r2=y acquire; r3=x acquire" } },
	{ "IRIW, full fences", "nnnn", "r0=1 r1=0 r2=1 r3=0", 0,
	  { "x=1", "y=1", "r0=x; full; r1=y", "r2=y; full; r3=x" } },
	/* Stores alone. */
	{ "2+2W", "nnyy", "x=1 y=1", 0, { "x=1; y=2", "y=1; x=2" } },
	{ "2+2W, released", "nnnn", "x=1 y=1", 0, { "x=1; y=2 release", "y=1; x=2 release" } },
	/* Coherence: one word. */
	{ "CoRR", "nnnn", "r0=1 r1=0", 0, { "x=1", "r0=x; r1=x" } },
	{ "CoRR, two values", "nnnn", "r0=2 r1=1", 0, { "x=1; x=2", "r0=x; r1=x" } },
	{ "CoRR, two readers", "nnnn", "r0=1 r1=2 r2=2 r3=1", 0,
	  { "x=1", "x=2", "r0=x; r1=x", "r2=x; r3=x" } },
	{ "CoWR", "nnnn", "r0=0", 0, { "x=1; r0=x", "x=2" } },
	{ "CoWR, overwritten", "nnnn", "r0=2 x=1", 0, { "x=1; r0=x", "x=2" } },
	{ "CoRW", "nnnn", "r0=1", 0, { "r0=x; x=1" } },
	{ "CoRW, of another", "nnnn", "r0=2 x=2", 0, { "r0=x; x=1", "x=2" } },
	{ "CoWW", "nnnn", "x=1", 0, { "x=1; x=2" } },
};

static const char *const names[] = { "sc", "tso", "pso", "weak" };

static struct {
	const struct litmus *row;
	struct litmus_program program;
	u64 met;
} now;

static void begin(const struct litmus *row)
{
	now.row = row;
	now.program = (struct litmus_program){ .one_cpu = row->one_cpu };
	for (u32 t = 0; t < LITMUS_TASKS && row->tasks[t]; t++)
		litmus_add_task(&now.program, row->tasks[t]);
}

static void met(u64 outcome)
{
	now.met += litmus_holds(now.row->outcome, outcome);
}

static u64 search(enum check_memory memory)
{
	struct check_options o = { .memory = memory,
		                   .seed = SEED,
		                   .nr_schedules = SCHEDULES };

	now.met = 0;
	for (u32 k = CHECK_RANDOM; k <= CHECK_PCT4; k++) {
		o.strategy = k;
		litmus_search(&now.program, &o, met);
	}
	return now.met;
}

static void test_table(void **state)
{
	u32 wrong = 0;

	(void)state;
	printf("seed=%u\n", SEED);
	for (u32 i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		begin(&table[i]);
		for (u32 m = 0; m < CHECK_MEMORIES; m++) {
			bool may = table[i].may[m] == 'y';
			u64 n = search(m);

			if ((n > 0) == may)
				continue;
			wrong++;
			printf("%s, %s: %s came out %llu times, and it %s\n",
			       table[i].name, names[m], table[i].outcome,
			       (unsigned long long)n, may ? "may" : "must not");
		}
	}
	assert_int_equal(wrong, 0);
}

/* The row, as axioms have it: do they allow its outcome? Light and heavy fences have none, and
 * tasks share no CPU. */
static bool is_judged(const struct litmus *row)
{
	for (u32 t = 0; t < LITMUS_TASKS && row->tasks[t]; t++)
		if (strstr(row->tasks[t], "light") || strstr(row->tasks[t], "heavy"))
			return false;
	return !row->one_cpu;
}

/* What the table says of sc, tso and pso, their axioms say as well. What it says of weak lies
 * between those of ARMv8 and of RC11. */
static void test_axioms(void **state)
{
	static struct axioms_outcomes outcomes;
	u32 wrong = 0;

	(void)state;
	for (u32 i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		bool weak = table[i].may[CHECK_WEAK] == 'y';
		u32 says = 0, may = 0;

		if (!is_judged(&table[i]))
			continue;
		begin(&table[i]);
		axioms_judge(&now.program, &outcomes);
		for (u32 k = 0; k < outcomes.nr; k++)
			if (litmus_holds(table[i].outcome, outcomes.of[k].outcome))
				may |= outcomes.of[k].may;
		for (u32 m = CHECK_SC; m <= CHECK_PSO; m++)
			says |= table[i].may[m] == 'y' ? 1u << m : 0;
		if ((may & 7) != says || (may >> AXIOMS_ARMV8 & 1 && !weak) ||
		    (weak && !(may >> AXIOMS_RC11 & 1))) {
			wrong++;
			printf("%s: axioms allow it in %x\n", table[i].name, may);
		}
	}
	assert_int_equal(wrong, 0);
}

/* The same seed gives the same outcomes, as often as it is searched. */
static void test_again(void **state)
{
	(void)state;
	begin(&table[0]);
	for (u32 i = 0; i < 4; i++) {
		u64 first = search(CHECK_WEAK);

		assert_int_equal(search(CHECK_WEAK), first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_axioms),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
