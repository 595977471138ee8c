/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Evictions that several calls carry on (core/cache/reclaim.h). Neither the budget of a call
 * nor the time at which visits are collected may change a decision. While frames come and go
 * between two calls, the eviction still ends, and has asked for each frame that was there.
 * LODIC_SEED=n sets the seed.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/reclaim_model.h"

/* The same operations on each model: another budget, or another way of collecting. */
static const struct {
	u32 looks;
	bool eager;
} ways[] = { { 0, false }, { 1, false }, { 2, false },
	     { 7, false }, { 0, true },  { 3, true } };
#define NR_WAYS (sizeof(ways) / sizeof(ways[0]))
static struct model models[NR_WAYS];
/* Enough that evictions become long, and that a group of frames is asked for at once. */
#define NR_WAYS_FRAMES 1000u
#define NR_WAYS_BLOCKS 1600u
#define NR_WAYS_STEPS 60000u

static void model_remove(struct model *m, u32 frame)
{
	if (m->r.nodes[frame].queue == RECLAIM_OUT)
		return;
	reclaim_remove(&m->r, frame);
	m->frame_of[m->block_of[frame]] = RECLAIM_NONE;
	m->pinned[frame] = false;
	m->due[frame] = false;
	m->free[m->nr_free++] = frame;
}

/* One random operation; from time to time everything is visited often. */
static void ways_step(struct model *m, u64 random)
{
	u32 frame = (u32)(random >> 32) % NR_WAYS_FRAMES;
	u32 a = (u32)(random >> 8) % NR_WAYS_BLOCKS;
	u32 b = (u32)(random >> 24) % NR_WAYS_BLOCKS;
	u32 step = (u32)(random % 4096);

	if (step < 4) {
		for (u32 i = 0; i < FRAME_VISITS_MAX; i++)
			for (u32 block = 0; block < NR_WAYS_BLOCKS; block++)
				if (m->frame_of[block] != RECLAIM_NONE)
					model_read(m, block);
	} else if (step < 64) {
		m->pinned[frame] = !m->pinned[frame];
	} else if (step < 128) {
		model_remove(m, frame);
	} else {
		for (u32 i = 0; i < (random >> 50) % 4; i++)
			model_read(m, a < b ? a : b);
	}
}

static void evict_any_budget_and_any_time_of_collecting_same_victims(void **state)
{
	const char *text = getenv("LODIC_SEED");
	u64 seed = text ? strtoull(text, NULL, 0) : 1;

	(void)state;
	print_message("seed=%llu\n", (unsigned long long)seed);
	trace.random = seed;
	for (u32 way = 0; way < NR_WAYS; way++) {
		model_init(&models[way], NR_WAYS_FRAMES);
		models[way].looks = ways[way].looks;
		models[way].eager = ways[way].eager;
	}
	for (u32 i = 0; i < NR_WAYS_STEPS; i++) {
		u64 random = trace_random(&trace);

		for (u32 way = 0; way < NR_WAYS; way++)
			ways_step(&models[way], random);
		for (u32 way = 1; way < NR_WAYS; way++)
			assert_memory_equal(models[way].frame_of, models[0].frame_of,
			                    sizeof(models[0].frame_of[0]) *
			                            NR_WAYS_BLOCKS);
	}
	for (u32 way = 0; way < NR_WAYS; way++)
		model_stop(&models[way]);
}

/* Something else happens between two calls of one eviction. */
static void carry_on_step(struct model *m, u64 random, u32 *block)
{
	u32 frame = (u32)(random >> 32) % NR_FRAMES;

	switch (random % 4) {
	case 0: model_remove(m, frame); break;
	case 1:
		*block = *block % (TRACE_NR_BLOCKS - 1) + 1;
		if (m->nr_free > 0 && m->frame_of[*block] == RECLAIM_NONE)
			model_fill(m, m->free[--m->nr_free], *block);
		break;
	case 2: model_read(m, m->block_of[frame]); break;
	default: break;
	}
	reclaim_check(&m->r);
}

/* Carries one eviction on until it ends. Most frames are pinned. */
static void carry_on_once(struct model *m, u32 *block)
{
	u32 calls = 0, frame;

	for (u32 i = 0; i < NR_FRAMES; i++) {
		m->pinned[i] = trace_random(&trace) % 64 > 0;
		m->due[i] = m->r.nodes[i].queue != RECLAIM_OUT;
	}
	while ((frame = model_evict_some(m)) == RECLAIM_MORE) {
		assert_in_range(++calls, 1, 9 * NR_FRAMES);
		carry_on_step(m, trace_random(&trace), block);
	}
	if (frame != RECLAIM_NONE) {
		assert_false(m->pinned[frame]);
		m->free[m->nr_free++] = frame;
		return;
	}
	/* Each that was there has been asked for, in vain. */
	for (u32 i = 0; i < NR_FRAMES; i++)
		assert_false(m->due[i]);
}

static void evict_carried_on_while_frames_come_and_go_ends_and_asks_all(void **state)
{
	struct model *m = model_full();
	u32 block = NR_FRAMES;

	(void)state;
	trace.random = 1;
	m->looks = 1;
	for (u32 i = 0; i < 3000; i++)
		carry_on_once(m, &block);
	model_stop(m);
}

/* R8 */
static void reclaim_walk_its_frame_leaves_goes_on_at_the_next_newer_one(void **state)
{
	enum { NR = 3 };

	(void)state;
	for (u32 gone = 0; gone < NR; gone++) {
		struct model *m = model_start(NR_FRAMES);
		u32 frames[NR];

		for (u32 i = 0; i < NR; i++) {
			frames[i] = m->free[--m->nr_free];
			model_fill(m, frames[i], i + 1);
		}
		reclaim_walk_begin(&m->r, RECLAIM_SMALL);
		for (u32 i = 0; i < NR; i++)
			if (i == gone)
				model_remove(m, frames[i]);
			else
				assert_int_equal(reclaim_walk(&m->r), frames[i]);
		assert_int_equal(reclaim_walk(&m->r), RECLAIM_NONE);
		model_stop(m);
	}
}

/* R7: frames that were kept for their visits are not refused. */
static void evict_frame_kept_beside_a_refused_one_is_taken(void **state)
{
	struct model *m = model_start(2);
	u32 refused = m->free[--m->nr_free], kept = m->free[--m->nr_free];

	(void)state;
	reclaim_adopt_begin(&m->r, true);
	m->frame_of[0] = refused;
	m->block_of[refused] = 0;
	reclaim_adopt(&m->r, refused, block_id(FILE_ID, 0), RECLAIM_MAIN, 0);
	m->frame_of[1] = kept;
	m->block_of[kept] = 1;
	reclaim_adopt(&m->r, kept, block_id(FILE_ID, 1), RECLAIM_MAIN,
	              FRAME_VISITS_MAX);
	m->pinned[refused] = true;
	assert_int_equal(model_evict(m), kept);
	model_stop(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			evict_any_budget_and_any_time_of_collecting_same_victims),
		cmocka_unit_test(
			evict_carried_on_while_frames_come_and_go_ends_and_asks_all),
		cmocka_unit_test(
			reclaim_walk_its_frame_leaves_goes_on_at_the_next_newer_one),
		cmocka_unit_test(evict_frame_kept_beside_a_refused_one_is_taken),
	};

	return cmocka_run_group_tests_name("reclaim_carry", tests, NULL, NULL);
}
