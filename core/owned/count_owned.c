/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The owned gate over process spaces, the scheme that users know as lodic. A reference is
 * counted in the pte through which the reader's own process maps the frame (LODIC s.4).
 * When a pte is cleared, its count folds into a global word. The gate takes the place of
 * the paper's query flag (LODIC s.4.5), which says nothing of an unmap with a live count
 * (ADR-0001).
 *
 * Idea. A present pte owns one reference in its frame's global word. The count in the
 * pte's spare bits is made of sub-references of that one. While the pte stands, the frame
 * cannot be frozen, so readers of one process need no shared word. The thread that clears
 * the pte first adds the count to the global word. Readers that then find their pte gone
 * return their reference in that word.
 *
 * Words
 *   pte      frame, present, count. The process's threads: cas on the count of a present
 *            pte. Under its space's pte_lock: present <-> not present. MARKED: a pte that
 *            freeze has taken and may give back. It is not present, but it has a frame
 *            number.
 *   global   one per frame. 0 = frozen; else base + one per present pte + one per token
 *            that does not name a pte. Anybody, by cas and add.
 *   share    one per frame: how many ptes, and how often that changed. The threads that
 *            map or clear, by add.
 *   share_min   constant while anything runs
 *
 *             map_block            ref, unref (cas)
 *     EMPTY --------------> PRESENT, 0 <------> PRESENT, n
 *       ^ ^                  |  | ^               |
 *       | +-- unmap_block ---+  | +- refused -+   |
 *       |          freeze (cas) +--> MARKED --+   |
 *       +------------- unmap_block: fold n -------+      MARKED, frozen: EMPTY
 *
 * Invariants and order of one pte and its frame's word: I1 to I4 and O11 to O13 of
 * core/pte_gate.h. A token is a reference not yet returned; if it names a pte, the
 * reference was counted there. What this file adds:
 *
 * O14 Query: it reads the locals first and global last. In the other order, a count could
 *     fold into global after the query has looked there, and the query would find it in
 *     neither place. Share says how much of global the ptes own. It is raised after global
 *     and lowered before it, so it is never too high. The query reads share before and
 *     after global. If share has changed in between, the frame counts as used.
 *
 * Progress. ref: at most GATE_REF_TRIES, then the global word, lock-free. unref: lock-free;
 * another thread of the same process that counts on the same pte makes it retry, and so
 * does one clear. fold: wait-free. query, freeze and sum are bounded by the list of vmas
 * and hold its lock.
 * Locks: rmap list, then pte_lock; ref and unref take none.
 * Not here: the scanned gate, where readers may be killed and nothing folds
 * (core/cache/context.h). Nor finding the pte through file space
 * (core/owned/count_owned_file.c), nor the paper's flag (core/owned/count_owned_flag.c).
 */
#include "core/owned/gate.h"

/* In a pte that is not present: freeze took it. It tells MARKED from EMPTY for frame 0
 * too. */
#define PTE_MARKED ((u64)1 << PTE_TAG_SHIFT)

static u64 *count_owned_token_pte(struct process_space *space, u64 token)
{
	u64 *pte = process_space_pte(space, token - 1);

	CHECK(pte, "a token names a slot that was populated, and chunks stay");
	return pte;
}

/* The pte that counts for user, or NULL. */
static u64 *count_owned_find(struct count *c, u32 user, u64 block, u64 *ret_page)
{
	if (unlikely(count_owned_of(c)->by_file))
		return count_owned_file_pte(c, user, block, ret_page);
	return rmap_self(count_owned_space(c, user), block, ret_page);
}

/* Takes a sub-reference of the pte's own reference. false: the caller must count in the
 * global word. */
static bool count_owned_ref_local(struct count *c, u32 frame, u64 block, u32 user,
                                  u64 *ret_token)
{
	u64 page, seen;
	u64 *pte;

	/* Relaxed: an old number of sharers costs time only; either way counts right. */
	if (count_owned_share(c, frame) < count_owned_of(c)->share_min)
		return false;
	pte = count_owned_find(c, user, block, &page);
	if (!pte || !pte_gate_ref(pte, (struct gate_frame){ frame }, &seen))
		return false;
	*ret_token = count_owned_token(page);
	return true;
}

/* The token has no room for what the ref has seen: a pte of the frame that counts nobody. */
static void count_owned_unref_pte(struct count *c, u32 frame, u64 *pte)
{
	enum gate_unref how = GATE_LOCAL;

	if (pte_gate_unref_seen(pte, pte_make(frame)))
		return;
	do {
		how = pte_gate_unref(pte, (struct gate_frame){ frame });
	} while (how == GATE_AGAIN);
	if (how == GATE_GLOBAL)
		count_owned_unref_global(c, frame);
}

void count_owned_unref(struct count *c, u32 frame, u32 user, u64 token)
{
	u64 *pte;

	if (token == COUNT_OWNED_GLOBAL) {
		count_owned_unref_global(c, frame);
		return;
	}
	pte = count_owned_token_pte(count_owned_space(c, user), token);
	count_owned_unref_pte(c, frame, pte);
}

bool count_owned_take(struct count *c, u32 frame, u64 block, u32 user, u64 *ret_token)
{
	if (block != BLOCK_NONE &&
	    count_owned_ref_local(c, frame, block, user, ret_token))
		return true;
	*ret_token = COUNT_OWNED_GLOBAL;
	return count_atomic_word_ref(&count_owned_words(c, frame)->global);
}

bool count_owned_ref(struct count *c, u32 frame, u32 user, u64 *ret_token)
{
	u64 block = count_owned_block(c, frame);
	u64 token;

	if (!count_owned_take(c, frame, block, user, &token))
		return false;
	/* O12. The name changes only while the frame is frozen, so a reference holds it. */
	if (unlikely(count_owned_block(c, frame) != block)) {
		count_owned_unref(c, frame, user, token);
		return false;
	}
	*ret_token = token;
	return true;
}

u32 count_owned_fold(struct count *c, u64 *pte)
{
	return pte_frame(pte_gate_clear((struct gate_words){ c }, pte));
}

void count_owned_clear(struct count *c, u64 *pte)
{
	count_owned_drop_pte(c, count_owned_fold(c, pte)); /* O13 */
}

u64 count_owned_locals(struct rmap *rmap, u64 block, u32 frame, u64 enough)
{
	struct rmap_walk walk;
	u64 sum = 0;
	u64 *pte;

	for (pte = rmap_all_first(&walk, rmap, block); pte && sum < enough;
	     pte = rmap_all_next(&walk)) {
		/* Acquire, partner: the cas of a fold. A count that is not here any more
		 * is in global, where the load that comes after sees it (O14). */
		u64 v = host_load_acquire(pte);

		if (pte_maps(v, frame))
			sum += pte_count(v);
	}
	return sum;
}

/* Does the global word hold a token? O14: true when in doubt. */
static bool count_owned_global_used(struct count *c, u32 frame)
{
	struct count_owned_words *w = count_owned_words(c, frame);
	u64 share = host_load_acquire(&w->share);
	u64 global;

	if (count_owned_of(c)->by_flag) /* ptes own nothing there */
		return host_load_acquire(&w->global) > COUNT_BASE;
	/* Acquire, partner: the add that dropped a pte's reference. Share was lowered
	 * before it. */
	global = host_load_acquire(&w->global);
	return global > COUNT_BASE + (u32)share ||
	       host_load_relaxed(&w->share) != share;
}

/* Locals never go below 0, so the first one above 0 answers (LODIC s.4.5, eq. 1). */
bool count_owned_query_locked(struct count *c, struct rmap *rmap, u64 block, u32 frame)
{
	/* O14 */
	return count_owned_locals(rmap, block, frame, 1) > 0 ||
	       count_owned_global_used(c, frame);
}

struct rmap *count_owned_lock_rmap(struct count *c, u64 block)
{
	struct rmap *rmap = rmap_of(count_owned_of(c)->rmaps, block_file(block));

	host_lock(&rmap->lock);
	return rmap;
}

bool count_owned_query(struct count *c, u32 frame)
{
	u64 block = count_owned_block(c, frame);
	struct rmap *rmap = count_owned_lock_rmap(c, block);
	bool used = count_owned_query_locked(c, rmap, block, frame);

	host_unlock(&rmap->lock);
	return used;
}

static u64 count_owned_mark(u32 frame)
{
	return (pte_make(frame) & ~PTE_PRESENT) | PTE_MARKED;
}

/* Takes a pte away from frame if its count is 0. false: refused. */
static bool count_owned_clear_unused(struct count *c, const struct rmap_walk *walk,
                                     u64 *pte, u32 frame)
{
	bool cleared = true;
	u64 v;

	/* Relaxed: a pte that is gone can be skipped without the lock. One that comes brings
	 * a reference, and its count goes there, too. The cas that freezes finds both. */
	if (!pte_maps(host_load_relaxed(pte), frame))
		return true;
	host_lock(&walk->space->pte_lock);
	v = host_load_relaxed(pte);
	if (pte_maps(v, frame)) {
		/* One try: a thread that makes it fail uses the frame. */
		cleared = pte_count(v) == 0 &&
		          host_cas(pte, v, count_owned_mark(frame)); /* W1 */
		if (cleared)
			count_owned_drop_pte(c, frame); /* O13 */
	}
	host_unlock(&walk->space->pte_lock);
	return cleared;
}

static bool count_owned_clear_all(struct count *c, struct rmap *rmap, u64 block,
                                  u32 frame)
{
	struct rmap_walk walk;
	u64 *pte;

	for (pte = rmap_all_first(&walk, rmap, block); pte; pte = rmap_all_next(&walk))
		if (!count_owned_clear_unused(c, &walk, pte, frame))
			return false;
	return true;
}

/* Gives marked ptes back, or empties them when the frame is frozen. A pte that has been
 * mapped or unmapped meanwhile has no mark any more. */
static void count_owned_settle(struct count *c, struct rmap *rmap, u64 block, u32 frame,
                               bool frozen)
{
	struct rmap_walk walk;
	u64 *pte;

	for (pte = rmap_all_first(&walk, rmap, block); pte;
	     pte = rmap_all_next(&walk)) {
		/* Relaxed: the mark is this thread's own, so anything else is a change
		 * that came after it. */
		if (host_load_relaxed(pte) != count_owned_mark(frame))
			continue;
		host_lock(&walk.space->pte_lock);
		if (host_load_relaxed(pte) == count_owned_mark(frame)) {
			if (!frozen) /* only this caller freezes: global is not 0 */
				count_owned_add_pte(c, frame);
			/* Release, partner: the cas of a ref, as in map_block. */
			host_store_release(pte, frozen ? PTE_EMPTY : pte_make(frame));
		}
		host_unlock(&walk.space->pte_lock);
	}
}

bool count_owned_freeze(struct count *c, u32 frame)
{
	u64 block = count_owned_block(c, frame);
	struct rmap *rmap = count_owned_lock_rmap(c, block);
	bool frozen = false;

	/* A look first disturbs nobody (LODIC s.4.5). */
	if (!count_owned_query_locked(c, rmap, block, frame)) {
		frozen = count_owned_clear_all(c, rmap, block, frame) &&
		         count_atomic_word_freeze(
				 &count_owned_words(c, frame)->global); /* I4 */
		count_owned_settle(c, rmap, block, frame, frozen);
	}
	host_unlock(&rmap->lock);
	return frozen;
}

void count_owned_thaw(struct count *c, u32 frame)
{
	count_atomic_word_thaw(&count_owned_words(c, frame)->global);
}

const struct count_scheme count_owned = {
	.name = "lodic",
	.counts = true,
	.has_ptes = true,
	.init = count_owned_init,
	.fini = count_owned_fini,
	.ref = count_owned_ref,
	.unref = count_owned_unref,
	.query = count_owned_query,
	.freeze = count_owned_freeze,
	.thaw = count_owned_thaw,
	.sum = count_owned_sum,
	.cost = count_owned_cost,
	.check = count_owned_check,
	.share = count_owned_share_object,
	.unshare = count_owned_unshare_object,
};
