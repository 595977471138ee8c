/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The kernel's reverse mapping as a part of the model: sim/figures/kernel_rmap.h. */
#include <errno.h>

#include "sim/figures/kernel_rmap.h"

#define LINE_WORDS COUNT_LINE_WORDS

struct kernel_rmap_process {
	u64 node[LINE_WORDS]; /* the vma's, in the file's interval tree */
	u64 levels[KERNEL_RMAP_LEVELS][LINE_WORDS];
	u64 lock[LINE_WORDS]; /* of the page of ptes */
};

int kernel_rmap_make(struct kernel_rmap *k, u32 nr_users)
{
	k->nr_unflushed = 0;
	k->processes =
		host_alloc((u64)nr_users * sizeof(*k->processes), COUNT_LINE_BYTES);
	return k->processes ? 0 : -ENOMEM;
}

/* From a vma of the tree down to the lock above its pte. */
static struct kernel_rmap_process *kernel_rmap_descend(struct kernel_rmap *k,
                                                       struct count *c,
                                                       const struct rmap_walk *walk)
{
	u64 user = (u64)(walk->space - count_owned_of(c)->spaces);
	struct kernel_rmap_process *p = &k->processes[user];
	u32 i;

	for (i = 0; i < KERNEL_RMAP_TREE_STEPS; i++)
		host_load_dep(p->node);
	for (i = 0; i < KERNEL_RMAP_LEVELS; i++)
		host_load_dep(p->levels[i]);
	return p;
}

bool kernel_rmap_query(struct kernel_rmap *k, struct count *c, u32 frame)
{
	struct count_owned_words *w = count_owned_words(c, frame);
	u64 block = count_owned_block(c, frame);
	struct rmap *rmap = rmap_of(count_owned_of(c)->rmaps, block_file(block));
	struct rmap_walk walk;
	bool used = false;
	u64 *pte;

	host_store_relaxed(&w->open, 0);
	host_fence_full();
	rmap_read_begin(rmap); /* i_mmap_rwsem */
	for (pte = rmap_all_first(&walk, rmap, block); pte && !used;
	     pte = rmap_all_next(&walk)) {
		struct kernel_rmap_process *p = kernel_rmap_descend(k, c, &walk);
		u64 v;

		host_lock(p->lock);
		v = host_load_dep(pte);
		used = pte_maps(v, frame) && pte_count(v) > 0;
		host_unlock(p->lock);
	}
	rmap_read_end(rmap);
	return used ||
	       host_load_acquire(&w->global) > COUNT_BASE + count_owned_share(c, frame);
}

void kernel_rmap_unmap(struct kernel_rmap *k, struct count *c, u32 frame)
{
	u64 block = count_owned_block(c, frame);
	struct rmap *rmap = rmap_of(count_owned_of(c)->rmaps, block_file(block));
	struct rmap_walk walk;
	u64 *pte;

	rmap_read_begin(rmap);
	for (pte = rmap_all_first(&walk, rmap, block); pte;
	     pte = rmap_all_next(&walk)) {
		struct kernel_rmap_process *p = kernel_rmap_descend(k, c, &walk);

		host_lock(p->lock);
		if (pte_maps(host_load_dep(pte), frame))
			count_owned_clear(c, pte);
		host_unlock(p->lock);
	}
	rmap_read_end(rmap);
	if (++k->nr_unflushed < KERNEL_RMAP_BATCH)
		return;
	k->nr_unflushed = 0;
	host_fence_heavy(); /* as many interrupts, and their answers */
}
