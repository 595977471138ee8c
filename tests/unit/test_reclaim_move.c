/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A block that moves to another frame keeps what eviction knows of it (reclaim_move()). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/cache/reclaim.h"

#define NR_FRAMES 40u
#define NR_BLOCKS 20u /* in frames 1 to 20 */
#define FAR (NR_FRAMES / 2 + 1)

static u64 block_of(u32 frame)
{
	return 1000 + frame;
}

static void no_visits(void *ctx, u32 first, u32 nr, u8 *ret_visits)
{
	(void)ctx, (void)first;
	for (u32 i = 0; i < nr; i++)
		ret_visits[i] = 0;
}

static bool take_any(void *ctx, u32 frame)
{
	(void)ctx, (void)frame;
	return true;
}

static const struct reclaim_ops ops = { no_visits, take_any, NULL, 1, 2, 0 };

static void fill(struct reclaim *r)
{
	assert_int_equal(reclaim_init(r, NR_FRAMES), 0);
	for (u32 frame = 1; frame <= NR_BLOCKS; frame++) {
		reclaim_insert(r, frame, block_of(frame));
		/* Some earn another round, some two. */
		reclaim_collect(r, frame, frame % 4);
	}
}

static u64 evict(struct reclaim *r)
{
	u32 lines = ~(u32)0;
	u32 frame = reclaim_evict(r, &ops, &lines);

	return frame == RECLAIM_NONE ? BLOCK_NONE : r->nodes[frame].block;
}

static void reclaim_move_any_frames_victims_in_the_same_order(void **state)
{
	struct reclaim stays, moves;

	(void)state;
	fill(&stays);
	fill(&moves);
	for (u32 frame = 1; frame <= NR_BLOCKS; frame += 3)
		reclaim_move(&moves, frame, frame + FAR - 1);
	/* There and back. */
	reclaim_move(&moves, 2, 1);
	reclaim_move(&moves, 1, 2);
	reclaim_check(&moves);
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		u64 victim = evict(&stays);

		assert_int_not_equal(victim, BLOCK_NONE);
		assert_int_equal(evict(&moves), victim);
		reclaim_check(&moves);
	}
	assert_int_equal(evict(&moves), BLOCK_NONE);
	reclaim_fini(&stays);
	reclaim_fini(&moves);
}

static void reclaim_move_under_eviction_goes_on(void **state)
{
	struct reclaim r;
	u32 lines = reclaim_look_lines(&ops); /* one look a call */
	u32 nr = 0;

	(void)state;
	fill(&r);
	for (u32 call = 0; nr < NR_BLOCKS; call++) {
		u32 budget = lines, frame = reclaim_evict(&r, &ops, &budget);

		assert_in_range(call, 0, 1000);
		assert_int_not_equal(frame, RECLAIM_NONE);
		nr += frame != RECLAIM_MORE;
		for (u32 i = 1; i < NR_FRAMES; i++)
			if (r.nodes[i].queue != RECLAIM_OUT &&
			    r.nodes[(i + call) % NR_FRAMES].queue == RECLAIM_OUT) {
				reclaim_move(&r, i, (i + call) % NR_FRAMES);
				break;
			}
		reclaim_check(&r);
	}
	reclaim_fini(&r);
}

static void reclaim_move_frame_of_a_walk_walk_meets_it_once(void **state)
{
	struct reclaim r;
	u32 frame, nr = 0, met = 0;

	(void)state;
	fill(&r);
	reclaim_walk_begin(&r, RECLAIM_MAIN);
	while ((frame = r.walk) != RECLAIM_NONE) {
		if (frame == 10)
			reclaim_move(&r, 10, FAR + 10);
		reclaim_check(&r);
		frame = reclaim_walk(&r);
		met += r.nodes[frame].block == block_of(10);
		nr++;
		assert_in_range(nr, 1, NR_BLOCKS);
	}
	assert_int_equal(nr, r.lists[RECLAIM_MAIN].nr);
	assert_int_equal(met, 1);
	reclaim_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reclaim_move_any_frames_victims_in_the_same_order),
		cmocka_unit_test(reclaim_move_under_eviction_goes_on),
		cmocka_unit_test(reclaim_move_frame_of_a_walk_walk_meets_it_once),
	};

	return cmocka_run_group_tests_name("reclaim_move", tests, NULL, NULL);
}
