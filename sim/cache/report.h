/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `lodic-sim cache` says of its points: a table for people, and JSON. */
#ifndef LODIC_SIM_CACHE_REPORT_H
#define LODIC_SIM_CACHE_REPORT_H

#include "sim/cache/point.h"
#include "sim/machine.h"

struct cache_report {
	const struct machine *machine;
	u64 seed;
	u32 nr_machines; /* of the band */
	u32 work;        /* cycles */
	const struct cache_point *points;
	u32 nr;
};

/* The point of the same experiment in another way; NULL: it was not run. */
const struct cache_point *cache_report_other(const struct cache_report *r,
                                             const struct cache_point *p,
                                             const char *way);

void cache_report_print(const struct cache_report *r);
/* -ENOMEM. */
int cache_report_json(const struct cache_report *r);

#endif
