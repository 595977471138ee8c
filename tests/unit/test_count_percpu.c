/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the schemes that count by CPU do beyond the contract (tests/unit/test_count.c):
 * references that end on another CPU, full buckets, spares, epochs. The host's functions
 * for words of one CPU are tested too, with threads that change CPUs.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/count/count_gate.h"

#define NR_OBJECTS 8192u /* more than a CPU's hash has places */
#define NR_SAME 6u       /* objects of one bucket: more than it has entries */
#define NR_THREADS 4u
#define NR_ADDS 200000u

static cpu_set_t all_cpus;
static u32 first_cpu, other_cpu; /* the same where there is only one */

static void go_to_cpu(u32 cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(host_cpu(), cpu);
}

static struct count *start(const struct count_scheme *scheme, u32 nr_objects)
{
	struct count *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	assert_int_equal(count_init(c, scheme, NULL, nr_objects, 1), 0);
	for (u32 i = 0; i < nr_objects; i++)
		count_thaw(c, i);
	go_to_cpu(first_cpu);
	return c;
}

static void stop(struct count *c)
{
	count_check(c, NULL, 0);
	count_fini(c);
	free(c);
}

static struct count_held hold(struct count *c, u32 object)
{
	struct count_held held = { .object = object };

	assert_true(count_ref(c, object, 0, &held.token));
	return held;
}

static void drop(struct count *c, const struct count_held *held)
{
	count_unref(c, held->object, held->user, held->token);
}

/* Makes an epoch: a tick for each CPU, on that CPU where the test may go there. */
static void tick_all(struct count *c)
{
	for (u32 cpu = 0; cpu < host_nr_cpus(); cpu++) {
		if (CPU_ISSET(cpu, &all_cpus))
			go_to_cpu(cpu);
		count_tick(c, cpu);
	}
	go_to_cpu(first_cpu);
}

static const struct count_scheme *const by_cpu[] = {
	&count_sloppy,       &count_percpu, &count_refcache,
	&count_refcache_sv6, &count_paygo,  &count_snzi_sv6
};
#define NR_BY_CPU (sizeof(by_cpu) / sizeof(by_cpu[0]))

static void unref_on_another_cpu_is_exact(void **state)
{
	(void)state;
	for (u32 s = 0; s < NR_BY_CPU; s++) {
		struct count *c = start(by_cpu[s], 3);
		struct count_held held[2] = { hold(c, 1), hold(c, 1) };

		go_to_cpu(other_cpu);
		drop(c, &held[0]);
		count_check(c, &held[1], 1);
		assert_true(count_query(c, 1));
		assert_false(count_freeze(c, 1));
		drop(c, &held[1]);
		assert_false(count_query(c, 1));
		stop(c);
	}
}

/* Refs are on one CPU and unrefs on another, so that no CPU's word returns to its value. */
static void unref_on_another_cpu_always_stays_exact(void **state)
{
	(void)state;
	for (u32 s = 0; s < NR_BY_CPU; s++) {
		struct count *c = start(by_cpu[s], 2);

		for (u32 i = 0; i < 100; i++) {
			struct count_held held;

			go_to_cpu(first_cpu);
			held = hold(c, 0);
			go_to_cpu(other_cpu);
			drop(c, &held);
			count_check(c, NULL, 0);
		}
		stop(c);
	}
}

/* Finds objects that share the first one's place in a hash of nr places. */
static void find_same(u32 nr_places, u32 *ret_same, u32 nr)
{
	u32 found = 0;

	for (u32 i = 0; found < nr; i++) {
		assert_true(i < NR_OBJECTS);
		if (count_hash(i, nr_places) == count_hash(0, nr_places))
			ret_same[found++] = i;
	}
}

static void paygo_full_bucket_overflows_and_comes_back(void **state)
{
	struct count *c = start(&count_paygo, NR_OBJECTS);
	struct count_held held[NR_SAME];
	u32 same[NR_SAME];
	u32 nr_overflow = 0;

	(void)state;
	find_same(1024, same, NR_SAME);
	for (u32 i = 0; i < NR_SAME; i++) {
		held[i] = hold(c, same[i]);
		nr_overflow += held[i].token == ~(u64)0;
	}
	assert_int_equal(nr_overflow, NR_SAME - 4);
	count_check(c, held, NR_SAME);
	for (u32 i = 0; i < NR_SAME; i++)
		assert_false(count_freeze(c, same[i]));
	/* The bucket's entries become garbage one after the other, and are used again at
	 * once. Some were ended from another CPU and have anchors. */
	go_to_cpu(other_cpu);
	for (u32 i = 0; i < NR_SAME; i++)
		drop(c, &held[i]);
	go_to_cpu(first_cpu);
	for (u32 i = 0; i < 4; i++) {
		held[i] = hold(c, same[NR_SAME - 1 - i]);
		assert_true(held[i].token != ~(u64)0);
	}
	count_check(c, held, 4);
	for (u32 i = 0; i < 4; i++)
		drop(c, &held[i]);
	for (u32 i = 0; i < NR_SAME; i++)
		assert_true(count_freeze(c, same[i]));
	stop(c);
}

static void sloppy_spares_are_used_and_few(void **state)
{
	struct count *c = start(&count_sloppy, 1);
	struct count_held held[100];

	(void)state;
	for (u32 i = 0; i < 100; i++)
		held[i] = hold(c, 0);
	for (u32 i = 0; i < 100; i++)
		drop(c, &held[i]);
	count_check(c, NULL, 0);         /* no CPU keeps more than it may */
	assert_true(count_freeze(c, 0)); /* spares are not references */
	count_thaw(c, 0);
	held[0] = hold(c, 0);
	count_check(c, held, 1);
	drop(c, &held[0]);
	stop(c);
}

static void refcache_freeze_needs_two_epochs(void **state)
{
	struct count *c = start(&count_refcache, 2);

	(void)state;
	assert_false(count_freeze(c, 0)); /* first zero */
	assert_false(count_freeze(c, 0));
	tick_all(c);
	assert_false(count_freeze(c, 0));
	assert_false(count_query(c, 0)); /* a query needs none */
	tick_all(c);
	assert_true(count_freeze(c, 0)); /* true zero */
	stop(c);
}

static void refcache_ref_between_begins_anew(void **state)
{
	struct count *c = start(&count_refcache, 2);
	struct count_held held;

	(void)state;
	assert_false(count_freeze(c, 0));
	tick_all(c);
	held = hold(c, 0);
	drop(c, &held);
	tick_all(c);
	assert_false(count_freeze(c, 0)); /* another first zero */
	tick_all(c);
	assert_false(count_freeze(c, 0));
	tick_all(c);
	assert_true(count_freeze(c, 0));
	stop(c);
}

static void refcache_tick_from_elsewhere_settles_nothing(void **state)
{
	struct count *c = start(&count_refcache, 2);
	struct count_held held = hold(c, 0);

	(void)state;
	if (first_cpu == other_cpu) {
		drop(c, &held);
		stop(c);
		skip();
	}
	/* This CPU's slot is not empty: without a tick from here no epoch ends. */
	go_to_cpu(other_cpu);
	for (u32 i = 0; i < 4; i++) {
		for (u32 cpu = 0; cpu < host_nr_cpus(); cpu++)
			count_tick(c, cpu);
		assert_false(count_freeze(c, 0));
		count_check(c, &held, 1);
	}
	drop(c, &held);
	for (u32 i = 0; i < 4 && !count_freeze(c, 0); i++)
		tick_all(c);
	assert_false(count_freeze(c, 0)); /* it is frozen */
	assert_false(count_query(c, 0));
	stop(c);
}

static void refcache_collisions_keep_counts(void **state)
{
	struct count *c = start(&count_refcache, NR_OBJECTS);
	struct count_held held[NR_SAME];
	u32 same[NR_SAME];

	(void)state;
	find_same(4096, same, 2);
	for (u32 i = 0; i < NR_SAME; i++)
		held[i] = hold(c, same[i % 2]);
	assert_int_equal(count_sum(c, same[0]), NR_SAME / 2);
	assert_int_equal(count_sum(c, same[1]), NR_SAME / 2);
	go_to_cpu(other_cpu);
	for (u32 i = 0; i < NR_SAME; i++) {
		assert_true(count_query(c, same[i % 2]));
		drop(c, &held[i]);
	}
	assert_false(count_query(c, same[0]));
	assert_false(count_query(c, same[1]));
	stop(c);
}

static void refcache_sv6_freeze_needs_a_review(void **state)
{
	struct count *c = start(&count_refcache_sv6, 2);
	u32 epochs;

	(void)state;
	for (epochs = 0; !count_freeze(c, 0) && epochs < 4; epochs++) {
		assert_false(count_query(c, 0)); /* a query needs none */
		tick_all(c);
	}
	assert_in_range(epochs, 2, 3);
	assert_false(count_freeze(c, 0)); /* it is frozen */
	stop(c);
}

/* What a review has found is good for a whole batch, and until the next reference. */
static void refcache_sv6_true_zero_lasts_until_a_ref(void **state)
{
	struct count *c = start(&count_refcache_sv6, NR_OBJECTS);
	struct count_held held;

	(void)state;
	for (u32 i = 0; i < 100; i++) {
		held = hold(c, i);
		drop(c, &held);
	}
	/* The ticks evict differences of 0, and so queue what was used. */
	for (u32 i = 0; i < 4; i++)
		tick_all(c);
	held = hold(c, 50);
	for (u32 i = 0; i < 100; i++)
		assert_int_equal(count_freeze(c, i), i != 50);
	assert_true(count_query(c, 50));
	count_check(c, &held, 1);
	drop(c, &held);
	stop(c);
}

/* Object 0 is used in each of so many epochs, until another object evicts it. Can it be frozen so
 * many epochs after that? */
static bool refcache_sv6_freezes(u32 uses, u32 epochs)
{
	struct count *c = start(&count_refcache_sv6, NR_OBJECTS);
	struct count_held held;
	bool done;

	for (; uses > 0; uses--) {
		for (u32 i = 0; i < NR_OBJECTS; i++) {
			held = hold(c, i);
			drop(c, &held);
		}
		tick_all(c);
	}
	for (; epochs > 0; epochs--)
		tick_all(c);
	done = count_freeze(c, 0);
	stop(c);
	return done;
}

/* As in RadixVM: its turn in the queue is that of its first zero. The review finds that somebody
 * came after that, and the object waits for another one. */
static void refcache_sv6_used_while_queued_waits_again(void **state)
{
	(void)state;
	assert_true(refcache_sv6_freezes(1, 1));
	assert_false(refcache_sv6_freezes(2, 1));
	assert_true(refcache_sv6_freezes(2, 2));
}

static void refcache_sv6_tick_from_elsewhere_settles_nothing(void **state)
{
	struct count *c = start(&count_refcache_sv6, 2);
	struct count_held held = hold(c, 0);

	(void)state;
	if (first_cpu == other_cpu) {
		drop(c, &held);
		stop(c);
		skip();
	}
	go_to_cpu(other_cpu);
	for (u32 i = 0; i < 6; i++) {
		for (u32 cpu = 0; cpu < host_nr_cpus(); cpu++)
			count_tick(c, cpu);
		assert_false(count_freeze(c, 0));
		count_check(c, &held, 1);
	}
	drop(c, &held);
	for (u32 i = 0; i < 4 && !count_freeze(c, 0); i++)
		tick_all(c);
	assert_false(count_freeze(c, 0)); /* it is frozen */
	stop(c);
}

/* More objects than a CPU's hash has places: some are evicted while they are held. */
static void refcache_sv6_collisions_keep_counts(void **state)
{
	struct count *c = start(&count_refcache_sv6, NR_OBJECTS);
	struct count_held *held = calloc(NR_OBJECTS, sizeof(*held));

	(void)state;
	assert_non_null(held);
	for (u32 i = 0; i < NR_OBJECTS; i++)
		held[i] = hold(c, i);
	go_to_cpu(other_cpu);
	for (u32 i = 0; i < NR_OBJECTS; i++) {
		assert_int_equal(count_sum(c, i), 1);
		assert_true(count_query(c, i));
		drop(c, &held[i]);
		assert_int_equal(count_sum(c, i), 0);
	}
	free(held);
	stop(c);
}

static void snzi_sv6_frozen_tree_stays_empty(void **state)
{
	struct count *c = start(&count_snzi_sv6, 2);
	struct count_held held[2] = { hold(c, 1), hold(c, 1) };
	u64 token;

	(void)state;
	assert_false(count_freeze(c, 1));
	drop(c, &held[0]);
	assert_false(count_freeze(c, 1));
	drop(c, &held[1]);
	assert_true(count_freeze(c, 1));
	assert_false(count_ref(c, 1, 0, &token));
	count_check(c, NULL, 0); /* the refused reader has counted nowhere */
	count_thaw(c, 1);
	held[0] = hold(c, 1);
	assert_int_equal(count_sum(c, 1), 1);
	drop(c, &held[0]);
	stop(c);
}

static void gate_watch_is_taken_away_by_a_pass(void **state)
{
	u64 gate = 0;
	u64 seen;

	(void)state;
	assert_false(count_gate_pass(&gate));
	count_gate_thaw(&gate);
	assert_true(count_gate_pass(&gate));
	seen = count_gate_watch(&gate);
	assert_true(count_gate_unpassed(&gate, seen));
	assert_int_equal(count_gate_watch(&gate), seen); /* one watch for all queries */
	assert_true(count_gate_pass(&gate));
	assert_false(count_gate_unpassed(&gate, seen));
	assert_true(count_gate_watch(&gate) != seen); /* nor is the next one the same */
	assert_true(count_gate_central_ref(&gate));
	assert_int_equal(count_gate_state(gate), COUNT_GATE_LIVE);
	assert_int_equal(count_gate_central(gate), 1);
	count_gate_central_unref(&gate, 1);
	assert_int_equal(count_gate_central(gate), 0);
}

static void gate_version_wraps_within_its_bits(void **state)
{
	u64 gate = COUNT_GATE_LIVE | COUNT_GATE_VERSION | 7;

	(void)state;
	assert_int_equal(count_gate_watch(&gate), COUNT_GATE_WATCHED | 7);
}

static struct {
	u64 words[1024 * COUNT_LINE_WORDS];
	u64 cas_done;
} adding;

/* Adds by both functions, and sometimes from another CPU. */
static void *adder(void *arg)
{
	u32 done = 0;

	(void)arg;
	for (u32 i = 0; i < NR_ADDS; i++) {
		u32 cpu = host_cpu();
		u64 *word = &adding.words[cpu * COUNT_LINE_WORDS];
		u64 v = host_load_relaxed(word);

		if (i % 1024 == 0)
			go_to_cpu(i / 1024 % 2 ? first_cpu : other_cpu);
		done += host_percpu_cas(word, cpu, v, v + 1);
		host_percpu_add(adding.words, COUNT_LINE_WORDS, 1);
	}
	host_fetch_add(&adding.cas_done, done);
	return NULL;
}

static void percpu_updates_of_threads_that_move_are_not_lost(void **state)
{
	pthread_t threads[NR_THREADS];
	u64 sum = 0;

	(void)state;
	assert_true(host_nr_cpus() <= 1024);
	for (u32 i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, adder, NULL), 0);
	for (u32 i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	for (u32 cpu = 0; cpu < host_nr_cpus(); cpu++)
		sum += host_load_acquire(&adding.words[cpu * COUNT_LINE_WORDS]);
	assert_true(adding.cas_done > 0);
	assert_int_equal(sum, adding.cas_done + (u64)NR_THREADS * NR_ADDS);
}

static void percpu_cas_elsewhere_or_of_another_value_refuses(void **state)
{
	u64 word = 5;

	(void)state;
	go_to_cpu(first_cpu);
	assert_false(host_percpu_cas(&word, first_cpu, 4, 6));
	assert_int_equal(word, 5);
	assert_false(host_percpu_cas(&word, first_cpu + 1, 5, 6));
	assert_int_equal(word, 5);
	assert_true(host_percpu_cas(&word, first_cpu, 5, 6));
	assert_int_equal(word, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unref_on_another_cpu_is_exact),
		cmocka_unit_test(unref_on_another_cpu_always_stays_exact),
		cmocka_unit_test(paygo_full_bucket_overflows_and_comes_back),
		cmocka_unit_test(sloppy_spares_are_used_and_few),
		cmocka_unit_test(refcache_freeze_needs_two_epochs),
		cmocka_unit_test(refcache_ref_between_begins_anew),
		cmocka_unit_test(refcache_tick_from_elsewhere_settles_nothing),
		cmocka_unit_test(refcache_collisions_keep_counts),
		cmocka_unit_test(refcache_sv6_freeze_needs_a_review),
		cmocka_unit_test(refcache_sv6_true_zero_lasts_until_a_ref),
		cmocka_unit_test(refcache_sv6_used_while_queued_waits_again),
		cmocka_unit_test(refcache_sv6_tick_from_elsewhere_settles_nothing),
		cmocka_unit_test(refcache_sv6_collisions_keep_counts),
		cmocka_unit_test(snzi_sv6_frozen_tree_stays_empty),
		cmocka_unit_test(gate_watch_is_taken_away_by_a_pass),
		cmocka_unit_test(gate_version_wraps_within_its_bits),
		cmocka_unit_test(percpu_updates_of_threads_that_move_are_not_lost),
		cmocka_unit_test(percpu_cas_elsewhere_or_of_another_value_refuses),
	};
	u32 nr = 0;

	if (sched_getaffinity(0, sizeof(all_cpus), &all_cpus) != 0)
		return 1;
	for (u32 cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all_cpus))
			continue;
		other_cpu = cpu;
		if (nr++ == 0)
			first_cpu = cpu;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
