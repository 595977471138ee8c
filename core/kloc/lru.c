/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * LRU lists: an inactive and an active one for each tier, of what is in no group. A use only marks
 * an object; a scan moves it. Source: what Nimble and Linux do (KLOCs s.4.4, s.4.5).
 *
 *              used since the last look        used again (slow tier: promotion)
 *   inactive -----------------------> active -------------------------------->
 *      |      <-----------------------  |
 *      |       not used                 |
 *      '--> under pressure: slow memory
 */
#include "core/kloc/policy.h"

/* A search for a cold object gives up after so many looks; a later one goes on from there. */
#define LRU_LOOKS 64u

static void list_again(struct kloc *k, u32 object, bool is_active)
{
	struct kloc_object *o = &k->objects[object];

	kloc_object_unlist(k, object);
	o->flags = (u8)((o->flags & ~(F_ACTIVE | F_REFERENCED)) |
	                (is_active ? F_ACTIVE : 0));
	kloc_object_settle(k, object);
	k->stat.scanned++;
}

/* Looks at the oldest active objects, nr at most. */
static void scan_active(struct kloc *k, u32 tier, u32 nr)
{
	struct kloc_tier *t = &k->tiers[tier];

	for (; nr > 0 && t->nr_lru[1] > 0; nr--) {
		u32 object = t->lru[1];
		const struct kloc_object *o = &k->objects[object];
		bool is_slow = tier != KLOC_FAST && !k->policy->has_nodes;
		enum lru_change change =
			life_look(is_slow, true, o->flags & F_REFERENCED, false);

		list_again(k, object, change != LRU_DEACTIVATE);
		if (change == LRU_PROMOTE && k->policy->promote_kinds & KLOC_BIT(o->kind) &&
		    kloc_can_move(k, o))
			kloc_want(k, object, KLOC_PROMOTE, KLOC_FAST, KLOC_BY_USE);
	}
}

static void scan_inactive(struct kloc *k, u32 tier, u32 nr)
{
	struct kloc_tier *t = &k->tiers[tier];

	for (; nr > 0 && t->nr_lru[0] > 0; nr--) {
		u32 object = t->lru[0];
		bool is_used = k->objects[object].flags & F_REFERENCED;

		list_again(k, object,
		           life_look(true, false, is_used, false) == LRU_ACTIVATE);
	}
}

void kloc_lru_tick(struct kloc *k)
{
	u32 tier;

	for (tier = 0; tier < k->shape.nr_tiers; tier++) {
		struct kloc_tier *t = &k->tiers[tier];
		u32 nr_active = t->nr_lru[1], nr_inactive = t->nr_lru[0];

		if (nr_active > k->p.scan)
			nr_active = k->p.scan;
		if (nr_inactive > k->p.scan)
			nr_inactive = k->p.scan;
		/* In fast memory only pressure looks at inactive objects: that keeps the
		 * order. There must be enough of them to choose from. */
		if (tier != KLOC_FAST)
			scan_inactive(k, tier, nr_inactive);
		if (tier != KLOC_FAST || t->nr_lru[0] < t->nr_lru[1])
			scan_active(k, tier, nr_active);
	}
}

/* Can it leave? In a tick a busy object is asked once. */
static bool can_leave(struct kloc *k, u32 object, enum kloc_why why)
{
	const struct kloc_object *o = &k->objects[object];

	return kloc_can_move(k, o) && o->pass != k->now % 255 + 1 &&
	       !kloc_object_is_spared(k, object, (u8)(k->now - o->used), why);
}

bool kloc_lru_relieve(struct kloc *k, u32 tier, enum kloc_why why)
{
	struct kloc_tier *t = &k->tiers[tier];
	u32 looks, to;

	if (!t->nr_lru[0] && (why == KLOC_BY_LIMIT || t->nr_lru[1] > 1))
		scan_active(k, tier, LRU_LOOKS);
	for (looks = 0; looks < LRU_LOOKS && t->nr_lru[0] > 0; looks++) {
		u32 object = t->lru[0];
		struct kloc_object *o = &k->objects[object];
		bool is_used = o->flags & F_REFERENCED && why != KLOC_BY_LIMIT;

		if (life_look(false, false, is_used, true) != LRU_DEMOTE ||
		    !can_leave(k, object, why)) {
			list_again(k, object, true);
			continue;
		}
		to = kloc_nearest(k, tier, o->bytes);
		if (to == KLOC_NO_TIER)
			return false;
		kloc_want(k, object, k->policy->has_nodes ? KLOC_FOLLOW : KLOC_DEMOTE,
		          to, why == KLOC_BY_LIMIT ? KLOC_BY_LIMIT : KLOC_BY_AGE);
		return true;
	}
	return false;
}
