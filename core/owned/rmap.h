/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The way from a block to the ptes of every process that maps it (LODIC s.4.4.1). Reclaim
 * takes it, and everything else that must reach all ptes of a frame. A reader never comes
 * here: it has rmap_self(), whose cost does not grow with the number of processes.
 *
 * Files share RMAP_LISTS lists of vmas, each with a lock. A walk skips the vmas of other
 * files. Under the lock no vma of the list appears, moves or vanishes. Ptes may, under
 * their own lock. Some walkers must not exclude each other, as under Linux's i_mmap_rwsem
 * taken for reading. They stand between rmap_read_begin() and rmap_read_end() instead. A
 * thread that links or unlinks a vma waits until they are gone, and new ones wait for it.
 *
 * Words
 *   lock     taken to link, to unlink, and to walk alone
 *   vmas     the list's first vma; written under lock with no reader in the list
 *   readers  how many, and WRITER while a thread changes the list; any thread, by add
 *
 * Invariants
 * V1 A vma in use stands in its file's list, once. No other vma stands in any list.
 * Order
 * V2 A reader adds itself, then looks for WRITER. A writer adds WRITER, then looks for
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

/* The list stays as it is between these two. The caller must not take a lock in between.
 * Cost: two atomics on the list's line. */
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
 * rmap_all_first() begins a walk, rmap_all_next() goes on. Each returns the next pte whose
 * address stands for block, with its space and page in the walk, or NULL at the end. It
 * skips ptes that were never populated. The caller must look what a pte maps. It must hold
 * the list's lock, or be a reader, from first to last. Cost: O(vmas of the list), a
 * dependent load each.
 */
u64 *rmap_all_first(struct rmap_walk *walk, struct rmap *rmap, u64 block);
u64 *rmap_all_next(struct rmap_walk *walk);

/* Finds what rmap_self() finds, from the file's side: the first pte of block on the list
 * that belongs to space (LODIC s.4.4.1). The caller must be a reader or hold the lock.
 * Cost: O(vmas of the list), whatever process they belong to. */
u64 *rmap_self_by_file(const struct rmap *rmap, const struct process_space *space,
                       u64 block, u64 *ret_page);

/* Asserts V1 over the RMAP_LISTS lists and nr_spaces spaces; nothing may move. */
void rmap_check(struct rmap *rmaps, struct process_space *spaces, u32 nr_spaces);

#endif
