/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Frames on their way out of the cache, many at a time: core/cache/arena.h, steps 1 to 5. One
 * heavy fence serves a whole batch, because it may take milliseconds. Meanwhile the service
 * goes on, and hides frames for the next batch.
 *
 *   OPEN --close--> CLOSED --(the heavy fence)--> fenced --> WALKED --the last frame--> OPEN
 *    |  batch_add()                                           |  batch_next()
 *    v                                                        v
 *    hidden                                                   taken, refused, or rescued
 *
 * batch_rescue() shows a hidden frame at any time before batch_next() has come to it. Reads of
 * hidden frames go on, so a rescue loses nothing.
 *
 * Rules
 * B1 a frame belongs to a batch while its pins have the batch's number (F4). A rescue takes
 *    it out. If it is hidden again it belongs to another batch, and its old one passes it by.
 * B2 the heavy fence begins when the batch is closed. What is hidden later is not in it.
 * B3 the service finds out which contexts have pins after the fence (K6).
 *
 * One thread calls all of this, the service's. The fence alone may be another thread's, if it
 * is one for all processes (ARENA_BARRIER_LIGHT). A full fence orders its caller's stores only.
 */
#ifndef LODIC_CORE_CACHE_BATCH_H
#define LODIC_CORE_CACHE_BATCH_H

#include "core/cache/walk.h"

/* Ours: a fence takes 8 to 16 ms, and 4,096 frames last so long at 1 to 2 GB/s. */
#ifndef BATCH_FRAMES
#define BATCH_FRAMES 4096u
#endif

enum batch_state { BATCH_OPEN, BATCH_CLOSED, BATCH_WALKED };

struct batch {
	u32 number; /* differs from that of any other batch that has frames */
	u32 state;  /* enum batch_state */
	u32 nr;
	u32 at; /* the next frame to walk for */
	u32 frames[BATCH_FRAMES];
	struct walk_list list;
};

/* What has become of a frame. */
enum batch_end {
	BATCH_DONE,    /* there are no more; the batch is open again */
	BATCH_TAKEN,   /* it is nobody's, and FREE */
	BATCH_REFUSED, /* a reader has it pinned; it is shown again */
	BATCH_RESCUED  /* it had been shown before */
};

void batch_init(struct batch *b, u32 number);

/* Hides a CACHED frame for an open batch that has room. false: one of those on the list
 * has it pinned, and nothing has changed. The list may be old here: it spares the frame, and
 * its readers, a hide in vain (LODIC s.4.5, eq. 1). NULL: nobody is asked. */
bool batch_add(struct arena *a, struct batch *b, const struct walk_list *list,
               u32 frame);

static inline bool batch_is_full(const struct batch *b)
{
	return b->nr == BATCH_FRAMES;
}

/* The heavy fence may begin. */
void batch_close(const struct arena *a, struct batch *b);

/* The heavy fence itself, of the kind that the arena's header says. false: this machine does
 * not have one for all processes, and nothing is ordered. */
bool batch_fence(const struct arena *a);

/* The heavy fence is over. Cost: one cache line per context. */
void batch_fenced(struct arena *a, struct batch *b);

/* Ends the stay of one more frame. Cost: walk_lines(), and BATCH_TAKE_LINES. */
enum batch_end batch_next(struct arena *a, struct batch *b, u32 *ret_frame);
#define BATCH_TAKE_LINES 8u
/* The same, but what nobody has (BATCH_TAKEN) stays hidden, and the caller must clear it. */
enum batch_end batch_look(struct arena *a, struct batch *b, u32 *ret_frame);

/* Shows frame again if it is hidden. */
void batch_rescue(struct arena *a, u32 frame);
static inline bool batch_is_hidden(const struct arena *a, u32 frame)
{
	const struct frame *f = &a->frames[frame];

	return host_load_relaxed(&f->state) == FRAME_CACHED &&
	       host_load_relaxed(&f->pins) != host_load_relaxed(&f->block);
}

/* All of it for one frame, by a batch that is open and empty; it waits for the fence. true:
 * the frame is nobody's. Cost: two cache lines per context. */
bool batch_take_one(struct arena *a, struct batch *b, u32 frame);

#endif
