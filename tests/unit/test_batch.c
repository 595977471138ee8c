/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Pins, quotas, and takes by batches, in one thread: what each step leaves behind.
 * tests/stress/stress_arena.c and the checker test the races. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/support/arena_bed.h"

/* The linker puts it before the host's own (tests/unit/meson.build). */
static bool fence_fails;
bool __wrap_host_fence_global(void);
bool __real_host_fence_global(void);

bool __wrap_host_fence_global(void)
{
	return !fence_fails && __real_host_fence_global();
}

static void batch_fence_global_one_fails_says_so(void **state)
{
	struct arena_bed *light = bed_make_fenced(ARENA_SCANNED, ARENA_BARRIER_LIGHT);
	struct arena_bed *lock = bed_make(ARENA_SCANNED);

	(void)state;
	assert_true(batch_fence(&light->arena));
	fence_fails = true;
	assert_false(batch_fence(&light->arena));
	assert_true(batch_fence(&lock->arena)); /* the CPU's own will do */
	fence_fails = false;
	bed_free(light);
	bed_free(lock);
}

static void each_read_and_pin(struct arena_bed *bed)
{
	u64 *word;

	assert_false(bed_reads(bed, 0, 5));
	bed_fill(bed, 9, 5);
	assert_true(bed_reads(bed, 0, 5));
	word = bed_pin(bed, 1, 5);
	assert_true(arena_query(&bed->arena, 9));
	assert_false(bed_takes(bed, 9));   /* pinned */
	assert_true(bed_reads(bed, 0, 5)); /* and still there for all */
	cache_unpin(&bed->contexts[1], word);
	assert_false(arena_query(&bed->arena, 9));
	assert_true(bed_takes(bed, 9));
	assert_false(bed_reads(bed, 0, 5));
	bed_fill(bed, 9, 6); /* the same frame for another block */
	assert_false(bed_reads(bed, 0, 5));
	assert_true(bed_reads(bed, 1, 6));
	cache_unpin(&bed->contexts[1], bed_pin(bed, 1, 6));
}

static void take_pinned_refuses(void **state)
{
	(void)state;
	bed_for_each_scheme(each_read_and_pin);
}

static void take_all_map_none_pins_it_again(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	u64 *word;
	u32 frame;

	(void)state;
	bed_fill(bed, 7, 1);
	for (u32 i = 0; i < BED_CONTEXTS; i++)
		cache_unpin(&bed->contexts[i], bed_pin(bed, i, 1));
	assert_true(bed_takes(bed, 7));
	for (u32 i = 0; i < BED_CONTEXTS; i++) {
		context_check(&bed->contexts[i]);
		assert_int_equal(context_pin(&bed->contexts[i], bed_block(1), &frame,
		                             &word),
		                 -EAGAIN);
	}
	bed_free(bed);
}

/* The first pin, and one more of what is pinned. */
static void context_pin_is_a_visit(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	u64 *words[2];
	u8 visits;

	(void)state;
	bed_fill(bed, 9, 1);
	for (u32 i = 0; i < 2; i++) {
		words[i] = bed_pin(bed, 0, 1);
		arena_visits(&bed->arena, 9, 1, &visits);
		assert_int_equal(visits, 1);
	}
	for (u32 i = 0; i < 2; i++)
		cache_unpin(&bed->contexts[0], words[i]);
	bed_free(bed);
}

/* The short way alone: lib/ would go the long way if it failed, and nobody would notice. */
static void cache_pin_home_vouched_holds(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct context *c = &bed->contexts[0];
	const struct cache_file file = { .proof = &bed->arena.files[0], .id = BED_FILE };
	u32 frame = FRAME_NONE;
	u64 *word = NULL;

	(void)state;
	bed_fill(bed, 9, 1);
	assert_true(cache_pin_home(c, &file, bed_block(1), false, &frame, &word));
	assert_int_equal(frame, 9);
	assert_int_equal(context_nr_pinned(c), 1);
	cache_unpin(c, word);
	file_proof_revoke(&bed->arena.files[0]);
	assert_false(cache_pin_home(c, &file, bed_block(1), false, &frame, &word));
	assert_int_equal(context_nr_pinned(c), 0);
	bed_free(bed);
}

static void context_pin_128_times_refuses_the_last(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct context *c = &bed->contexts[0];
	u64 *word, *first;
	u32 frame;

	(void)state;
	bed_fill(bed, 9, 1);
	first = bed_pin(bed, 0, 1);
	for (u32 i = 1; i < PTE_COUNT_MAX; i++)
		assert_ptr_equal(bed_pin(bed, 0, 1), first);
	assert_int_equal(context_pin(c, bed_block(1), &frame, &word), -EOVERFLOW);
	assert_int_equal(context_nr_pinned(c), 1);
	assert_true(bed_reads(bed, 0, 1));
	for (u32 i = 0; i < PTE_COUNT_MAX; i++)
		cache_unpin(c, first);
	assert_int_equal(context_nr_pinned(c), 0);
	assert_true(bed_takes(bed, 9));
	bed_free(bed);
}

static void context_pin_reserve_spent_refuses(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct context *c = &bed->contexts[0];
	u64 *word;
	u32 frame;

	(void)state;
	c->quota = 0;
	bed_fill(bed, 9, 1);
	assert_int_equal(context_pin(c, bed_block(1), &frame, &word), -EDQUOT);
	assert_true(bed_reads(bed, 0, 1));
	bed_free(bed);
}

/* The table has room, the quota has not; what is pinned already may be pinned again. */
static void context_pin_past_quota_refuses(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct context *c = &bed->contexts[0];
	u64 *first, *again, *word;
	u32 frame;

	(void)state;
	c->quota = 2;
	for (u32 i = 1; i <= 3; i++)
		bed_fill(bed, i, i);
	first = bed_pin(bed, 0, 1);
	bed_pin(bed, 0, 2);
	assert_int_equal(context_pin(c, bed_block(3), &frame, &word), -ENOBUFS);
	again = bed_pin(bed, 0, 1);
	cache_unpin(c, again);
	assert_int_equal(context_pin(c, bed_block(3), &frame, &word), -ENOBUFS);
	cache_unpin(c, first);
	bed_pin(bed, 0, 3);
	assert_int_equal(context_nr_pinned(c), 2);
	context_check(c);
	bed_free(bed);
}

/* It need not ask the service for a block that it may not pin. */
static void pin_without_quota(struct arena_bed *bed)
{
	u64 *word;
	u32 frame;

	bed->contexts[0].quota = 0;
	bed_fill(bed, 9, 1);
	for (u32 i = 0; i < 2; i++) /* the first one is not cached */
		assert_int_equal(context_pin(&bed->contexts[0], bed_block(i), &frame,
		                             &word),
		                 -EDQUOT);
}

static void context_pin_without_quota_says_so(void **state)
{
	(void)state;
	bed_for_each_scheme(pin_without_quota);
}

/* One fence for many; those that are pinned, or asked for meanwhile, stay. */
static void batch_many_frames_each_as_it_stands(void **state)
{
	struct arena_bed *bed = bed_make_fenced(ARENA_SCANNED, ARENA_BARRIER_LIGHT);
	struct arena *a = &bed->arena;
	struct batch *b = &bed->batch;
	enum batch_end end, ends[BED_FRAMES] = { 0 };
	u64 *word;
	u32 frame;

	(void)state;
	batch_init(b, 3); /* the rescued block's index is no number of a batch */
	for (u32 i = 1; i <= 6; i++)
		bed_fill(bed, i, i);
	walk_list(a, &b->list);
	assert_int_equal(b->list.nr, 0);
	word = bed_pin(bed, 1, 2);
	for (u32 i = 1; i <= 4; i++)
		assert_true(batch_add(a, b, &b->list, i)); /* by an old list */
	walk_list(a, &b->list);
	assert_int_equal(b->list.nr, 1);
	assert_true(batch_add(a, b, &b->list, 5));
	assert_false(bed_reads(bed, 0, 7));
	assert_true(bed_reads(bed, 0, 4)); /* hidden frames are read */
	assert_int_equal(context_pin(&bed->contexts[0], bed_block(4), &frame, &word),
	                 -EAGAIN);
	bed_pin(bed, 1, 2); /* what is pinned can be pinned again */
	batch_close(a, b);
	batch_rescue(a, 3);
	assert_true(batch_fence(a));
	batch_fenced(a, b);
	while ((end = batch_next(a, b, &frame)) != BATCH_DONE)
		ends[frame] = end;
	assert_int_equal(ends[1], BATCH_TAKEN);
	assert_int_equal(ends[2], BATCH_REFUSED);
	assert_int_equal(ends[3], BATCH_RESCUED);
	assert_int_equal(ends[4], BATCH_TAKEN);
	assert_int_equal(ends[5], BATCH_TAKEN);
	assert_false(bed_reads(bed, 0, 1));
	cache_unpin(&bed->contexts[0], bed_pin(bed, 0, 2));
	cache_unpin(&bed->contexts[0], bed_pin(bed, 0, 3));
	assert_int_equal(b->state, BATCH_OPEN);
	bed_free(bed);
}

static void arena_leave_dead_reader_frees_its_pins(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	bed_fill(bed, 9, 1);
	bed_pin(bed, 2, 1);
	assert_false(bed_takes(bed, 9));
	arena_leave(&bed->arena, bed->places[2]);
	assert_true(bed_takes(bed, 9));
	bed_free(bed);
}

static void arena_leave_atomic_leaks_by_nature(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_ATOMIC);

	(void)state;
	bed_fill(bed, 9, 1);
	bed_pin(bed, 2, 1);
	arena_leave(&bed->arena, bed->places[2]);
	assert_false(bed_takes(bed, 9));
	bed_free(bed);
}

static void cache_pin_unproved_gives_back(struct arena_bed *bed)
{
	struct context *c = &bed->contexts[0];
	struct cache_file f = { &bed->arena.files[0], BED_FILE };
	u64 *word;
	u32 frame;

	bed_fill(bed, 9, 1);
	assert_int_equal(cache_pin(c, &f, bed_block(1), &frame, &word), 0);
	assert_int_equal(frame, 9);
	cache_unpin(c, word);
	file_proof_revoke(&bed->arena.files[0]);
	assert_false(cache_pin_home(c, &f, bed_block(1), c->scheme != ARENA_SCANNED,
	                            &frame, &word));
	assert_int_equal(cache_pin(c, &f, bed_block(1), &frame, &word), -EAGAIN);
	assert_true(bed_takes(bed, 9));
}

static void cache_pin_revoked_leaves_nothing(void **state)
{
	(void)state;
	bed_for_each_scheme(cache_pin_unproved_gives_back);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(take_pinned_refuses),
		cmocka_unit_test(take_all_map_none_pins_it_again),
		cmocka_unit_test(context_pin_is_a_visit),
		cmocka_unit_test(cache_pin_home_vouched_holds),
		cmocka_unit_test(context_pin_128_times_refuses_the_last),
		cmocka_unit_test(context_pin_reserve_spent_refuses),
		cmocka_unit_test(context_pin_past_quota_refuses),
		cmocka_unit_test(context_pin_without_quota_says_so),
		cmocka_unit_test(batch_many_frames_each_as_it_stands),
		cmocka_unit_test(batch_fence_global_one_fails_says_so),
		cmocka_unit_test(cache_pin_revoked_leaves_nothing),
		cmocka_unit_test(arena_leave_dead_reader_frees_its_pins),
		cmocka_unit_test(arena_leave_atomic_leaks_by_nature),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
