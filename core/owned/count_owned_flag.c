/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * lodic_flag: the paper's own query (LODIC s.4.5), mended where its text does not hold. A
 * flag per frame holds back who wants a reference while somebody adds up the counts. It is
 * the variant that ADR-0001 decided against, kept so that the decision can be measured
 * and each of its rules shown to be needed. For models, not for use.
 *
 * Idea. As in lodic a reference is counted in the reader's pte, or in the global word. But
 * a pte owns nothing there: that nobody holds a frame is known only from all its counts at
 * once, and so they must not grow meanwhile. Who freezes sets the flag, then adds up; who
 * takes a reference counts first, then looks at the flag, and takes it back when it is set.
 *
 * The paper's text, and what was wrong with it:
 *   "atomic_write to set the flag", a plain store: it may wait in the store buffer while
 *       the counts are read (O18).
 *   "if this flag is set, the update blocks", in no order: a look before the increment
 *       says nothing of a flag that is set in between (O18).
 *   Nothing of munmap, fork and mremap with a live count: they fold, as in lodic (O11).
 *   Nothing of the order of the two sums: locals first, global last (O14).
 *   Unreferences need a guess, local or global: a token says it.
 * Unreferences do not wait either: what only falls cannot make an empty sum wrong. And a
 * reference that meets the flag fails instead of waiting, as the contract allows.
 *
 * Words: as in core/owned/count_owned.c, but
 *   global   base + one per token not returned that is not in a pte; never 0
 *   open     0: the flag is set, or the frame is frozen, which is the same word left so;
 *            1: not. Who freezes and thaws, one at a time; readers load it.
 *
 *     open 1 --set, fence--> 0, adding up --nobody--> 0, ptes cleared = FROZEN
 *       ^  ^---- somebody ---------'                             |
 *       '--------------------- thaw -----------------------------'
 *
 * Invariants
 * J1 global + sum of locals = base + one per token not returned, failing refs included; not
 *    lower while a fold goes on. For each slot: tokens that name it = its count + what has
 *    been folded from it. A reference that is held so stays in the slot or in global,
 *    whoever else counts there.
 * J2 frozen implies no token and no pte; failing refs may still owe an unref, which is why
 *    thaw leaves global alone.
 *
 * Order
 * O18 who freezes: flag, full fence, counts. Who refs: count (a cas, full), then flag.
 *    Shape SB: a ref that sees no flag is seen in the counts.
 *
 *       freezer                          reader
 *       open := 0 (in its buffer)
 *       local = 0, global = base
 *                                        cas(local 0 -> 1)
 *                                        open is 1: has a reference
 *       frozen under it
 *
 *    The same harm when the reader looks first: open is 1; freezer freezes; counts.
 * O11, O14 and W1 hold as in core/owned/count_owned.c. N3: thaw is a release store of open,
 *    which a ref loads with acquire before it succeeds.
 *
 * Progress: ref and unref as in lodic. Freeze: bounded by the list of mappings.
 * Locks: as in lodic.
 */
#include "core/owned/count_owned.h"

#include "core/mutant.h"

static bool count_owned_flag_ref(struct count *c, u32 frame, u32 user, u64 *ret_token)
{
	u64 block = count_owned_block(c, frame);
	bool open = false;
	u64 token;

	if (MUTANT(FLAG_BEFORE_INCREMENT)) {
		open = count_owned_flag_open(c, frame);
		if (!open)
			return false;
		MUTANT_WINDOW(FLAG_BEFORE_INCREMENT);
	}
	if (!count_owned_take(c, frame, block, user, &token))
		return false;
	if (!MUTANT(FLAG_BEFORE_INCREMENT))
		open = count_owned_flag_open(c, frame); /* O18 */
	/* The name last: it is then the one since the thaw that open told of. */
	if (unlikely(!open || count_owned_block(c, frame) != block)) {
		count_owned_unref(c, frame, user, token);
		return false;
	}
	*ret_token = token;
	return true;
}

static void count_owned_flag_set(struct count *c, u32 frame)
{
	host_store_relaxed(&count_owned_words(c, frame)->open, 0);
	if (!MUTANT(FLAG_PLAIN_STORE))
		host_fence_full(); /* O18 */
}

/* Release, partner: the load in count_owned_flag_open(): what was done to the frame. */
static void count_owned_flag_reset(struct count *c, u32 frame)
{
	host_store_release(&count_owned_words(c, frame)->open, 1);
}

/* All ptes of a frame that is frozen already. What failing refs have in them just now
 * folds, and they drop it from global. */
static void count_owned_flag_clear_all(struct rmap *rmap, struct count *c, u64 block,
                                       u32 frame)
{
	struct rmap_walk walk;
	u64 *pte;

	for (pte = rmap_all_first(&walk, rmap, block); pte;
	     pte = rmap_all_next(&walk)) {
		/* Acquire, partner: the global word that was read last: who mapped before
		 * it is seen here, and who maps after it meets the flag. */
		if (!pte_maps(host_load_acquire(pte), frame))
			continue;
		host_lock(&walk.space->pte_lock);
		if (pte_maps(host_load_relaxed(pte), frame))
			count_owned_clear(c, pte);
		host_unlock(&walk.space->pte_lock);
	}
}

static bool count_owned_flag_freeze(struct count *c, u32 frame)
{
	u64 block = count_owned_block(c, frame);
	struct rmap *rmap;
	bool used;

	if (!count_owned_flag_open(c, frame)) /* frozen already */
		return false;
	rmap = count_owned_lock_rmap(c, block);
	/* Look before disturbing anybody (LODIC s.4.5). */
	used = count_owned_query_locked(c, rmap, block, frame);
	if (!used) {
		count_owned_flag_set(c, frame);
		used = count_owned_query_locked(c, rmap, block, frame); /* O14 */
		if (used)
			count_owned_flag_reset(c, frame);
		else
			count_owned_flag_clear_all(rmap, c, block, frame);
	}
	host_unlock(&rmap->lock);
	return !used;
}

static void count_owned_flag_thaw(struct count *c, u32 frame)
{
	CHECK(!count_owned_flag_open(c, frame), "thaw of what is frozen");
	count_owned_flag_reset(c, frame);
}

static int count_owned_flag_init(struct count *c)
{
	int err = count_owned_init(c);
	u32 frame;

	if (err)
		return err;
	count_owned_of(c)->by_flag = true;
	for (frame = 0; frame < c->nr_objects; frame++) /* open is 0: N1 */
		host_store_relaxed(&count_owned_words(c, frame)->global, COUNT_BASE);
	return 0;
}

const struct count_scheme count_owned_flag = {
	.name = "lodic_flag",
	.counts = true,
	.has_ptes = true,
	.init = count_owned_flag_init,
	.fini = count_owned_fini,
	.ref = count_owned_flag_ref,
	.unref = count_owned_unref,
	.query = count_owned_query,
	.freeze = count_owned_flag_freeze,
	.thaw = count_owned_flag_thaw,
	.sum = count_owned_sum,
	.cost = count_owned_cost,
	.check = count_owned_check,
	.share = count_owned_share_object,
	.unshare = count_owned_unshare_object,
};
