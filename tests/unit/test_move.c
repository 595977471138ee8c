/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Blocks that move from frame to frame, in one thread: what each step leaves behind. The checker
 * (check/arena_move.c) and tests/stress/stress_move.c look for the races. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/cache/move.h"
#include "core/cache/view.h"
#include "tests/support/arena_bed.h"

/* Moves the block in source to target, as the arena's scheme does it. */
static bool bed_moves(struct arena_bed *bed, u32 source, u32 target)
{
	struct arena *a = &bed->arena;
	struct batch *b = &bed->batch;
	enum batch_end end;
	u32 frame;

	if (a->counts)
		return move_word(a, source, target);
	assert_true(batch_add(a, b, NULL, source)); /* the walk alone finds pins */
	batch_close(a, b);
	assert_true(batch_fence(a));
	batch_fenced(a, b);
	end = move_next(a, b, target, &frame);
	assert_int_equal(frame, source);
	assert_int_equal(move_next(a, b, FRAME_NONE, &frame), BATCH_DONE);
	return end == BATCH_TAKEN;
}

static void each_moves_unless_pinned(struct arena_bed *bed)
{
	u64 *word;

	bed_fill(bed, 9, 5);
	word = bed_pin(bed, 1, 5);
	assert_false(bed_moves(bed, 9, 12));
	assert_int_equal(bed->arena.frames[12].state, FRAME_FREE);
	assert_true(bed_reads(bed, 0, 5));
	cache_unpin(&bed->contexts[1], bed_pin(bed, 1, 5)); /* as before */
	cache_unpin(&bed->contexts[1], word);
	assert_true(bed_moves(bed, 9, 12));
	arena_check(&bed->arena);
	assert_int_equal(bed->arena.frames[9].state, FRAME_FREE);
	assert_true(bed_reads(bed, 0, 5));
	word = bed_pin(bed, 1, 5); /* its warm entry leads to the old frame */
	assert_true(arena_query(&bed->arena, 12));
	assert_false(arena_query(&bed->arena, 9));
	bed_fill(bed, 9, 6);
	assert_true(bed_reads(bed, 0, 6));
	assert_false(bed_takes(bed, 12));
	cache_unpin(&bed->contexts[1], word);
	assert_true(bed_takes(bed, 9));
	assert_true(bed_moves(bed, 12, 9)); /* and back */
	assert_true(bed_reads(bed, 2, 5));
	assert_true(bed_takes(bed, 9));
	assert_false(bed_reads(bed, 0, 5));
}

static void move_pinned_refuses_unpinned_moves(void **state)
{
	(void)state;
	bed_for_each_scheme(each_moves_unless_pinned);
}

static void move_view_of_before_holds_no_more(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);
	struct cache_file f = { &bed->arena.files[0], BED_FILE };
	struct context *c = &bed->contexts[0];
	struct view v = { 0 };

	(void)state;
	bed_fill(bed, 9, 5);
	assert_true(view_begin(c, bed_block(5), &v));
	assert_true(view_holds(c, &f, &v));
	assert_true(bed_moves(bed, 9, 12));
	assert_false(view_holds(c, &f, &v));
	assert_true(view_begin(c, bed_block(5), &v));
	assert_ptr_equal(v.data, arena_frame_bytes(&bed->arena, 12));
	assert_true(view_holds(c, &f, &v));
	bed_free(bed);
}

static void move_rescued_or_hidden_again_stays(void **state)
{
	struct arena_bed *bed = bed_make_fenced(ARENA_SCANNED, ARENA_BARRIER_LIGHT);
	struct arena *a = &bed->arena;
	struct batch *b = &bed->batch;
	static struct batch other;
	u32 frame;

	(void)state;
	batch_init(&other, 7);
	bed_fill(bed, 9, 5);
	bed_fill(bed, 10, 6);
	walk_list(a, &b->list);
	assert_true(batch_add(a, b, &b->list, 9));
	assert_true(batch_add(a, b, &b->list, 10));
	batch_rescue(a, 9);
	assert_true(batch_add(a, &other, &b->list, 10)); /* eviction wants it */
	batch_close(a, b);
	assert_true(batch_fence(a));
	batch_fenced(a, b);
	assert_int_equal(move_next(a, b, 12, &frame), BATCH_RESCUED);
	assert_int_equal(move_next(a, b, 13, &frame), BATCH_RESCUED);
	assert_int_equal(move_next(a, b, FRAME_NONE, &frame), BATCH_DONE);
	cache_unpin(&bed->contexts[0], bed_pin(bed, 0, 5));
	batch_close(a, &other);
	assert_true(batch_fence(a));
	batch_fenced(a, &other);
	assert_int_equal(batch_next(a, &other, &frame), BATCH_TAKEN);
	assert_int_equal(frame, 10);
	bed_free(bed);
}

/* A writer has come: the block may move, and nobody believes it in either frame. */
static void move_of_revoked_file_nobody_reads_it(void **state)
{
	struct arena_bed *bed = bed_make(ARENA_SCANNED);

	(void)state;
	bed_fill(bed, 9, 5);
	file_proof_revoke(&bed->arena.files[0]);
	assert_true(bed_moves(bed, 9, 12));
	assert_false(bed_reads(bed, 0, 5));
	bed_free(bed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(move_pinned_refuses_unpinned_moves),
		cmocka_unit_test(move_view_of_before_holds_no_more),
		cmocka_unit_test(move_rescued_or_hidden_again_stays),
		cmocka_unit_test(move_of_revoked_file_nobody_reads_it),
	};

	return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
