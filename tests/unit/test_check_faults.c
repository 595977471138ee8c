/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tests of what the checker does to tasks: faults, waiting, memory that is gone, copies that
 * are interrupted, per-CPU words. What schedules it makes is test_check.c's subject.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/check_world.h"

#define MANY 20000u

/* ---- waiting ---- */

static void spin_waiter(void *arg)
{
	(void)arg;
	while (host_load_acquire(&world->x) == 0)
		host_relax();
}

static void spin_setter(void *arg)
{
	(void)arg;
	for (u32 i = 0; i < 5; i++)
		host_load_relaxed(&world->z);
	if (arg)
		host_store_release(&world->x, 1);
}

static void spin_setup(const void *arg)
{
	world_make();
	check_task("waiter", 0, spin_waiter, NULL);
	check_task("setter", 1, spin_setter, (void *)arg);
}

static void relax_other_can_run_no_livelock(void **state)
{
	static const struct check_scenario s = { "spin", 2, "set", spin_setup, NULL };

	(void)state;
	for (u32 i = 0; i < 3; i++)
		assert_int_equal(run(&s, all[i], CHECK_TSO, 2000).violations, 0);
}

static void relax_nobody_comes_livelock(void **state)
{
	static const struct check_scenario s = { "spin", 2, NULL, spin_setup, NULL };
	struct check_result r;

	(void)state;
	r = run(&s, CHECK_RANDOM, CHECK_SC, 10);
	assert_int_equal(r.violations, 1);
	assert_non_null(strstr(r.what, "livelock"));
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

static void wait_for_ever(void *arg)
{
	check_wait(never, arg);
}

static void deadlock_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("waiter", 0, wait_for_ever, NULL);
}

static void wait_nobody_else_deadlock(void **state)
{
	static const struct check_scenario s = { "deadlock", 1, NULL, deadlock_setup,
		                                 NULL };
	struct check_result r;

	(void)state;
	r = run(&s, CHECK_PCT3, CHECK_SC, 10);
	assert_int_equal(r.violations, 1);
	assert_non_null(strstr(r.what, "deadlock"));
}

/* ---- faults ---- */

static void long_task(void *arg)
{
	(void)arg;
	for (u32 i = 0; i < 64; i++) {
		host_load_relaxed(&world->z);
		world->nr = i;
	}
}

static void mark(void *arg)
{
	(void)arg;
	world->seen[0] = world->nr;
	check_kill(0);
}

static void fault_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("task", 0, long_task, NULL);
	check_fault("kill", mark, NULL);
}

static void fault_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->nr <= world->seen[0] + 1, "what is killed stops");
	outcomes |= 1u << world->seen[0] / 16;
}

/* Anywhere in a schedule, not only in the first steps. */
static void fault_random_and_pct_spread_over_the_schedule(void **state)
{
	static const struct check_scenario s = { "fault", 1, NULL, fault_setup,
		                                 fault_finish };

	(void)state;
	for (u32 i = 0; i < 3; i++) {
		assert_int_equal(run(&s, all[i], CHECK_SC, 2000).violations, 0);
		assert_int_equal(outcomes, 0xf);
	}
}

static void store_and_die(void *arg)
{
	(void)arg;
	host_store_relaxed(&world->x, 1);
	for (;;)
		host_load_relaxed(&world->z);
}

static void kill_it(void *arg)
{
	(void)arg;
	host_load_relaxed(&world->z);
	host_load_relaxed(&world->z);
	check_kill(0);
}

static void kill_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("victim", 0, store_and_die, NULL);
	check_task("killer", 1, kill_it, NULL);
}

static void kill_finish(const void *arg)
{
	(void)arg;
	outcomes |= 1u << world->x;
}

static void kill_buffered_store_still_arrives(void **state)
{
	static const struct check_scenario s = { "kill", 2, NULL, kill_setup,
		                                 kill_finish };

	(void)state;
	assert_int_equal(run(&s, CHECK_RANDOM, CHECK_TSO, 2000).violations, 0);
	assert_int_equal(outcomes, 3); /* killed before it, or after */
}

/* ---- memory ---- */

static void use_poisoned(void *arg)
{
	(void)arg;
	host_load_relaxed(&world->bytes[0]);
}

static void poison_it(void *arg)
{
	(void)arg;
	host_load_relaxed(&world->z);
	check_poison(world->bytes, sizeof(world->bytes));
}

static void poison_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("user", 0, use_poisoned, NULL);
	check_task("owner", 1, poison_it, NULL);
}

static void poison_touched_use_after_free(void **state)
{
	static const struct check_scenario s = { "poison", 2, NULL, poison_setup,
		                                 NULL };

	(void)state;
	for (u32 i = 0; i < NR_ALL; i++) {
		struct check_result r = run(&s, all[i], CHECK_TSO, 1000);

		assert_int_equal(r.violations, 1);
		assert_non_null(strstr(r.what, "use after free"));
	}
}

static void copy_out(void *arg)
{
	u64 copy[8];

	(void)arg;
	host_copy(copy, world->bytes, sizeof(copy));
	outcomes |= copy[0] == copy[7] ? 1 : 2;
}

static void overwrite(void *arg)
{
	(void)arg;
	for (u32 i = 0; i < 8; i++)
		host_store_relaxed(&world->bytes[i], 1);
}

static void copy_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("reader", 0, copy_out, NULL);
	check_task("writer", 1, overwrite, NULL);
}

static void copy_overwritten_meanwhile_torn(void **state)
{
	static const struct check_scenario s = { "copy", 2, NULL, copy_setup, NULL };

	(void)state;
	for (u32 i = 0; i < 3; i++) {
		run(&s, all[i], CHECK_SC, MANY);
		assert_int_equal(outcomes, 3);
	}
}

/* ---- per-CPU words ---- */

static void percpu_adder(void *arg)
{
	u64 *words = world->bytes;

	(void)arg;
	for (u32 i = 0; i < 3; i++)
		host_percpu_add(words, 1, 1);
}

static void percpu_mover(void *arg)
{
	(void)arg;
	check_migrate(0, 1);
}

static void percpu_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("a", 0, percpu_adder, NULL);
	check_task("b", 1, percpu_adder, NULL);
	check_task("c", 1, percpu_adder, NULL);
	check_fault("mover", percpu_mover, NULL);
}

static void percpu_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->bytes[0] + world->bytes[1] == 9, "no per-CPU add is lost");
	outcomes |= 1u << world->bytes[0];
}

static void percpu_add_tasks_of_one_cpu_and_migration_none_lost(void **state)
{
	static const struct check_scenario s = { "percpu", 2, NULL, percpu_setup,
		                                 percpu_finish };

	(void)state;
	for (u32 i = 0; i < 3; i++) {
		assert_int_equal(run(&s, all[i], CHECK_TSO, 2000).violations, 0);
		assert_int_equal(outcomes, 0xf); /* 0 to 3 before it was moved */
	}
}

/* ---- movers ---- */

/* Notes each CPU that it finds itself on. */
static void wanderer(void *arg)
{
	u32 me = (u32)(uintptr_t)arg;

	for (u32 i = 0; i < 8; i++)
		world->seen[me] |= 1u << host_cpu();
}

static void mover_setup(const void *arg)
{
	world_make();
	for (u32 i = 0; i < 3; i++)
		check_task("wanderer", i, wanderer, (void *)(uintptr_t)i);
	if (arg)
		check_pin_task(1);
}

static void mover_finish(const void *arg)
{
	(void)arg;
	for (u32 i = 0; i < 3; i++)
		outcomes |= world->seen[i] << 4 * i;
}

static u64 wandered(const void *pinned, enum check_strategy strategy, bool movers)
{
	const struct check_scenario s = { "movers", 3, pinned, mover_setup,
		                          mover_finish };
	struct check_options o = { .strategy = strategy,
		                   .memory = CHECK_TSO,
		                   .nr_schedules = 2000,
		                   .movers = movers };
	struct check_result r;

	outcomes = 0;
	check_run(&s, &o, true, &r);
	assert_int_equal(r.violations, 0);
	return outcomes;
}

static void mover_any_task_goes_to_any_cpu_but_a_pinned_one(void **state)
{
	(void)state;
	for (u32 i = 0; i < 3; i++) {
		assert_int_equal(wandered(NULL, all[i], false), 0x421);
		assert_int_equal(wandered(NULL, all[i], true), 0x777);
		assert_int_equal(wandered("pinned", all[i], true), 0x727);
	}
	assert_int_equal(wandered(NULL, CHECK_EXHAUSTIVE, true), 0x421);
}

static void lone_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("wanderer", 0, wanderer, NULL);
}

static void mover_one_cpu_stays_there(void **state)
{
	static const struct check_scenario s = { "lone", 1, NULL, lone_setup, NULL };
	struct check_options o = { .nr_schedules = 10, .movers = true };
	struct check_result r;

	(void)state;
	check_run(&s, &o, true, &r);
	assert_int_equal(r.violations, 0);
	assert_int_equal(r.schedules, 10);
}

/* ---- calls that are refused ---- */

static u64 refuse_allocated; /* by setup() */

static void call_thrice(void *arg)
{
	(void)arg;
	CHECK_ASSERT(check_allocated() == refuse_allocated,
	             "a schedule begins with what setup() allocated");
	for (u32 i = 0; i < 3; i++) {
		world->seen[0] |= (u64)host_fence_abort() << i;
		world->seen[1] |= (u64) !!host_alloc(64, 64) << i;
	}
}

static void refuse_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("caller", 0, call_thrice, NULL);
	check_refuse(CHECK_NO_FENCE, 2);
	check_refuse(CHECK_NO_MEMORY, 1);
	CHECK_ASSERT(host_alloc(64, 64), "setup() has its memory");
	refuse_allocated = check_allocated();
}

static void refuse_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(host_fence_abort(), "finish() has its fence");
	CHECK_ASSERT(host_alloc(64, 64), "and its memory");
	outcomes |= 1u << world->seen[0] | 1u << (8 + world->seen[1]);
}

static void refuse_any_call_but_at_most_so_many(void **state)
{
	static const struct check_scenario s = { "refuse", 1, NULL, refuse_setup,
		                                 refuse_finish };

	(void)state;
	for (u32 i = 0; i < NR_ALL; i++) {
		assert_int_equal(run(&s, all[i], CHECK_SC, MANY).violations, 0);
		/* Fences: all, but never three. Memory: one of three, or none. */
		assert_int_equal(outcomes, 0xfe | 0xe8 << 8);
	}
}

/* ---- a search after one that broke a rule ---- */

static void store_and_break(void *arg)
{
	(void)arg;
	host_store_relaxed(&world->x, 1); /* still in its CPU's buffer below */
	CHECK_ASSERT(false, "broken on purpose");
}

static void break_setup(const void *arg)
{
	(void)arg;
	world_make();
	/* Memory is zero, and what setup() does comes from setup() alone. */
	assert_int_equal(host_fetch_add(&world->y, 1), 0);
	assert_int_equal(host_load_relaxed(&world->x), 0);
	check_task("breaker", 0, store_and_break, NULL);
}

static void run_after_violation_setup_finds_zeroes(void **state)
{
	static const struct check_scenario s = { "break", 1, NULL, break_setup, NULL };

	(void)state;
	assert_int_equal(run(&s, CHECK_RANDOM, CHECK_TSO, 1).violations, 1);
	assert_int_equal(run(&s, CHECK_RANDOM, CHECK_TSO, 1).violations, 1);
}

/* ---- what each schedule draws ---- */

#define DRAW_BELOW 3u
#define DRAW_WRONG 2u /* with x unchanged, which one order in two has */

static void draw_left(void *arg)
{
	(void)arg;
	world->seen[0] = world->y;
	host_store_relaxed(&world->x, 1);
}

static void draw_right(void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->seen[3] || host_load_relaxed(&world->x) ||
	                     world->y != DRAW_WRONG,
	             "the wrong number");
}

static void draw_setup(const void *arg)
{
	world_make();
	world->seen[3] = arg != NULL;
	check_draw(&world->y, DRAW_BELOW);
	check_task("left", 0, draw_left, NULL);
	check_task("right", 1, draw_right, NULL);
}

static void draw_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->seen[0] == world->y, "one number for the whole schedule");
	outcomes |= (u64)1 << world->y;
}

static void draw_all_are_met_and_a_replay_has_the_same(void **state)
{
	static const struct check_scenario good = { "draw", 2, "", draw_setup,
		                                    draw_finish };
	static const struct check_scenario bad = { "draw", 2, NULL, draw_setup,
		                                   draw_finish };
	struct check_options o = { .seed = 1,
		                   .nr_schedules = 200,
		                   .preemption_bound = 9 };
	struct check_result r, again;
	FILE *out = tmpfile();
	u32 i;

	(void)state;
	assert_non_null(out);
	for (i = 0; i < NR_ALL; i++) {
		assert_int_equal(run(&good, all[i], CHECK_SC, 200).violations, 0);
		assert_int_equal(outcomes, (1u << DRAW_BELOW) - 1);
		o.strategy = all[i];
		o.only = 0;
		o.out = out;
		check_run(&bad, &o, false, &r);
		assert_int_equal(r.violations, 1);
		o.only = r.schedule + 1;
		check_run(&bad, &o, false, &again);
		assert_int_equal(again.violations, 1);
		assert_string_equal(again.what, r.what);
		assert_int_equal(again.schedule, r.schedule);
	}
	fclose(out);
}

/* ---- flips ---- */

static void flip_task(void *arg)
{
	world->seen[check_self()] = host_cpu() + 1;
	(void)arg;
}

static void flip_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("first", 0, flip_task, NULL);
	check_task("last", 2, flip_task, NULL);
}

/* CPU 0 of the scenario is CPU 0 of core, or its last one. */
static void flip_finish(const void *arg)
{
	u64 first = arg ? 2 : 0;

	CHECK_ASSERT(host_cpu() == first && check_cpu(0) == first, "alone on CPU 0");
	CHECK_ASSERT(world->seen[0] == first + 1 && world->seen[1] == 2 - first + 1,
	             "tasks are where the scenario put them");
}

static void flip_cpus_are_numbered_from_the_last_one(void **state)
{
	static const struct check_scenario s[] = {
		{ "flip", 3, NULL, flip_setup, flip_finish },
		{ "flip", 3, "", flip_setup, flip_finish },
	};
	struct check_options o = { .seed = 1, .nr_schedules = 20 };
	struct check_result r;

	(void)state;
	for (u32 i = 0; i < 2; i++) {
		o.flip = i ? CHECK_FLIP_CPU : 0;
		check_run(&s[i], &o, true, &r);
		assert_int_equal(r.violations, 0);
		o.flip = i ? 0 : CHECK_FLIP_CPU;
		check_run(&s[i], &o, true, &r);
		assert_int_equal(r.violations, 1);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(relax_other_can_run_no_livelock),
		cmocka_unit_test(relax_nobody_comes_livelock),
		cmocka_unit_test(wait_nobody_else_deadlock),
		cmocka_unit_test(fault_random_and_pct_spread_over_the_schedule),
		cmocka_unit_test(kill_buffered_store_still_arrives),
		cmocka_unit_test(poison_touched_use_after_free),
		cmocka_unit_test(copy_overwritten_meanwhile_torn),
		cmocka_unit_test(percpu_add_tasks_of_one_cpu_and_migration_none_lost),
		cmocka_unit_test(mover_any_task_goes_to_any_cpu_but_a_pinned_one),
		cmocka_unit_test(mover_one_cpu_stays_there),
		cmocka_unit_test(refuse_any_call_but_at_most_so_many),
		cmocka_unit_test(draw_all_are_met_and_a_replay_has_the_same),
		cmocka_unit_test(flip_cpus_are_numbered_from_the_last_one),
		cmocka_unit_test(run_after_violation_setup_finds_zeroes),
	};

	printf("seed=1\n");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
