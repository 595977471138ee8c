/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What happens to counts when mappings come, go, move and fork. The paper does not say.
 * Under the owned gate (core/pte_gate.h) each case here is one clear, so none of them needs
 * to know whether anybody is reading.
 *
 * X1 A count never moves to another address: unref looks where its token says. Remap
 *    folds; only the pte's own reference goes along.
 * X2 A child's ptes begin with count 0: it holds no references. Each owns one of its own.
 * X3 A thread that makes a pte present holds a reference of its own on the frame meanwhile.
 *    It must look at the frame's name while it holds that reference.
 */
#include "core/owned/count_owned.h"

static struct rmap *count_owned_map_rmap(struct count *c, const struct vma *vma)
{
	return rmap_of(count_owned_of(c)->rmaps, vma_file(vma));
}

/* Under vma_lock: a new mapping. */
static int count_owned_map_add(struct count *c, struct process_space *space, u32 file,
                               u32 first, u64 nr, struct vma **ret_vma)
{
	struct rmap *rmap = rmap_of(count_owned_of(c)->rmaps, file);
	struct vma *vma;
	u64 start;
	int err;

	err = process_space_find_free(space, first, nr, &vma, &start);
	if (err)
		return err;
	host_lock(&rmap->lock);
	process_space_insert(space, vma, start, file, first, nr);
	rmap_link(rmap, vma);
	host_unlock(&rmap->lock);
	*ret_vma = vma;
	return 0;
}

int count_owned_mmap(struct count *c, u32 user, u32 file, u32 first, u64 nr,
                     u64 *ret_page)
{
	struct process_space *space = count_owned_space(c, user);
	struct vma *vma;
	int err;

	if (file == FILE_NONE)
		return -EINVAL;
	host_lock(&space->vma_lock);
	err = count_owned_map_add(c, space, file, first, nr, &vma);
	if (!err)
		*ret_page = vma_start(vma);
	host_unlock(&space->vma_lock);
	return err;
}

/* Empties page, whatever it was. Returns whether it was present. */
static bool count_owned_map_clear(struct count *c, struct process_space *space,
                                  u64 page)
{
	bool present = false;
	u64 *pte;

	host_lock(&space->pte_lock);
	pte = process_space_pte(space, page);
	if (pte && pte_present(host_load_relaxed(pte))) {
		present = true;
		count_owned_clear(c, pte);
	} else if (pte) {
		/* It may be MARKED. Its freezer then finds the mark gone. Nobody counts
		 * in a pte that is not present. */
		host_store_relaxed(pte, PTE_EMPTY);
	}
	host_unlock(&space->pte_lock);
	return present;
}

/* Under vma_lock, so that no chunk of ptes appears meanwhile. */
static void count_owned_map_clear_vma(struct count *c, struct process_space *space,
                                      const struct vma *vma)
{
	u64 end = vma_start(vma) + vma_nr(vma);
	u64 page;

	for (page = vma_start(vma); page < end; page++) {
		if (process_space_pte(space, page))
			count_owned_map_clear(c, space, page);
		else
			page |= PTE_CHUNK - 1; /* to the next chunk */
	}
}

int count_owned_munmap(struct count *c, u32 user, u64 page)
{
	struct process_space *space = count_owned_space(c, user);
	struct rmap *rmap;
	struct vma *vma;

	host_lock(&space->vma_lock);
	vma = process_space_vma(space, page);
	if (vma) {
		rmap = count_owned_map_rmap(c, vma);
		host_lock(&rmap->lock);
		count_owned_map_clear_vma(c, space, vma);
		rmap_unlink(rmap, vma);
		process_space_remove(space, vma);
		host_unlock(&rmap->lock);
	}
	host_unlock(&space->vma_lock);
	return vma ? 0 : -EINVAL;
}

/* Makes page lead to frame, which the caller holds. */
static int count_owned_map_set(struct count *c, struct process_space *space, u64 page,
                               u32 frame)
{
	u64 *pte;
	int err;

	host_lock(&space->pte_lock);
	err = process_space_populate(space, page);
	if (!err) {
		pte = process_space_pte(space, page);
		if (pte_present(host_load_relaxed(pte))) {
			err = -EEXIST;
		} else {
			count_owned_add_pte(c, frame);
			/* Release, partner: the cas of a ref, which then sees the frame's
			 * contents. A store will do, because only the holder of pte_lock
			 * writes a pte that is not present. */
			host_store_release(pte, pte_make(frame));
		}
	}
	host_unlock(&space->pte_lock);
	return err;
}

/* Under vma_lock: page, in vma, is to lead to frame. */
static int count_owned_map_present(struct count *c, const struct vma *vma, u64 page,
                                   u32 frame)
{
	u64 block = vma_block(vma, page);
	int err = -EAGAIN;

	if (!count_owned_hold(c, frame))
		return err;
	if (count_owned_block(c, frame) == block) /* X3 */
		err = count_owned_map_set(c, vma->space, page, frame);
	count_owned_unref_global(c, frame);
	return err;
}

int count_owned_map_block(struct count *c, u32 user, u64 page, u32 frame)
{
	struct process_space *space = count_owned_space(c, user);
	struct vma *vma;
	int err = -EINVAL;

	host_lock(&space->vma_lock);
	vma = process_space_vma(space, page);
	if (vma)
		err = count_owned_map_present(c, vma, page, frame);
	host_unlock(&space->vma_lock);
	return err;
}

int count_owned_unmap_block(struct count *c, u32 user, u64 page)
{
	struct process_space *space = count_owned_space(c, user);

	return count_owned_map_clear(c, space, page) ? 0 : -EINVAL;
}

/* Moves what is at page from to page to, which is populated and empty. */
static void count_owned_map_move(struct count *c, struct process_space *space, u64 from,
                                 u64 to)
{
	u64 *pte;

	host_lock(&space->pte_lock);
	pte = process_space_pte(space, from);
	if (pte && pte_present(host_load_relaxed(pte))) {
		u64 moved = pte_make(count_owned_fold(c, pte)); /* X1 */

		host_store_release(process_space_pte(space, to), moved);
	}
	host_unlock(&space->pte_lock);
}

static int count_owned_map_populate(struct process_space *space, u64 page, u64 nr)
{
	int err = 0;
	u64 i;

	host_lock(&space->pte_lock);
	for (i = 0; i < nr && !err; i++)
		err = process_space_populate(space, page + i);
	host_unlock(&space->pte_lock);
	return err;
}

int count_owned_remap(struct count *c, u32 user, u64 page, u64 *ret_page)
{
	struct process_space *space = count_owned_space(c, user);
	struct vma *old, *new;
	struct rmap *rmap;
	u64 start, i;
	int err = -EINVAL;

	host_lock(&space->vma_lock);
	old = process_space_vma(space, page);
	if (old)
		err = process_space_find_free(space, vma_first(old), vma_nr(old), &new,
		                              &start);
	if (!err)
		err = count_owned_map_populate(space, start, vma_nr(old));
	if (!err) {
		rmap = count_owned_map_rmap(c, old);
		host_lock(&rmap->lock);
		process_space_insert(space, new, start, vma_file(old), vma_first(old),
		                     vma_nr(old));
		rmap_link(rmap, new);
		for (i = 0; i < vma_nr(old); i++)
			count_owned_map_move(c, space, vma_start(old) + i, start + i);
		rmap_unlink(rmap, old);
		process_space_remove(space, old);
		host_unlock(&rmap->lock);
		*ret_page = start;
	}
	host_unlock(&space->vma_lock);
	return err;
}

/* Gives the child's page what the parent's leads to. Both pte_locks are held. */
static int count_owned_fork_page(struct count *c, const u64 *from,
                                 struct process_space *child, u64 page)
{
	u64 v = host_load_relaxed(from);
	int err;

	if (!pte_present(v))
		return 0;
	err = process_space_populate(child, page);
	if (err)
		return err;
	/* The frame is neither frozen nor being frozen. The parent's pte is present, and a
	 * freezer clears it under the list's lock, which this thread holds. */
	count_owned_add_pte(c, pte_frame(v)); /* X2 */
	v &= ~PTE_COUNT_MASK;                 /* X2 */
	host_store_release(process_space_pte(child, page), v);
	return 0;
}

static int count_owned_fork_vma(struct count *c, struct process_space *parent,
                                const struct vma *vma, struct process_space *child)
{
	struct rmap *rmap = count_owned_map_rmap(c, vma);
	struct vma *copy = &child->vmas[vma - parent->vmas];
	u64 end = vma_start(vma) + vma_nr(vma);
	int err = 0;
	u64 page;

	host_lock(&rmap->lock);
	process_space_insert(child, copy, vma_start(vma), vma_file(vma), vma_first(vma),
	                     vma_nr(vma));
	rmap_link(rmap, copy);
	host_lock(&parent->pte_lock);
	host_lock(&child->pte_lock);
	for (page = vma_start(vma); page < end && !err; page++) {
		const u64 *from = process_space_pte(parent, page);

		if (from)
			err = count_owned_fork_page(c, from, child, page);
		else
			page |= PTE_CHUNK - 1; /* to the next chunk */
	}
	host_unlock(&child->pte_lock);
	host_unlock(&parent->pte_lock);
	host_unlock(&rmap->lock);
	return err;
}

int count_owned_fork(struct count *c, u32 parent, u32 child)
{
	struct process_space *from = count_owned_space(c, parent);
	struct process_space *to = count_owned_space(c, child);
	int err = 0;
	u64 i;

	if (parent == child || host_load_relaxed(&to->nr_vmas) > 0)
		return -EINVAL;
	host_lock(&from->vma_lock);
	for (i = 0; i < host_load_relaxed(&from->nr_vmas) && !err; i++)
		err = count_owned_fork_vma(
			c, from, &from->vmas[host_load_relaxed(&from->order[i])], to);
	host_unlock(&from->vma_lock);
	return err;
}

/* The part of a file to map for a block: all of the file that is in memory now, in whole
 * windows. Programs, too, map their files whole. A reference then finds its mapping in a
 * few steps, however many blocks there are. */
static void count_owned_map_span(struct count *c, u64 block, u64 *ret_first,
                                 u64 *ret_nr)
{
	u64 first = block_index(block);
	u64 last = first;
	u32 frame;

	for (frame = 0; frame < c->nr_objects; frame++) {
		u64 other = count_owned_block(c, frame);

		if (block_file(other) != block_file(block))
			continue;
		if (block_index(other) < first)
			first = block_index(other);
		if (block_index(other) > last)
			last = block_index(other);
	}
	*ret_first = first - first % COUNT_OWNED_WINDOW;
	*ret_nr = last - last % COUNT_OWNED_WINDOW + COUNT_OWNED_WINDOW - *ret_first;
}

/* Under vma_lock: the mapping through which the space reaches block. It is made if there is
 * none. */
static int count_owned_map_cover(struct count *c, struct process_space *space,
                                 u64 block, struct vma **ret_vma)
{
	struct vma *vma = process_space_vma_of_block(space, block);
	u64 first, nr;
	int err;

	if (vma) {
		*ret_vma = vma;
		return 0;
	}
	count_owned_map_span(c, block, &first, &nr);
	err = count_owned_map_add(c, space, block_file(block), (u32)first, nr, ret_vma);
	if (!err || nr == COUNT_OWNED_WINDOW)
		return err;
	/* There is no place for so much. One window is what the block needs. */
	first = block_index(block) - block_index(block) % COUNT_OWNED_WINDOW;
	return count_owned_map_add(c, space, block_file(block), (u32)first,
	                           COUNT_OWNED_WINDOW, ret_vma);
}

int count_owned_share_object(struct count *c, u32 user, u32 frame)
{
	struct process_space *space = count_owned_space(c, user);
	u64 block = count_owned_block(c, frame);
	struct vma *vma = NULL;
	u64 *pte;
	int err;

	if (block == BLOCK_NONE)
		return -EAGAIN;
	host_lock(&space->vma_lock);
	err = count_owned_map_cover(c, space, block, &vma);
	if (!err)
		err = count_owned_map_present(c, vma, vma_page(vma, block), frame);
	if (err == -EEXIST) {
		pte = process_space_pte(space, vma_page(vma, block));
		/* If the pte leads to another frame, ours is not block's any more. */
		err = pte_maps(host_load_relaxed(pte), frame) ? 0 : -EAGAIN;
	}
	host_unlock(&space->vma_lock);
	return err;
}

void count_owned_unshare_object(struct count *c, u32 user, u32 frame)
{
	struct process_space *space = count_owned_space(c, user);
	u64 block = count_owned_block(c, frame);
	struct vma *vma;

	if (block == BLOCK_NONE) /* frozen: its ptes are gone */
		return;
	host_lock(&space->vma_lock);
	vma = process_space_vma_of_block(space, block);
	if (vma)
		count_owned_map_clear(c, space, vma_page(vma, block));
	host_unlock(&space->vma_lock);
}

void count_owned_unmap_frame(struct count *c, u32 frame)
{
	u64 block = count_owned_block(c, frame);
	struct rmap *rmap = count_owned_lock_rmap(c, block);
	struct rmap_walk walk;
	u64 *pte;

	for (pte = rmap_all_first(&walk, rmap, block); pte;
	     pte = rmap_all_next(&walk)) {
		host_lock(&walk.space->pte_lock);
		if (pte_maps(host_load_relaxed(pte), frame))
			count_owned_clear(c, pte);
		host_unlock(&walk.space->pte_lock);
	}
	host_unlock(&rmap->lock);
}
