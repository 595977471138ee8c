/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The vmas of a process space lie in an array, which is kept in order of address. Its ptes
 * lie in chunks, which are made when first needed. Words, locks and invariants:
 * core/owned/process_space.h.
 */
#include "core/owned/process_space.h"

#include "core/pte.h"

#define CHUNK_BYTES (PTE_CHUNK * sizeof(u64))

void process_space_init(struct process_space *space)
{
	u32 i;

	for (i = 0; i < SPACE_VMAS; i++)
		space->vmas[i].space = space;
}

static u64 *process_space_chunk(struct process_space *space, u64 chunk)
{
	/* Acquire, partner: the release in process_space_populate(). The caller sees zeroed
	 * ptes. */
	return (u64 *)(size_t)host_load_acquire(&space->chunks[chunk]);
}

void process_space_fini(struct process_space *space)
{
	u32 i;

	for (i = 0; i < SPACE_CHUNKS; i++) {
		u64 *chunk = process_space_chunk(space, i);

		if (chunk)
			host_free(chunk, CHUNK_BYTES);
		host_store_relaxed(&space->chunks[i], 0);
	}
}

u64 *process_space_pte(struct process_space *space, u64 page)
{
	u64 *chunk;

	if (unlikely(page >= SPACE_PAGES))
		return NULL;
	chunk = process_space_chunk(space, page / PTE_CHUNK);
	return likely(chunk) ? &chunk[page % PTE_CHUNK] : NULL;
}

int process_space_populate(struct process_space *space, u64 page)
{
	u64 *chunk = process_space_chunk(space, page / PTE_CHUNK);

	if (chunk)
		return 0;
	chunk = host_alloc(CHUNK_BYTES, CHUNK_BYTES);
	if (!chunk)
		return -ENOMEM;
	host_store_release(&space->chunks[page / PTE_CHUNK], (u64)(size_t)chunk);
	return 0;
}

static struct vma *process_space_nth(struct process_space *space, u64 i)
{
	/* Relaxed: without vma_lock the caller may read any place, and each holds a vma. */
	return &space->vmas[host_load_dep(&space->order[i])];
}

static u64 vma_end(const struct vma *vma)
{
	return vma_start(vma) + vma_nr(vma);
}

struct vma *process_space_vma_of_block(struct process_space *space, u64 block)
{
	u64 i;

	for (i = host_load_relaxed(&space->nr_vmas); i > 0; i--) {
		struct vma *vma = process_space_nth(space, i - 1);

		if (vma_has_block(vma, block))
			return vma;
	}
	return NULL;
}

u64 *rmap_self(struct process_space *space, u64 block, u64 *ret_page)
{
	const struct vma *vma = process_space_vma_of_block(space, block);
	u64 *pte;
	u64 page;

	if (!vma)
		return NULL;
	page = vma_page(vma, block);
	pte = process_space_pte(space, page);
	if (pte)
		*ret_page = page;
	return pte;
}

struct vma *process_space_vma(struct process_space *space, u64 page)
{
	u64 i;

	for (i = host_load_relaxed(&space->nr_vmas); i > 0; i--) {
		struct vma *vma = process_space_nth(space, i - 1);

		if (page - vma_start(vma) < vma_nr(vma))
			return vma;
	}
	return NULL;
}

int process_space_find_free(struct process_space *space, u64 first, u64 nr,
                            struct vma **ret_vma, u64 *ret_start)
{
	u64 nr_vmas = host_load_relaxed(&space->nr_vmas);
	u64 top = SPACE_PAGES;
	u64 i;

	if (nr == 0 || nr > SPACE_PAGES || first > 0xffffffffu ||
	    first + nr > (u64)1 << 32)
		return -EINVAL;
	/* Looks at the gaps between vmas, from the top. */
	for (i = nr_vmas; i > 0; i--) {
		struct vma *vma = process_space_nth(space, i - 1);

		if (top - vma_end(vma) >= nr)
			break;
		top = vma_start(vma);
	}
	if (top < nr)
		return -ENOMEM;
	for (i = 0; i < SPACE_VMAS; i++) {
		if (vma_nr(&space->vmas[i]) != 0)
			continue;
		*ret_vma = &space->vmas[i];
		*ret_start = top - nr;
		return 0;
	}
	return -ENOMEM;
}

void process_space_insert(struct process_space *space, struct vma *vma, u64 start,
                          u32 file, u64 first, u64 nr)
{
	u64 i = host_load_relaxed(&space->nr_vmas);

	/* All stores are relaxed: readers without the lock take them as a hint. */
	host_store_relaxed(&vma->start, start);
	host_store_relaxed(&vma->file, file);
	host_store_relaxed(&vma->first, first);
	host_store_relaxed(&vma->nr, nr);
	for (; i > 0; i--) {
		if (vma_start(process_space_nth(space, i - 1)) < start)
			break;
		host_store_relaxed(&space->order[i],
		                   host_load_relaxed(&space->order[i - 1]));
	}
	host_store_relaxed(&space->order[i], (u64)(vma - space->vmas));
	host_store_relaxed(&space->nr_vmas, host_load_relaxed(&space->nr_vmas) + 1);
}

void process_space_remove(struct process_space *space, struct vma *vma)
{
	u64 nr_vmas = host_load_relaxed(&space->nr_vmas);
	u64 i;

	for (i = 0; i < nr_vmas; i++)
		if (process_space_nth(space, i) == vma)
			break;
	CHECK(i < nr_vmas, "P1: a vma that is removed is in order");
	for (; i + 1 < nr_vmas; i++)
		host_store_relaxed(&space->order[i],
		                   host_load_relaxed(&space->order[i + 1]));
	host_store_relaxed(&space->nr_vmas, nr_vmas - 1);
	host_store_relaxed(&vma->nr, 0);
}

static void process_space_check_order(struct process_space *space)
{
	u64 nr_vmas = host_load_relaxed(&space->nr_vmas);
	u64 nr_used = 0;
	u64 end = 0;
	u64 i;

	CHECK(nr_vmas <= SPACE_VMAS, "P1: no more vmas than places");
	for (i = 0; i < nr_vmas; i++) {
		const struct vma *vma = process_space_nth(space, i);

		CHECK(vma_nr(vma) > 0, "P1: what is in order is in use");
		CHECK(vma_start(vma) >= end, "P1: order, no overlap");
		end = vma_end(vma);
	}
	CHECK(end <= SPACE_PAGES, "P1: vmas lie in the space");
	for (i = 0; i < SPACE_VMAS; i++)
		nr_used += vma_nr(&space->vmas[i]) > 0;
	CHECK(nr_used == nr_vmas, "P1: what is in use is in order");
}

void process_space_check(struct process_space *space)
{
	u64 page;

	process_space_check_order(space);
	for (page = 0; page < SPACE_PAGES; page++) {
		u64 *pte = process_space_pte(space, page);
		u64 v;

		if (!pte) {
			page |= PTE_CHUNK - 1; /* to the next chunk */
			continue;
		}
		v = host_load_relaxed(pte);
		if (v == PTE_EMPTY)
			continue;
		CHECK(process_space_vma(space, page), "P2: a pte lies in a vma");
		CHECK(pte_present(v) || pte_count(v) == 0,
		      "P3: only present ptes count");
	}
}
