/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Memory, exact sums and checks of the owned gate and its variants. The checks assert at
 * rest the invariants of core/pte_gate.h and core/owned/count_owned_flag.c. No reference
 * runs through this file.
 */
#include "core/count/paygo_table.h"
#include "core/owned/count_owned.h"

/* How much of a frame's global word nr ptes own. Under the flag they own nothing. */
static u64 count_owned_owned(struct count *c, u64 nr)
{
	return count_owned_of(c)->by_flag ? 0 : nr;
}

/* What tokens of open entries add to a frame's sum, less what the entries own in its global
 * word (PG2). When nothing moves. */
static u64 count_owned_in_table(struct count *c, u32 frame)
{
	struct paygo_table *t = count_owned_of(c)->table;

	return t ? paygo_table_live(t, frame) - paygo_table_nr_open(t, frame) : 0;
}

static u64 count_owned_words_bytes(const struct count *c)
{
	return (u64)c->nr_objects * sizeof(struct count_owned_words);
}

void count_owned_fini(struct count *c)
{
	struct count_owned *l = count_owned_of(c);
	u32 user;

	for (user = 0; l->spaces && user < c->nr_users; user++)
		process_space_fini(&l->spaces[user]);
	if (l->spaces)
		host_free(l->spaces, (u64)c->nr_users * sizeof(*l->spaces));
	if (l->rmaps)
		host_free(l->rmaps, RMAP_LISTS * sizeof(*l->rmaps));
	if (l->words)
		host_free(l->words, count_owned_words_bytes(c));
	host_free(l, sizeof(*l));
}

int count_owned_init(struct count *c)
{
	struct count_owned *l;
	u32 user;

	if (!c->frames)
		return -EINVAL;
	l = host_alloc(sizeof(*l), COUNT_LINE_BYTES);
	if (!l)
		return -ENOMEM;
	c->state = l;
	l->share_min = COUNT_OWNED_SHARE_MIN;
	l->words = host_alloc(count_owned_words_bytes(c), COUNT_LINE_BYTES); /* N1 */
	l->rmaps = host_alloc(RMAP_LISTS * sizeof(*l->rmaps), COUNT_LINE_BYTES);
	l->spaces = host_alloc((u64)c->nr_users * sizeof(*l->spaces), COUNT_LINE_BYTES);
	if (!l->words || !l->rmaps || !l->spaces) {
		count_owned_fini(c);
		c->state = NULL;
		return -ENOMEM;
	}
	for (user = 0; user < c->nr_users; user++)
		process_space_init(&l->spaces[user]);
	return 0;
}

void count_owned_set_share_min(struct count *c, u32 share_min)
{
	count_owned_of(c)->share_min = share_min;
}

u64 count_owned_sum(struct count *c, u32 frame)
{
	u64 block = count_owned_block(c, frame);
	struct rmap *rmap = count_owned_lock_rmap(c, block);
	u64 global = host_load_relaxed(&count_owned_words(c, frame)->global);
	u64 sum = 0;

	if (global != 0)
		sum = count_owned_locals(rmap, block, frame, ~(u64)0) + global +
		      count_owned_in_table(c, frame) - COUNT_BASE -
		      count_owned_owned(c, count_owned_share(c, frame));
	host_unlock(&rmap->lock);
	return sum;
}

void count_owned_cost(const struct count *c, struct count_cost *ret_cost)
{
	(void)c;
	/* The ptes are there for the mapping; their spare bits cost nothing (LODIC s.4.3). */
	*ret_cost = (struct count_cost){ .object_bytes = COUNT_LINE_BYTES };
}

static bool count_owned_frozen(struct count *c, u32 frame)
{
	if (count_owned_of(c)->by_flag)
		return !count_owned_flag_open(c, frame);
	return host_load_relaxed(&count_owned_words(c, frame)->global) == 0;
}

/* One frame's word against its ptes and the tokens on it. */
static void count_owned_check_frame(struct count *c, u32 frame, u32 nr_tokens)
{
	u64 global = host_load_relaxed(&count_owned_words(c, frame)->global);
	u64 block = count_owned_block(c, frame);
	u64 nr_ptes = 0;
	u64 locals = 0;
	struct rmap_walk walk;
	u64 *pte;

	for (pte = rmap_all_first(&walk,
	                          rmap_of(count_owned_of(c)->rmaps, block_file(block)),
	                          block);
	     pte; pte = rmap_all_next(&walk)) {
		u64 v = host_load_relaxed(pte);

		nr_ptes += pte_maps(v, frame);
		locals += pte_maps(v, frame) ? pte_count(v) : 0;
	}
	CHECK(count_owned_share(c, frame) == nr_ptes,
	      "I4: share is the number of ptes");
	if (count_owned_frozen(c, frame))
		CHECK(nr_tokens == 0 && nr_ptes == 0 &&
		              count_owned_in_table(c, frame) == 0,
		      "I3, J2, PG3: no freeze under a reference");
	if (global != 0)
		CHECK(global + locals + count_owned_in_table(c, frame) ==
		              COUNT_BASE + count_owned_owned(c, nr_ptes) + nr_tokens,
		      "I2, J1, PG2: global + locals = base + what is owned + tokens");
}

/* One pte's value against the tokens that name it. */
static void count_owned_check_pte(struct count *c, u32 user, const struct vma *vma,
                                  u64 page, u64 v, const struct count_held *held,
                                  u32 nr_held)
{
	u64 recorded = 0;
	u32 i;

	if (v == PTE_EMPTY)
		return;
	CHECK(pte_present(v), "I4: no mark is left of a freeze");
	CHECK(pte_frame(v) < c->nr_objects, "a pte maps a frame");
	CHECK(count_owned_block(c, pte_frame(v)) == vma_block(vma, page),
	      "I3: a pte maps the frame of its block");
	CHECK(count_owned_of(c)->by_flag ||
	              host_load_relaxed(&count_owned_words(c, pte_frame(v))->global) >
	                      COUNT_BASE,
	      "I3: a present pte owns a reference");
	for (i = 0; i < nr_held; i++)
		recorded += held[i].user == user && held[i].object == pte_frame(v) &&
		            held[i].token == count_owned_token(page);
	CHECK(pte_count(v) <= recorded, "I1: local <= references recorded there");
}

static void count_owned_check_vma(struct count *c, u32 user, const struct vma *vma,
                                  const struct count_held *held, u32 nr_held)
{
	u64 end = vma_start(vma) + vma_nr(vma);
	u64 page;

	for (page = vma_start(vma); page < end; page++) {
		u64 *pte = process_space_pte(vma->space, page);

		if (pte)
			count_owned_check_pte(c, user, vma, page,
			                      host_load_relaxed(pte), held, nr_held);
		else
			page |= PTE_CHUNK - 1; /* to the next chunk */
	}
}

void count_owned_check(struct count *c, const struct count_held *held, u32 nr_held)
{
	struct count_owned *l = count_owned_of(c);
	u32 frame, user, i;

	rmap_check(l->rmaps, l->spaces, c->nr_users);
	for (frame = 0; frame < c->nr_objects; frame++)
		count_owned_check_frame(c, frame, count_held_on(held, nr_held, frame));
	for (user = 0; user < c->nr_users; user++) {
		process_space_check(&l->spaces[user]);
		for (i = 0; i < SPACE_VMAS; i++)
			count_owned_check_vma(c, user, &l->spaces[user].vmas[i], held,
			                      nr_held);
	}
}
