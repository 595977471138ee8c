/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Runs and bands: sim/cache/point.h. */
#include <errno.h>
#include <stdlib.h>

#include "sim/cache/point.h"

/* All readers have come by all blocks when the warm part begins; it ends the last visits. */
#define WARM_NS 10000u
#define WINDOW_NS 20000u
/* With less than this a window is run again, longer, a few times. */
#define OPS_ENOUGH_PER_READER 20u
#define LONGER 6u
#define MOST_TRIES 3u
/* While the service works: its queues settle, then the window. At least a turn each. */
#define EVICT_WARM_NS 300000u
#define EVICT_WINDOW_NS 250000u
/* Longer than any run that ends by itself. */
#define ENDLESS_NS ((u64)1000 * 1000 * 1000 * 1000)
/* A line that moves more seldom is not worth its name. */
#define LEAST_TRANSFERS 0.005

static void run_tasks(struct cache_world *w, void (*body)(void *))
{
	u32 i;

	for (i = 0; i < w->setup->nr_readers; i++)
		sim_task(i, body, &w->readers[i]);
}

/* All tasks have returned, and none holds a pin. */
static void check_at_rest(const struct cache_world *w)
{
	u32 i;

	arena_check(&w->arena);
	reclaim_check(&w->reclaim);
	for (i = 0; i < w->setup->nr_readers; i++) {
		context_check(&w->readers[i].context);
		if (context_nr_pinned(&w->readers[i].context))
			host_fail("every pin is given back", __FILE__, __LINE__);
	}
}

/* Until the service has worked for least_ns, and is through with its turn. */
static void run_service(struct cache_world *w, u64 least_ns, struct sim_result *ret_sim)
{
	w->least_ns = least_ns;
	w->begin_ns = host_now_ns();
	w->over = false;
	run_tasks(w, cache_reader_run);
	sim_task(host_nr_cpus() - 1, cache_service_run, w);
	sim_run(0, ENDLESS_NS, ret_sim);
	ret_sim->mops =
		(double)ret_sim->ops * 1000.0 / (double)(w->end_ns - w->begin_ns);
	check_at_rest(w);
}

static int run_once(struct cache_world *w, const struct sim_machine *machine, u64 seed,
                    const struct cache_setup *setup, u64 times,
                    struct cache_result *ret_result)
{
	int err;

	sim_begin(machine, seed);
	err = cache_world_make(w, setup, seed);
	if (!err && setup->batch)
		err = cache_service_make(w);
	if (err)
		return err;
	run_tasks(w, cache_reader_pass);
	sim_run(0, ENDLESS_NS, &ret_result->sim);
	if (setup->batch) {
		run_service(w, EVICT_WARM_NS, &ret_result->sim);
		run_service(w, EVICT_WINDOW_NS, &ret_result->sim);
	} else {
		run_tasks(w, cache_reader_run);
		sim_run(WARM_NS * times, WINDOW_NS * times, &ret_result->sim);
	}
	ret_result->service = w->service;
	ret_result->run_ns = w->end_ns - w->begin_ns;
	return 0;
}

int cache_run(const struct sim_machine *machine, u64 seed,
              const struct cache_setup *setup, struct cache_result *ret_result)
{
	u64 times = 1;
	u32 tries;
	int err = 0;

	for (tries = 0; tries < MOST_TRIES && !err; tries++) {
		struct cache_world *w = calloc(1, sizeof(*w));

		if (!w)
			return -ENOMEM;
		err = run_once(w, machine, seed, setup, times, ret_result);
		cache_world_free(w);
		free(w);
		if (setup->batch || ret_result->sim.ops >= (u64)OPS_ENOUGH_PER_READER *
		                                                   setup->nr_readers)
			break;
		times *= LONGER;
	}
	return err;
}

int cache_measure(const struct sim_machine *set, u32 nr, u64 seed,
                  struct cache_point *point)
{
	struct cache_setup alone = point->setup;
	struct cache_result result;
	u32 i;
	int err;

	for (i = 0; i < nr; i++) {
		err = cache_run(&set[i], seed + i, &point->setup, &result);
		if (err)
			return err;
		if (i == 0) {
			point->result = result;
			point->low = point->high = result.sim.mops;
		}
		if (result.sim.mops < point->low)
			point->low = result.sim.mops;
		if (result.sim.mops > point->high)
			point->high = result.sim.mops;
	}
	point->alone = 0;
	if (point->setup.what != CACHE_EVICT)
		return 0;
	alone.batch = 0;
	err = cache_run(&set[0], seed, &alone, &result);
	point->alone = result.sim.mops;
	return err;
}

double cache_transfers_per_op(const struct cache_result *result)
{
	return result->sim.ops ? (double)result->sim.transfers / (double)result->sim.ops
	                       : 0;
}

const char *cache_hottest(const struct cache_result *result, double *ret_each)
{
	const struct sim_line *most = NULL;
	u32 i;

	for (i = 0; i < result->sim.nr_lines; i++)
		if (!most || result->sim.lines[i].transfers > most->transfers)
			most = &result->sim.lines[i];
	*ret_each = most && result->sim.ops
	                    ? (double)most->transfers / (double)result->sim.ops
	                    : 0;
	return *ret_each >= LEAST_TRANSFERS ? most->name : NULL;
}

double cache_frame_ns(const struct cache_service *s)
{
	return s->nr_taken ? (double)(s->choose_ns + s->fence_ns + s->walk_ns +
	                              s->fill_ns) /
	                             (double)s->nr_taken
	                   : 0;
}
