/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The scheme lodic_flag is the paper's own query (LODIC s.4.5), mended where the paper's
 * text does not hold. A flag per frame stops new references while a freezer adds up the
 * counts. ADR-0001 decided against this variant. It is kept so that the decision can be
 * measured, and so that the checker can show each of its rules to be needed. Use it in
 * models only.
 *
 * Idea. As in lodic, a reference is counted in the reader's pte or in the global word. But
 * a pte owns nothing there. Only all counts together tell that nobody holds a frame, so
 * they must not grow while they are read. The freezer sets the flag, then adds up. A
 * reader counts first, then looks at the flag, and takes its count back when it is set.
 *
 * What the paper says, and what this file does instead:
 *   The paper sets the flag by "atomic_write", a plain store. It may wait in the store
 *       buffer while the counts are read, so a full fence follows it here (O18).
 *   "if this flag is set, the update blocks": the paper gives no order. A look before the
 *       increment says nothing of a flag that is set in between (O18).
 *   It says nothing of munmap, fork and mremap with a live count. They fold here, as in
 *       lodic (O11).
 *   It says nothing of the order of the two sums. Locals are read first here (O14).
 *   It leaves an unref to guess between local and global. A token says it here.
 *
 * An unref does not wait for the flag either: counts that only fall cannot make an empty
 * sum wrong. And a ref that meets the flag fails instead of waiting, as the contract allows.
 *
 * Words: as in core/owned/count_owned.c, but
 *   global   base + one per token not returned that is not in a pte; never 0
 *   open     0: the flag is set, or the frame is frozen, which is the flag left set. 1:
 *            neither. The thread that freezes or thaws writes it, one at a time; readers
 *            load it.
 *
 *     open 1 --set, fence--> 0, adding up --nobody--> 0, ptes cleared = FROZEN
 *       ^  ^---- somebody ---------'                             |
 *       '--------------------- thaw -----------------------------'
 *
 * Invariants
 * J1 global + sum of locals = base + one per token not returned, failing refs included. It
 *    is not lower while a fold goes on. For each slot: tokens that name it = its count +
 *    what has been folded from it. So a reference that is held stays in the slot or in
 *    global, whatever other threads count there.
 * J2 Frozen implies no token and no pte. Failing refs may still owe an unref, and therefore
 *    thaw leaves global alone.
 *
 * Order
 * O18 Freeze: flag, full fence, counts. Ref: count (a cas, full), then flag. Shape SB: a
 *    ref that sees no flag is seen in the counts.
 *
 *       freezer                          reader
 *       open := 0 (buffered)
 *       local = 0, global = base
 *                                        cas(local 0 -> 1)
 *                                        open is 1: has a reference
 *       frozen under it
 *
 *    The same harm comes when the reader looks first: it sees open 1, then the freezer
 *    freezes, then the reader counts.
 *
 * O11, O14 and W1 hold as in core/owned/count_owned.c. For N3, thaw is a release store of
 * open, which a ref loads with acquire before it succeeds.
 *
 * Progress: ref and unref as in lodic. Freeze: bounded by the list of mappings.
 * Locks: as in lodic.
 */
#include "core/owned/count_owned.h"

static bool count_owned_flag_ref(struct count *c, u32 frame, u32 user, u64 *ret_token)
{
	u64 block = count_owned_block(c, frame);
	bool open;
	u64 token;

	if (!count_owned_take(c, frame, block, user, &token))
		return false;
	open = count_owned_flag_open(c, frame); /* O18 */
	/* The name last: it is then the name given before the thaw that set open. */
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
	host_fence_full(); /* O18 */
}

/* Release, partner: the load in count_owned_flag_open(). A reader that sees 1 sees what was
 * done to the frame. */
static void count_owned_flag_reset(struct count *c, u32 frame)
{
	host_store_release(&count_owned_words(c, frame)->open, 1);
}

/* Clears all ptes of a frame that is frozen already. Failing refs may have counts in them.
 * Those fold, and the failing refs subtract them in global. */
static void count_owned_flag_clear_all(struct rmap *rmap, struct count *c, u64 block,
                                       u32 frame)
{
	struct rmap_walk walk;
	u64 *pte;

	for (pte = rmap_all_first(&walk, rmap, block); pte;
	     pte = rmap_all_next(&walk)) {
		/* A mapping made before the change of the global word that the query read
		 * last, by acquire, is seen here. A later one meets the flag. */
		if (!pte_maps(host_load_relaxed(pte), frame))
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
	/* A look first disturbs nobody (LODIC s.4.5). */
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
