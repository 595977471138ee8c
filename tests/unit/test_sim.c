/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Lines in the timing model (host/sim/sim.h) against arithmetic: what an access costs,
 * what moves and what does not. Two mistakes that such a model is prone to have tests:
 * queues that keep their order for ever, and lines that leave before a retry.
 */
#include "tests/support/sim_world.h"

static u64 timed(void (*step)(u64 *), u64 *p)
{
	u64 from = host_now_ns();

	step(p);
	return host_now_ns() - from;
}

static void step_load(u64 *p)
{
	host_load_relaxed(p);
}

static void step_load_dep(u64 *p)
{
	host_load_dep(p);
}

static void step_store(u64 *p)
{
	host_store_relaxed(p, 1);
}

static void step_add(u64 *p)
{
	host_fetch_add(p, 1);
}

static void step_fence(u64 *p)
{
	(void)p;
	host_fence_full();
}

static void step_light(u64 *p)
{
	(void)p;
	host_fence_light();
	host_fence_acquire();
	host_fence_release();
}

static void step_heavy(u64 *p)
{
	(void)p;
	host_fence_heavy();
}

/* Takes the line at each full and half ten microseconds, so that no CPU queues. */
static void sleep_until(u64 ns)
{
	sim_sleep(ns - host_now_ns());
}

static void body_near(void *arg)
{
	(void)arg;
	sleep_until(10000);
	s.cost[0] = timed(step_add, s.word); /* from memory */
	s.cost[1] = timed(step_add, s.word); /* still there */
	sleep_until(30000);
	s.cost[2] = timed(step_add, s.word); /* back from the other socket */
	sleep_until(50000);
	s.cost[3] =
		timed(step_store, s.word); /* from a clean copy, of the other socket */
	sleep_until(70000);
	s.cost[4] = timed(step_load, s.word); /* from a dirty one, same socket */
	s.cost[5] = timed(step_load_dep, s.word);
	s.cost[6] = timed(step_load, s.word);
}

static void body_far(void *arg)
{
	(void)arg;
	sleep_until(20000);
	s.cost[7] = timed(step_add, s.word);
	sleep_until(40000);
	s.cost[8] = timed(step_load, s.word);
	s.cost[9] = timed(step_fence, s.word);
	s.cost[10] = timed(step_light, s.word);
	s.cost[11] = timed(step_heavy, s.word);
}

static void body_neighbour(void *arg)
{
	(void)arg;
	sleep_until(60000);
	s.cost[12] = timed(step_add, s.word);
}

static void access_costs_the_parameter(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	begin(&m, 1);
	sim_task(0, body_near, NULL);
	sim_task(4, body_far, NULL);
	sim_task(1, body_neighbour, NULL);
	sim_run(0, 100000, &r);
	assert_int_equal(s.cost[0], m.load_memory[0]);
	assert_int_equal(s.cost[1], m.hit + m.rmw_extra);
	assert_int_equal(s.cost[7], m.rmw_dirty[1]);
	assert_int_equal(s.cost[2], m.rmw_dirty[1]);
	assert_int_equal(s.cost[8], m.load_dirty[1]);
	assert_int_equal(s.cost[3], m.rmw_shared[1]);
	assert_int_equal(s.cost[12], m.rmw_dirty[0]);
	assert_int_equal(s.cost[4], m.load_dirty[0]);
	assert_int_equal(s.cost[5], m.hit_dep);
	assert_int_equal(s.cost[6], m.hit);
	assert_int_equal(s.cost[9], m.fence);
	assert_int_equal(s.cost[10], 0);
	assert_int_equal(s.cost[11], m.fence_heavy_ns);
	assert_int_equal(transfers_of(&r, "word"), 7);
	assert_int_equal(*s.word, 2); /* a store of 1, and the neighbour's add */
}

/* Waits for its turn, then hands the word on. */
static void body_ping_pong(void *arg)
{
	u64 parity = *(const u64 *)arg;

	while (!sim_stopping()) {
		u64 v = host_load_relaxed(s.word);

		if ((v & 1) != parity) {
			host_relax();
			continue;
		}
		host_store_relaxed(s.word, v + 1);
		sim_op_done();
	}
}

static void ping_pong_costs_two_transfers_each_way(void **state)
{
	static const u64 parities[2] = { 0, 1 };
	struct sim_machine m = plain_machine();
	struct sim_result r;
	double ns, expected = m.load_dirty[1] + m.rmw_shared[1] + m.hold_ns;

	(void)state;
	begin(&m, 1);
	sim_task(0, body_ping_pong, (void *)&parities[0]);
	sim_task(4, body_ping_pong, (void *)&parities[1]);
	sim_run(10000, 1000000, &r);
	ns = 1000.0 / r.mops;
	assert_true(ns > expected * 0.95 && ns < expected * 1.1);
	assert_true(transfers_of(&r, "word") >= 2 * r.ops - 2);
	assert_true(transfers_of(&r, "word") <= 2 * r.ops + 2);
}

static void private_lines_never_move(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	begin(&m, 1);
	tasks_on_all(body_private, 8);
	sim_run(2000, 100000, &r);
	assert_int_equal(r.transfers, 0);
	/* Each add takes 20 ns: 5000 in the window. */
	assert_true(r.ops >= 8 * 4999 && r.ops <= 8 * 5001);
}

static void body_reader(void *arg)
{
	(void)arg;
	while (!sim_stopping()) {
		host_load_relaxed(s.word);
		sim_op_done();
	}
}

static void read_lines_stop_moving(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	begin(&m, 1);
	tasks_on_all(body_reader, 8);
	sim_run(5000, 20000, &r);
	assert_int_equal(r.transfers, 0);
	assert_true(r.ops > 8 * 19000);
	begin(&m, 1);
	tasks_on_all(body_reader, 8);
	sim_run(0, 20000, &r);
	assert_int_equal(transfers_of(&r, "word"), 8); /* each fetches it once */
}

static void same_seed_same_numbers(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result a, b, c;
	u32 owners[4096];

	(void)state;
	m.jitter_percent = 10;
	hammer(&m, 7, &a);
	memcpy(owners, s.owners, sizeof(owners));
	hammer(&m, 7, &b);
	assert_memory_equal(owners, s.owners, sizeof(owners));
	assert_memory_equal(&a, &b, sizeof(a));
	hammer(&m, 8, &c);
	assert_memory_not_equal(owners, s.owners, sizeof(owners));
}

/* A queue served in order would give every CPU the same successor each time, and two
 * neighbours in it would stay neighbours. */
static void contended_line_order_is_not_kept(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;
	u32 successor[8] = { 0 }, same = 0, i;

	(void)state;
	hammer(&m, 3, &r);
	assert_true(s.nr_owners > 1000);
	for (i = 0; i + 1 < s.nr_owners; i++) {
		u32 next = s.owners[i + 1] + 1;

		same += successor[s.owners[i]] == next;
		successor[s.owners[i]] = next;
	}
	/* One of seven by chance. */
	assert_true(same < s.nr_owners / 3);
	for (i = 0; i < 8; i++)
		assert_in_range(s.ops[i], r.ops / 16, r.ops / 4);
}

static void queued_transfer_costs_its_share(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result whole, half;

	(void)state;
	m.hold_ns = 0;
	hammer(&m, 3, &whole);
	m.queued_percent = 50;
	hammer(&m, 3, &half);
	/* Of 8 CPUs most stand in the queue; one is at work meanwhile. */
	assert_true(half.mops > 1.9 * whole.mops && half.mops < 2.1 * whole.mops);
}

static u32 hand_overs_in_socket(void)
{
	u32 i, nr = 0;

	for (i = 0; i + 1 < s.nr_owners; i++)
		nr += s.owners[i] / 4 == s.owners[i + 1] / 4;
	return nr * 100 / s.nr_owners;
}

static void contended_line_bias_keeps_it_in_the_socket(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result fair, biased;

	(void)state;
	hammer(&m, 3, &fair);
	assert_in_range(hand_overs_in_socket(), 30, 55); /* three of seven */
	m.same_socket_percent = 90;
	hammer(&m, 3, &biased);
	assert_in_range(hand_overs_in_socket(), 75, 100);
	assert_true(biased.mops > fair.mops * 1.1);
}

static void body_cas(void *arg)
{
	u32 self = *(const u32 *)arg;

	while (!sim_stopping()) {
		u64 v;

		do {
			v = host_load_relaxed(s.word);
			s.cost[self]++;
		} while (!host_cas(s.word, v, v + 1));
		sim_op_done();
	}
}

/* Tries of a loop of load and cas, for each time that it succeeds. */
static double cas_tries(u32 hold_ns)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;
	u64 tries = 0;

	m.hold_ns = hold_ns;
	begin(&m, 5);
	tasks_on_all(body_cas, 8);
	sim_run(0, 500000, &r);
	for (u32 i = 0; i < 8; i++)
		tries += s.cost[i];
	assert_true(r.ops > 100);
	return (double)tries / (double)r.ops;
}

static void held_line_lets_a_retry_succeed(void **state)
{
	(void)state;
	assert_true(cas_tries(30) < 2.5);
	assert_true(cas_tries(0) > 2 * cas_tries(30));
}

static void body_copy(void *arg)
{
	static u8 *to, *from;
	u64 start;

	(void)arg;
	to = host_alloc(4096, 64);
	from = host_alloc(4096, 64);
	from[4095] = 9;
	start = host_now_ns();
	host_copy(to, from, 4096);
	s.cost[0] = host_now_ns() - start;
	start = host_now_ns();
	host_copy(to, from, 4096);
	s.cost[1] = host_now_ns() - start;
	s.cost[2] = to[4095];
}

static void copy_costs_bytes_and_missing_lines(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	begin(&m, 1);
	sim_task(0, body_copy, NULL);
	sim_run(0, 100000, &r);
	assert_int_equal(s.cost[1], 4096 / m.copy_bytes_per_cycle);
	assert_int_equal(s.cost[0], s.cost[1] + 128 * m.load_memory[0] / m.copy_overlap);
	assert_int_equal(s.cost[2], 9);
	assert_int_equal(r.transfers, 128);
}

static void body_percpu(void *arg)
{
	u64 *words = s.own[0];

	while (!sim_stopping()) {
		u32 cpu = host_percpu_add(words, LINE_WORDS, 1);

		assert_int_equal(cpu, *(const u32 *)arg);
		assert_false(host_percpu_cas(words, cpu + 1, 0, 1));
		s.ops[cpu]++;
		sim_op_done();
	}
}

static void percpu_words_are_private(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;
	u64 *words;

	(void)state;
	begin(&m, 1);
	words = host_alloc(8 * 64, 64);
	for (u32 i = 0; i < 8; i++) {
		numbers[i] = i;
		sim_task(i, body_percpu, &numbers[i]);
	}
	s.own[0] = words;
	sim_run(1000, 10000, &r);
	assert_int_equal(r.transfers, 0);
	for (u32 i = 0; i < 8; i++)
		assert_int_equal(words[i * LINE_WORDS], s.ops[i]);
}

static void body_unnamed(void *arg)
{
	(void)arg;
	host_load_relaxed(s.own[1]);
	host_load_relaxed(s.own[2]);
}

static void names_count_their_own_lines(void **state)
{
	struct sim_machine m = plain_machine();
	struct sim_result r;

	(void)state;
	begin(&m, 1);
	s.own[1] = new_line("named");
	s.own[2] = host_alloc(64, 64);
	sim_task(0, body_unnamed, NULL);
	sim_run(0, 10000, &r);
	assert_int_equal(transfers_of(&r, "word"), 0);
	assert_int_equal(transfers_of(&r, "named"), 1);
	assert_int_equal(transfers_of(&r, "other"), 1);
	assert_int_equal(r.transfers, 2);
	assert_string_equal(r.lines[r.nr_lines - 1].name, "other");
}

int main(void)
{
	const struct CMUnitTest lines[] = {
		cmocka_unit_test(access_costs_the_parameter),
		cmocka_unit_test(ping_pong_costs_two_transfers_each_way),
		cmocka_unit_test(private_lines_never_move),
		cmocka_unit_test(read_lines_stop_moving),
		cmocka_unit_test(same_seed_same_numbers),
		cmocka_unit_test(contended_line_order_is_not_kept),
		cmocka_unit_test(queued_transfer_costs_its_share),
		cmocka_unit_test(contended_line_bias_keeps_it_in_the_socket),
		cmocka_unit_test(held_line_lets_a_retry_succeed),
		cmocka_unit_test(copy_costs_bytes_and_missing_lines),
		cmocka_unit_test(percpu_words_are_private),
		cmocka_unit_test(names_count_their_own_lines),
	};

	return cmocka_run_group_tests(lines, NULL, NULL);
}
