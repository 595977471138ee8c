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
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "host/check/check.h"

#define SEED 1u
#define SCHEDULES 6000u /* of each strategy */
#define TASKS 4u
#define OPS 4u
#define WORDS 3u
#define REGISTERS 4u

/*
 * A task is a row of steps. x, y and z are words, 0 at first; r0 to r3 are registers.
 *    x=1        a relaxed store; "x=1 release" releases
 *    r0=x       a relaxed load; "r0=x acquire" and "r0=x dep" are the other kinds
 *    x+=1       an RMW
 *    r0=x?1     a cas of x from 1: was it made?
 *    full, acquire, release, light, heavy: fences
 */
static const struct litmus {
	const char *name;
	const char *may; /* y or n: sc, tso, pso, weak */
	const char *outcome;
	bool one_cpu;
	const char *tasks[TASKS];
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

/* ---- the program of the row that runs ---- */

enum op_kind { LOAD, LOAD_DEP, LOAD_ACQUIRE, STORE, STORE_RELEASE, ADD, CAS, FENCE };

struct op {
	enum op_kind kind;
	u32 word, number; /* the register, or the value */
	void (*fence)(void);
};

static struct program {
	const struct litmus *row;
	u32 nr[TASKS];
	struct op ops[TASKS][OPS];
} program;

static struct world {
	struct {
		u64 v, pad[7];
	} words[WORDS];
	u64 registers[REGISTERS], expected;
} *world;

static u64 met;

static const struct {
	const char *name;
	void (*make)(void);
} fences[] = {
	{ "full", host_fence_full },       { "acquire", host_fence_acquire },
	{ "release", host_fence_release }, { "light", host_fence_light },
	{ "heavy", host_fence_heavy },
};

static struct op parse_op(const char *s)
{
	struct op op = { .kind = FENCE };
	u32 i;

	for (i = 0; i < sizeof(fences) / sizeof(fences[0]); i++)
		if (strncmp(s, fences[i].name, strlen(fences[i].name)) == 0) {
			op.fence = fences[i].make;
			return op;
		}
	if (s[0] == 'r') {
		op.kind = s[4] == '?'               ? CAS
		          : strncmp(s + 4, " a", 2) == 0 ? LOAD_ACQUIRE
		          : strncmp(s + 4, " d", 2) == 0 ? LOAD_DEP
		                                         : LOAD;
		op.number = (u32)(s[1] - '0');
		op.word = (u32)(s[3] - 'x');
		return op;
	}
	op.kind = s[1] == '+' ? ADD : strncmp(s + 3, " r", 2) == 0 ? STORE_RELEASE : STORE;
	op.word = (u32)(s[0] - 'x');
	op.number = (u32)(s[op.kind == ADD ? 3 : 2] - '0');
	return op;
}

static void parse(const struct litmus *row)
{
	memset(&program, 0, sizeof(program));
	program.row = row;
	for (u32 t = 0; t < TASKS && row->tasks[t]; t++)
		for (const char *s = row->tasks[t]; s; s = strchr(s, ';')) {
			s += strspn(s, "; ");
			assert_true(program.nr[t] < OPS);
			program.ops[t][program.nr[t]++] = parse_op(s);
		}
}

static void task(void *arg)
{
	u32 t = (u32)(uintptr_t)arg;

	for (u32 i = 0; i < program.nr[t]; i++) {
		const struct op *op = &program.ops[t][i];
		u64 *p = &world->words[op->word].v, *r = &world->registers[op->number % REGISTERS];

		switch (op->kind) {
		case LOAD: *r = host_load_relaxed(p); break;
		case LOAD_DEP: *r = host_load_dep(p); break;
		case LOAD_ACQUIRE: *r = host_load_acquire(p); break;
		case STORE: host_store_relaxed(p, op->number); break;
		case STORE_RELEASE: host_store_release(p, op->number); break;
		case ADD: host_fetch_add(p, op->number); break;
		case CAS: *r = host_cas(p, 1, 7); break;
		default: op->fence();
		}
	}
}

static void setup(const void *arg)
{
	(void)arg;
	world = host_alloc(sizeof(*world), 64);
	for (u32 t = 0; t < TASKS && program.row->tasks[t]; t++)
		check_task("task", program.row->one_cpu ? 0 : t, task, (void *)(uintptr_t)t);
}

static void finish(const void *arg)
{
	bool is = true;

	(void)arg;
	for (const char *s = program.row->outcome; *s; s += strspn(s, " ")) {
		if (*s == 'r')
			is = is && world->registers[s[1] - '0'] == (u64)(s[3] - '0');
		else
			is = is && world->words[s[0] - 'x'].v == (u64)(s[2] - '0');
		s += strcspn(s, " ");
	}
	met += is;
}

static u64 search(enum check_memory memory)
{
	const struct check_scenario scenario = { program.row->name, TASKS, NULL, setup, finish };
	struct check_options o = { .memory = memory, .seed = SEED, .nr_schedules = SCHEDULES };
	struct check_result result;

	met = 0;
	for (u32 k = CHECK_RANDOM; k <= CHECK_PCT4; k++) {
		o.strategy = k;
		check_run(&scenario, &o, true, &result);
		assert_int_equal(result.violations, 0);
	}
	return met;
}

static void test_table(void **state)
{
	static const char *const names[] = { "sc", "tso", "pso", "weak" };
	u32 wrong = 0;

	(void)state;
	printf("seed=%u\n", SEED);
	for (u32 i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		parse(&table[i]);
		for (u32 m = 0; m < CHECK_MEMORIES; m++) {
			bool may = table[i].may[m] == 'y';
			u64 n = search(m);

			if ((n > 0) == may)
				continue;
			wrong++;
			printf("%s, %s: %s came out %llu times, and it %s\n", table[i].name,
			       names[m], table[i].outcome, (unsigned long long)n,
			       may ? "may" : "must not");
		}
	}
	assert_int_equal(wrong, 0);
}

/* The same seed gives the same outcomes, as often as it is searched. */
static void test_again(void **state)
{
	(void)state;
	parse(&table[0]);
	for (u32 i = 0; i < 4; i++) {
		u64 first = search(CHECK_WEAK);

		assert_int_equal(search(CHECK_WEAK), first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
