// SPDX-License-Identifier: GPL-2.0
/* KLOC: which nodes are fast, and how much page cache they may have. */
#include <linux/init.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/nodemask.h>
#include <linux/vmstat.h>

#include "kloc.h"

/* Pages of page cache that a node may have; ULONG_MAX: any number. */
unsigned long kloc_limit[MAX_NUMNODES] = { [0 ... MAX_NUMNODES - 1] = ULONG_MAX };

/* Nodes that are slow, though the firmware does not say so: kloc_slow=. */
static nodemask_t kloc_slow __ro_after_init;

static int __init kloc_parse_slow(char *nodes)
{
	return nodelist_parse(nodes, kloc_slow);
}
early_param("kloc_slow", kloc_parse_slow);

bool kloc_is_fast(int nid)
{
	return nodes_empty(kloc_slow) ? node_is_toptier(nid) : !node_isset(nid, kloc_slow);
}

/* The nearest node that is fast, or slow; NUMA_NO_NODE: none of them has memory. */
static int kloc_nearest(int nid, bool fast)
{
	int best = NUMA_NO_NODE, node;

	for_each_node_state(node, N_MEMORY)
		if (kloc_is_fast(node) == fast &&
		    (best == NUMA_NO_NODE || node_distance(nid, node) < node_distance(nid, best)))
			best = node;
	return best;
}

int kloc_fast_node(int nid)
{
	return kloc_nearest(nid, true);
}

/* Where the pages of a fast node go. */
int kloc_next_node(int nid)
{
	return nodes_empty(kloc_slow) ? next_demotion_node(nid) : kloc_nearest(nid, false);
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
