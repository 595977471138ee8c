/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hybrid: lodic and paygo_fold at once. A reader counts in an entry of its CPU, or in the
 * pte through which its process maps the frame, or in the global word.
 *
 * Idea. LODIC is weak where threads of one process read one block: they meet in one pte
 * (LODIC s.5.2.4, Table 3). PAYGO is weak where each CPU must first make an entry. So a
 * task looks in its CPU's table first: an entry is there because there was contention. Then
 * it tries the pte, once. If that compare-and-swap fails, or the one on the global word,
 * the task takes a reference there, and turns it into an entry. To try the pte first would
 * move its line on every operation.
 *
 * Both gates own references in one global word, and neither knows of the other. The word
 * holds base, one per present pte, one per open entry, and one per token that is counted in
 * neither.
 *
 * Words, states, invariants, order: core/pte_gate.h and core/paygo_gate.h. A token is a page
 * of a pte plus one, or PAYGO_TOKEN and a CPU, or COUNT_OWNED_GLOBAL. What this file adds:
 *
 * O36 Name: a reference in a table holds the frame, not its name, and so does one in the
 *     global word. So ref looks at the name again at the end, whichever it got (as O12).
 *
 * Progress. ref: a bucket, one try in the pte, then lock-free on the global word. unref: as
 * that of the word that its token names. query, freeze: as lodic. They say "used" while an
 * entry is open, so a freeze may need a tick or two on each CPU first.
 * Locks: as lodic.
 */
#include "core/owned/gate.h"

#include "core/count/paygo_table.h"

static struct paygo_table *count_hybrid_table(struct count *c)
{
	return count_owned_of(c)->table;
}

/* Takes a reference in user's pte of block. ret_contended becomes true if the pte could
 * count, but another thread was at it. */
static bool count_hybrid_ref_pte(struct count *c, u32 frame, u64 block, u32 user,
                                 u64 *ret_token, bool *ret_contended)
{
	struct gate_frame wanted = { frame };
	u64 page, seen;
	u64 *pte;

	/* Relaxed, as in core/owned/count_owned.c. */
	if (block == BLOCK_NONE ||
	    count_owned_share(c, frame) < count_owned_of(c)->share_min)
		return false;
	pte = rmap_self(count_owned_space(c, user), block, &page);
	if (!pte)
		return false;
	/* One try: a second one would be a second move of the pte's line. */
	if (likely(pte_gate_ref_once(pte, wanted, &seen))) {
		*ret_token = count_owned_token(page);
		return true;
	}
	if (gate_maps(seen, wanted))
		*ret_contended = true;
	return false;
}

static void count_hybrid_unref(struct count *c, u32 frame, u32 user, u64 token)
{
	if (token & PAYGO_TOKEN)
		paygo_table_unref(count_hybrid_table(c), frame, token);
	else
		count_owned_unref(c, frame, user, token);
}

static bool count_hybrid_take(struct count *c, u32 frame, u64 block, u32 user,
                              u64 *ret_token)
{
	struct paygo_table *t = count_hybrid_table(c);
	bool contended = t->eager;

	if (paygo_table_ref(t, frame, ret_token) ||
	    count_hybrid_ref_pte(c, frame, block, user, ret_token, &contended))
		return true;
	if (!count_atomic_word_ref_told(&count_owned_words(c, frame)->global,
	                                &contended))
		return false;
	if (!contended || !paygo_table_install(t, frame, ret_token))
		*ret_token = COUNT_OWNED_GLOBAL;
	return true;
}

static bool count_hybrid_ref(struct count *c, u32 frame, u32 user, u64 *ret_token)
{
	u64 block = count_owned_block(c, frame);
	u64 token;

	if (!count_hybrid_take(c, frame, block, user, &token))
		return false;
	if (unlikely(count_owned_block(c, frame) != block)) { /* O36 */
		count_hybrid_unref(c, frame, user, token);
		return false;
	}
	*ret_token = token;
	return true;
}

static void count_hybrid_fini(struct count *c)
{
	struct paygo_table *t = count_hybrid_table(c);

	if (t) {
		paygo_table_fini(t);
		host_free(t, sizeof(*t));
	}
	count_owned_fini(c);
}

static int count_hybrid_init(struct count *c)
{
	int err = count_owned_init(c);
	struct paygo_table *t;

	if (err)
		return err;
	_Static_assert(sizeof(struct count_owned_words) == COUNT_LINE_BYTES,
	               "global words lie a line apart, as a table wants them");
	t = host_alloc(sizeof(*t), COUNT_LINE_BYTES);
	err = t ? paygo_table_init(t, &count_owned_words(c, 0)->global, c->nr_objects)
	        : -ENOMEM;
	count_owned_of(c)->table = t;
	if (err) {
		count_hybrid_fini(c);
		c->state = NULL;
	}
	return err;
}

static void count_hybrid_tick(struct count *c, u32 cpu)
{
	paygo_table_tick(count_hybrid_table(c), cpu);
}

static void count_hybrid_cost(const struct count *c, struct count_cost *ret_cost)
{
	const struct count_owned *l = c->state;

	count_owned_cost(c, ret_cost);
	ret_cost->cpu_bytes = paygo_table_cpu_bytes(l->table);
}

static void count_hybrid_check(struct count *c, const struct count_held *held,
                               u32 nr_held)
{
	paygo_table_check(count_hybrid_table(c), held, nr_held);
	count_owned_check(c, held, nr_held);
}

const struct count_scheme count_hybrid = {
	.name = "hybrid",
	.counts = true,
	.has_ptes = true,
	.init = count_hybrid_init,
	.fini = count_hybrid_fini,
	.ref = count_hybrid_ref,
	.unref = count_hybrid_unref,
	.query = count_owned_query,
	.freeze = count_owned_freeze,
	.thaw = count_owned_thaw,
	.sum = count_owned_sum,
	.cost = count_hybrid_cost,
	.check = count_hybrid_check,
	.share = count_owned_share_object,
	.unshare = count_owned_unshare_object,
	.tick = count_hybrid_tick,
	.table = count_hybrid_table,
};
