/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Who maps a block: from file space to the ptes of every process (LODIC s.4.4.1). The
 * way of reclaim, and of whoever must reach all ptes of a frame. A reader never comes
 * here: it has rmap_self(), whose cost does not grow with the number of processes.
 *
 * Files share RMAP_LISTS lists of vmas, each with a lock; a walk skips the vmas of other
 * files. Under the lock no vma of the list appears, moves or vanishes; ptes do, under
 * their own lock.
 *
 * Invariants
 * V1 a vma in use stands in its file's list, once; no other vma stands in any list.
 */
#ifndef LODIC_RMAP_H
#define LODIC_RMAP_H

#include "core/process_space.h"

/* Ours: a few hot files seldom meet in one list; a power of two. */
#define RMAP_LISTS 64u

struct rmap {
	u64 lock;
	struct vma *vmas;
	u64 unused[6];
};
_Static_assert(sizeof(struct rmap) == 64, "a cache line each");

/* The list of file among RMAP_LISTS. */
static inline struct rmap *rmap_of(struct rmap *rmaps, u32 file)
{
	return &rmaps[file % RMAP_LISTS];
}

/* Under the list's lock. */
void rmap_link(struct rmap *rmap, struct vma *vma);
void rmap_unlink(struct vma *vma);

/* A walk over all ptes that may map a block. Where it stands: */
struct rmap_walk {
	u64 block;
	struct vma *vma; /* the next one to look at */
	struct process_space *space;
	u64 page;
};

/*
 * rmap_all_first() begins a walk, rmap_all_next() goes on: each returns the next pte
 * whose address stands for block, with its space and page in the walk, or NULL at the
 * end. Ptes that were never populated are skipped; what a pte maps is for the caller to
 * see. Under the list's lock, from first to last. Cost: O(vmas of the list).
 */
u64 *rmap_all_first(struct rmap_walk *walk, struct rmap *rmap, u64 block);
u64 *rmap_all_next(struct rmap_walk *walk);

/* Asserts V1 over the RMAP_LISTS lists and nr_spaces spaces; nothing may move. */
void rmap_check(struct rmap *rmaps, struct process_space *spaces, u32 nr_spaces);

#endif
