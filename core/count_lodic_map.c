/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What happens to counts when mappings come, go, move and fork. The paper does not say;
 * each case here is one clear under the owned gate (core/count_lodic.c), so none of them
 * needs to know whether anybody is reading.
 *
 * M1 A count never moves to another address: unref looks where its token says. Remap
 *    folds; only the pte's own reference goes along.
 * M2 A child's ptes begin with count 0: it holds no references. Each owns one of its own.
 * M3 A pte becomes present only by someone who holds a reference, which becomes the
 *    pte's own, and who has looked at the frame's name while he held it.
 */
#include "core/count_lodic.h"

#include "core/mutant.h"

static struct rmap *count_lodic_map_rmap(struct count *c, const struct vma *vma)
{
	return rmap_of(count_lodic_of(c)->rmaps, vma_file(vma));
}

int count_lodic_mmap(struct count *c, u32 user, u32 file, u32 first, u64 nr,
                     u64 *ret_page)
{
	struct process_space *space = count_lodic_space(c, user);
	struct rmap *rmap = rmap_of(count_lodic_of(c)->rmaps, file);
	struct vma *vma;
	u64 start;
	int err;

	if (file == FILE_NONE)
		return -COUNT_EINVAL;
	host_lock(&space->vma_lock);
	err = process_space_find_free(space, first, nr, &vma, &start);
	if (!err) {
		host_lock(&rmap->lock);
		process_space_insert(space, vma, start, file, first, nr);
		rmap_link(rmap, vma);
		host_unlock(&rmap->lock);
		*ret_page = start;
	}
	host_unlock(&space->vma_lock);
	return err;
}

/* Empties page, whatever it was. Returns whether it was present. */
static bool count_lodic_map_clear(struct count *c, struct process_space *space,
                                  u64 page)
{
	bool present = false;
	u64 *pte;

	host_lock(&space->pte_lock);
	pte = process_space_pte(space, page);
	if (pte && pte_present(host_load_relaxed(pte))) {
		present = true;
		count_lodic_drop_pte(c, count_lodic_fold(c, pte)); /* O13 */
	} else if (pte) {
		/* A mark: its freezer finds it gone. Nobody counts here. */
		host_store_relaxed(pte, PTE_EMPTY);
	}
	host_unlock(&space->pte_lock);
	return present;
}

int count_lodic_munmap(struct count *c, u32 user, u64 page)
{
	struct process_space *space = count_lodic_space(c, user);
	struct rmap *rmap;
	struct vma *vma;
	u64 i;

	host_lock(&space->vma_lock);
	vma = process_space_vma(space, page);
	if (vma) {
		rmap = count_lodic_map_rmap(c, vma);
		host_lock(&rmap->lock);
		for (i = 0; i < vma_nr(vma); i++)
			count_lodic_map_clear(c, space, vma_start(vma) + i);
		rmap_unlink(vma);
		process_space_remove(space, vma);
		host_unlock(&rmap->lock);
	}
	host_unlock(&space->vma_lock);
	return vma ? 0 : -COUNT_EINVAL;
}

/* Makes page lead to frame. The caller's reference becomes the pte's on success. */
static int count_lodic_map_set(struct process_space *space, u64 page, u32 frame)
{
	u64 *pte;
	int err;

	host_lock(&space->pte_lock);
	err = process_space_populate(space, page);
	if (!err) {
		pte = process_space_pte(space, page);
		if (pte_present(host_load_relaxed(pte)))
			err = -COUNT_EEXIST;
		else
			/* Release, partner: the cas of a ref: the frame's contents.
			 * A store, because nobody else writes a pte not present. */
			host_store_release(pte, pte_make(frame));
	}
	host_unlock(&space->pte_lock);
	return err;
}

int count_lodic_map_block(struct count *c, u32 user, u64 page, u32 frame)
{
	struct process_space *space = count_lodic_space(c, user);
	u64 *global = &count_lodic_words(c, frame)->global;
	struct vma *vma;
	int err = -COUNT_EINVAL;

	host_lock(&space->vma_lock);
	vma = process_space_vma(space, page);
	if (vma) {
		err = -COUNT_EAGAIN;
		if (count_atomic_word_ref(global)) {
			count_lodic_share_more(c, frame);
			if (host_load_relaxed(&c->frames[frame].block) ==
			    vma_block(vma, page))
				err = count_lodic_map_set(space, page, frame); /* M3 */
			if (err)
				count_lodic_drop_pte(c, frame);
		}
	}
	host_unlock(&space->vma_lock);
	return err;
}

int count_lodic_unmap_block(struct count *c, u32 user, u64 page)
{
	struct process_space *space = count_lodic_space(c, user);

	return count_lodic_map_clear(c, space, page) ? 0 : -COUNT_EINVAL;
}

/* Moves what is at page from to page to, which is populated and empty. */
static void count_lodic_map_move(struct count *c, struct process_space *space, u64 from,
                                 u64 to)
{
	u64 *pte;

	host_lock(&space->pte_lock);
	pte = process_space_pte(space, from);
	if (pte && pte_present(host_load_relaxed(pte))) {
		u64 moved;

		if (MUTANT(REMAP_MOVES_COUNT))
			moved = host_xchg(pte, PTE_EMPTY);
		else
			moved = pte_make(count_lodic_fold(c, pte)); /* M1 */
		host_store_release(process_space_pte(space, to), moved);
	}
	host_unlock(&space->pte_lock);
}

static int count_lodic_map_populate(struct process_space *space, u64 page, u64 nr)
{
	int err = 0;
	u64 i;

	host_lock(&space->pte_lock);
	for (i = 0; i < nr && !err; i++)
		err = process_space_populate(space, page + i);
	host_unlock(&space->pte_lock);
	return err;
}

int count_lodic_remap(struct count *c, u32 user, u64 page, u64 *ret_page)
{
	struct process_space *space = count_lodic_space(c, user);
	struct vma *old, *new;
	struct rmap *rmap;
	u64 start, i;
	int err = -COUNT_EINVAL;

	host_lock(&space->vma_lock);
	old = process_space_vma(space, page);
	if (old)
		err = process_space_find_free(space, vma_first(old), vma_nr(old), &new,
		                              &start);
	if (!err)
		err = count_lodic_map_populate(space, start, vma_nr(old));
	if (!err) {
		rmap = count_lodic_map_rmap(c, old);
		host_lock(&rmap->lock);
		process_space_insert(space, new, start, vma_file(old), vma_first(old),
		                     vma_nr(old));
		rmap_link(rmap, new);
		for (i = 0; i < vma_nr(old); i++)
			count_lodic_map_move(c, space, vma_start(old) + i, start + i);
		rmap_unlink(old);
		process_space_remove(space, old);
		host_unlock(&rmap->lock);
		*ret_page = start;
	}
	host_unlock(&space->vma_lock);
	return err;
}

/* Gives the child's page what the parent's leads to. Both pte_locks are held. */
static int count_lodic_fork_page(struct count *c, u64 *from,
                                 struct process_space *child, u64 page)
{
	u64 v = from ? host_load_relaxed(from) : PTE_EMPTY;
	int err;

	if (!pte_present(v))
		return 0;
	err = process_space_populate(child, page);
	if (err)
		return err;
	/* The parent's pte owns a reference and stands still, so the word is not 0. */
	host_fetch_add(&count_lodic_words(c, pte_frame(v))->global, 1);
	count_lodic_share_more(c, pte_frame(v));
	if (!MUTANT(FORK_COPIES_COUNT))
		v &= ~PTE_COUNT_MASK; /* M2 */
	host_store_release(process_space_pte(child, page), v);
	return 0;
}

static int count_lodic_fork_vma(struct count *c, struct process_space *parent,
                                const struct vma *vma, struct process_space *child)
{
	struct rmap *rmap = count_lodic_map_rmap(c, vma);
	struct vma *copy = &child->vmas[vma - parent->vmas];
	int err = 0;
	u64 i;

	host_lock(&rmap->lock);
	process_space_insert(child, copy, vma_start(vma), vma_file(vma), vma_first(vma),
	                     vma_nr(vma));
	rmap_link(rmap, copy);
	host_lock(&parent->pte_lock);
	host_lock(&child->pte_lock);
	for (i = 0; i < vma_nr(vma) && !err; i++)
		err = count_lodic_fork_page(
			c, process_space_pte(parent, vma_start(vma) + i), child,
			vma_start(vma) + i);
	host_unlock(&child->pte_lock);
	host_unlock(&parent->pte_lock);
	host_unlock(&rmap->lock);
	return err;
}

int count_lodic_fork(struct count *c, u32 parent, u32 child)
{
	struct process_space *from = count_lodic_space(c, parent);
	struct process_space *to = count_lodic_space(c, child);
	int err = 0;
	u64 i;

	if (parent == child || host_load_relaxed(&to->nr_vmas) > 0)
		return -COUNT_EINVAL;
	host_lock(&from->vma_lock);
	for (i = 0; i < host_load_relaxed(&from->nr_vmas) && !err; i++)
		err = count_lodic_fork_vma(
			c, from, &from->vmas[host_load_relaxed(&from->order[i])], to);
	host_unlock(&from->vma_lock);
	return err;
}
