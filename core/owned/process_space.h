/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A process space: which file ranges a process has mapped, at which addresses, and the
 * ptes that lead from there to frames (LODIC s.4.4.1). Addresses are page numbers. This
 * file keeps the places of ptes. What a pte counts is in core/owned/count_owned.c.
 *
 * Words and who writes them
 *   order, nr_vmas, vma.start .file .first .nr   written under vma_lock. Those of a vma that
 *       stands in a file's rmap are written under that rmap's lock as well. A thread that
 *       holds either lock reads them at rest. The process's own threads read them without
 *       a lock, as a hint. That is enough, because a compare-and-swap on a present pte
 *       that maps the wanted frame proves itself, however its address was found.
 *   chunks   under pte_lock, NULL -> chunk, once
 *   ptes     present <-> not present under pte_lock; counts by the process's threads
 * Locks, outermost first: vma_lock, rmap lock, pte_lock; a parent's pte_lock before its
 * fresh child's.
 *
 * A chunk of ptes is freed only with the whole space. A token names a slot in it, and unref
 * looks there, however long ago the range was unmapped.
 *
 * Invariants
 * P1 vmas stand in order of address and do not overlap.
 * P2 a pte that is not empty lies in a vma.
 * P3 only a present pte has a count.
 */
#ifndef LODIC_CORE_OWNED_PROCESS_SPACE_H
#define LODIC_CORE_OWNED_PROCESS_SPACE_H

#include "core/block.h"
#include "core/errno.h"

/* Powers of two, 8 at least. The checker copies all memory before each schedule, so it
 * builds core/ with small ones. */
#ifndef PTE_CHUNK
#define PTE_CHUNK 512u /* as many as an x86-64 page table has */
#endif
#ifndef SPACE_CHUNKS
#define SPACE_CHUNKS 1024u
#endif
#ifndef SPACE_VMAS
#define SPACE_VMAS \
	128u /* the paper's programs have 20 to 85 (LODIC s.4.4.2, Table 2) */
#endif
#define SPACE_PAGES ((u64)PTE_CHUNK * SPACE_CHUNKS) /* 2 GiB of addresses */

struct process_space;

/* A mapped range: pages start .. start+nr-1 are file's blocks first .. first+nr-1. The
 * links have a line of their own, because other processes write them when they map the same
 * file. The owner's threads read the first line at each reference. */
struct vma {
	u64 start;
	u64 nr; /* 0: not in use */
	u64 file;
	u64 first;
	struct process_space *space; /* never changes */
	u64 unused[3];
	u64 next; /* addresses of vmas in its rmap, or 0; under the rmap's lock */
	u64 previous;
	u64 unused_too[6];
};
_Static_assert(sizeof(struct vma) == 128, "two cache lines");

/* The locks have a line apart from what readers load, because reclaim takes pte_lock on
 * another CPU. */
struct process_space {
	u64 vma_lock;
	u64 pte_lock;
	u64 unused[6];
	u64 nr_vmas;
	u64 unused_too[7];
	u64 order[SPACE_VMAS];    /* places in vmas, lowest address first */
	u64 chunks[SPACE_CHUNKS]; /* addresses of chunks of ptes */
	struct vma vmas[SPACE_VMAS];
};
_Static_assert(SPACE_VMAS % 8 == 0 && SPACE_CHUNKS % 8 == 0, "whole cache lines");

/* space: zeroed memory. */
void process_space_init(struct process_space *space);
/* Frees the chunks. No token that names one of their slots may be left. */
void process_space_fini(struct process_space *space);

/*
 * rmap_self() finds the pte of block in the caller's own space. It searches from the highest
 * address downwards, because files get mapped there (LODIC s.4.4.2). NULL: the block is not
 * mapped, or its chunk was never populated. ret_page is the slot number that a token keeps.
 * It takes no lock, and its answer is a hint. Cost: two dependent loads per vma above the
 * right one, and two for the pte. It stands here, beside the search that it begins with,
 * so that the compiler can join the two.
 */
u64 *rmap_self(struct process_space *space, u64 block, u64 *ret_page);

/* The pte at page. NULL: its chunk was never populated, or page is not below SPACE_PAGES. */
u64 *process_space_pte(struct process_space *space, u64 page);

/* Under pte_lock: makes the pte's chunk. -ENOMEM. page < SPACE_PAGES. */
int process_space_populate(struct process_space *space, u64 page);

/* Under vma_lock: the vma that page lies in, or NULL. */
struct vma *process_space_vma(struct process_space *space, u64 page);

/* Under vma_lock: the vma through which rmap_self() reaches block, or NULL. */
struct vma *process_space_vma_of_block(struct process_space *space, u64 block);

/* Under vma_lock: finds a free vma, which is not in order yet, and the highest free range
 * of nr pages. -EINVAL: no pages, or past the last block of a file. -ENOMEM: no
 * vma or no addresses are free. */
int process_space_find_free(struct process_space *space, u64 first, u64 nr,
                            struct vma **ret_vma, u64 *ret_start);

/* Under vma_lock and the lock of the file's rmap: puts a free vma into the order, and takes
 * it out again. Its ptes must be empty then. */
void process_space_insert(struct process_space *space, struct vma *vma, u64 start,
                          u32 file, u64 first, u64 nr);
void process_space_remove(struct process_space *space, struct vma *vma);

/* A vma's words. Relaxed is enough: either a lock orders them or they are a hint. */
static inline u64 vma_start(const struct vma *vma)
{
	return host_load_relaxed(&vma->start);
}

static inline u64 vma_nr(const struct vma *vma)
{
	return host_load_relaxed(&vma->nr);
}

static inline u32 vma_file(const struct vma *vma)
{
	return (u32)host_load_relaxed(&vma->file);
}

static inline u64 vma_first(const struct vma *vma)
{
	return host_load_relaxed(&vma->first);
}

static inline u64 vma_block(const struct vma *vma, u64 page)
{
	return block_id(vma_file(vma), (u32)(vma_first(vma) + page - vma_start(vma)));
}

static inline bool vma_has_block(const struct vma *vma, u64 block)
{
	/* The words are unsigned, so an index below first gives a huge offset. */
	return (u32)host_load_dep(&vma->file) == block_file(block) &&
	       block_index(block) - vma_first(vma) < vma_nr(vma);
}

static inline u64 vma_page(const struct vma *vma, u64 block)
{
	return vma_start(vma) + block_index(block) - vma_first(vma);
}

/* Asserts P1-P3; nothing may move meanwhile. */
void process_space_check(struct process_space *space);

#endif
