// SPDX-License-Identifier: GPL-2.0
/*
 * KLOC: page cache that moves by the marks of the LRU, page by page, and not by file. This is the
 * policy nimble++, to compare with. A tick looks at a part of each node's memory. What two looks
 * in a row find used comes to fast memory. What they find unused leaves it, where room is wanted.
 */
#include <linux/memcontrol.h>
#include <linux/mm_inline.h>
#include <linux/swap.h>

#include "internal.h"
#include "kloc.h"

/* Where the next look at a node begins, from its first page on. Only one thread looks. */
static unsigned long kloc_hands[MAX_NUMNODES];

/* Page cache that is on a list of the LRU, with a reference. A pfn is all that we know. */
static struct folio *kloc_get_folio(unsigned long pfn)
{
	struct page *page = pfn_to_online_page(pfn);
	struct folio *folio;

	if (!page)
		return NULL;
	folio = page_folio(page);
	if (!folio_test_lru(folio) || !folio_try_get(folio))
		return NULL;
	if (page_folio(page) == folio && folio_test_lru(folio) && folio_is_file_lru(folio) &&
	    !folio_test_unevictable(folio))
		return folio;
	folio_put(folio);
	return NULL;
}

static bool kloc_is_active(struct folio *folio)
{
#ifdef CONFIG_LRU_GEN
	int gen = folio_lru_gen(folio);

	if (gen >= 0)
		return lru_gen_is_active(folio_lruvec(folio), gen);
#endif
	return folio_test_active(folio);
}

/* Looks at the folio, and does what costs nothing. true: it must move. */
static bool kloc_look(struct folio *folio, bool slow, bool lacks)
{
	bool used = kloc_was_used(folio) && !MUTANT(KLOC_LRU_BLIND);

	switch (life_look(slow, kloc_is_active(folio), used, lacks)) {
	case LRU_ACTIVATE:
		folio_activate(folio);
		return false;
	case LRU_DEACTIVATE:
		folio_deactivate(folio);
		return false;
	case LRU_PROMOTE:
	case LRU_DEMOTE:
		return true;
	default:
		return false;
	}
}

/* Looks at up to nr pages from the hand on, and isolates up to want that must move. */
static unsigned long kloc_look_around(int nid, unsigned long *nr, unsigned long want,
				      struct list_head *folios)
{
	unsigned long start = NODE_DATA(nid)->node_start_pfn, pages = 0;
	unsigned long *hand = &kloc_hands[nid];
	bool slow = !kloc_is_fast(nid);

	while (*nr && pages < want) {
		struct folio *folio;

		if (*hand >= node_spanned_pages(nid))
			*hand = 0;
		folio = kloc_get_folio(start + *hand);
		++*hand;
		--*nr;
		if (!folio)
			continue;
		*hand += folio_nr_pages(folio) - 1;
		if (folio_nid(folio) == nid && kloc_look(folio, slow, !slow) &&
		    kloc_isolate(folio, folios))
			pages += folio_nr_pages(folio);
		folio_put(folio);
	}
	return pages;
}

static void kloc_scan_node(int nid)
{
	bool fast = kloc_is_fast(nid);
	int target = fast ? kloc_next_node(nid) : kloc_fast_node(nid);
	struct kloc_pass p = { .nid = nid, .work = fast ? WORK_DEMOTE : WORK_PROMOTE };
	unsigned long want = fast ? max(kloc_over(nid), kloc_needs(nid)) : ULONG_MAX;
	/* Twice around would be two looks in a row. */
	unsigned long nr = min_t(unsigned long, READ_ONCE(kloc_set.scan),
				 node_spanned_pages(nid));

	while (nr && want && target != NUMA_NO_NODE) {
		LIST_HEAD(folios);
		unsigned long pages = kloc_look_around(nid, &nr, min(want, KLOC_BATCH), &folios);

		kloc_migrate(&p, &folios, pages, target);
		want -= min(want, pages);
		cond_resched();
	}
	kloc_count(KLOC_BUSY, p.busy);
	kloc_count(KLOC_NO_ROOM, p.full);
}

void kloc_scan(void)
{
	int nid;

	/* What waits in the CPUs' batches has old marks, and cannot move. */
	lru_add_drain_all();
	for_each_node_state(nid, N_MEMORY)
		kloc_scan_node(nid);
}
