/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * kloc: objects of active knodes are placed in fast memory. When a knode becomes inactive, all it
 * has there leaves together (KLOCs s.4.2.2, s.4.4, s.4.5). Pages of programs go by the LRU lists,
 * as under nimble. They come first: kernel objects leave them the last of fast memory. The other
 * policy places in the same way, and moves nothing but pages of programs (KLOCs s.7.1).
 */
#include "core/kloc/policy.h"

/* A search for a knode that can give room ends after so many. */
#define KNODE_LOOKS 64u

struct kloc_wish kloc_place_by_state(struct kloc *k, const struct kloc_object *o,
                                     u32 cpu)
{
	u64 low = kloc_watermark(k, KLOC_FAST, k->p.low_permille);
	enum kloc_why why;

	(void)cpu;
	if (o->kind == KLOC_APP)
		return (struct kloc_wish){ KLOC_FAST, KLOC_BY_POLICY, 0 };
	if (life_place(o->knode == KLOC_NONE ? NULL : &k->knodes[o->knode].life, &why))
		return (struct kloc_wish){ KLOC_FAST, why, low };
	return (struct kloc_wish){ KLOC_SLOW, why, 0 };
}

/* An active knode's object is in slow memory, because fast memory was full, or because activity
 * promotes no more than what is used. */
static void touched_kloc(struct kloc *k, u32 object, u32 cpu)
{
	const struct kloc_object *o = &k->objects[object];

	(void)cpu;
	if (o->tier == KLOC_FAST || !kloc_is_grouped(k, o) || !kloc_can_move(k, o) ||
	    kloc_knode_state(k, o->knode) != KLOC_ACTIVE ||
	    (kloc_object_class(o) == KLOC_SMALL && !k->p.promote_small))
		return;
	if (!k->p.promote_whole) {
		if (kloc_is_idle(o))
			kloc_want(k, object, KLOC_PROMOTE, KLOC_FAST, KLOC_BY_USE);
	} else if (k->knodes[o->knode].work == WORK_NONE) {
		kloc_knode_plan(k, o->knode);
	}
}

/* A closed knode that still has something in fast memory: it was not eager, or busy. */
static bool relieve_inactive(struct kloc *k, enum kloc_why why)
{
	struct kloc_ring r = RING(k->knodes, by_age);
	u32 looks, knode;

	for (looks = 0; looks < KNODE_LOOKS; looks++) {
		struct knode *n;

		knode = k->ages[KLOC_INACTIVE];
		if (knode == KLOC_NONE)
			return false;
		/* To the end: a later search goes on with the next one. */
		k->ages[KLOC_INACTIVE] = kloc_ring_next(r, KLOC_NONE, knode);
		n = &k->knodes[knode];
		if (!n->bytes[KLOC_FAST] || !life_take(&n->life, k->now))
			continue;
		kloc_knode_deactivate(k, knode, why);
		kloc_knode_plan(k, knode);
		if (n->work == WORK_DEMOTE)
			return true;
	}
	return false;
}

/* The active knode that was used longest ago; for need, one that the last tick did not see. */
static bool relieve_active(struct kloc *k, enum kloc_why why)
{
	u32 knode = KLOC_NONE, looks;

	for (looks = 0; looks < KNODE_LOOKS; looks++) {
		struct knode *n;

		knode = kloc_next_coldest(k, knode);
		if (knode == KLOC_NONE)
			return false;
		n = &k->knodes[knode];
		if (!life_may_give(&n->life, why, k->now))
			return false;
		if (!n->bytes[KLOC_FAST] || !life_take(&n->life, k->now))
			continue;
		kloc_knode_deactivate(k, knode, why);
		return true;
	}
	return false;
}

static bool relieve_kloc(struct kloc *k, u32 tier, enum kloc_why why)
{
	return relieve_inactive(k, why) || relieve_active(k, KLOC_BY_NEED) ||
	       kloc_lru_relieve(k, tier, KLOC_BY_NEED) ||
	       (why == KLOC_BY_LIMIT &&
	        (relieve_active(k, why) || kloc_lru_relieve(k, tier, why)));
}

const struct kloc_policy kloc_no_migration = { .name = "kloc-nomigration",
	                                       .groups = true,
	                                       .lru_kinds = KLOC_BIT(KLOC_APP),
	                                       .promote_kinds = KLOC_BIT(KLOC_APP),
	                                       .place = kloc_place_by_state,
	                                       .tick = kloc_lru_tick,
	                                       .relieve = kloc_lru_relieve };
const struct kloc_policy kloc_kloc = { .name = "kloc",
	                               .groups = true,
	                               .mover = MOVER_STATE,
	                               .lru_kinds = KLOC_BIT(KLOC_APP),
	                               .promote_kinds = KLOC_BIT(KLOC_APP),
	                               .place = kloc_place_by_state,
	                               .touched = touched_kloc,
	                               .tick = kloc_lru_tick,
	                               .relieve = relieve_kloc };
