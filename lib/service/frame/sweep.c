/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The sweep: it collects visits in the order of the frames, all the time and slowly. Then a
 * file's hits are known while nothing is evicted as well. Eviction collects visits too, and
 * does not care which of the two comes first (reclaim.h).
 *
 * A reader notes a visit by a store only until its byte is full. So each collection costs it
 * up to FRAME_VISITS_MAX stores for each frame that it uses. SWEEP_TICKS keeps that rare.
 */
#define _GNU_SOURCE
#include "lib/service/file/files.h"
#include "lib/service/file/nameless.h"
#include "lib/service/frame/sweep.h"
#include "lib/service/tier/policy.h"
#include "lib/service/frame/state.h"

/* Ticks that the sweep takes to come round, 10 s. With millions of frames it takes longer,
 * because a tick touches no more than TURN_LINES. Our choice: the hits of a file then lag by
 * 10 s, and readers store to a frame's byte 0.3 times a second. */
#define SWEEP_TICKS 100u
/* How much faster it goes while somebody waits for a round (nameless.c). Our choice: 2.5 s, until
 * TURN_LINES is the bound. */
#define SWEEP_HURRY 4u

void sweep_collect(struct frames *s, u32 first, u32 nr, u8 *ret_visits)
{
	arena_visits(s->arena, first, nr, ret_visits);
	for (u32 i = 0; i < nr; i++) {
		u64 block;

		if (!ret_visits[i])
			continue;
		block = host_load_relaxed(&s->arena->frames[first + i].block);
		policy_visit(s->tiers, first + i,
		             files_hit(s->files, block, ret_visits[i]));
	}
}

/* The frames from s->sweep_at on whose visits lie in one line. */
static void sweep_line(struct frames *s)
{
	u32 first = s->sweep_at;
	u32 nr = s->shape->nr_frames - first;
	u8 visits[ARENA_LINE_FRAMES];

	nr = nr < ARENA_LINE_FRAMES ? nr : ARENA_LINE_FRAMES;
	sweep_collect(s, first, nr, visits);
	for (u32 i = 0; i < nr; i++)
		if (visits[i])
			reclaim_collect(&s->reclaim, first + i, visits[i]);
	s->sweep_at = first + nr < s->shape->nr_frames ? first + nr : 0;
	if (s->sweep_at == 0)
		files_swept(s->files);
}

void sweep_tick(struct frames *s)
{
	u32 most = TURN_LINES / (1 + ARENA_LINE_FRAMES * SWEEP_FRAME_LINES);

	if (s->arena->nr_contexts == 0)
		return;
	/* Each tick adds a hundredth of all lines; a small cache has less than one. */
	s->sweep_due += (s->shape->nr_frames / ARENA_LINE_FRAMES + 1) *
	                (nameless_hurries(s->files) ? SWEEP_HURRY : 1);
	for (; s->sweep_due >= SWEEP_TICKS && most > 0; most--) {
		s->sweep_due -= SWEEP_TICKS;
		sweep_line(s);
	}
	if (s->sweep_due >= SWEEP_TICKS) /* it lags, and will not catch up */
		s->sweep_due = 0;
}
