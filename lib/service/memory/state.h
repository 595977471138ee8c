/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One arena's memory, and the machine's nodes. */
#ifndef LODIC_LIB_SERVICE_MEMORY_STATE_H
#define LODIC_LIB_SERVICE_MEMORY_STATE_H

#include "core/cache/arena.h"
#include "lib/service/memory/nodes.h"
#include "lib/service/memory/pages.h"
#include "lib/service/service.h"
#include "lodic/lodic.h"

struct base;
struct tiers;

struct memory {
	struct base *base;
	const struct service_tables *tables;
	const struct service_sharing *sharing;
	struct lodic_stat *stat;
	/* Calls upwards, to the tiers: each asks for its node before the first page of the data is
	 * there, and says what came of that. */
	struct tiers *tiers;
	void (*bind)(struct tiers *tiers, void *data);
	void (*say)(const struct tiers *tiers);

	struct nodes nodes;
	struct arena_shape shape;
	u32 quota; /* entries that a context may pin */
	struct arena arena;
	struct shared_memory control, data, shared;
};

#endif
