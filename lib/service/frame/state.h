/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What becomes of frames: they are filled, visited, moved and taken back. */
#ifndef LODIC_LIB_SERVICE_FRAME_STATE_H
#define LODIC_LIB_SERVICE_FRAME_STATE_H

#include "core/cache/batch.h"
#include "core/cache/reclaim.h"
#include "lib/look.h"
#include "lib/port/reads.h"
#include "lib/port/thread.h"
#include "lib/service/frame/admission.h"
#include "lib/service/service.h"
#include "lodic/lodic.h"

/* Reads under way at once, and blocks in one read. 128 KiB a read and 8 MiB under way are
 * enough for a fast disk, and one op stays a page of memory. */
#define FILL_OPS 64u
#define FILL_RUN 32u
/* How many ranges wait in a queue; a power of two. What comes on top stays in readers' rings. */
#define FILL_QUEUE 4096u

/* Blocks that a reader wants. */
struct fill_range {
	u32 id;
	bool spare;    /* for free frames only: it pushes nothing out */
	bool ahead;    /* nobody has asked for it, or missed it */
	u64 next, end; /* block numbers in the file */
	u64 ticket;    /* grows with each hint, see fill_sync_is_done() */
	u64 hinted_ns; /* when the service took it */
};

struct fill_queue {
	u32 head, nr;
	struct fill_range ranges[FILL_QUEUE];
};

/* A read under way. */
struct fill_op {
	bool busy;
	bool direct, in_ring; /* how it is being read (reads.c) */
	bool waits;           /* for a description to be read by */
	bool ahead;           /* as its range */
	bool far;             /* its file may not answer */
	u32 slot, id;
	u32 nr;
	u64 first, ticket;
	u64 since_ns, hinted_ns;
	u32 frames[FILL_RUN];
	struct port_piece pieces[FILL_RUN];
};

struct frames;

struct fill {
	struct port_reads *reads; /* NULL: workers read */
	void (*ended)(struct frames *s, struct fill_op *op, int result);
	u32 nr_busy, most_busy;
	u32 nr_far;     /* of the busy ones */
	u32 nr_waiting; /* of the busy ones: for a description */
	/* A round asks each context once for hints, over several turns if it must. It begins
	 * again when contexts come or go. */
	struct admission admission;
	u64 now_ns;     /* when this turn began to take hints */
	u64 hinted_ns;  /* the same of the last turn that found some */
	u32 nr_filling; /* blocks, by the reads under way */
	u64 nr_rounds;  /* that are over */
	u32 round_contexts, round_asked;
	u64 ticket;           /* of the newest hint */
	u64 starved_until_ns; /* all frames were pinned: do not ask before */
	u32 lines;            /* that this turn may still touch */
	bool far_next;        /* the queue of far ones has its turn */
	struct fill_op ops[FILL_OPS];
	struct fill_queue queue;
	/* Of files that may not answer, while as many of their reads are under way as may be. What
	 * finds no room is dropped: readers ask again. */
	struct fill_queue far;
};

/* Frames on their way out (evict.c). */
struct evict {
	struct batch batches[2];
	struct batch *open;    /* hidden frames go there */
	struct batch *away;    /* its fence or its walk is under way; NULL: none */
	bool waits;            /* away waits for its fence */
	u64 fence;             /* which is that one */
	struct walk_list list; /* who had pins lately */
	struct reclaim_ops ops;
	u32 lines;                          /* that this turn may still touch */
	u32 nr_rescued;                     /* since the last batch came to its end */
	u32 stock, stock_least, stock_most; /* free and hidden frames to have */
	bool starved;                       /* a fill has waited since the last tick */
	u64 none_until_ns;                  /* all were pinned: do not look before */
	bool said;
};

/* The heavy fence, one after the other, by number. Where it takes milliseconds a thread makes it,
 * and answers by an event. */
struct fence {
	u64 begun, over;
	u64 good;   /* the newest that has ordered anything */
	u64 wanted; /* begun, or the next */
	struct port_thread thread;
	bool running;
	struct port_lock lock; /* of the next three */
	struct port_condition told;
	bool asked, stop;
	int done;
	u64 ok; /* of the last one; the thread writes it before it tells `done' */
};

struct base;
struct files;
struct mover;
struct tiers;

struct frames {
	struct base *base;
	const struct service_tables *tables;
	struct lodic_stat *stat;
	struct arena *arena;
	struct arena_shape *shape; /* fence_start() chooses its barrier */
	struct tiers *tiers;
	struct files *files;

	struct fill fill;
	struct evict evict;
	struct fence fence;
	struct reclaim reclaim;
	u32 sweep_at;        /* the frame where the sweep goes on */
	u32 sweep_due;       /* lines of visits to collect, in parts of SWEEP_TICKS */
	struct mover *mover; /* NULL: there is one tier */
	struct look_times times[LOOK_NR_TIMES];
};

#endif
