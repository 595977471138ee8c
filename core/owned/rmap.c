/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Lists of the vmas that map a file, and the walk over a block's ptes: core/owned/rmap.h. */
#include "core/owned/rmap.h"

/* In readers: the list is being changed. */
#define WRITER ((u64)1 << 32)

static struct vma *rmap_vma(u64 address)
{
	return (struct vma *)(size_t)address;
}

void rmap_read_begin(struct rmap *rmap)
{
	/* A writer makes the reader wait for the few stores of a link. A reader can loop
	 * here only while mappings go on changing. */
	while (host_fetch_add(&rmap->readers, 1) & WRITER) { /* V2 */
		host_fetch_add(&rmap->readers, -(u64)1);
		while (host_load_relaxed(&rmap->readers) & WRITER)
			host_relax();
	}
}

void rmap_read_end(struct rmap *rmap)
{
	host_fetch_add(&rmap->readers, -(u64)1);
}

static void rmap_write_begin(struct rmap *rmap)
{
	host_fetch_add(&rmap->readers, WRITER); /* V2 */
	/* Readers that are inside finish their walk, and new ones do not enter. Acquire,
	 * partner: the add in rmap_read_end(). */
	while (host_load_acquire(&rmap->readers) != WRITER)
		host_relax();
}

static void rmap_write_end(struct rmap *rmap)
{
	host_fetch_add(&rmap->readers, -WRITER);
}

/* The word that leads to what comes after previous. If previous is 0, it leads to the
 * list's first vma. */
static u64 *rmap_next_of(struct rmap *rmap, u64 previous)
{
	return previous ? &rmap_vma(previous)->next : &rmap->vmas;
}

static void rmap_join(struct rmap *rmap, u64 previous, u64 next)
{
	/* Relaxed: lock and readers order these stores. */
	host_store_relaxed(rmap_next_of(rmap, previous), next);
	if (next)
		host_store_relaxed(&rmap_vma(next)->previous, previous);
}

void rmap_link(struct rmap *rmap, struct vma *vma)
{
	rmap_write_begin(rmap);
	rmap_join(rmap, (u64)(size_t)vma, host_load_relaxed(&rmap->vmas));
	rmap_join(rmap, 0, (u64)(size_t)vma);
	rmap_write_end(rmap);
}

void rmap_unlink(struct rmap *rmap, struct vma *vma)
{
	rmap_write_begin(rmap);
	rmap_join(rmap, host_load_relaxed(&vma->previous),
	          host_load_relaxed(&vma->next));
	host_store_relaxed(&vma->next, 0);
	host_store_relaxed(&vma->previous, 0);
	rmap_write_end(rmap);
}

u64 *rmap_all_next(struct rmap_walk *walk)
{
	/* Bounded by the list: at most SPACE_VMAS per space. */
	while (walk->vma) {
		struct vma *vma = walk->vma;
		u64 *pte;

		walk->vma = rmap_vma(host_load_dep(&vma->next));
		if (!vma_has_block(vma, walk->block))
			continue;
		walk->space = vma->space;
		walk->page = vma_page(vma, walk->block);
		pte = process_space_pte(walk->space, walk->page);
		if (pte)
			return pte;
	}
	return NULL;
}

u64 *rmap_all_first(struct rmap_walk *walk, struct rmap *rmap, u64 block)
{
	walk->block = block;
	walk->vma = rmap_vma(host_load_dep(&rmap->vmas));
	return rmap_all_next(walk);
}

u64 *rmap_self_by_file(const struct rmap *rmap, const struct process_space *space,
                       u64 block, u64 *ret_page)
{
	const struct vma *vma;

	for (vma = rmap_vma(host_load_dep(&rmap->vmas)); vma;
	     vma = rmap_vma(host_load_dep(&vma->next))) {
		u64 *pte;

		if (!vma_has_block(vma, block) || vma->space != space)
			continue;
		pte = process_space_pte(vma->space, vma_page(vma, block));
		if (!pte)
			continue;
		*ret_page = vma_page(vma, block);
		return pte;
	}
	return NULL;
}

static u64 rmap_nr_links(const struct rmap *rmap, const struct vma *wanted)
{
	const struct vma *vma;
	u64 times = 0;

	for (vma = rmap_vma(host_load_relaxed(&rmap->vmas)); vma;
	     vma = rmap_vma(host_load_relaxed(&vma->next)))
		times += vma == wanted;
	return times;
}

void rmap_check(struct rmap *rmaps, struct process_space *spaces, u32 nr_spaces)
{
	const struct vma *vma;
	u64 nr_linked = 0;
	u64 nr_used = 0;
	u32 i, j;

	for (i = 0; i < RMAP_LISTS; i++) {
		CHECK(host_load_relaxed(&rmaps[i].readers) == 0, "V2: nobody is left");
		for (vma = rmap_vma(host_load_relaxed(&rmaps[i].vmas)); vma;
		     vma = rmap_vma(host_load_relaxed(&vma->next))) {
			nr_linked++;
			CHECK(host_load_relaxed(rmap_next_of(
				      &rmaps[i], host_load_relaxed(&vma->previous))) ==
			              (u64)(size_t)vma,
			      "V1: both links agree");
			CHECK(vma_nr(vma) > 0 &&
			              rmap_of(rmaps, vma_file(vma)) == &rmaps[i],
			      "V1: what is linked is in use, in its file's list");
		}
	}
	for (i = 0; i < nr_spaces; i++) {
		for (j = 0; j < SPACE_VMAS; j++) {
			vma = &spaces[i].vmas[j];
			if (vma_nr(vma) == 0)
				continue;
			nr_used++;
			CHECK(rmap_nr_links(rmap_of(rmaps, vma_file(vma)), vma) == 1,
			      "V1: what is in use is linked once");
		}
	}
	CHECK(nr_used == nr_linked, "V1: nothing else is linked");
}
