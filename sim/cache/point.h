/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Runs of sim/cache/world.h: one, and one with its band over the sensitivity set. */
#ifndef LODIC_SIM_CACHE_POINT_H
#define LODIC_SIM_CACHE_POINT_H

#include "sim/cache/way.h"

struct cache_result {
	struct sim_result sim; /* an op is a read or a pin that came to its end */
	struct cache_service service;
	u64 run_ns; /* how long it worked, sleep included */
};

/* One run in a new world. 0 or -errno. */
int cache_run(const struct sim_machine *machine, u64 seed,
              const struct cache_setup *setup, struct cache_result *ret_result);

/* A result on the machine as it is; throughput's lowest and highest over its set. */
struct cache_point {
	struct cache_setup setup;
	u32 cpus; /* that were asked for: the service may have one of them */
	struct cache_result result;
	double low, high;
	double alone; /* evict: Mops/s of the same readers while the service sleeps */
};

/* nr machines, the first as it is; nr 1: no band. Fills point but for setup. */
int cache_measure(const struct sim_machine *set, u32 nr, u64 seed,
                  struct cache_point *point);

double cache_transfers_per_op(const struct cache_result *result);

/* The line that moves most often; NULL: none moves once in 200 operations. ret_each: its
 * transfers of one operation. */
const char *cache_hottest(const struct cache_result *result, double *ret_each);

/* The service's time for one frame that it evicted and filled; 0: there is none. */
double cache_frame_ns(const struct cache_service *s);

#endif
