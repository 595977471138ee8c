/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which frames are free, in two tiers. */
#ifndef LODIC_LIB_SERVICE_TIER_STATE_H
#define LODIC_LIB_SERVICE_TIER_STATE_H

#include "core/cache/arena.h"
#include "lib/service/memory/nodes.h"
#include "lib/service/service.h"
#include "lib/service/tier/tier.h"

struct base;

struct tiers {
	struct base *base;
	const struct service_sizes *sizes;
	const struct service_tables *tables;
	const struct service_placing *placing;
	struct arena_shape *shape;
	const struct nodes *nodes;

	bool two;
	u32 slow_from; /* the first slow frame; nr_frames: there are none */
	u32 nr_free;   /* of both */
	/* Free ones that moves have set aside. As many are free again when the moves end. */
	u32 nr_aside;
	struct {
		u32 *free_frames; /* a stack */
		u32 nr_free;
		u32 nr_frames;
		int node; /* its memory is asked for there; -1: anywhere */
		/* Moves to here that have begun, and what became of them; and those that have not,
		 * for want of a free frame. */
		u64 begun, moved, refused, no_room;
		u64 asked;  /* frames that fills wanted here */
		u64 missed; /* of these: got in the other tier, for want of a free one */
	} of[NR_TIERS];
	struct policy *policy; /* NULL: users place and move */
};

#endif
