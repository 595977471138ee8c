/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The timing model's caches and homes (host/sim/caches.c) against arithmetic: what a cache of a
 * size forgets, where it comes from then, and what that costs.
 */
#include "tests/support/sim_world.h"

#define LINES 64u /* that a body goes through */

/* Own caches of 16 lines in sets of 4, a socket's of 32 in sets of 8. */
static struct sim_machine small_caches(void)
{
	struct sim_machine m = plain_machine();

	m.private_kib = 1;
	m.private_ways = 4;
	m.shared_kib = 2;
	m.shared_ways = 8;
	m.has_caches = true;
	return m;
}

static u64 *words;

static u64 load(u32 line)
{
	u64 from = host_now_ns();

	host_load_relaxed(&words[line * 8]);
	return host_now_ns() - from;
}

/* The same lines again and again: the costs of the last round, added. */
static void body_rounds(void *arg)
{
	u32 nr = *(const u32 *)arg;

	for (u32 round = 0; round < 4; round++) {
		s.cost[0] = 0;
		for (u32 i = 0; i < nr; i++)
			s.cost[0] += load(i);
	}
}

static u64 round_of(struct sim_machine m, u32 nr)
{
	struct sim_result r;

	begin(&m, 1);
	words = host_alloc(LINES * 64, 64);
	assert_non_null(words);
	sim_task(0, body_rounds, &nr);
	sim_run(0, 1000000, &r);
	return s.cost[0];
}

static void lines_that_fit_stay(void **state)
{
	struct sim_machine m = small_caches();

	(void)state;
	assert_int_equal(round_of(m, 1), m.hit);
	assert_int_equal(round_of(m, 3), 3 * m.hit);
	m.has_caches = false;
	assert_int_equal(round_of(m, LINES), LINES * m.hit);
}

/* A round of more lines than a cache has forgets each line before its turn: always in a set
 * whose lines do not fit. */
static void lines_that_do_not_fit_come_from_the_next_level(void **state)
{
	struct sim_machine m = small_caches();
	u64 cost;

	(void)state;
	m.private_ways = 16; /* one set */
	m.shared_ways = 32;
	assert_int_equal(round_of(m, 16), 16 * m.hit);
	assert_int_equal(round_of(m, 17), 17 * m.load_shared[0]);
	assert_int_equal(round_of(m, 32), 32 * m.load_shared[0]);
	assert_int_equal(round_of(m, 33), 33 * m.load_memory[0]);
	m = small_caches();
	cost = round_of(m,
	                24); /* some sets have more than their ways, others have not */
	assert_in_range(cost, 24 * m.hit + 1, 24 * m.load_shared[0]);
	assert_int_equal(round_of(m, LINES), round_of(m, LINES));
}

/* CPU 0 is the first to use the line. CPU 4 is on the other socket. */
static void body_first(void *arg)
{
	(void)arg;
	s.cost[0] = load(0);
	for (u32 i = 1; i < LINES; i++)
		load(i); /* the line is forgotten */
	sim_sleep(200000 - host_now_ns());
	s.cost[3] = load(0);
}

static void body_other(void *arg)
{
	(void)arg;
	sim_sleep(100000);
	s.cost[1] = load(0);
	s.cost[2] = load(0);
	for (u32 i = 1; i < LINES; i++)
		load(i);
}

static void memory_is_at_the_first_users_socket(void **state)
{
	struct sim_machine m = small_caches();
	struct sim_result r;

	(void)state;
	begin(&m, 1);
	words = host_alloc(LINES * 64, 64);
	sim_task(0, body_first, NULL);
	sim_task(4, body_other, NULL);
	sim_run(0, 1000000, &r);
	assert_int_equal(s.cost[0], m.load_memory[0]);
	assert_int_equal(s.cost[1], m.load_memory[1]);
	assert_int_equal(s.cost[2], m.hit);
	assert_int_equal(s.cost[3], m.load_memory[0]);
}

/* A line that another CPU of the socket has, too. */
static void body_sharer(void *arg)
{
	u32 self = *(const u32 *)arg;

	sim_sleep(1000 + self * 1000 - host_now_ns());
	load(0);
	if (self == 1) /* its own caches forget the line, the socket's does not */
		for (u32 i = 1; i < 20; i++)
			load(i);
	sim_sleep(50000 - host_now_ns() + self * 1000);
	s.cost[self] = load(0);
}

static void one_cpu_forgets_for_itself(void **state)
{
	struct sim_machine m = small_caches();
	struct sim_result r;

	(void)state;
	m.private_ways = 16;
	m.shared_ways = 32;
	begin(&m, 1);
	words = host_alloc(LINES * 64, 64);
	tasks_on_all(body_sharer, 2);
	sim_run(0, 1000000, &r);
	assert_int_equal(s.cost[0], m.hit);
	assert_int_equal(s.cost[1], m.load_shared[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_that_fit_stay),
		cmocka_unit_test(lines_that_do_not_fit_come_from_the_next_level),
		cmocka_unit_test(memory_is_at_the_first_users_socket),
		cmocka_unit_test(one_cpu_forgets_for_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
