/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How much room a tier has, where something goes when it has none, and when it is too full. */
#include "core/kloc/policy.h"

static bool is_unbounded(const struct kloc *k, u32 tier)
{
	return tier == KLOC_FAST && k->policy->is_unbounded;
}

u64 kloc_headroom(const struct kloc *k, u32 tier)
{
	const struct kloc_tier *t = &k->tiers[tier];

	if (is_unbounded(k, tier))
		return KLOC_NEVER >> 1;
	return t->used < t->limit ? t->limit - t->used : 0;
}

u64 kloc_headroom_soon(const struct kloc *k, u32 tier)
{
	const struct kloc_tier *t = &k->tiers[tier];
	u64 used = t->used - t->leaving;

	if (is_unbounded(k, tier))
		return KLOC_NEVER >> 1;
	return used < t->limit ? t->limit - used : 0;
}

u64 kloc_watermark(const struct kloc *k, u32 tier, u32 permille)
{
	u64 limit = k->tiers[tier].limit;

	return limit / 1000 * permille + limit % 1000 * permille / 1000;
}

u32 kloc_nearest(const struct kloc *k, u32 tier, u64 bytes)
{
	u32 i;

	for (i = 1; i < k->shape.nr_tiers; i++) {
		u32 other = (tier + i) % k->shape.nr_tiers;

		if (kloc_headroom(k, other) >= bytes)
			return other;
	}
	return KLOC_NO_TIER;
}

bool kloc_is_tight(struct kloc *k, u32 tier, enum kloc_why *ret_why)
{
	struct kloc_tier *t = &k->tiers[tier];
	u64 room, high, wanted = tier == KLOC_FAST ? k->promote_bytes : 0;

	/* The slowest of tiers that differ has nowhere to give to. */
	if (is_unbounded(k, tier) ||
	    (!k->policy->has_nodes && tier == k->shape.nr_tiers - 1))
		return false;
	if (t->used - t->leaving > t->limit) {
		*ret_why = KLOC_BY_LIMIT;
		return true;
	}
	*ret_why = KLOC_BY_NEED;
	room = kloc_headroom_soon(k, tier);
	high = kloc_watermark(k, tier, k->p.high_permille);
	if (room < kloc_watermark(k, tier, k->p.low_permille))
		t->is_low = true;
	else if (room >= high)
		t->is_low = false;
	return t->is_low || (wanted && room < high + wanted);
}

bool kloc_relieve(struct kloc *k)
{
	enum kloc_why why;
	u32 tier;

	if (!k->policy->relieve)
		return false;
	for (tier = 0; tier < k->shape.nr_tiers; tier++)
		if (kloc_is_tight(k, tier, &why) && k->policy->relieve(k, tier, why))
			return true;
	return false;
}

int kloc_memsize(struct kloc *k, u32 tier, u64 bytes)
{
	struct kloc_tier *t;

	if (tier >= k->shape.nr_tiers)
		return -EINVAL;
	t = &k->tiers[tier];
	t->limit = bytes < t->capacity ? bytes : t->capacity;
	return 0;
}

void kloc_tier_stat(const struct kloc *k, u32 tier, struct kloc_tier_stat *ret)
{
	const struct kloc_tier *t = &k->tiers[tier];
	u32 i;

	*ret = (struct kloc_tier_stat){ .capacity = t->capacity,
		                        .limit = t->limit,
		                        .used = t->used };
	for (i = 0; i < KLOC_NR_KINDS; i++)
		ret->objects[i] = t->nr[i];
}
