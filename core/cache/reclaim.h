/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Eviction (S3-FIFO): which frame goes next (Yang et al., SOSP 2023). Three first-in
 * first-out queues; a hit moves nothing, so readers need no lock and no list.
 *
 *             first time              visited twice or more
 *   filled --------------> SMALL ------------------------------> MAIN --+ visited:
 *     |                      | less                              ^ | ^--+ another round
 *     |                      v                                   | |
 *     |                    GHOST (the name only, no frame)       | v not visited
 *     +----------------------------------------------------------+ gone
 *          its name stands in GHOST
 *
 * SMALL gets a tenth of the frames. Most blocks are never asked for again. They leave by
 * SMALL, before they can push a useful one out of MAIN. Until the first eviction, MAIN takes
 * what SMALL has no room for. Otherwise a cache just filled would be all SMALL.
 *
 * The service does not see visits one by one. Readers note up to three in memory of their
 * own, and eviction asks for them when it looks at a frame. S3-FIFO needs them at no other
 * moment, so asking late loses nothing. Without pins, with one reader and one insert after
 * each eviction, the decisions are exactly those of the authors' code. (libCacheSim with its
 * defaults: small 0.1, ghost 0.9, two visits to move.)
 *
 * Asking early loses nothing either. A count that stops at FRAME_VISITS_MAX comes to the same
 * sum, however its visits are parted into portions (R5). So the service may collect visits
 * at any time between a visit and the look. A long eviction asks for the visits of
 * RECLAIM_NEAR frames at once: in each context they share a cache line.
 *
 * An eviction may have to look at millions of frames. So a call looks at no more than its
 * budget allows, and the next call carries the same eviction on.
 *
 * All of this is private to one thread, the service's, and readers do not map it. Hence
 * plain loads and stores, and pointers.
 *
 * Invariants
 * R1 a frame is in SMALL, in MAIN or OUT of both; links and the queue's length agree.
 * R2 a name in GHOST is found by its hash, once; no other name is.
 * R3 a block that a queued frame holds is not in GHOST.
 * R4 GHOST holds at most ghost_size names, one more between an eviction and the next
 *    insert (see reclaim_insert()).
 * R5 a visit count is at most FRAME_VISITS_MAX. A sum stops there.
 * Of an eviction under way; its hand is in one queue, and takes frames from the old end.
 * R6 the frames that this turn has yet to look at are among the `left` oldest of the queue.
 *    An insert goes to the new end, and changes nothing. A removal may shorten the queue:
 *    then `left` is no more than its length.
 * R7 in MAIN, each of the `refused` newest frames was refused, or inserted, since the
 *    eviction began. A removal may take one of these, so it lowers `refused`. Once all of
 *    MAIN is refused, no further turn helps.
 * R8 a walk under way stands at a queued frame. When that frame leaves its place, the walk
 *    goes on with the next newer one.
 */
#ifndef LODIC_CORE_CACHE_RECLAIM_H
#define LODIC_CORE_CACHE_RECLAIM_H

#include "core/errno.h"
#include "core/frame.h"

#define RECLAIM_NONE 0xffffffffu
#define RECLAIM_MORE 0xfffffffeu
#define RECLAIM_MAX_FRAMES 0x80000000u
/* Frames whose visits one call of ops->visits() collects at most: a cache line of bytes. */
#define RECLAIM_NEAR 64u

enum reclaim_queue {
	RECLAIM_OUT,   /* a frame in no queue: free, or being filled */
	RECLAIM_SMALL, /* frames */
	RECLAIM_MAIN,  /* frames */
	RECLAIM_GHOST, /* names */
	RECLAIM_SPARE, /* entries for names, unused */
	RECLAIM_NR_QUEUES
};

/* One for each frame, then one for each name that GHOST can hold. */
struct reclaim_node {
	u64 block;
	u32 older; /* towards the end that is looked at next; RECLAIM_NONE there */
	u32 newer;
	u32 chain; /* names: the next one with this hash */
	u8 queue;  /* enum reclaim_queue */
	u8 freq;   /* visits collected so far; frames */
};
_Static_assert(sizeof(struct reclaim_node) == 24, "46 bytes a frame with its ghost");

struct reclaim_list {
	u32 oldest;
	u32 newest;
	u32 nr;
};

/* Where an eviction is. MAIN comes first only when it is too long. */
enum reclaim_step {
	RECLAIM_IDLE,
	RECLAIM_LONG_MAIN,
	RECLAIM_IN_SMALL,
	RECLAIM_IN_MAIN
};

struct reclaim_hand {
	u32 step;     /* enum reclaim_step */
	u32 turn;     /* round MAIN, from 0 */
	u32 left;     /* R6 */
	u32 refused;  /* R7 */
	u32 nr_looks; /* of this eviction; it counts no further than it must */
	u32 number;   /* of this eviction */
	u32 spent;    /* cache lines, in this look */
};

struct reclaim {
	struct reclaim_node *nodes;
	u32 *buckets; /* hash of a block -> its name's node */
	u32 *asked; /* for RECLAIM_NEAR frames each: the eviction that asked for all */
	struct reclaim_hand hand;
	struct reclaim_list lists[RECLAIM_NR_QUEUES];
	u32 nr_frames;
	u32 nr_nodes;
	u32 nr_buckets; /* a power of two */
	u32 bucket_shift;
	u32 main_size; /* above it, MAIN gives the next victim */
	u32 ghost_size;
	u32 walk;    /* R8: where reclaim_walk() is; RECLAIM_NONE: at the end */
	bool filled; /* reclaim_evict() was called */
	/* Since the start: what became of the frames that left SMALL, MAIN or gone; and looks. */
	u64 nr_kept, nr_dropped;
	u64 nr_looks;
};

/* What eviction asks of the cache.
 * visits: how often readers came by each of nr frames from first on, since it last asked. 0
 * to FRAME_VISITS_MAX are possible, and more counts as that. The cache then forgets them.
 * nr is 1, or the frames are up to RECLAIM_NEAR from a multiple of it on.
 * take: try to take a queued frame away from readers. true: nobody has it or can get it any
 * more. false: it is pinned, and nothing has changed. */
struct reclaim_ops {
	void (*visits)(void *ctx, u32 first, u32 nr, u8 *ret_visits);
	bool (*take)(void *ctx, u32 frame);
	void *ctx;
	/* How many cache lines a call of each touches at most; visits: for each frame, too. */
	u32 visits_lines;
	u32 take_lines;
	u32 frame_lines;
};

/* Makes r for frames 0..nr_frames - 1, all OUT. -EINVAL: nr_frames is 0 or above
 * RECLAIM_MAX_FRAMES. -ENOMEM: no memory. Then r has none either: r->nodes is NULL, and it must
 * not be used.
 * Memory: 24 bytes a frame, about 22 for its share of GHOST, 4 to 8 for the hash. */
int reclaim_init(struct reclaim *r, u32 nr_frames);
void reclaim_fini(struct reclaim *r);

/* frame, which was OUT, has been filled with block, which no queued frame holds. The frame
 * goes to MAIN when GHOST had the name, which it then forgets, else to SMALL. Before the
 * first eviction a full SMALL also sends it to MAIN. Its visits count from 0. Eviction may
 * not yet have asked for a visit of before this call. Such a visit counts for the new block:
 * one too many at most.
 * An eviction may leave GHOST with one name too many. The oldest name goes only here, because
 * the block that comes back may have just that name. (The authors' code looks into its ghost
 * before it evicts.) O(1). */
void reclaim_insert(struct reclaim *r, u32 frame, u64 block);

/* The same for a block that nobody has asked for yet. It goes to SMALL in any case, so that it
 * leaves before any block of MAIN unless readers come by it. O(1). */
void reclaim_insert_unread(struct reclaim *r, u32 frame, u64 block);

/* frame left the cache by another way than reclaim_evict(): its file was revoked, for
 * instance. It is OUT, and GHOST keeps no name of it. The frame must be queued. O(1). */
void reclaim_remove(struct reclaim *r, u32 frame);

/* The block of a queued frame is in frame `to` now, which was OUT. It keeps its place in the
 * queue and its visits; from is OUT. An eviction and a walk under way go on. Visits that readers
 * noted at from, and nobody has collected, are lost. O(1). */
void reclaim_move(struct reclaim *r, u32 from, u32 to);

/* The cache lines that one look touches at most. */
u32 reclaim_look_lines(const struct reclaim_ops *ops);

/* reclaim_evict() chooses a victim that ops->take() could take. It returns the victim, OUT.
 * RECLAIM_MORE: *lines is less than reclaim_look_lines(). The next call goes on from there,
 * whatever was inserted and removed meanwhile.
 * RECLAIM_NONE: ops->take() has refused each frame that was queued when the eviction began
 * and still is. Then the caller must wait for an unpin before it calls again. A refused
 * frame stays, as the newest of its queue.
 * Cost: at most *lines cache lines; the call takes off what it has touched. On average an
 * eviction is a few looks. The worst case is that all frames are pinned, or visited faster
 * than the hand looks. Then it looks once at each frame of SMALL, and twice
 * FRAME_VISITS_MAX + 1 times at each of MAIN. A long eviction collects all visits in its
 * first turn, and later passes each frame that has some without asking. */
u32 reclaim_evict(struct reclaim *r, const struct reclaim_ops *ops, u32 *lines);

/* Adds visits that the caller has collected for frame. Visits to an OUT frame are lost. */
void reclaim_collect(struct reclaim *r, u32 frame, u32 visits);

/*
 * How frames of one cache come into another one, queue by queue.
 *
 * reclaim_walk_begin() begins a walk over queue, SMALL or MAIN, at its oldest frame.
 * reclaim_walk() returns the frame where the walk is, and goes to the next newer one;
 * RECLAIM_NONE: the walk is over. Anything may happen between two calls (R8). A frame that
 * moves to the new end meanwhile is met there, perhaps for the second time. One walk at a time.
 * O(1).
 *
 * reclaim_adopt() is reclaim_insert() for a frame of which more is known: it becomes the newest
 * of queue, with so many visits. GHOST must not have the block's name. Where frames are left
 * behind, reclaim_adopt_begin() says first that the cache counts as filled. O(1).
 */
void reclaim_walk_begin(struct reclaim *r, enum reclaim_queue queue);
u32 reclaim_walk(struct reclaim *r);
void reclaim_adopt_begin(struct reclaim *r, bool filled);
void reclaim_adopt(struct reclaim *r, u32 frame, u64 block, enum reclaim_queue queue,
                   u32 visits);

/* Asserts R1-R8. O(frames). */
void reclaim_check(const struct reclaim *r);

#endif
