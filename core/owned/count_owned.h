/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The owned gate (the scheme `lodic`) and its two variants: what they need beyond the
 * contract of core/count/count.h. Objects are frames and users are processes. A process
 * counts where it has the frame mapped.
 *
 *   core/pte_gate.h                  the owned gate on one pte: invariants, order
 *   core/owned/count_owned.c         the owned gate over process spaces
 *   core/owned/count_owned_map.c     mapping, unmapping, remap and fork
 *   core/owned/count_owned_state.c   memory, sums, checks
 *   core/owned/count_owned_file.c    scheme lodic_file: finds the pte through file space
 *   core/owned/count_owned_flag.c    scheme lodic_flag: the paper's query flag, no gate
 *   core/owned/count_hybrid.c        scheme hybrid: the owned gate, and entries on CPUs
 */
#ifndef LODIC_CORE_OWNED_COUNT_OWNED_H
#define LODIC_CORE_OWNED_COUNT_OWNED_H

#include "core/count/count.h"
#include "core/count_word.h"
#include "core/pte.h"
#include "core/owned/rmap.h"

/* A frame that fewer processes share is counted in its global word (LODIC s.4.2, s.4.5). */
#define COUNT_OWNED_SHARE_MIN 4u

/* A token is the page of the pte that counts, plus one. This one names the global word. */
#define COUNT_OWNED_GLOBAL ((u64)0)

/* count_share() maps whole windows of this many blocks. Otherwise a file that comes into
 * memory bit by bit would need a mapping for each bit (ours; 32 MiB of a file). */
#define COUNT_OWNED_WINDOW (SPACE_PAGES / 64 < 4 ? 4 : SPACE_PAGES / 64)

/* A frame's words, in one line. */
struct count_owned_words {
	u64 global; /* 0: frozen; base + one per present pte + one per global token */
	u64 share;  /* low half: how many ptes; high half: how often that changed */
	u64 open; /* lodic_flag only: 0 while the paper's flag is set or while frozen */
	u64 unused[COUNT_LINE_WORDS - 3];
};
_Static_assert(sizeof(struct count_owned_words) == COUNT_LINE_BYTES,
               "a line per frame");

#define COUNT_OWNED_CHANGED ((u64)1 << 32)

struct count_owned {
	struct count_owned_words *words;
	struct process_space *spaces;
	struct rmap *rmaps;
	struct paygo_table *table; /* hybrid only; else NULL */
	u64 share_min;
	/* Which variant; constant. */
	bool by_file;
	bool by_flag;
};

static inline struct count_owned *count_owned_of(struct count *c)
{
	return c->state;
}

static inline struct count_owned_words *count_owned_words(struct count *c, u32 frame)
{
	return &count_owned_of(c)->words[frame];
}

/* How many ptes map frame. */
static inline u32 count_owned_share(struct count *c, u32 frame)
{
	return (u32)host_load_relaxed(&count_owned_words(c, frame)->share);
}

static inline struct process_space *count_owned_space(struct count *c, u32 user)
{
	return &count_owned_of(c)->spaces[user];
}

/* For tests. The caller must call it before anything else runs. */
void count_owned_set_share_min(struct count *c, u32 share_min);

/*
 * mmap: user maps nr blocks of file from first on; no page is present yet. ret_page is
 * the first page. -EINVAL: no such blocks. -ENOMEM: no place for them.
 * Any thread may call for a user; calls for one user exclude each other.
 */
int count_owned_mmap(struct count *c, u32 user, u32 file, u32 first, u64 nr,
                     u64 *ret_page);

/* munmap: the whole mapping that page lies in goes. Counts there fold. -EINVAL: no
 * mapping. */
int count_owned_munmap(struct count *c, u32 user, u64 page);

/*
 * The page fault: user's page becomes present and leads to frame, which holds the
 * page's block. -EINVAL: nothing is mapped at page. -EAGAIN: frame is frozen
 * or holds another block, and the caller must look the block up again. -EEXIST: the
 * page is present already. -ENOMEM: no memory for ptes.
 */
int count_owned_map_block(struct count *c, u32 user, u64 page, u32 frame);

/* Makes page empty again; its count folds. -EINVAL: it was not present. */
int count_owned_unmap_block(struct count *c, u32 user, u64 page);

/* mremap: the mapping that page lies in moves to other addresses. Its counts do not move:
 * they fold. -EINVAL: no mapping. -ENOMEM: no place, and nothing has changed. */
int count_owned_remap(struct count *c, u32 user, u64 page, u64 *ret_page);

/* fork: child gets parent's mappings, with the ptes but not with their counts. Child must
 * be a user without mappings that nobody else touches meanwhile. -EINVAL: child is
 * the parent or has mappings. -ENOMEM: the child has some of the mappings, and the
 * caller must munmap those. */
int count_owned_fork(struct count *c, u32 parent, u32 child);

/* Unmaps one frame in all processes. Afterwards no pte leads to it, all counts have folded,
 * and its global word alone says whether anybody holds it (I4). A migration calls it before
 * it freezes a frame that is mapped and read. Then it copies, names the other frame and
 * thaws that. Readers fault it in again, as after any unmap. */
void count_owned_unmap_frame(struct count *c, u32 frame);

/* ---- Between the files ---- */

/* Takes a reference for user, in its pte of block or in the global word. Success proves
 * nothing about the frame's name (O12). false: the global word is frozen. */
bool count_owned_take(struct count *c, u32 frame, u64 block, u32 user, u64 *ret_token);
bool count_owned_ref(struct count *c, u32 frame, u32 user, u64 *ret_token);
void count_owned_unref(struct count *c, u32 frame, u32 user, u64 token);

/* lodic_file's way to the pte of block in user's space. It answers as rmap_self() does. */
u64 *count_owned_file_pte(struct count *c, u32 user, u64 block, u64 *ret_page);

/* Under the space's pte_lock: folds a present pte's count into its frame's word, then
 * empties the pte. Its own reference stays: the caller must drop it or pass it on. Returns
 * the frame. */
u32 count_owned_fold(struct count *c, u64 *pte);

/* Under the space's pte_lock: folds a present pte's count, empties the pte and drops its
 * own reference (O11, O13). */
void count_owned_clear(struct count *c, u64 *pte);

/* The list of block's file, locked. */
struct rmap *count_owned_lock_rmap(struct count *c, u64 block);

/* Under the list's lock: adds up the local counts of block's ptes that map frame, and stops
 * at enough. */
u64 count_owned_locals(struct rmap *rmap, u64 block, u32 frame, u64 enough);

/* Under the list's lock: does anybody hold frame (O14)? true when in doubt. */
bool count_owned_query_locked(struct count *c, struct rmap *rmap, u64 block, u32 frame);

bool count_owned_query(struct count *c, u32 frame);
bool count_owned_freeze(struct count *c, u32 frame);
void count_owned_thaw(struct count *c, u32 frame);

int count_owned_share_object(struct count *c, u32 user, u32 frame);
void count_owned_unshare_object(struct count *c, u32 user, u32 frame);

int count_owned_init(struct count *c);
void count_owned_fini(struct count *c);
u64 count_owned_sum(struct count *c, u32 frame);
void count_owned_cost(const struct count *c, struct count_cost *ret_cost);
void count_owned_check(struct count *c, const struct count_held *held, u32 nr_held);

static inline u64 count_owned_block(struct count *c, u32 frame)
{
	return host_load_relaxed(&c->frames[frame].block);
}

static inline u64 count_owned_token(u64 page)
{
	return page + 1;
}

static inline void count_owned_unref_global(struct count *c, u32 frame)
{
	count_atomic_word_unref(&count_owned_words(c, frame)->global); /* W1 */
}

/* O18, the reader's half. Acquire, partner: the thaw in core/owned/count_owned_flag.c. */
static inline bool count_owned_flag_open(struct count *c, u32 frame)
{
	return host_load_acquire(&count_owned_words(c, frame)->open) != 0;
}

/* Takes a reference in the global word, to map frame with. false: frozen, or being
 * frozen. */
static inline bool count_owned_hold(struct count *c, u32 frame)
{
	if (!count_atomic_word_ref(&count_owned_words(c, frame)->global))
		return false;
	if (!count_owned_of(c)->by_flag || count_owned_flag_open(c, frame)) /* O18 */
		return true;
	count_owned_unref_global(c, frame);
	return false;
}

/* count_owned_add_pte() counts one pte more; the caller must hold frame. The other one
 * counts one less, after the pte's fold (O13). Under the owned gate a pte owns a reference
 * of its own. The share is never higher than what the global word has for ptes (O14). */
static inline void count_owned_add_pte(struct count *c, u32 frame)
{
	struct count_owned_words *w = count_owned_words(c, frame);

	if (!count_owned_of(c)->by_flag)
		host_fetch_add(&w->global, 1);
	host_fetch_add(&w->share, COUNT_OWNED_CHANGED + 1);
}

static inline void count_owned_drop_pte(struct count *c, u32 frame)
{
	struct count_owned_words *w = count_owned_words(c, frame);

	host_fetch_add(&w->share, COUNT_OWNED_CHANGED - 1);
	if (!count_owned_of(c)->by_flag)
		host_fetch_add(&w->global, -(u64)1);
}

#endif
