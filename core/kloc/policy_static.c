/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Policies that move nothing: the two bounds, and naive, which gives fast memory to what comes
 * first (KLOCs s.6, table 5). all-fast pretends that fast memory has no end.
 */
#include "core/kloc/policy.h"

static struct kloc_wish place_fast(struct kloc *k, const struct kloc_object *o, u32 cpu)
{
	(void)k;
	(void)o;
	(void)cpu;
	return (struct kloc_wish){ KLOC_FAST, KLOC_BY_POLICY, 0 };
}

static struct kloc_wish place_slow(struct kloc *k, const struct kloc_object *o, u32 cpu)
{
	(void)k;
	(void)o;
	(void)cpu;
	return (struct kloc_wish){ KLOC_SLOW, KLOC_BY_POLICY, 0 };
}

const struct kloc_policy kloc_all_fast = { .name = "all-fast",
	                                   .is_unbounded = true,
	                                   .place = place_fast };
const struct kloc_policy kloc_all_slow = { .name = "all-slow", .place = place_slow };
const struct kloc_policy kloc_naive = { .name = "naive", .place = place_fast };
