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
 * All of this is private to one thread, the service's, and readers do not map it. Hence
 * plain loads and stores, and pointers.
 *
 * Invariants
 * R1 a frame is in SMALL, in MAIN or OUT of both; links and the queue's length agree.
 * R2 a name in GHOST is found by its hash, once; no other name is.
 * R3 a block that a queued frame holds is not in GHOST.
 * R4 GHOST holds at most ghost_size names, one more between an eviction and the next
 *    insert (see reclaim_insert()).
 * R5 a visit count is at most FRAME_VISITS_MAX.
 */
#ifndef LODIC_CORE_CACHE_RECLAIM_H
#define LODIC_CORE_CACHE_RECLAIM_H

#include "core/frame.h"

#define RECLAIM_NONE 0xffffffffu
#define RECLAIM_MAX_FRAMES 0x80000000u
#define RECLAIM_ENOMEM 12
#define RECLAIM_EINVAL 22

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

struct reclaim {
	struct reclaim_node *nodes;
	u32 *buckets; /* hash of a block -> its name's node */
	struct reclaim_list lists[RECLAIM_NR_QUEUES];
	u32 nr_frames;
	u32 nr_nodes;
	u32 nr_buckets; /* a power of two */
	u32 bucket_shift;
	u32 main_size; /* above it, MAIN gives the next victim */
	u32 ghost_size;
	bool filled; /* reclaim_evict() was called */
};

/* What eviction asks of the cache about a queued frame.
 * visits: how often readers came by since eviction last asked, 0 to FRAME_VISITS_MAX. More
 * counts as that. The cache then forgets them.
 * take: try to take the frame away from readers. true: nobody has it or can get it any more.
 * false: it is pinned, and nothing has changed. */
struct reclaim_ops {
	u32 (*visits)(void *ctx, u32 frame);
	bool (*take)(void *ctx, u32 frame);
};

/* Makes r for frames 0..nr_frames - 1, all OUT. -RECLAIM_EINVAL: nr_frames is 0 or above
 * RECLAIM_MAX_FRAMES. -RECLAIM_ENOMEM: no memory. On an error r must not be used.
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

/* frame left the cache by another way than reclaim_evict(): its file was revoked, for
 * instance. It is OUT, and GHOST keeps no name of it. The frame must be queued. O(1). */
void reclaim_remove(struct reclaim *r, u32 frame);

/* reclaim_evict() chooses a victim that ops->take() could take. It returns the victim, OUT,
 * or RECLAIM_NONE when ops->take() has refused every queued frame once in this call. Then the
 * caller must wait for an unpin before it calls again. A refused frame stays, as the newest
 * of its queue.
 * Cost: amortised a few looks. The worst case is that all frames are pinned, or visited
 * faster than the hand looks. Then it looks once at each frame of SMALL, and twice
 * FRAME_VISITS_MAX + 1 times at each of MAIN. A look costs ops->visits() and, if the frame is
 * not to stay, ops->take(). */
u32 reclaim_evict(struct reclaim *r, const struct reclaim_ops *ops, void *ctx);

/* Asserts R1-R5. O(frames). */
void reclaim_check(const struct reclaim *r);

#endif
