/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See admission.h. */
#include "lib/service/frame/admission.h"

#include "core/block.h"

#define NS_PER_S 1000000000u
/* So many of 8 newcomers must be kept. Our choice. */
#define KEPT_LEAST 7u
/* With more looks for each newcomer, the hand hardly finds a block that is not in use. Our
 * choice: dead blocks with all their visits take it FRAME_VISITS_MAX + 1. */
#define LOOKS_MOST 8u
/* A turn of a SMALL with fewer frames says little. */
#define TURN_LEAST 64u

static void admission_adapt(struct admission *a, const struct reclaim *r)
{
	u64 kept = r->nr_kept - a->kept, dropped = r->nr_dropped - a->dropped;
	u64 looks = r->nr_looks - a->looks;
	u64 turn = r->lists[RECLAIM_SMALL].nr;

	if (kept + dropped < turn || kept + dropped < TURN_LEAST)
		return;
	a->kept = r->nr_kept;
	a->dropped = r->nr_dropped;
	a->looks = r->nr_looks;
	if (8 * kept >= KEPT_LEAST * (kept + dropped) &&
	    looks <= LOOKS_MOST * (kept + dropped))
		a->shift -= a->shift > 0;
	else
		a->shift += a->shift < ADMISSION_SHIFT_MOST;
}

/* The time that a block of the free rate pays for. */
static u64 admission_step_ns(const struct reclaim *r)
{
	u64 step_ns = ADMISSION_TURN_NS / (r->lists[RECLAIM_SMALL].nr + 1);

	if (step_ns > NS_PER_S / ADMISSION_FREE_LEAST)
		return NS_PER_S / ADMISSION_FREE_LEAST;
	if (step_ns < NS_PER_S / ADMISSION_FREE_MOST)
		return NS_PER_S / ADMISSION_FREE_MOST;
	return step_ns;
}

bool admission_wants(struct admission *a, const struct reclaim *r, u64 now_ns)
{
	u64 step_ns = admission_step_ns(r);
	u64 least_ns = now_ns - ADMISSION_FREE_AT_ONCE * step_ns;

	admission_adapt(a, r);
	if (a->paid_ns < least_ns)
		a->paid_ns = least_ns;
	if (a->paid_ns <= now_ns) {
		a->paid_ns += step_ns;
		return true;
	}
	/* Numbers whose hash begins with zeros: one in 2^shift, and no period. */
	return block_hash(++a->nr_asked) >> 1 >> (63 - a->shift) == 0;
}
