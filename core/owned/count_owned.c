/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * lodic: references are counted in the pte through which the reader's own process maps
 * the frame (LODIC s.4). Owned gate: counts fold into a global word when a pte is
 * cleared. It takes the place of the paper's query flag (s.4.5), which says nothing of
 * an unmap with a live count; ADR-0001.
 *
 * Idea. A present pte owns one reference in its frame's global word. The count in the
 * pte's spare bits is sub-references of that one: while the pte stands, the frame cannot
 * be frozen, so readers of one process need no shared word. Whoever clears the pte puts
 * the count into the word first, and the readers, who find their pte gone, drop it there.
 *
 * Words
 *   pte      frame, present, count. The process's threads: cas on the count of a present
 *            pte. Under its space's pte_lock: present <-> not present. MARKED: not present,
 *            but with a frame number, is a pte that freeze has taken and may give back.
 *   global   one per frame. 0 = frozen; else base + one per present pte + one per token
 *            that does not name a pte. Anybody, by cas and add.
 *   share    one per frame: how many ptes, and how often that changed. Who maps or clears.
 *   share_min   constant while anything runs
 *
 *             map_block            ref, unref (cas)
 *     EMPTY --------------> PRESENT, 0 <------> PRESENT, n
 *       ^ ^                  |  | ^               |
 *       | +-- unmap_block ---+  | +- refused -+   |
 *       |          freeze (cas) +--> MARKED --+   |
 *       +------------- unmap_block: fold n -------+      MARKED, frozen: EMPTY
 *
 * Invariants
 * I1 0 <= local(s) <= references recorded at s.
 * I2 global + sum of locals >= base + one per present pte + one per token not yet
 *    returned; equal when no clear is in progress; never lower.
 * I3 a local count that is not 0 implies a present pte, hence a global word that is not
 *    base: no freeze under a reference.
 * I4 a frame without ptes has an exact global word. So freezing needs no sum: clear or
 *    refuse every pte, then one cas(base -> frozen).
 *
 * Order (going on from O5 in core/cache/arena.h)
 * O11 clear: the count goes into global before the pte goes empty. The other way round:
 *
 *       unmapper                    reader A, B hold tokens at s      reclaimer
 *       xchg(s -> empty), count 2
 *                                   A: unref: s is empty,
 *                                      global 2 -> 1 (= base)
 *                                                                     cas(base -> frozen)
 *                                   B: reads what is being refilled
 *       global += 2
 *
 *     The add and the cas are full fences; an unref that sees the pte empty or with
 *     another frame sees the add, because its own add comes after that load on the
 *     same word (coherence, and the acquire below).
 * O12 ref: the cas on the pte proves translation and reference at once; the frame's name
 *     is looked at after it. Before it, the frame could be refilled in between, with its
 *     pte back at the same value (ABA).
 * O13 the pte's own reference is dropped last: until then it stands for the local counts.
 *    Dropped before the fold:
 *
 *       reader's process             unmapper                      reclaimer
 *                                                                  sees no pte at s
 *       maps s, global = base + 1
 *       ref at s: count 1
 *                                    global -= 1 (= base)
 *                                                                  cas(base -> frozen)
 *       reads what is being refilled
 *                                    global += 1: thawed, too
 *
 * O14 query: locals first, global last. The other way round a count could fold behind
 *     the look at global, into it, and be found in neither place. What global has for
 *     ptes is taken from share, which is raised after global and lowered before it, so
 *     it is never too high; it is read before and after global and must not have
 *     changed in between, or the frame counts as used.
 *
 * Progress. ref: at most GATE_REF_TRIES, then the global word, lock-free. unref: lock-free;
 * another thread of the same process that counts on the same pte makes it retry, or one
 * clear. fold: wait-free. query, freeze, sum: bounded by the list of
 * vmas, under its lock.
 * Locks: rmap list, then pte_lock; ref and unref take none.
 * Not here: the scanned gate, where readers may be killed and nothing folds
 * (core/cache/context.h); finding the pte through file space (core/owned/count_owned_file.c); the
 * paper's flag (core/owned/count_owned_flag.c).
 */
#include "core/owned/count_owned.h"

#include "core/mutant.h"

/* In a pte that is not present: freeze took it. Told from EMPTY also for frame 0. */
#define PTE_MARKED ((u64)1 << PTE_TAG_SHIFT)

/* What core/pte_gate.h asks for. */
struct gate_frame {
	u32 nr;
};

struct gate_words {
	struct count *c;
};

static inline bool gate_present(u64 pte)
{
	return pte_present(pte);
}

static inline bool gate_maps(u64 pte, struct gate_frame frame)
{
	return pte_maps(pte, frame.nr);
}

static inline void gate_add(struct gate_words words, u64 pte, u64 n)
{
	host_fetch_add(&count_owned_words(words.c, pte_frame(pte))->global, n);
}

#include "core/pte_gate.h"

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

/* Takes a sub-reference of the pte's own reference. false: count globally. */
static bool count_owned_ref_local(struct count *c, u32 frame, u64 block, u32 user,
                                  u64 *ret_token)
{
	u64 page;
	u64 *pte;

	/* Relaxed: few or many sharers is a matter of cost, not of right and wrong. */
	if (count_owned_share(c, frame) < count_owned_of(c)->share_min)
		return false;
	pte = count_owned_find(c, user, block, &page);
	if (!pte || !pte_gate_ref(pte, (struct gate_frame){ frame }))
		return false;
	*ret_token = count_owned_token(page);
	return true;
}

/* The mutant's: no token; while the pte counts anything, take one away there. */
static void count_owned_unref_by_add(struct count *c, u32 frame, u32 user)
{
	u64 page;
	u64 *pte = count_owned_find(c, user, count_owned_block(c, frame), &page);
	u64 v = pte ? host_load_acquire(pte) : PTE_EMPTY;

	if (!pte_maps(v, frame) || pte_count(v) == 0) {
		count_owned_unref_global(c, frame);
		return;
	}
	MUTANT_WINDOW(UNREF_BY_ADD);
	host_fetch_add(pte, -PTE_COUNT_ONE);
}

void count_owned_unref(struct count *c, u32 frame, u32 user, u64 token)
{
	u64 *pte;

	if (MUTANT(UNREF_BY_ADD)) {
		count_owned_unref_by_add(c, frame, user);
		return;
	}
	if (token == COUNT_OWNED_GLOBAL) {
		count_owned_unref_global(c, frame);
		return;
	}
	if (MUTANT(UNREF_OTHER_SLOT)) {
		u64 page;

		if (rmap_self(count_owned_space(c, user), count_owned_block(c, frame),
		              &page))
			token = count_owned_token(page);
	}
	pte = count_owned_token_pte(count_owned_space(c, user), token);
	if (!pte_gate_unref(pte, (struct gate_frame){ frame }))
		count_owned_unref_global(c, frame);
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
	/* O12. With a reference the name stands still; it changes only when frozen. */
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
	if (MUTANT(PTE_DROPPED_FIRST)) {
		count_owned_drop_pte(c, pte_frame(host_load_relaxed(pte)));
		MUTANT_WINDOW(PTE_DROPPED_FIRST);
		count_owned_fold(c, pte);
		return;
	}
	count_owned_drop_pte(c, count_owned_fold(c, pte)); /* O13 */
}

u64 count_owned_locals(struct rmap *rmap, u64 block, u32 frame, u64 enough)
{
	struct rmap_walk walk;
	u64 sum = 0;
	u64 *pte;

	for (pte = rmap_all_first(&walk, rmap, block); pte && sum < enough;
	     pte = rmap_all_next(&walk)) {
		/* Acquire, partner: the cas of a fold: what is not here is in global, and
		 * seen there by the load that comes after (O14). */
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
	/* Acquire, partner: a drop of a pte's reference, which lowered share before. */
	global = host_load_acquire(&w->global);
	return global > COUNT_BASE + (u32)share ||
	       (!MUTANT(SHARE_READ_ONCE) && host_load_relaxed(&w->share) != share);
}

/* Locals never go below 0, so the first one found answers (LODIC s.4.5, eq. 1). */
bool count_owned_query_locked(struct count *c, struct rmap *rmap, u64 block, u32 frame)
{
	if (MUTANT(GLOBAL_BEFORE_LOCALS)) {
		if (count_owned_global_used(c, frame))
			return true;
		MUTANT_WINDOW(GLOBAL_BEFORE_LOCALS);
		return count_owned_locals(rmap, block, frame, 1) > 0;
	}
	/* O14 */
	if (MUTANT(QUERY_LOCALS_ONLY))
		return count_owned_locals(rmap, block, frame, 1) > 0;
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

/* Takes a pte of frame away if its count is 0. false: refused. */
static bool count_owned_clear_unused(struct count *c, const struct rmap_walk *walk,
                                     u64 *pte, u32 frame)
{
	bool cleared = true;
	u64 v;

	/* Acquire, as in count_owned_locals(): a pte gone needs no lock to be passed over, and
	 * one that comes now brings a reference that stops the freeze. */
	if (!pte_maps(host_load_acquire(pte), frame))
		return true;
	host_lock(&walk->space->pte_lock);
	v = host_load_relaxed(pte);
	if (pte_maps(v, frame)) {
		/* One try: who counts on it just now uses it. */
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

/* Gives marked ptes back, or makes them empty when the frame is frozen. A pte that has
 * been mapped or unmapped meanwhile bears no mark any more. */
static void count_owned_settle(struct count *c, struct rmap *rmap, u64 block, u32 frame,
                               bool frozen)
{
	struct rmap_walk walk;
	u64 *pte;

	for (pte = rmap_all_first(&walk, rmap, block); pte;
	     pte = rmap_all_next(&walk)) {
		/* Relaxed: our own mark, or not. */
		if (host_load_relaxed(pte) != count_owned_mark(frame))
			continue;
		host_lock(&walk.space->pte_lock);
		if (host_load_relaxed(pte) == count_owned_mark(frame)) {
			if (!frozen) /* we alone freeze it: global is not 0 */
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

	/* Look before disturbing anybody (LODIC s.4.5). */
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
