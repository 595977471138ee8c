// SPDX-License-Identifier: GPL-2.0
/* KLOC: which nodes are fast, and how much page cache they may have. */
#include <linux/memory-tiers.h>
#include <linux/vmstat.h>

#include "kloc.h"

/* Pages of page cache that a node may have; ULONG_MAX: any number. */
unsigned long kloc_limit[MAX_NUMNODES] = { [0 ... MAX_NUMNODES - 1] = ULONG_MAX };

/* The fast node that is nearest; NUMA_NO_NODE: none has memory. */
int kloc_fast_node(int nid)
{
	int best = NUMA_NO_NODE, node;

	if (node_state(nid, N_MEMORY) && node_is_toptier(nid))
		return nid;
	for_each_node_state(node, N_MEMORY)
		if (node_is_toptier(node) &&
		    (best == NUMA_NO_NODE || node_distance(nid, node) < node_distance(nid, best)))
			best = node;
	return best;
}

static unsigned long kloc_pages(int nid)
{
	return node_page_state_pages(NODE_DATA(nid), NR_FILE_PAGES);
}

bool kloc_has_share(int nid)
{
	unsigned long limit = READ_ONCE(kloc_limit[nid]);

	return limit == ULONG_MAX || kloc_pages(nid) < limit || MUTANT(KLOC_LIMIT_IGNORED);
}

/* Pages that it has above its limit. */
unsigned long kloc_over(int nid)
{
	unsigned long limit = READ_ONCE(kloc_limit[nid]), pages = kloc_pages(nid);

	return pages > limit ? pages - limit : 0;
}
