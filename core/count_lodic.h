/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * lodic under the owned gate: what it needs beyond the contract of core/count.h. Objects
 * are frames, users are processes, and a process counts where it has the frame mapped.
 * Protocol, invariants and order: core/count_lodic.c. Mapping, unmapping, remap and fork:
 * core/count_lodic_map.c.
 */
#ifndef LODIC_COUNT_LODIC_H
#define LODIC_COUNT_LODIC_H

#include "core/count.h"
#include "core/count_word.h"
#include "core/pte_count.h"
#include "core/rmap.h"

/* Shared by fewer processes, a frame is counted globally (LODIC s.4.2, s.4.5). */
#define COUNT_LODIC_SHARE_MIN 4u

/* A token: the page of the pte that counts, plus one; or this. */
#define COUNT_LODIC_GLOBAL ((u64)0)

/* A frame's words, in one line. */
struct count_lodic_words {
	u64 global; /* 0: frozen; base + one per present pte + one per global token */
	u64 share;  /* low half: how many ptes; high half: how often that changed */
	u64 unused[COUNT_LINE_WORDS - 2];
};
_Static_assert(sizeof(struct count_lodic_words) == COUNT_LINE_BYTES,
               "a line per frame");

#define COUNT_LODIC_CHANGED ((u64)1 << 32)

struct count_lodic {
	struct count_lodic_words *words;
	struct process_space *spaces;
	struct rmap *rmaps;
	u64 share_min;
};

static inline struct count_lodic *count_lodic_of(struct count *c)
{
	return c->state;
}

static inline struct count_lodic_words *count_lodic_words(struct count *c, u32 frame)
{
	return &count_lodic_of(c)->words[frame];
}

/* How many ptes map frame. */
static inline u32 count_lodic_share(struct count *c, u32 frame)
{
	return (u32)host_load_relaxed(&count_lodic_words(c, frame)->share);
}

static inline struct process_space *count_lodic_space(struct count *c, u32 user)
{
	return &count_lodic_of(c)->spaces[user];
}

/* For tests; before anything else runs. */
void count_lodic_set_share_min(struct count *c, u32 share_min);

/*
 * mmap: user maps nr blocks of file from first on; nothing is present yet. ret_page is
 * the first page. -COUNT_EINVAL: no such blocks. -COUNT_ENOMEM: no place for them.
 * Calls on one user may come from any thread; they exclude each other.
 */
int count_lodic_mmap(struct count *c, u32 user, u32 file, u32 first, u64 nr,
                     u64 *ret_page);

/* munmap: the whole mapping that page lies in. Counts there fold. -COUNT_EINVAL: none. */
int count_lodic_munmap(struct count *c, u32 user, u64 page);

/*
 * The page fault: user's page becomes present and leads to frame, which holds the
 * page's block. -COUNT_EINVAL: nothing is mapped at page. -COUNT_EAGAIN: frame is frozen
 * or holds another block: look it up again. -COUNT_EEXIST: present already.
 * -COUNT_ENOMEM: no memory for ptes.
 */
int count_lodic_map_block(struct count *c, u32 user, u64 page, u32 frame);

/* Makes page empty again; its count folds. -COUNT_EINVAL: it was not present. */
int count_lodic_unmap_block(struct count *c, u32 user, u64 page);

/* mremap: the mapping that page lies in moves to other addresses, its counts do not:
 * they fold. -COUNT_EINVAL: none; -COUNT_ENOMEM: no place, and nothing has changed. */
int count_lodic_remap(struct count *c, u32 user, u64 page, u64 *ret_page);

/* fork: child, a user without mappings that nobody else touches meanwhile, gets parent's,
 * with the ptes but not with their counts. -COUNT_EINVAL: child is the parent or has
 * mappings. -COUNT_ENOMEM: the child has some of them; munmap what there is. */
int count_lodic_fork(struct count *c, u32 parent, u32 child);

/* Between the two files. Under the space's pte_lock: empties a present pte, its count
 * first folded into its frame's word. The pte's own reference stays, for the caller to
 * drop or to pass on. Returns the frame. */
u32 count_lodic_fold(struct count *c, u64 *pte);

/* A pte's own reference, once the global word has it; and dropping it, last, after the
 * fold (O13). The share is never higher than what the global word has for ptes (O14). */
static inline void count_lodic_share_more(struct count *c, u32 frame)
{
	host_fetch_add(&count_lodic_words(c, frame)->share, COUNT_LODIC_CHANGED + 1);
}

static inline void count_lodic_drop_pte(struct count *c, u32 frame)
{
	struct count_lodic_words *w = count_lodic_words(c, frame);

	host_fetch_add(&w->share, COUNT_LODIC_CHANGED - 1);
	host_fetch_add(&w->global, -(u64)1);
}

#endif
