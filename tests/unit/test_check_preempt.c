/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Sections with preemption off (host_preempt_off()) in the checker: what cannot happen in
 * them any more, and what still can. The same of restartable sequences with a gate.
 */
#include <string.h>

#include "tests/support/check_world.h"

#define MANY 20000u

struct plan {
	bool off;       /* the section has preemption off */
	bool elsewhere; /* the other task runs on another CPU */
	bool moves;     /* the first task is moved */
};

static const struct plan *plan;

/* Adds 1 to a word by a load and a store. */
static void add(u64 *p)
{
	u64 cpu = plan->off ? host_preempt_off() : host_cpu();

	world->seen[2] = 1;
	host_store_relaxed(p, host_load_relaxed(p) + 1);
	/* Still on the CPU that it was told? */
	if (cpu != host_cpu())
		world->seen[0]++;
	world->seen[2] = 0;
	if (plan->off)
		host_preempt_on();
}

static void adder(void *arg)
{
	(void)arg;
	add(&world->x);
	add(&world->x);
	world->seen[1] = host_cpu();
}

static void mover(void *arg)
{
	(void)arg;
	world->seen[3] = world->seen[2];
	check_migrate(0, 1);
}

static void add_setup(const void *arg)
{
	plan = arg;
	world_make();
	check_task("adder", 0, adder, NULL);
	if (plan->moves)
		check_fault("mover", mover, NULL);
	else
		check_task("adder", plan->elsewhere ? 1 : 0, adder, NULL);
}

#define LOST 1u       /* an addition was lost */
#define WAS_MOVED 2u  /* in the middle of a section */
#define MOVE_LOST 4u  /* it was asked for there, and never came */
#define HAS_WAITED 8u /* it came at the end */
#define ALL_WELL 16u

static void add_finish(const void *arg)
{
	(void)arg;
	if (world->x != (plan->moves ? 2 : 4))
		outcomes |= LOST;
	if (world->seen[0])
		outcomes |= WAS_MOVED;
	if (world->seen[3])
		outcomes |= world->seen[1] == 1 ? HAS_WAITED : MOVE_LOST;
	if (world->x == 4 && !world->seen[0])
		outcomes |= ALL_WELL;
}

static u64 outcomes_of(const struct plan *p)
{
	const struct check_scenario s = { "add", 2, p, add_setup, add_finish };
	u64 found = 0;

	for (u32 i = 0; i < NR_ALL; i++)
		for (u32 m = 0; m < 2; m++) {
			struct check_result r =
				run(&s, all[i], m ? CHECK_TSO : CHECK_SC, MANY);

			assert_int_equal(r.violations, 0);
			found |= outcomes;
		}
	return found;
}

static void off_same_cpu_nothing_lost(void **state)
{
	const struct plan on = { false, false, false };
	const struct plan off = { true, false, false };

	(void)state;
	assert_int_equal(outcomes_of(&on), LOST | ALL_WELL);
	assert_int_equal(outcomes_of(&off), ALL_WELL);
}

static void off_other_cpu_goes_on(void **state)
{
	const struct plan p = { true, true, false };

	(void)state;
	assert_true(outcomes_of(&p) & LOST);
}

static void off_move_waits_for_the_end(void **state)
{
	const struct plan on = { false, false, true };
	const struct plan off = { true, false, true };

	(void)state;
	assert_true(outcomes_of(&on) & WAS_MOVED);
	assert_int_equal(outcomes_of(&off), HAS_WAITED);
}

/* ---- what a task must not do there ---- */

static bool never(void *arg)
{
	(void)arg;
	return false;
}

static void ends(void *arg)
{
	(void)arg;
	host_preempt_off();
}

static void nests(void *arg)
{
	(void)arg;
	host_preempt_off();
	host_preempt_off();
}

static void waits(void *arg)
{
	(void)arg;
	host_preempt_off();
	check_wait(never, NULL);
}

static void only_on(void *arg)
{
	(void)arg;
	host_preempt_on();
}

static void wrong_setup(const void *arg)
{
	world_make();
	check_task("wrong", 0, *(void (*const *)(void *))arg, NULL);
}

static void off_misused_is_told(void **state)
{
	static const struct {
		void (*body)(void *);
		const char *said;
	} wrong[] = {
		{ ends, "ends with preemption off" },
		{ nests, "off twice" },
		{ waits, "waits with preemption off" },
		{ only_on, "on twice" },
	};

	(void)state;
	for (u32 i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const struct check_scenario s = { "wrong", 1, &wrong[i].body,
			                          wrong_setup, NULL };
		struct check_result r = run(&s, CHECK_RANDOM, CHECK_SC, 1);

		assert_int_equal(r.violations, 1);
		assert_non_null(strstr(r.what, wrong[i].said));
	}
}

/* ---- alone: in setup() and finish() ---- */

static void alone_setup(const void *arg)
{
	(void)arg;
	world_make();
	assert_int_equal(host_preempt_off(), 0);
	host_preempt_on();
	check_alone_on(1);
	assert_int_equal(host_cpu(), 1);
	assert_int_equal(host_preempt_off(), 1);
	host_preempt_on();
	check_task("adder", 0, adder, NULL);
}

static void alone_finish(const void *arg)
{
	(void)arg;
	assert_int_equal(host_cpu(), 0);
	assert_int_equal(world->seen[1], 0);
}

static void alone_on_says_so(void **state)
{
	static const struct plan p = { true, false, false };
	static const struct check_scenario s = { "alone", 2, NULL, alone_setup,
		                                 alone_finish };

	(void)state;
	plan = &p;
	assert_int_equal(run(&s, CHECK_RANDOM, CHECK_SC, 2).violations, 0);
}

/* ---- restartable sequences with a gate ---- */

#define DONE 1u
#define SHUT 2u
#define DISTURBED 4u
#define COMMIT_LATE 8u /* after another CPU has closed the gate, fenced, and looked */

static bool aborts;

static void step_task(void *arg)
{
	(void)arg;
	world->seen[0] = 1 + (u64)host_percpu_step(&world->y, &world->seen[3], 0,
	                                           &world->x, 0, 0, 1);
}

static void closer(void *arg)
{
	(void)arg;
	host_xchg(&world->y, HOST_STEP_CLOSED);
	if (aborts)
		host_fence_abort();
	else
		host_fence_heavy();
	world->seen[1] = 1 + host_load_relaxed(&world->x);
}

static void step_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("stepper", 0, step_task, NULL);
	check_task("closer", 1, closer, NULL);
}

static void step_finish(const void *arg)
{
	(void)arg;
	assert_int_equal(world->x, world->seen[0] == 1 + HOST_STEP_DONE);
	outcomes |= world->seen[0] == 1 + HOST_STEP_DONE   ? DONE
	            : world->seen[0] == 1 + HOST_STEP_SHUT ? SHUT
	                                                   : DISTURBED;
	if (world->seen[1] == 1 && world->x == 1)
		outcomes |= COMMIT_LATE;
}

static u64 step_outcomes(const struct check_scenario *s)
{
	u64 found = 0;

	for (u32 i = 0; i < NR_ALL; i++)
		for (u32 m = 0; m < 2; m++) {
			struct check_result r =
				run(s, all[i], m ? CHECK_TSO : CHECK_SC, MANY);

			assert_int_equal(r.violations, 0);
			found |= outcomes;
		}
	return found;
}

static void step_commits_late_unless_aborted(void **state)
{
	const struct check_scenario s = { "step", 2, NULL, step_setup, step_finish };

	(void)state;
	aborts = false;
	assert_int_equal(step_outcomes(&s), DONE | SHUT | COMMIT_LATE);
	aborts = true;
	assert_int_equal(step_outcomes(&s), DONE | SHUT | DISTURBED);
}

/* Each adds 1, and tries again when it was disturbed. */
static void step_adder(void *arg)
{
	(void)arg;
	for (;;) {
		u64 v = host_load_relaxed(&world->x);
		enum host_step end = host_percpu_step(&world->y, &world->seen[3], 0,
		                                      &world->x, 0, v, v + 1);

		if (end == HOST_STEP_DONE)
			return;
		world->seen[0] = 1;
	}
}

static void adders_setup(const void *arg)
{
	(void)arg;
	world_make();
	check_task("adder", 0, step_adder, NULL);
	check_task("adder", 0, step_adder, NULL);
}

static void adders_finish(const void *arg)
{
	(void)arg;
	assert_int_equal(world->x, 2);
	outcomes |= world->seen[0] ? DISTURBED : DONE;
}

static void step_of_two_tasks_loses_nothing(void **state)
{
	const struct check_scenario s = { "steps", 1, NULL, adders_setup, adders_finish };

	(void)state;
	assert_int_equal(step_outcomes(&s), DONE | DISTURBED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(step_commits_late_unless_aborted),
		cmocka_unit_test(step_of_two_tasks_loses_nothing),
		cmocka_unit_test(off_same_cpu_nothing_lost),
		cmocka_unit_test(off_other_cpu_goes_on),
		cmocka_unit_test(off_move_waits_for_the_end),
		cmocka_unit_test(off_misused_is_told),
		cmocka_unit_test(alone_on_says_so),
	};

	return cmocka_run_group_tests_name("check_preempt", tests, NULL, NULL);
}
