/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * LODIC Fig. 15 with a lock that puts tasks to sleep. The figure `mapping` has the lists'
 * own lock, which spins. Linux's i_mmap_rwsem sleeps: a reader that comes while a process
 * maps or unmaps gives its CPU away, and must be woken. Only readers through file space take
 * it, twice a read.
 *
 * The paper's processes sleep for a second, which no window can hold. So each mapping's loss
 * is measured: the time of all readers' work that one mapping and unmapping costs. With it,
 * arithmetic says what a second of sleep would leave.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/owned/count_owned.h"
#include "sim/figures/fig_read.h"
#include "sim/figures/kernel_locks.h"

#define BLOCK_COPY_BYTES 4096u
#define MAPS_ABOVE 4u
#define READERS 60u
#define MAX_MAPPERS 20u
#define WARM_NS 100000u
#define WINDOW_NS 1000000u
#define PERIODS 3u /* a window has so many sleeps at least */
#define PAPER_SLEEP_NS 1e9
#define PAPER_LEFT 0.01 /* from five mapping processes on (LODIC s.5.2.3) */

struct sleepers_point {
	const struct count_scheme *scheme;
	u32 nr_mappers;
	u64 sleep_ns;
	bool spins; /* the lists' own lock alone */
};

struct sleeping {
	const struct sleepers_point *point;
	struct fig_world world;
	struct kernel_rwsem rwsem;
	u32 base_work;
	u64 nr_passes;
};

struct sleeper {
	struct sleeping *sleeping;
	u8 *buffer;
	u32 user;
	u64 random;
};

static void sleeper_read(struct sleeper *r)
{
	struct sleeping *g = r->sleeping;
	struct fig_world *w = &g->world;
	bool by_file = count_owned_of(&w->count)->by_file;
	bool locks = by_file && !g->point->spins;
	u64 token, page;

	sim_work(g->base_work / 2);
	host_load_dep(w->root);
	host_load_dep(w->slots);
	if (locks)
		kernel_rwsem_read_begin(&g->rwsem);
	if (!count_ref(&w->count, 0, r->user, &token))
		host_fail("a reference to a live block", __FILE__, __LINE__);
	if (locks)
		kernel_rwsem_read_end(&g->rwsem);
	/* Nobody looks at the bytes. */
	sim_copy(r->buffer, w->data, BLOCK_COPY_BYTES);
	if (locks)
		kernel_rwsem_read_begin(&g->rwsem);
	if (by_file) /* the paper's unref looks for the pte once more (LODIC s.4.5) */
		count_owned_file_pte(&w->count, r->user, w->frames[0].block, &page);
	count_unref(&w->count, 0, r->user, token);
	if (locks)
		kernel_rwsem_read_end(&g->rwsem);
	sim_work(g->base_work - g->base_work / 2);
	sim_op_done();
}

static void sleeper_body(void *arg)
{
	struct sleeper *r = arg;

	while (!sim_stopping())
		sleeper_read(r);
}

/* Every process that maps takes the file's lock, whatever way the readers go. */
static void sleepers_mapper_body(void *arg)
{
	struct sleeper *r = arg;
	struct sleeping *g = r->sleeping;
	struct count *c = &g->world.count;
	bool locks = !g->point->spins;
	u64 page;

	sim_sleep(fig_random(&r->random) % g->point->sleep_ns);
	while (!sim_stopping()) {
		if (locks)
			kernel_rwsem_write_begin(&g->rwsem);
		if (count_owned_mmap(c, r->user, 1, 0, 1, &page) != 0)
			host_fail("no room for one more mapping", __FILE__, __LINE__);
		if (locks)
			kernel_rwsem_write_end(&g->rwsem);
		sim_sleep(g->point->sleep_ns);
		if (locks)
			kernel_rwsem_write_begin(&g->rwsem);
		count_owned_munmap(c, r->user, page);
		if (locks)
			kernel_rwsem_write_end(&g->rwsem);
		g->nr_passes += host_now_ns() > WARM_NS;
	}
}

static int sleepers_make(struct sleeping *g, const struct sim_machine *machine)
{
	u32 user;
	int err = fig_world_make(&g->world, g->point->scheme, 1, 1,
	                         READERS + MAX_MAPPERS, BLOCK_COPY_BYTES);

	if (!err)
		err = kernel_rwsem_make(&g->rwsem, machine, NULL);
	for (user = 0; user < READERS && !err; user++) {
		err = fig_world_map_above(&g->world, user, MAPS_ABOVE);
		if (!err)
			err = fig_world_share(&g->world, user, 1);
	}
	return err;
}

/* Reads in the window, and how many mappings came and went. */
static int sleepers_run(const struct sim_machine *machine, u64 seed,
                        const struct sleepers_point *point, u32 nr_mappers,
                        double *ret_mops, double *ret_passes_per_ns)
{
	struct sleeping *g = calloc(1, sizeof(*g));
	struct sleeper *all = calloc(READERS + nr_mappers, sizeof(*all));
	u64 window_ns = PERIODS * point->sleep_ns;
	struct sim_result result;
	u32 i;
	int err = -ENOMEM;

	if (!g || !all)
		goto out;
	g->point = point;
	g->base_work = machine->base_work;
	sim_begin(machine, seed);
	err = sleepers_make(g, machine);
	for (i = 0; i < READERS + nr_mappers && !err; i++) {
		all[i] = (struct sleeper){ g, NULL, i, seed * 0x10001 + i };
		all[i].buffer = host_alloc(BLOCK_COPY_BYTES, COUNT_LINE_BYTES);
		if (!all[i].buffer)
			err = -ENOMEM;
		sim_task(i, i < READERS ? sleeper_body : sleepers_mapper_body, &all[i]);
	}
	if (err)
		goto out;
	if (window_ns < WINDOW_NS)
		window_ns = WINDOW_NS;
	sim_run(WARM_NS, window_ns, &result);
	*ret_mops = result.mops;
	*ret_passes_per_ns = (double)g->nr_passes / (double)window_ns;
out:
	free(all);
	free(g);
	return err;
}

/* What is left, what one mapping takes in us of all readers, and what a second would leave. */
static int sleepers_measure(struct fig_run *run, const struct sim_machine *machine,
                            u64 seed, void *arg, double *ret_values)
{
	const struct sleepers_point *point = arg;
	double quiet, disturbed, passes, lost_ns, second;
	int err = sleepers_run(machine, seed, point, 0, &quiet, &passes);

	(void)run;
	if (!err)
		err = sleepers_run(machine, seed, point, point->nr_mappers, &disturbed,
		                   &passes);
	if (err)
		return err;
	ret_values[0] = disturbed / quiet;
	lost_ns = passes > 0 ? (1 - ret_values[0]) / passes : 0;
	if (lost_ns < 0)
		lost_ns = 0;
	/* If they waited for each other for all of the time, a second would change nothing. */
	second = 1 - point->nr_mappers * lost_ns / (PAPER_SLEEP_NS + lost_ns);
	ret_values[1] = lost_ns / 1000;
	ret_values[2] = second > 0 ? second : 0;
	return 0;
}

static int run_sleepers_of(struct fig_run *run, const char *series,
                           struct sleepers_point *point)
{
	static const u32 sleeps_us[] = { 10, 30, 100, 300, 1000 };
	u32 nr = run->options->quick ? 2 : 5;
	bool has_paper = point->nr_mappers >= 5 && point->scheme != &count_owned &&
	                 !point->spins;
	char panel[FIG_NAME_BYTES];
	struct fig_band bands[3];
	u32 i;
	int err = 0;

	snprintf(panel, sizeof(panel), "mapping processes: %u", point->nr_mappers);
	for (i = 0; i < nr && !err; i++) {
		point->sleep_ns = (u64)sleeps_us[i] * 1000;
		err = fig_measure(run, sleepers_measure, point, 3, bands);
		if (!err)
			err = fig_add(run, panel, series, sleeps_us[i], "ratio",
			              FIG_CONSEQUENCE, &bands[0], FIG_NO_PAPER);
	}
	/* Both from the longest sleep, where mappings disturb each other least. */
	if (!err)
		err = fig_add(run, "lost by one mapping, of all readers' time", series,
		              point->nr_mappers, "us", FIG_CONSEQUENCE, &bands[1],
		              FIG_NO_PAPER);
	if (!err)
		err = fig_add(run, "left with a second of sleep, reckoned", series,
		              point->nr_mappers, "ratio", FIG_EXPLAINED, &bands[2],
		              has_paper ? PAPER_LEFT : FIG_NO_PAPER);
	return err;
}

static int run_sleepers(struct fig_run *run)
{
	static const u32 mappers[] = { 1, 5, MAX_MAPPERS };
	u32 m;
	int err = 0;

	for (m = 0; m < 3 && !err; m++) {
		struct sleepers_point own = { &count_owned, mappers[m], 0, false };
		struct sleepers_point sleeps = { count_scheme_find("lodic_file"),
			                         mappers[m], 0, false };
		struct sleepers_point spins = sleeps;

		spins.spins = true;
		err = run_sleepers_of(run, "lodic", &own);
		if (!err && sleeps.scheme)
			err = run_sleepers_of(run, "lodic_file, sleeps", &sleeps);
		if (!err && sleeps.scheme)
			err = run_sleepers_of(run, "lodic_file, spins", &spins);
	}
	return err;
}

const struct fig fig_sleepers = {
	.name = "sleepers",
	.paper = "LODIC Fig. 15, explained",
	.title =
		"60 processes read while others map and unmap, under a lock that sleeps",
	.x = "us that each stays mapped | processes that map and unmap | "
	     "processes that map and unmap | us that each stays mapped",
	.modelled =
		"throughput with them over throughput without; i_mmap_rwsem around each walk "
		"through file space, of ref and of unref: readers queue behind a waiting "
		"writer and sleep, and are woken together; a wake-up takes 1 us, and the "
		"woken task 1 us and two switches more",
	.left_out =
		"tasks that spin before they sleep; other work on a sleeper's CPU; the "
		"paper's second of sleep, which is reckoned from what one mapping costs",
	.topology = "8x15",
	.simulated = true,
	.one_machine = true,
	.run = run_sleepers,
};
