/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Lists of the vmas that map a file, and the walk over a block's ptes: core/rmap.h. */
#include "core/rmap.h"

void rmap_link(struct rmap *rmap, struct vma *vma)
{
	vma->next = rmap->vmas;
	vma->at = &rmap->vmas;
	if (vma->next)
		vma->next->at = &vma->next;
	rmap->vmas = vma;
}

void rmap_unlink(struct vma *vma)
{
	*vma->at = vma->next;
	if (vma->next)
		vma->next->at = vma->at;
	vma->next = NULL;
	vma->at = NULL;
}

u64 *rmap_all_next(struct rmap_walk *walk)
{
	/* Bounded by the list: at most SPACE_VMAS per space. */
	while (walk->vma) {
		struct vma *vma = walk->vma;
		u64 *pte;

		walk->vma = vma->next;
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
	walk->vma = rmap->vmas;
	return rmap_all_next(walk);
}

static u64 rmap_nr_links(const struct rmap *rmap, const struct vma *wanted)
{
	const struct vma *vma;
	u64 times = 0;

	for (vma = rmap->vmas; vma; vma = vma->next)
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
		for (vma = rmaps[i].vmas; vma; vma = vma->next) {
			nr_linked++;
			CHECK(*vma->at == vma, "V1: both links agree");
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
