/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Who maps a block: from file space to the ptes of every process (LODIC s.4.4.1). The
 * way of reclaim, and of whoever must reach all ptes of a frame. A reader never comes
 * here: it has rmap_self(), whose cost does not grow with the number of processes.
 *
 * Files share RMAP_LISTS lists of vmas, each with a lock; a walk skips the vmas of other
 * files. Under the lock no vma of the list appears, moves or vanishes; ptes do, under
 * their own lock. Walkers that must not exclude each other, as under Linux's i_mmap_rwsem
 * taken for reading, stand between rmap_read_begin() and rmap_read_end() instead: whoever
 * links or unlinks a vma waits until they are gone, and new ones wait for him.
 *
 * Words
 *   lock     who links, unlinks, or walks alone
 *   vmas     the list's first vma; written under lock with no reader in the list
 *   readers  how many, and WRITER while somebody changes the list; anybody, by add
 *
 * Invariants
 * V1 a vma in use stands in its file's list, once; no other vma stands in any list.
 * Order
 * V2 a reader adds itself, then looks for WRITER; a writer adds WRITER, then looks for
 *    readers. Both adds are full fences (shape SB): one of the two sees the other.
 */
#ifndef LODIC_CORE_OWNED_RMAP_H
#define LODIC_CORE_OWNED_RMAP_H

#include "core/owned/process_space.h"

/* Ours: a few hot files seldom meet in one list; a power of two. */
#ifndef RMAP_LISTS
#define RMAP_LISTS 64u
#endif

struct rmap {
	u64 lock;
	u64 vmas; /* an address, or 0 */
	u64 readers;
	u64 unused[5];
};
_Static_assert(sizeof(struct rmap) == 64, "a cache line each");

/* The list of file among RMAP_LISTS. */
static inline struct rmap *rmap_of(struct rmap *rmaps, u32 file)
{
	return &rmaps[file % RMAP_LISTS];
}

/* Under the list's lock; not between rmap_read_begin() and rmap_read_end(). */
void rmap_link(struct rmap *rmap, struct vma *vma);
void rmap_unlink(struct rmap *rmap, struct vma *vma);

/* Keeps the list as it is while its readers walk. No lock may be taken in between. Cost:
 * two atomics on the list's line. */
void rmap_read_begin(struct rmap *rmap);
void rmap_read_end(struct rmap *rmap);

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
 * see. Under the list's lock, or as a reader, from first to last. Cost: O(vmas of the
 * list), a dependent load each.
 */
u64 *rmap_all_first(struct rmap_walk *walk, struct rmap *rmap, u64 block);
u64 *rmap_all_next(struct rmap_walk *walk);

/* What rmap_self() answers, found from the file's side: the first pte of block on the list
 * that belongs to space (LODIC s.4.4.1). As a reader or under the lock. Cost: O(vmas of
 * the list), of whatever process. */
u64 *rmap_self_by_file(const struct rmap *rmap, const struct process_space *space,
                       u64 block, u64 *ret_page);

/* Asserts V1 over the RMAP_LISTS lists and nr_spaces spaces; nothing may move. */
void rmap_check(struct rmap *rmaps, struct process_space *spaces, u32 nr_spaces);

#endif
