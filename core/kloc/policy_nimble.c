/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Policies that know objects and no files. nimble moves pages of programs between the tiers by LRU
 * lists. nimble++ has all other objects in the same lists (KLOCs s.6.2, table 5). tpp promotes at
 * the second use instead of by a scan, as Linux 6.12 does, and there only what a program has mapped
 * (ADR-0030).
 */
#include "core/kloc/policy.h"

#define FILE_KINDS (KLOC_BIT(KLOC_FRAME) | KLOC_BIT(KLOC_HOLD))

static struct kloc_wish place_nimble(struct kloc *k, const struct kloc_object *o,
                                     u32 cpu)
{
	bool is_slow = o->kind != KLOC_APP && k->p.kernel_place == KLOC_KERNEL_SLOW;

	(void)cpu;
	return (struct kloc_wish){ is_slow ? KLOC_SLOW : KLOC_FAST, KLOC_BY_POLICY, 0 };
}

static struct kloc_wish place_tpp(struct kloc *k, const struct kloc_object *o, u32 cpu)
{
	(void)o;
	(void)cpu;
	return (struct kloc_wish){ KLOC_FAST, KLOC_BY_POLICY,
		                   kloc_watermark(k, KLOC_FAST, k->p.low_permille) };
}

static void touched_tpp(struct kloc *k, u32 object, u32 cpu)
{
	const struct kloc_object *o = &k->objects[object];
	bool is_wanted = o->kind == KLOC_APP ||
	                 (k->p.promote_file && FILE_KINDS & KLOC_BIT(o->kind));

	(void)cpu;
	if (o->tier != KLOC_FAST && is_wanted && kloc_is_idle(o) &&
	    kloc_can_move(k, o) &&
	    (o->flags & F_ACTIVE || (o->flags & F_REFERENCED && o->used != (u8)k->now)))
		kloc_want(k, object, KLOC_PROMOTE, KLOC_FAST, KLOC_BY_USE);
}

static void defaults_lru(struct kloc_parameters *p)
{
	p->knode_tier = KLOC_NO_TIER;
}

const struct kloc_policy kloc_nimble = { .name = "nimble",
	                                 .lru_kinds = KLOC_BIT(KLOC_APP),
	                                 .promote_kinds = KLOC_BIT(KLOC_APP),
	                                 .place = place_nimble,
	                                 .tick = kloc_lru_tick,
	                                 .relieve = kloc_lru_relieve,
	                                 .defaults = defaults_lru };
const struct kloc_policy kloc_nimble_pp = { .name = "nimble++",
	                                    .lru_kinds = KLOC_ALL_KINDS,
	                                    .promote_kinds = KLOC_ALL_KINDS,
	                                    .place = place_nimble,
	                                    .tick = kloc_lru_tick,
	                                    .relieve = kloc_lru_relieve,
	                                    .defaults = defaults_lru };
/* Slab is not in the lists: Linux frees it, and never moves it. */
const struct kloc_policy kloc_tpp = { .name = "tpp",
	                              .lru_kinds = KLOC_BIT(KLOC_APP) | FILE_KINDS,
	                              .place = place_tpp,
	                              .touched = touched_tpp,
	                              .tick = kloc_lru_tick,
	                              .relieve = kloc_lru_relieve,
	                              .defaults = defaults_lru };
