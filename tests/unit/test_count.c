/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The counting contract (core/count/count.h, N1-N5): the same cases for every scheme.
 * Schemes that count by mapping run twice: without mappings, and with every object mapped
 * by every user. The random history wanders over this machine's CPUs, for schemes that
 * count there. Then come the words that atomic, frozen and hazard count in, by themselves.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "core/owned/count_owned.h"

#define NR_OBJECTS 5u
#define NR_USERS 3u
#define FILE_ID 9u
#define NR_MANY 300u /* more than a pte or a user's hazard slots can hold */

/* Where a scheme has epochs, a freeze may have to wait for so many. */
#define NR_EPOCHS 4u

/* Sanitizers reserve far more of the address space than a test would leave. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SMALL_WORKS false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SMALL_WORKS false
#endif
#endif
#ifndef SMALL_WORKS
#define SMALL_WORKS true
#endif

/* The CPUs that this test may use, as it found them. */
static cpu_set_t all_cpus;

struct model {
	struct count count;
	struct frame frames[NR_OBJECTS];
};

struct variant {
	const struct count_scheme *scheme;
	bool mapped;
};

static struct model *model_start(const struct variant *variant)
{
	struct model *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	for (u32 i = 0; i < NR_OBJECTS; i++) {
		frame_fill_begin(&m->frames[i]);
		frame_fill_end(&m->frames[i], block_id(FILE_ID, i));
	}
	assert_int_equal(count_init(&m->count, variant->scheme, m->frames, NR_OBJECTS,
	                            NR_USERS),
	                 0);
	return m;
}

/* All objects are live, and mapped if the variant says so. */
static struct model *model_start_live(const struct variant *variant)
{
	struct model *m = model_start(variant);
	u64 page;

	for (u32 i = 0; i < NR_OBJECTS; i++)
		count_thaw(&m->count, i);
	if (!variant->mapped)
		return m;
	count_owned_set_share_min(&m->count, 1);
	for (u32 user = 0; user < NR_USERS; user++) {
		assert_int_equal(count_owned_mmap(&m->count, user, FILE_ID, 0,
		                                  NR_OBJECTS, &page),
		                 0);
		for (u32 i = 0; i < NR_OBJECTS; i++)
			assert_int_equal(
				count_owned_map_block(&m->count, user, page + i, i), 0);
	}
	return m;
}

static void model_stop(struct model *m)
{
	count_check(&m->count, NULL, 0);
	count_fini(&m->count);
	free(m);
}

static struct count_held hold(struct model *m, u32 object, u32 user)
{
	struct count_held held = { .object = object, .user = user };

	assert_true(count_ref(&m->count, object, user, &held.token));
	return held;
}

static void drop(struct model *m, const struct count_held *held)
{
	count_unref(&m->count, held->object, held->user, held->token);
}

/* Goes to a CPU, if the test may use it. */
static void go_to_cpu(u32 cpu)
{
	cpu_set_t one;

	if (!CPU_ISSET(cpu, &all_cpus))
		return;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* Ticks for each CPU. The test never counted on those that it may not use. */
static void tick_all(struct model *m)
{
	u32 here = host_cpu();

	for (u32 cpu = 0; cpu < host_nr_cpus(); cpu++) {
		go_to_cpu(cpu);
		count_tick(&m->count, cpu);
	}
	go_to_cpu(here);
}

/* Freezes as a reclaimer does: where a scheme has epochs, it tries again after a tick. */
static bool freeze(struct model *m, u32 object)
{
	bool done = count_freeze(&m->count, object);

	for (u32 i = 0; m->count.scheme->tick && !done && i < NR_EPOCHS; i++) {
		tick_all(m);
		done = count_freeze(&m->count, object);
	}
	return done;
}

static void init_bad_arguments_einval(void **state)
{
	const struct variant *v = *state;
	struct frame frame = { 0 };
	struct count c;

	assert_int_equal(count_init(&c, v->scheme, &frame, 0, 1), -EINVAL);
	assert_int_equal(count_init(&c, v->scheme, &frame, 1, 0), -EINVAL);
}

/* More than a process may have. What had been made is freed again. */
static void init_no_memory_enomem(void **state)
{
	const struct variant *v = *state;
	struct frame frame = { 0 };
	struct rlimit before, small;
	struct count_cost cost;
	struct count c;
	int error;

	assert_int_equal(count_init(&c, v->scheme, &frame, 1, 1), 0);
	count_cost(&c, &cost);
	count_fini(&c);
	if (!SMALL_WORKS || cost.object_bytes == 0)
		return;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	small = before;
	small.rlim_cur = (rlim_t)512 << 20;
	assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
	error = count_init(&c, v->scheme, &frame,
	                   (u32)(((u64)1 << 30) / cost.object_bytes), 1);
	setrlimit(RLIMIT_AS, &before);
	assert_int_equal(error, -ENOMEM);
}

static void find_its_name_finds_it(void **state)
{
	const struct variant *v = *state;

	assert_ptr_equal(count_scheme_find(v->scheme->name), v->scheme);
	assert_null(count_scheme_find("no such scheme"));
	assert_null(count_scheme_find(""));
}

static void ref_new_object_is_frozen(void **state)
{
	const struct variant *v = *state;
	struct model *m = model_start(v);
	u64 token;

	if (v->scheme->counts) /* N1 */
		for (u32 i = 0; i < NR_OBJECTS; i++)
			assert_false(count_ref(&m->count, i, 0, &token));
	model_stop(m);
}

static void ref_live_object_is_counted(void **state)
{
	const struct variant *v = *state;
	struct model *m = model_start_live(v);
	struct count_held held[3] = { hold(m, 1, 0), hold(m, 1, 2), hold(m, 3, 0) };

	if (v->scheme->counts) {
		assert_int_equal(count_sum(&m->count, 1), 2);
		assert_int_equal(count_sum(&m->count, 3), 1);
		assert_int_equal(count_sum(&m->count, 0), 0);
		assert_true(count_query(&m->count, 1));
		assert_false(count_query(&m->count, 0));
	}
	count_check(&m->count, held, 3);
	drop(m, &held[0]);
	count_check(&m->count, &held[1], 2);
	drop(m, &held[2]);
	count_check(&m->count, &held[1], 1);
	drop(m, &held[1]);
	model_stop(m);
}

static void freeze_held_refuses(void **state)
{
	const struct variant *v = *state;
	struct model *m = model_start_live(v);
	struct count_held held = hold(m, 2, 1);

	assert_false(freeze(m, 2)); /* N2 */
	count_check(&m->count, &held, 1);
	/* The freeze was refused, so references are taken as before. */
	struct count_held more = hold(m, 2, 1);

	drop(m, &held);
	assert_false(freeze(m, 2));
	drop(m, &more);
	model_stop(m);
}

static void freeze_unused_stops_refs_until_thaw(void **state)
{
	const struct variant *v = *state;
	struct model *m = model_start_live(v);
	struct count_held held;
	u64 token;

	for (u32 round = 0; round < 3; round++) {
		assert_int_equal(freeze(m, 0), v->scheme->counts);
		if (!v->scheme->counts)
			break;
		assert_false(count_ref(&m->count, 0, 0, &token)); /* N2 */
		assert_false(count_ref(&m->count, 0, 1, &token));
		assert_false(freeze(m, 0));
		assert_false(count_query(&m->count, 0));
		assert_int_equal(count_sum(&m->count, 0), 0);
		count_check(&m->count, NULL, 0);
		held = hold(m, 1, 0); /* another object is not touched */
		drop(m, &held);
		count_thaw(&m->count, 0);
		held = hold(m, 0, 1); /* N3 */
		count_check(&m->count, &held, 1);
		drop(m, &held);
	}
	model_stop(m);
}

/* A count overflows to another place, or ref says no. No reference is lost. */
static void ref_very_many_exact(void **state)
{
	const struct variant *v = *state;
	struct model *m = model_start_live(v);
	struct count_held *held = calloc(NR_MANY, sizeof(*held));
	u32 nr = 0;

	for (; nr < NR_MANY; nr++) {
		held[nr] = (struct count_held){ .object = 4, .user = nr % NR_USERS };
		if (!count_ref(&m->count, 4, held[nr].user, &held[nr].token))
			break;
	}
	assert_true(nr >= 64);
	if (v->scheme->counts)
		assert_int_equal(count_sum(&m->count, 4), nr);
	count_check(&m->count, held, nr);
	while (nr > 0) {
		assert_false(freeze(m, 4));
		drop(m, &held[--nr]);
		count_check(&m->count, held, nr);
	}
	assert_int_equal(freeze(m, 4), v->scheme->counts);
	free(held);
	model_stop(m);
}

/* A random history against an oracle: the list of what is held. */
static void random_steps_agree_with_oracle(void **state)
{
	const struct variant *v = *state;
	struct model *m = model_start_live(v);
	struct count_held held[40];
	bool frozen[NR_OBJECTS] = { false };
	u32 nr = 0;
	u64 random = 12345;

	print_message("seed=12345 %s\n", v->scheme->name);
	for (u32 step = 0; step < 20000; step++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		u32 dice = (u32)(random >> 33);
		u32 object = dice / 8 % NR_OBJECTS;
		u32 user = dice / 64 % NR_USERS;

		if (dice / 1024 % 16 == 0)
			go_to_cpu(dice / 16384 % host_nr_cpus());
		if (dice % 8 < 3 && nr < 40) {
			held[nr] =
				(struct count_held){ .object = object, .user = user };
			if (count_ref(&m->count, object, user, &held[nr].token)) {
				assert_false(frozen[object]);
				nr++;
			}
		} else if (dice % 8 < 6 && nr > 0) {
			u32 i = dice / 64 % nr;

			drop(m, &held[i]);
			held[i] = held[--nr];
		} else if (frozen[object]) {
			count_thaw(&m->count, object);
			frozen[object] = false;
		} else if (v->scheme->counts) {
			frozen[object] = freeze(m, object);
			assert_int_equal(frozen[object],
			                 count_held_on(held, nr, object) == 0);
		}
		if (step % 64 == 0)
			count_check(&m->count, held, nr);
	}
	while (nr > 0)
		drop(m, &held[--nr]);
	model_stop(m);
}

static void cost_is_told(void **state)
{
	const struct variant *v = *state;
	struct model *m = model_start(v);
	struct count_cost cost = { 1, 1, 1 };

	count_cost(&m->count, &cost);
	/* It has written all fields, in whole words. A scheme that counts takes memory. */
	assert_int_equal(cost.object_bytes % 8, 0);
	assert_int_equal(cost.cpu_bytes % 8, 0);
	assert_int_equal(cost.user_bytes % 8, 0);
	assert_int_equal(cost.object_bytes + cost.cpu_bytes + cost.user_bytes > 0,
	                 v->scheme->counts);
	model_stop(m);
}

/* struct count_cost: what costs a line an object and nothing else, and has no ptes, keeps its
 * state in an array of lines. A ref then writes the line of its object and no other. */
static void cost_of_one_line_counts_in_that_line(void **state)
{
	const struct variant *v = *state;
	struct model *m = model_start_live(v);
	u64 before[NR_OBJECTS * COUNT_LINE_WORDS];
	struct count_cost cost;
	struct count_held held;

	count_cost(&m->count, &cost);
	if (!v->scheme->has_ptes && cost.object_bytes == COUNT_LINE_BYTES &&
	    cost.cpu_bytes + cost.user_bytes == 0) {
		memcpy(before, m->count.state, sizeof(before));
		held = hold(m, 1, 0);
		for (u32 i = 0; i < NR_OBJECTS; i++)
			assert_int_equal(
				memcmp(&before[i * COUNT_LINE_WORDS],
			               (u64 *)m->count.state + i * COUNT_LINE_WORDS,
			               COUNT_LINE_BYTES) != 0,
				i == 1);
		drop(m, &held);
	}
	model_stop(m);
}

static void init_owned_without_names_einval(void **state)
{
	struct count c;

	(void)state;
	assert_int_equal(count_init(&c, &count_owned, NULL, 1, 1), -EINVAL);
}

static void atomic_word_states(void **state)
{
	u64 word = 0;

	(void)state;
	assert_false(count_atomic_word_ref(&word));
	count_atomic_word_thaw(&word);
	assert_int_equal(word, COUNT_BASE);
	assert_true(count_atomic_word_ref(&word));
	assert_true(count_atomic_word_query(&word));
	assert_false(count_atomic_word_freeze(&word));
	count_atomic_word_unref(&word);
	assert_false(count_atomic_word_query(&word));
	assert_true(count_atomic_word_freeze(&word));
	assert_int_equal(word, 0);
}

/* A ref that fails has added, and subtracts late: the word is thawed by then. */
static void frozen_word_late_failed_ref_keeps_count(void **state)
{
	u64 word = 0;

	(void)state;
	host_fetch_add(&word, 1); /* the first half of a ref that is to fail */
	count_frozen_word_thaw(&word);
	assert_true(count_frozen_word_ref(&word));
	assert_false(count_frozen_word_freeze(&word));
	host_fetch_add(&word, -(u64)1); /* its second half */
	assert_int_equal(count_frozen_word_sum(&word), 1);
	assert_false(count_frozen_word_freeze(&word));
	count_frozen_word_unref(&word);
	assert_int_equal(word, COUNT_LIVE_BIT);
	assert_true(count_frozen_word_freeze(&word));
	assert_false(count_frozen_word_ref(&word));
	assert_int_equal(word, 0);
}

static void frozen_word_zeroed_memory_is_frozen(void **state)
{
	u64 word = 0;

	(void)state;
	assert_false(count_frozen_word_query(&word));
	assert_false(count_frozen_word_freeze(&word));
	assert_false(count_frozen_word_ref(&word));
	assert_int_equal(word, 0);
	count_frozen_word_thaw(&word);
	assert_false(count_frozen_word_query(&word));
	assert_true(count_frozen_word_ref(&word));
	assert_true(count_frozen_word_query(&word));
	count_frozen_word_unref(&word);
	assert_true(count_frozen_word_freeze(&word));
}

static void hazard_word_one_owner(void **state)
{
	u64 slot = 0;

	(void)state;
	assert_true(count_hazard_word_claim(&slot, 0));
	assert_true(count_hazard_word_query(&slot, 0));
	assert_false(count_hazard_word_query(&slot, 1));
	assert_false(count_hazard_word_claim(&slot, 1));
	count_hazard_word_unref(&slot);
	count_hazard_word_ref(&slot, 7);
	assert_true(count_hazard_word_query(&slot, 7));
	count_hazard_word_unref(&slot);
	assert_int_equal(slot, 0);
}

static int run_variant(struct variant *v)
{
	struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(init_bad_arguments_einval, v),
		cmocka_unit_test_prestate(init_no_memory_enomem, v),
		cmocka_unit_test_prestate(find_its_name_finds_it, v),
		cmocka_unit_test_prestate(ref_new_object_is_frozen, v),
		cmocka_unit_test_prestate(ref_live_object_is_counted, v),
		cmocka_unit_test_prestate(freeze_held_refuses, v),
		cmocka_unit_test_prestate(freeze_unused_stops_refs_until_thaw, v),
		cmocka_unit_test_prestate(ref_very_many_exact, v),
		cmocka_unit_test_prestate(random_steps_agree_with_oracle, v),
		cmocka_unit_test_prestate(cost_is_told, v),
		cmocka_unit_test_prestate(cost_of_one_line_counts_in_that_line, v),
	};

	return cmocka_run_group_tests_name(v->scheme->name, tests, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest words[] = {
		cmocka_unit_test(init_owned_without_names_einval),
		cmocka_unit_test(atomic_word_states),
		cmocka_unit_test(frozen_word_late_failed_ref_keeps_count),
		cmocka_unit_test(frozen_word_zeroed_memory_is_frozen),
		cmocka_unit_test(hazard_word_one_owner),
	};
	int failed = 0;

	if (sched_getaffinity(0, sizeof(all_cpus), &all_cpus) != 0)
		return 1;
	for (u32 i = 0; i < count_nr_schemes; i++) {
		struct variant v = { count_schemes[i], false };

		failed += run_variant(&v);
		v.mapped = true;
		if (count_schemes[i]->has_ptes)
			failed += run_variant(&v);
	}
	failed += cmocka_run_group_tests_name("words", words, NULL, NULL);
	return failed ? 1 : 0;
}
