/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tests of what the searches leave out. The exhaustive search must meet every outcome
 * although it does not try every order. A task that waits must neither keep others from
 * running nor lose its place. Change points must reach the end of long schedules.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/check/check.h"

#define SEED 1u
#define TASKS 3u
#define OPS 3u
#define WORDS 3u
#define OUTCOMES_MAX 4096u
#define UNBOUNDED 0xffffffffu

/* ---- little programs, drawn from a seed ---- */

enum op_kind {
	OP_LOAD,
	OP_STORE,
	OP_ADD,
	OP_CAS,
	OP_FENCE,
	OP_HEAVY,
	OP_PERCPU,
	OP_KINDS
};

struct op {
	enum op_kind kind;
	u32 word;
	u64 value;
};

static struct program {
	u32 nr_tasks, nr_ops, nr_words;
	u32 cpu[TASKS];
	struct op ops[TASKS][OPS];
} program;

static struct world {
	struct {
		u64 v, pad[7];
	} words[WORDS];
} * world;

/* What tasks were told, each its own, in every schedule anew: not in the checker's memory, in
 * which a change would meet every other step. */
static u64 seen[TASKS][OPS];

static u64 outcomes[OUTCOMES_MAX];
static u32 nr_outcomes;

static u64 random_state;

static u32 below(u32 n)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (u32)(random_state >> 33) % n;
}

static void task(void *arg)
{
	u32 t = (u32)(uintptr_t)arg, i;

	for (i = 0; i < program.nr_ops; i++) {
		const struct op *op = &program.ops[t][i];
		u64 *p = &world->words[op->word].v;

		switch (op->kind) {
		case OP_LOAD: seen[t][i] = host_load_relaxed(p); break;
		case OP_STORE: host_store_relaxed(p, op->value); break;
		case OP_ADD: seen[t][i] = host_fetch_add(p, op->value); break;
		case OP_CAS: seen[t][i] = host_cas(p, 0, op->value); break;
		case OP_HEAVY: host_fence_heavy(); break;
		case OP_PERCPU: host_percpu_add(p, 0, op->value); break;
		default: host_fence_full();
		}
	}
}

static void setup(const void *arg)
{
	(void)arg;
	world = host_alloc(sizeof(*world), 64);
	for (u32 t = 0; t < program.nr_tasks; t++)
		check_task("task", program.cpu[t], task, (void *)(uintptr_t)t);
}

static u64 hash(const void *p, size_t n)
{
	const u8 *bytes = p;
	u64 h = 0xcbf29ce484222325u;

	while (n-- > 0)
		h = (h ^ *bytes++) * 0x100000001b3u;
	return h;
}

static void finish(const void *arg)
{
	u64 outcome = hash(world, sizeof(*world)) ^ hash(seen, sizeof(seen)) << 1;

	(void)arg;
	for (u32 i = 0; i < nr_outcomes; i++)
		if (outcomes[i] == outcome)
			return;
	assert_true(nr_outcomes < OUTCOMES_MAX);
	outcomes[nr_outcomes++] = outcome;
}

static const struct check_scenario scenario = { "program", 2, NULL, setup, finish };

static struct check_result run(enum check_memory memory, u32 bound, bool every_order)
{
	struct check_options o = { .strategy = CHECK_EXHAUSTIVE,
		                   .memory = memory,
		                   .nr_schedules = 2000000,
		                   .preemption_bound = bound,
		                   .every_order = every_order };
	struct check_result r;

	nr_outcomes = 0;
	memset(seen, 0, sizeof(seen));
	check_run(&scenario, &o, true, &r);
	assert_int_equal(r.violations, 0);
	assert_true(r.complete);
	return r;
}

static void program_draw(u32 nr_tasks, u32 nr_ops, u32 nr_words)
{
	program = (struct program){ .nr_tasks = nr_tasks,
		                    .nr_ops = nr_ops,
		                    .nr_words = nr_words };
	for (u32 t = 0; t < nr_tasks; t++) {
		program.cpu[t] = below(4) == 0 ? 0 : t % 2;
		for (u32 i = 0; i < nr_ops; i++)
			program.ops[t][i] = (struct op){ .kind = below(OP_KINDS),
				                         .word = below(nr_words),
				                         .value = 1u << (t * 4 + i) };
	}
}

static int compare(const void *a, const void *b)
{
	const u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Returns how many schedules the sleep sets spared. */
static u64 outcomes_equal(enum check_memory memory, u32 bound)
{
	static u64 expected[OUTCOMES_MAX];
	struct check_result plain = run(memory, bound, true), sleeping;
	u32 nr = nr_outcomes;

	memcpy(expected, outcomes, sizeof(expected));
	sleeping = run(memory, bound, false);
	qsort(expected, nr, sizeof(expected[0]), compare);
	qsort(outcomes, nr_outcomes, sizeof(outcomes[0]), compare);
	assert_int_equal(nr_outcomes, nr);
	assert_memory_equal(outcomes, expected, nr * sizeof(expected[0]));
	assert_int_equal(plain.cut, 0);
	return plain.schedules - (sleeping.schedules - sleeping.cut);
}

static void sleep_sets_random_programs_same_outcomes(void **state)
{
	u64 spared = 0;

	(void)state;
	random_state = SEED;
	for (u32 i = 0; i < 120; i++) {
		program_draw(2, 3, 2);
		for (u32 bound = 0; bound < 3; bound++)
			spared += outcomes_equal(CHECK_TSO, bound);
		spared += outcomes_equal(CHECK_TSO, UNBOUNDED);
		spared += outcomes_equal(CHECK_SC, UNBOUNDED);
		program_draw(3, 2, 3);
		for (u32 bound = 0; bound < 3; bound++)
			spared += outcomes_equal(CHECK_SC, bound);
		spared += outcomes_equal(CHECK_SC, UNBOUNDED);
	}
	assert_true(spared > 0);
}

/* ---- known numbers ---- */

static void program_adds(u32 nr_ops, bool one_word)
{
	program = (struct program){ .nr_tasks = 2, .nr_ops = nr_ops };
	for (u32 t = 0; t < 2; t++) {
		program.cpu[t] = t;
		for (u32 i = 0; i < nr_ops; i++)
			program.ops[t][i] = (struct op){ OP_ADD, one_word ? 0 : t, 1 };
	}
}

static u64 choose(u32 n, u32 k)
{
	u64 c = 1;

	for (u32 i = 1; i <= k; i++)
		c = c * (n - k + i) / i;
	return c;
}

/* A task of n accesses has n + 1 steps: it begins with one. */
static void exhaustive_two_tasks_as_many_schedules_as_orders(void **state)
{
	struct check_result r;

	(void)state;
	for (u32 n = 1; n <= OPS; n++) {
		program_adds(n, true);
		r = run(CHECK_SC, UNBOUNDED, true);
		assert_int_equal(r.schedules, choose(2 * n + 2, n + 1));
		/* All meet but the beginnings: orders of the accesses. */
		r = run(CHECK_SC, UNBOUNDED, false);
		assert_int_equal(r.schedules - r.cut, choose(2 * n, n));
		program_adds(n, false);
		r = run(CHECK_SC, UNBOUNDED, true);
		assert_int_equal(r.schedules, choose(2 * n + 2, n + 1));
	}
}

/* ---- plain work that others look at ---- */

static struct {
	u64 x, pad0[7], y, pad1[7];
	u64 owned, told;
} * oracle;

static void owner(void *arg)
{
	(void)arg;
	for (u32 i = 0; i < 3; i++) {
		host_fetch_add(&oracle->x, 1);
		oracle->owned++; /* meets the other's look, though x and y do not */
	}
}

static void user(void *arg)
{
	u64 first, second;

	(void)arg;
	host_fetch_add(&oracle->y, 1);
	first = oracle->owned;
	host_fetch_add(&oracle->y, 1);
	second = oracle->owned;
	CHECK_ASSERT(!(first == 1 && second == 2), "one look after each");
}

static void oracle_setup(const void *arg)
{
	(void)arg;
	oracle = host_alloc(sizeof(*oracle), 64);
	check_task("owner", 0, owner, NULL);
	check_task("user", 1, user, NULL);
}

static void sleep_sets_plain_state_is_seen(void **state)
{
	static const struct check_scenario s = { "oracle", 2, NULL, oracle_setup,
		                                 NULL };
	struct check_options o = { .strategy = CHECK_EXHAUSTIVE,
		                   .nr_schedules = 10000,
		                   .preemption_bound = UNBOUNDED };
	struct check_result r;

	(void)state;
	check_run(&s, &o, true, &r);
	assert_int_equal(r.violations, 1);
	/* Three preemptions: the owner, the user between its looks, the owner again. */
	o.preemption_bound = 3;
	check_run(&s, &o, true, &r);
	assert_int_equal(r.violations, 1);
	o.preemption_bound = 2;
	check_run(&s, &o, true, &r);
	assert_int_equal(r.violations, 0);
	assert_true(r.complete);
}

/* ---- tasks that wait ---- */

/* A bit for each step of the looker in which it saw the other's store. */
static u64 seen_at;

#define LOOKS 20u

static void giver(void *arg)
{
	(void)arg;
	host_relax(); /* as a system call would take its time */
	host_store_relaxed(&oracle->x, 1);
	host_fetch_add(&oracle->y, 1);
}

static void looker(void *arg)
{
	(void)arg;
	for (u32 i = 0; i < LOOKS; i++)
		if (host_load_relaxed(&oracle->x)) {
			seen_at |= 1u << i;
			return;
		}
}

static void giver_setup(const void *arg)
{
	(void)arg;
	oracle = host_alloc(sizeof(*oracle), 64);
	check_task("giver", 0, giver, NULL);
	check_task("looker", 1, looker, NULL);
}

static void relax_once_place_kept(void **state)
{
	static const struct check_scenario s = { "giver", 2, NULL, giver_setup, NULL };
	struct check_options o = { .seed = SEED, .nr_schedules = 5000 };
	struct check_result r;

	(void)state;
	for (o.strategy = CHECK_RANDOM; o.strategy <= CHECK_PCT4; o.strategy++) {
		seen_at = 0;
		check_run(&s, &o, true, &r);
		/* Early, in the middle, and not only when the looker was done. */
		assert_true(seen_at & 0xf);
		if (o.strategy != CHECK_RANDOM)
			assert_true(seen_at & 0xf00);
	}
}

static void locker(void *arg)
{
	(void)arg;
	host_lock(&oracle->x);
	for (u32 i = 0; i < 10; i++)
		host_load_relaxed(&oracle->y);
	oracle->owned++;
	host_unlock(&oracle->x);
}

static void locker_setup(const void *arg)
{
	(void)arg;
	oracle = host_alloc(sizeof(*oracle), 64);
	for (u32 i = 0; i < 4; i++)
		check_task("locker", i, locker, NULL);
}

static void locker_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(oracle->owned == 4, "all four had the lock");
}

/* The task that has the lock runs, however low its place, while three others spin. */
static void relax_three_spin_holder_runs(void **state)
{
	static const struct check_scenario s = { "locker", 4, NULL, locker_setup,
		                                 locker_finish };
	struct check_options o = { .seed = SEED,
		                   .nr_schedules = 3000,
		                   .preemption_bound = 1,
		                   .max_steps = 3000 };
	struct check_result r;

	(void)state;
	for (u32 i = 0; i < 4 * 2; i++) {
		o.strategy = i / 2;
		o.memory = i % 2;
		check_run(&s, &o, true, &r);
		assert_int_equal(r.violations, 0);
	}
}

/* ---- faults ---- */

static u64 began_at;

static void steps(void *arg)
{
	(void)arg;
	for (u32 i = 0; i < LOOKS; i++) {
		host_load_relaxed(&oracle->x);
		oracle->told = i;
	}
}

static void fault(void *arg)
{
	(void)arg;
	began_at |= 1u << oracle->told;
}

static void fault_setup(const void *arg)
{
	(void)arg;
	oracle = host_alloc(sizeof(*oracle), 64);
	check_task("task", 0, steps, NULL);
	check_fault("fault", fault, NULL);
}

/* That it begins is no preemption. */
static void exhaustive_bound_zero_fault_begins_anywhere(void **state)
{
	static const struct check_scenario s = { "fault", 1, NULL, fault_setup, NULL };
	struct check_options o = { .strategy = CHECK_EXHAUSTIVE,
		                   .nr_schedules = 10000 };
	struct check_result r;

	(void)state;
	began_at = 0;
	check_run(&s, &o, true, &r);
	assert_true(r.complete);
	assert_int_equal(began_at, (1u << LOOKS) - 1);
}

/* ---- two change points, the later of which puts its task above the earlier's ---- */

static struct {
	u64 x, y, z, w;
} * flags;

static void idle(u32 n)
{
	for (u32 i = 0; i < n; i++)
		host_load_relaxed(&oracle->x);
}

/* Begins, and goes on only when the second has ended. */
static void first(void *arg)
{
	(void)arg;
	host_fetch_add(&flags->x, 1);
	idle(8);
	CHECK_ASSERT(!host_load_relaxed(&flags->w), "the bug at depth 3");
}

/* The third must run in its middle. */
static void second(void *arg)
{
	(void)arg;
	if (!host_load_relaxed(&flags->x))
		return;
	host_fetch_add(&flags->y, 1);
	idle(8);
	if (host_load_relaxed(&flags->z))
		host_fetch_add(&flags->w, 1);
}

static void third(void *arg)
{
	(void)arg;
	if (host_load_relaxed(&flags->y))
		host_fetch_add(&flags->z, 1);
}

static void order_setup(const void *arg)
{
	(void)arg;
	oracle = host_alloc(sizeof(*oracle), 64);
	flags = host_alloc(sizeof(*flags), 64);
	check_task("first", 0, first, NULL);
	check_task("second", 1, second, NULL);
	check_task("third", 2, third, NULL);
}

/* The other order: test_check.c. */
static void pct_later_change_point_higher_found(void **state)
{
	static const struct check_scenario s = { "order", 3, NULL, order_setup, NULL };
	struct check_options o = { .seed = SEED, .nr_schedules = 20000 };
	struct check_result r;

	(void)state;
	for (o.strategy = CHECK_PCT3; o.strategy <= CHECK_PCT4; o.strategy++) {
		check_run(&s, &o, true, &r);
		assert_int_equal(r.violations, 1);
	}
}

/* ---- a bug in the last steps of the longest schedules ---- */

static void setter(void *arg)
{
	(void)arg;
	idle(10);
	host_fetch_add(&flags->x, 1);
	idle(10);
	CHECK_ASSERT(host_load_relaxed(&flags->y) != 1, "the bug in the tail");
}

static void long_task(void *arg)
{
	(void)arg;
	if (host_load_relaxed(&flags->x)) {
		idle(60);
		host_fetch_add(&flags->y, 1);
		host_fetch_add(&flags->y, 1);
	}
}

static void tail_setup(const void *arg)
{
	(void)arg;
	oracle = host_alloc(sizeof(*oracle), 64);
	flags = host_alloc(sizeof(*flags), 64);
	check_task("setter", 0, setter, NULL);
	check_task("long", 1, long_task, NULL);
}

/* A change point must lie after 60 steps; random schedules let long look too early. */
static void pct_change_points_reach_the_longest_schedules_end(void **state)
{
	static const struct check_scenario s = { "tail", 2, NULL, tail_setup, NULL };
	struct check_options o = { .nr_schedules = 20000 };
	struct check_result r;

	(void)state;
	for (o.seed = SEED; o.seed < SEED + 5; o.seed++)
		for (o.strategy = CHECK_PCT3; o.strategy <= CHECK_PCT4; o.strategy++) {
			check_run(&s, &o, true, &r);
			assert_int_equal(r.violations, 1);
		}
}

/* ---- a task that moves ---- */

static void traveller(void *arg)
{
	(void)arg;
	host_store_relaxed(&oracle->x, 1);
	idle(3);
	CHECK_ASSERT(host_load_relaxed(&oracle->x) == 1,
	             "a task sees its own store wherever it is");
}

static void move(void *arg)
{
	(void)arg;
	check_migrate(0, 1);
}

static void move_setup(const void *arg)
{
	(void)arg;
	oracle = host_alloc(sizeof(*oracle), 64);
	check_task("traveller", 0, traveller, NULL);
	check_fault("move", move, NULL);
}

static void migrate_own_store_seen(void **state)
{
	static const struct check_scenario s = { "move", 2, NULL, move_setup, NULL };
	struct check_options o = { .memory = CHECK_TSO,
		                   .seed = SEED,
		                   .nr_schedules = 2000,
		                   .preemption_bound = 2 };
	struct check_result r;

	(void)state;
	for (o.strategy = CHECK_RANDOM; o.strategy <= CHECK_EXHAUSTIVE; o.strategy++) {
		check_run(&s, &o, true, &r);
		assert_int_equal(r.violations, 0);
	}
	assert_true(r.complete);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(sleep_sets_random_programs_same_outcomes),
		cmocka_unit_test(exhaustive_two_tasks_as_many_schedules_as_orders),
		cmocka_unit_test(sleep_sets_plain_state_is_seen),
		cmocka_unit_test(relax_once_place_kept),
		cmocka_unit_test(relax_three_spin_holder_runs),
		cmocka_unit_test(exhaustive_bound_zero_fault_begins_anywhere),
		cmocka_unit_test(pct_later_change_point_higher_found),
		cmocka_unit_test(pct_change_points_reach_the_longest_schedules_end),
		cmocka_unit_test(migrate_own_store_seen),
	};

	printf("seed=%u\n", SEED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
