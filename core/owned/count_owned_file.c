/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The scheme lodic_file is lodic in all but one step: how it finds the reader's pte. The
 * scheme lodic looks in the reader's own process space. This one goes the way that a kernel
 * has anyway, for reclaim: it walks the file's list of mappings to the reader's own (LODIC
 * s.4.4.1). It is there for comparison. Every reader writes one shared line, to keep the
 * list as it is, and walks past the mappings of all others. The paper finds that it fails
 * to scale (LODIC s.5.2.3). Use it in models only.
 *
 * Protocol, invariants, order: core/owned/count_owned.c. None of them depends on how a pte
 * was found, because the cas on it proves it. The list: core/owned/rmap.h.
 * Departure from the paper's Linux: several files share a list here, where Linux has an
 * interval tree per file. A tree skips mappings that do not have the block. It still visits
 * those that have it, one per sharer.
 */
#include "core/owned/count_owned.h"

u64 *count_owned_file_pte(struct count *c, u32 user, u64 block, u64 *ret_page)
{
	struct rmap *rmap = rmap_of(count_owned_of(c)->rmaps, block_file(block));
	u64 *pte;

	rmap_read_begin(rmap);
	pte = rmap_self_by_file(rmap, count_owned_space(c, user), block, ret_page);
	rmap_read_end(rmap);
	return pte;
}

static int count_owned_file_init(struct count *c)
{
	int err = count_owned_init(c);

	if (!err)
		count_owned_of(c)->by_file = true;
	return err;
}

const struct count_scheme count_owned_file = {
	.name = "lodic_file",
	.counts = true,
	.has_ptes = true,
	.init = count_owned_file_init,
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
