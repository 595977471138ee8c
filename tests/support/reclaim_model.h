/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A model of the cache around core/cache/reclaim.c, for its unit tests: a table of frames,
 * their visits, and which of them are pinned. Include it after cmocka.
 */
#ifndef LODIC_TESTS_SUPPORT_RECLAIM_MODEL_H
#define LODIC_TESTS_SUPPORT_RECLAIM_MODEL_H

#include "core/cache/reclaim.h"
#include "tests/support/trace.h"

#define FILE_ID 7u
/* For the small cases: 10 frames make SMALL, 90 fill MAIN, 90 names fill GHOST. */
#define NR_FRAMES 100u
#define NR_SMALL 10u
#define NR_GHOST 90u

struct model {
	struct reclaim r;
	u32 frame_of[TRACE_NR_BLOCKS];
	u32 block_of[TRACE_NR_BLOCKS];
	u8 visits[TRACE_NR_BLOCKS];
	bool pinned[TRACE_NR_BLOCKS];
	bool restless;             /* readers visit faster than the hand looks */
	u32 free[TRACE_NR_BLOCKS]; /* a stack */
	u32 nr_free;
	u64 nr_takes;
	u32 looks;               /* that a call may make; 0: no bound */
	bool eager;              /* a visit is collected at once */
	u8 due[TRACE_NR_BLOCKS]; /* frames that the eviction under way must ask for */
};

/* Large, so not on the stack; one at a time. */
static struct model model;
static struct trace trace;

static inline void model_visits(void *ctx, u32 first, u32 nr, u8 *ret_visits)
{
	struct model *m = ctx;

	assert_true(nr == 1 || first % RECLAIM_NEAR == 0);
	assert_true(nr <= RECLAIM_NEAR && first + nr <= m->r.nr_frames);
	for (u32 i = 0; i < nr; i++) {
		ret_visits[i] = m->restless ? FRAME_VISITS_MAX : m->visits[first + i];
		m->visits[first + i] = 0;
	}
}

static inline bool model_take(void *ctx, u32 frame)
{
	struct model *m = ctx;

	m->nr_takes++;
	m->due[frame] = false;
	if (m->pinned[frame])
		return false;
	m->frame_of[m->block_of[frame]] = RECLAIM_NONE;
	return true;
}

/* One call with a budget of m->looks looks; between two calls more happens, if there is
 * anything that shall. */
static inline u32 model_evict_some(struct model *m)
{
	const struct reclaim_ops ops = { model_visits, model_take, m, 1, 1, 0 };
	u32 look = reclaim_look_lines(&ops);
	u32 lines = m->looks ? m->looks * look : UINT32_MAX;
	u32 frame = reclaim_evict(&m->r, &ops, &lines);

	assert_true(lines <= (m->looks ? m->looks * look : UINT32_MAX));
	assert_true(frame != RECLAIM_MORE || lines < look);
	return frame;
}

static inline u32 model_evict(struct model *m)
{
	/* Twice MAIN's four turns, and SMALL once. */
	for (u32 calls = 9 * m->r.nr_frames + 1; calls > 0; calls--) {
		u32 frame = model_evict_some(m);

		if (frame != RECLAIM_MORE)
			return frame;
	}
	fail_msg("an eviction does not end");
	return RECLAIM_NONE;
}

static inline void model_init(struct model *m, u32 nr_frames)
{
	memset(m, 0, sizeof(*m));
	memset(m->frame_of, 0xff, sizeof(m->frame_of));
	m->nr_free = nr_frames;
	for (u32 i = 0; i < nr_frames; i++)
		m->free[i] = nr_frames - 1 - i;
	assert_int_equal(reclaim_init(&m->r, nr_frames), 0);
	reclaim_check(&m->r);
}

static inline struct model *model_start(u32 nr_frames)
{
	model_init(&model, nr_frames);
	return &model;
}

static inline void model_stop(struct model *m)
{
	reclaim_check(&m->r);
	reclaim_fini(&m->r);
}

static inline void model_fill(struct model *m, u32 frame, u32 block)
{
	m->frame_of[block] = frame;
	m->block_of[frame] = block;
	m->visits[frame] = 0;
	reclaim_insert(&m->r, frame, block_id(FILE_ID, block));
}

/* Reads block through the cache; true for a hit. */
static inline bool model_read(void *ctx, u32 block)
{
	struct model *m = ctx;
	u32 frame = m->frame_of[block];

	if (frame != RECLAIM_NONE) {
		if (m->eager)
			reclaim_collect(&m->r, frame, 1);
		else if (m->visits[frame] < FRAME_VISITS_MAX)
			m->visits[frame]++;
		return true;
	}
	if (m->nr_free > 0)
		frame = m->free[--m->nr_free];
	else
		frame = model_evict(m);
	if (frame != RECLAIM_NONE)
		model_fill(m, frame, block);
	return false;
}

static inline void model_read_range(struct model *m, u32 from, u32 nr)
{
	for (u32 block = from; block < from + nr; block++)
		model_read(m, block);
}

static inline enum reclaim_queue queue_of(const struct model *m, u32 block)
{
	u32 frame = m->frame_of[block];

	if (frame == RECLAIM_NONE)
		return RECLAIM_OUT;
	return (enum reclaim_queue)m->r.nodes[frame].queue;
}

/* Blocks 0..99 are cached: 0..9 in SMALL, the others in MAIN. */
static inline struct model *model_full(void)
{
	struct model *m = model_start(NR_FRAMES);

	model_read_range(m, 0, NR_FRAMES);
	return m;
}

#endif
