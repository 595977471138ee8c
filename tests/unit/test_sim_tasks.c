/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Clocks and tasks in the timing model (host/sim/sim.h). No task runs ahead by more than
 * the skew, or at all on shared lines. Ticks, slices, sleep and locks of tasks that
 * share a CPU work. The model holds as many CPUs as it claims.
 */
#include "tests/support/sim_world.h"

static void body_ahead(void *arg)
{
	u32 self = *(const u32 *)arg;

	while (!sim_stopping()) {
		u64 now;

		host_store_relaxed(s.own[self], 1);
		now = host_now_ns();
		s.last[self] = now;
		for (u32 i = 0; i < 8; i++)
			if (now > s.last[i] + s.max_ahead)
				s.max_ahead = now - s.last[i];
	}
}

static void private_lines_clocks_stay_together(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	begin(&m, 1);
	tasks_on_all(body_ahead, 8);
	sim_run(0, 100000, &r);
	/* Tasks begin up to 1000 ns apart; no task has a clock before that. */
	assert_true(s.max_ahead > 0);
	assert_true(s.max_ahead <= 1000 + m.skew_ns + m.store + m.load_memory[0]);
}

static void body_mixed(void *arg)
{
	u32 self = *(const u32 *)arg;

	while (!sim_stopping()) {
		u64 now;

		for (u32 i = 0; i < 1 + self; i++)
			host_store_relaxed(s.own[self], i);
		now = host_now_ns();
		host_fetch_add(s.word, 1);
		/* The access took effect after the task asked for it, and before now. */
		if (host_now_ns() < s.newest)
			s.order_broken++;
		s.newest = now;
	}
}

static void shared_line_is_in_exact_order(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	m.jitter_percent = 20;
	begin(&m, 1);
	tasks_on_all(body_mixed, 8);
	sim_run(0, 200000, &r);
	assert_int_equal(s.order_broken, 0);
	assert_true(host_load_relaxed(s.word) > 500);
}

static void tick(void *arg, u32 cpu)
{
	assert_ptr_equal(arg, &s);
	assert_int_equal(cpu, host_cpu());
	s.ticks[cpu]++;
}

static void every_ticks_on_all_cpus(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	begin(&m, 1);
	tasks_on_all(body_private, 5); /* the other three CPUs are idle */
	sim_every(1000, tick, &s);
	sim_run(0, 100000, &r);
	for (u32 i = 0; i < 8; i++)
		assert_in_range(s.ticks[i], 98, 101);
}

static void tasks_of_one_cpu_share_it(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result alone, both;

	(void)state;
	begin(&m, 1);
	tasks_on_all(body_private, 1);
	sim_run(0, 1000000, &alone);
	begin(&m, 1);
	tasks_on_all(body_private, 1);
	s.own[1] = new_line("own");
	numbers[1] = 1;
	sim_task(0, body_private, &numbers[1]);
	sim_run(0, 1000000, &both);
	assert_true(s.ops[0] > both.ops * 45 / 100 && s.ops[1] > both.ops * 45 / 100);
	/* A slice is 10 us, a switch 100 ns. */
	assert_true(both.ops < alone.ops && both.ops > alone.ops * 98 / 100);
}

static void body_sleeper(void *arg)
{
	u32 self = *(const u32 *)arg;

	while (!sim_stopping()) {
		sim_sleep(1000);
		s.ops[self]++;
	}
}

static void sleeping_task_leaves_its_cpu(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	m.switch_ns = 0;
	begin(&m, 1);
	numbers[1] = 1;
	sim_task(0, body_sleeper, &numbers[1]);
	tasks_on_all(body_private, 1);
	sim_run(0, 100000, &r);
	/* The other one may be ahead by the skew when it wakes up. */
	assert_in_range(s.ops[1], 100000 / (1000 + m.skew_ns + 100), 100);
	assert_true(r.ops > 4900);
}

static void body_locker(void *arg)
{
	u32 self = *(const u32 *)arg;

	while (!sim_stopping()) {
		host_lock(s.word);
		s.inside++;
		s.holder = 1 + host_cpu();
		if (s.inside > s.max_inside)
			s.max_inside = s.inside;
		sim_work(300);
		host_store_relaxed(s.own[self], 1);
		s.holder = 0;
		s.inside--;
		host_unlock(s.word);
		s.ops[self]++;
		sim_op_done();
	}
}

static void tick_that_locks(void *arg, u32 cpu)
{
	(void)arg;
	/* Interrupts are off on the holder's CPU. */
	if (s.holder == 1 + cpu)
		s.order_broken++;
	host_lock(s.word);
	s.ticks[cpu]++;
	host_unlock(s.word);
}

/* Two tasks on each CPU and a tick want the lock. None may wait for a holder that is
 * not allowed to run. */
static void lock_excludes_and_goes_on(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	m.slice_ns = 700;
	begin(&m, 1);
	tasks_on_all(body_locker, 8);
	for (u32 i = 8; i < 16; i++) {
		numbers[i] = i;
		s.own[i] = new_line("own");
		sim_task(i - 8, body_locker, &numbers[i]);
	}
	sim_every(5000, tick_that_locks, NULL);
	sim_run(0, 2000000, &r);
	assert_int_equal(s.max_inside, 1);
	assert_int_equal(s.order_broken, 0);
	assert_true(r.ops > 300);
	for (u32 i = 0; i < 16; i++)
		assert_true(s.ops[i] > 0);
	for (u32 i = 0; i < 8; i++)
		assert_true(s.ticks[i] > 10);
}

/* Adds 1 to a word of the CPU by a load and a store. */
static void body_section(void *arg)
{
	u32 self = *(const u32 *)arg;
	u64 v;

	while (!sim_stopping()) {
		assert_int_equal(host_preempt_off(), 0);
		v = host_load_relaxed(s.own[0]);
		sim_work(300);
		host_load_relaxed(s.own[1]);
		host_store_relaxed(s.own[0], v + 1);
		host_preempt_on();
		s.ops[self]++;
		sim_op_done();
		host_load_relaxed(s.own[1]);
	}
}

static void preempt_off_tasks_of_a_cpu_take_turns_outside(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	m.slice_ns = 700;
	begin(&m, 1);
	tasks_on_all(body_section, 1);
	s.own[1] = new_line("own");
	numbers[1] = 1;
	sim_task(0, body_section, &numbers[1]);
	sim_run(0, 1000000, &r);
	assert_int_equal(*s.own[0], s.ops[0] + s.ops[1]);
	assert_true(s.ops[0] > 100 && s.ops[1] > 100);
}

static void world_of_512_cpus_runs(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	m.cpus_per_socket = SIM_MAX_CPUS / 2;
	begin(&m, 1);
	tasks_on_all(body_hammer, SIM_MAX_CPUS);
	sim_run(0, 1000000, &r);
	for (u32 i = 0; i < SIM_MAX_CPUS; i++)
		assert_true(s.ops[i] > 0);
	assert_true(transfers_of(&r, "word") > 1000);
}

static void run_twice_goes_on_in_the_same_world(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result first, second;

	(void)state;
	hammer(&m, 1, &first);
	for (u32 i = 0; i < 8; i++)
		sim_task(i, body_hammer, &numbers[i]);
	sim_run(10000, 500000, &second);
	assert_true(second.ops > first.ops * 9 / 10 &&
	            second.ops < first.ops * 11 / 10);
}

int main(void)
{
	const struct CMUnitTest tasks[] = {
		cmocka_unit_test(private_lines_clocks_stay_together),
		cmocka_unit_test(shared_line_is_in_exact_order),
		cmocka_unit_test(every_ticks_on_all_cpus),
		cmocka_unit_test(tasks_of_one_cpu_share_it),
		cmocka_unit_test(sleeping_task_leaves_its_cpu),
		cmocka_unit_test(lock_excludes_and_goes_on),
		cmocka_unit_test(preempt_off_tasks_of_a_cpu_take_turns_outside),
		cmocka_unit_test(world_of_512_cpus_runs),
		cmocka_unit_test(run_twice_goes_on_in_the_same_world),
	};

	return cmocka_run_group_tests(tasks, NULL, NULL);
}
