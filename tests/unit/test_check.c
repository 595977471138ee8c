/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tests of the checker itself: small programs whose outcomes are known. The checker must
 * find every outcome that is possible, and no other.
 */
#include <stdio.h>
#include <string.h>

#include "tests/support/check_world.h"

#define MANY 20000u

enum fences {
	FENCES_NONE,
	FENCES_FULL,
	FENCES_ASYMMETRIC,
	FENCES_RMW,
	FENCES_FAILED_CAS
};

static enum fences fences;

/* ---- store buffering: x = 1, read y | y = 1, read x ---- */

static void sb_fence(bool light)
{
	if (fences == FENCES_FULL)
		host_fence_full();
	else if (fences == FENCES_ASYMMETRIC && light)
		host_fence_light();
	else if (fences == FENCES_ASYMMETRIC)
		host_fence_heavy();
	else if (fences == FENCES_FAILED_CAS)
		assert_false(host_cas(&world->z, 1, 2));
}

static void sb_left(void *arg)
{
	(void)arg;
	if (fences == FENCES_RMW)
		host_xchg(&world->x, 1);
	else
		host_store_relaxed(&world->x, 1);
	sb_fence(true);
	world->seen[0] = host_load_relaxed(&world->y);
}

static void sb_right(void *arg)
{
	(void)arg;
	if (fences == FENCES_RMW)
		host_fetch_add(&world->y, 1);
	else
		host_store_relaxed(&world->y, 1);
	sb_fence(false);
	world->seen[1] = host_load_relaxed(&world->x);
}

static void sb_setup(const void *arg)
{
	world_make();
	check_task("left", 0, sb_left, NULL);
	check_task("right", arg ? 0 : 1, sb_right, NULL);
}

static void sb_finish(const void *arg)
{
	(void)arg;
	outcomes |= 1u << (world->seen[0] * 2 + world->seen[1]);
}

static const struct check_scenario sb = { "sb", 2, NULL, sb_setup, sb_finish };
#define SB_BOTH_ZERO 1u
#define SB_OTHERS 0xeu

static void store_buffering_sc_never_both_zero(void **state)
{
	(void)state;
	fences = FENCES_NONE;
	for (u32 i = 0; i < NR_ALL; i++) {
		run(&sb, all[i], CHECK_SC, MANY);
		assert_int_equal(outcomes, SB_OTHERS);
	}
}

static void store_buffering_tso_both_zero_by_every_strategy(void **state)
{
	(void)state;
	fences = FENCES_NONE;
	for (u32 i = 0; i < NR_ALL; i++) {
		run(&sb, all[i], CHECK_TSO, MANY);
		assert_int_equal(outcomes, SB_OTHERS | SB_BOTH_ZERO);
	}
}

static void store_buffering_fences_never_both_zero(void **state)
{
	(void)state;
	for (fences = FENCES_FULL; fences <= FENCES_RMW; fences++)
		for (u32 i = 0; i < NR_ALL; i++) {
			run(&sb, all[i], CHECK_TSO, MANY);
			assert_int_equal(outcomes, SB_OTHERS);
		}
}

/* A cas that fails orders nothing (host/host.h): code that relies on one is found. */
static void store_buffering_failed_cas_both_zero_by_every_strategy(void **state)
{
	(void)state;
	fences = FENCES_FAILED_CAS;
	for (u32 i = 0; i < NR_ALL; i++) {
		run(&sb, all[i], CHECK_TSO, MANY);
		assert_int_equal(outcomes, SB_OTHERS | SB_BOTH_ZERO);
		run(&sb, all[i], CHECK_SC, MANY);
		assert_int_equal(outcomes, SB_OTHERS);
	}
}

/* The buffer is the CPU's: two tasks of one CPU see each other's stores at once, and the
 * change of task empties it. Per-task buffers gave false alarms. */
static void store_buffering_one_cpu_never_both_zero(void **state)
{
	static const struct check_scenario one = { "sb-one-cpu", 2, "", sb_setup,
		                                   sb_finish };

	(void)state;
	fences = FENCES_NONE;
	for (u32 i = 0; i < NR_ALL; i++) {
		run(&one, all[i], CHECK_TSO, MANY);
		assert_int_equal(outcomes & SB_BOTH_ZERO, 0);
		assert_true(outcomes != 0);
	}
}

/* ---- message passing: stores stay in order, and a CPU sees its own ---- */

static void mp_writer(void *arg)
{
	(void)arg;
	host_store_relaxed(&world->x, 7);
	host_store_relaxed(&world->y, 1);
	world->seen[2] = host_load_relaxed(&world->x);
}

static void mp_reader(void *arg)
{
	(void)arg;
	world->seen[0] = host_load_relaxed(&world->y);
	world->seen[1] = host_load_relaxed(&world->x);
}

static void mp_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("writer", 0, mp_writer, NULL);
	check_task("reader", 1, mp_reader, NULL);
}

static void mp_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(!world->seen[0] || world->seen[1] == 7, "stores arrive in order");
	CHECK_ASSERT(world->seen[2] == 7, "a CPU sees its own store");
	CHECK_ASSERT(world->x == 7 && world->y == 1, "all arrive in the end");
	outcomes |= 1u << (world->seen[0] * 2 + (world->seen[1] == 7));
}

static void message_passing_tso_in_order_and_forwarded(void **state)
{
	static const struct check_scenario mp = { "mp", 2, NULL, mp_setup, mp_finish };

	(void)state;
	for (u32 i = 0; i < NR_ALL; i++) {
		assert_int_equal(run(&mp, all[i], CHECK_TSO, MANY).violations, 0);
		assert_int_equal(outcomes, 0xb); /* 0,0  0,7  1,7 */
	}
}

/* ---- a cas and its own CPU's stores ---- */

static void cas_owner(void *arg)
{
	(void)arg;
	host_store_relaxed(&world->x, 1);
	host_store_relaxed(&world->y, 1);
	/* In memory y may still be 0. */
	CHECK_ASSERT(!host_cas(&world->y, 0, 5), "a cas sees its own CPU's store");
	CHECK_ASSERT(host_cas(&world->y, 1, 2), "a cas finds its own CPU's store");
	world->seen[0] = 1; /* plain: what follows has a full fence before it */
}

static void cas_looker(void *arg)
{
	(void)arg;
	world->seen[1] = host_load_relaxed(&world->y);
	if (world->seen[0])
		CHECK_ASSERT(host_load_relaxed(&world->x) == 1,
		             "a cas is a full fence");
}

static void cas_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("owner", 0, cas_owner, NULL);
	check_task("looker", 1, cas_looker, NULL);
}

static void cas_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->x == 1 && world->y == 2, "all arrive in the end");
	outcomes |= 1u << world->seen[1];
}

static void cas_tso_own_store_seen_and_drained_on_success(void **state)
{
	static const struct check_scenario s = { "cas", 2, NULL, cas_setup,
		                                 cas_finish };

	(void)state;
	for (u32 i = 0; i < NR_ALL; i++) {
		assert_int_equal(run(&s, all[i], CHECK_TSO, MANY).violations, 0);
		assert_int_equal(outcomes, 7); /* 0, 1 and 2 */
	}
}

/* ---- counted interleavings ---- */

static void step_twice(void *arg)
{
	for (u32 i = 0; i < 2; i++) {
		host_fetch_add(&world->x, 1);
		world->order = world->order << 4 | (u64)(uintptr_t)arg;
	}
}

static void count_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("a", 0, step_twice, (void *)1);
	check_task("b", 1, step_twice, (void *)2);
}

static void count_finish(const void *arg)
{
	static const u64 orders[] = { 0x1122, 0x1212, 0x1221, 0x2112, 0x2121, 0x2211 };

	(void)arg;
	for (u32 i = 0; i < 6; i++)
		if (world->order == orders[i])
			outcomes |= 1u << i;
}

static const struct check_scenario count = { "count", 2, NULL, count_setup,
	                                     count_finish };

static void exhaustive_two_by_two_steps_all_orders_and_complete(void **state)
{
	struct check_result r;

	(void)state;
	r = run(&count, CHECK_EXHAUSTIVE, CHECK_SC, MANY);
	assert_true(r.complete);
	assert_int_equal(r.violations, 0);
	assert_int_equal(outcomes, 0x3f);
}

static void exhaustive_bound_zero_no_preemption(void **state)
{
	struct check_options o = { .strategy = CHECK_EXHAUSTIVE, .nr_schedules = MANY };
	struct check_result r;

	(void)state;
	outcomes = 0;
	check_run(&count, &o, true, &r);
	assert_true(r.complete);
	assert_int_equal(outcomes, 0x21); /* 1122 and 2211 */
}

static void exhaustive_too_few_schedules_not_complete(void **state)
{
	(void)state;
	assert_false(run(&count, CHECK_EXHAUSTIVE, CHECK_SC, 2).complete);
}

static void own_words(void *arg)
{
	u64 *mine = arg ? &world->x : &world->y;

	for (u32 i = 0; i < 3; i++)
		host_fetch_add(mine, 1);
	host_fetch_add(&world->z, arg ? 10 : 1);
	world->seen[arg ? 0 : 1] = host_load_relaxed(&world->z);
}

static void own_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("a", 0, own_words, (void *)1);
	check_task("b", 1, own_words, NULL);
}

static void own_finish(const void *arg)
{
	(void)arg;
	outcomes |= 1u << ((world->seen[0] == 11) * 2 + (world->seen[1] == 11));
}

/* Steps that have nothing to do with each other need not be tried both ways; what can come
 * out is the same. */
static void exhaustive_sleep_sets_fewer_schedules_same_outcomes(void **state)
{
	static const struct check_scenario own = { "own", 2, NULL, own_setup,
		                                   own_finish };
	struct check_options o = { .strategy = CHECK_EXHAUSTIVE,
		                   .nr_schedules = MANY,
		                   .preemption_bound = 100,
		                   .every_order = true };
	struct check_result plain, sleeping;
	u64 plain_outcomes;

	(void)state;
	outcomes = 0;
	check_run(&own, &o, true, &plain);
	plain_outcomes = outcomes;
	sleeping = run(&own, CHECK_EXHAUSTIVE, CHECK_SC, MANY);
	assert_true(plain.complete && sleeping.complete);
	assert_int_equal(outcomes, plain_outcomes);
	assert_int_equal(plain_outcomes, 0xe);
	assert_true(sleeping.schedules * 4 < plain.schedules);
}

/* ---- bugs that are there ---- */

static void lose(void *arg)
{
	(void)arg;
	host_store_relaxed(&world->x, host_load_relaxed(&world->x) + 1);
}

static void lost_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("a", 0, lose, NULL);
	check_task("b", 1, lose, NULL);
}

static void lost_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->x == 2, "no update is lost");
}

static void lost_update_every_strategy_finds_it(void **state)
{
	static const struct check_scenario lost = { "lost", 2, NULL, lost_setup,
		                                    lost_finish };

	(void)state;
	for (u32 i = 0; i < NR_ALL; i++) {
		struct check_result r = run(&lost, all[i], CHECK_SC, MANY);

		assert_int_equal(r.violations, 1);
		assert_non_null(strstr(r.what, "no update is lost"));
	}
}

/* Depth 3: left must stop after its first step and right after its first, and left must go
 * on first. The order of these change points in time is not that of their priorities. */
static void inverse_left(void *arg)
{
	(void)arg;
	host_fetch_add(&world->x, 1);
	for (u32 i = 0; i < 10; i++)
		host_load_relaxed(&world->z);
	if (host_load_relaxed(&world->y) == 1)
		host_store_relaxed(&world->x, 5);
}

static void inverse_right(void *arg)
{
	(void)arg;
	if (host_load_relaxed(&world->x) != 1)
		return;
	host_fetch_add(&world->y, 1);
	for (u32 i = 0; i < 10; i++)
		host_load_relaxed(&world->z);
	host_fetch_add(&world->y, 1);
	CHECK_ASSERT(host_load_relaxed(&world->x) != 5, "the bug at depth 3");
}

static void inverse_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("left", 0, inverse_left, NULL);
	check_task("right", 1, inverse_right, NULL);
}

static void pct_inverse_change_points_found(void **state)
{
	static const struct check_scenario s = { "inverse", 2, NULL, inverse_setup,
		                                 NULL };

	(void)state;
	assert_int_equal(run(&s, CHECK_PCT3, CHECK_SC, MANY).violations, 1);
	assert_int_equal(run(&s, CHECK_PCT4, CHECK_SC, MANY).violations, 1);
}

/* ---- the same again ---- */

static void seed_same_same_schedule_and_only_replays_it(void **state)
{
	static const struct check_scenario lost = { "lost", 2, NULL, inverse_setup,
		                                    NULL };
	struct check_options o = { .seed = 5, .nr_schedules = MANY };
	struct check_result a, b, c;

	(void)state;
	for (u32 i = 0; i < 3; i++) {
		o.strategy = all[i];
		o.only = 0;
		check_run(&lost, &o, true, &a);
		check_run(&lost, &o, true, &b);
		assert_int_equal(a.schedule, b.schedule);
		assert_int_equal(a.steps, b.steps);
		assert_string_equal(a.what, b.what);
		if (!a.violations)
			continue;
		o.only = a.schedule + 1;
		check_run(&lost, &o, true, &c);
		assert_int_equal(c.violations, 1);
		assert_int_equal(c.schedules, 1);
		assert_string_equal(a.what, c.what);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(store_buffering_sc_never_both_zero),
		cmocka_unit_test(store_buffering_tso_both_zero_by_every_strategy),
		cmocka_unit_test(store_buffering_fences_never_both_zero),
		cmocka_unit_test(
			store_buffering_failed_cas_both_zero_by_every_strategy),
		cmocka_unit_test(store_buffering_one_cpu_never_both_zero),
		cmocka_unit_test(message_passing_tso_in_order_and_forwarded),
		cmocka_unit_test(cas_tso_own_store_seen_and_drained_on_success),
		cmocka_unit_test(exhaustive_two_by_two_steps_all_orders_and_complete),
		cmocka_unit_test(exhaustive_bound_zero_no_preemption),
		cmocka_unit_test(exhaustive_too_few_schedules_not_complete),
		cmocka_unit_test(exhaustive_sleep_sets_fewer_schedules_same_outcomes),
		cmocka_unit_test(lost_update_every_strategy_finds_it),
		cmocka_unit_test(pct_inverse_change_points_found),
		cmocka_unit_test(seed_same_same_schedule_and_only_replays_it),
	};

	printf("seed=1\n");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
