/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What Linux's way from a page to all its ptes costs beyond core/owned/rmap.h. There the
 * vmas of a file stand in a list, and a pte is one load away from its space. In Linux they
 * stand in an interval tree, and each pte lies below three more levels of tables. A look at
 * it takes the lock of its page of ptes (page_vma_mapped_walk()).
 *
 * The memory is a line for each word of each process. So what the caller has walked before
 * hits, and what a process writes itself has to come from there.
 */
#ifndef LODIC_SIM_FIGURES_KERNEL_RMAP_H
#define LODIC_SIM_FIGURES_KERNEL_RMAP_H

#include "core/owned/count_owned.h"

/* A walk over a tree in order crosses each of its edges twice: so many for each node. */
#define KERNEL_RMAP_TREE_STEPS 2u
/* x86-64 has four levels, and the pte is the last of them. */
#define KERNEL_RMAP_LEVELS 3u
/* A reclaimer unmaps so many pages before one flush of all TLBs: SWAP_CLUSTER_MAX in
 * include/linux/swap.h, with TTU_BATCH_FLUSH. */
#define KERNEL_RMAP_BATCH 32u

struct kernel_rmap_process;

struct kernel_rmap {
	struct kernel_rmap_process *processes;
	u32 nr_unflushed;
};

/* Call it after sim_begin(). -ENOMEM. */
int kernel_rmap_make(struct kernel_rmap *k, u32 nr_users);

/* The query of the paper: flag, then all locals and the global word, up to the first that
 * counts (LODIC s.4.5). c: of a scheme with ptes. */
bool kernel_rmap_query(struct kernel_rmap *k, struct count *c, u32 frame);

/* Takes all ptes of frame away as reclaim does. It counts on that nobody holds frame. */
void kernel_rmap_unmap(struct kernel_rmap *k, struct count *c, u32 frame);

#endif
