/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the service needs for holds. The holds themselves are not part of an arena: they pass from
 * one service to the next (hold_move.h). */
#ifndef LODIC_LIB_SERVICE_HOLD_STATE_H
#define LODIC_LIB_SERVICE_HOLD_STATE_H

#include "core/cache/arena.h"
#include "lib/service/memory/nodes.h"
#include "lib/service/service.h"
#include "lodic/lodic.h"

struct base;
struct budget;
struct files;
struct holds;
struct tiers;

/* Calls upwards: how much memory holds may have (succession/budget.h). */
struct hold_budget {
	struct budget *of;
	u64 (*now)(const struct budget *of);
	u64 (*at_most)(const struct budget *of);
	bool (*make_room)(struct budget *of, u64 hold_bytes);
};

struct holding {
	struct base *base;
	const struct service_sizes *sizes;
	const struct service_tables *tables;
	const struct service_placing *placing;
	struct lodic_stat *stat;
	struct arena *arena;
	const struct arena_shape *shape;
	const struct nodes *nodes;
	struct tiers *tiers;
	struct files *files;
	struct hold_budget budget;

	struct holds *holds; /* NULL: there are none */
};

#endif
