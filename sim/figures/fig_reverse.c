/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The way from a frame to a reader's own pte. Through process space no other process is
 * met; file space is a list under a lock that all processes share (LODIC s.4.4.1,
 * s.4.4.2, s.5.2.3). Fig. 12 times the way itself, and Fig. 13 a read with it. Fig. 15
 * times reads while other processes map and unmap.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/owned/count_owned.h"
#include "sim/figures/fig_read.h"

#define BLOCK_COPY_BYTES 4096u
#define MAPS_ABOVE 4u
#define WARM_NS 200000u
#define WINDOW_NS 100000u
#define READERS 60u

/* ---- Fig. 12: the way alone ---- */

struct walking {
	struct fig_world world;
	u64 nr[2];
	double ns[2]; /* by process space, by file space */
	bool by_file;
};

struct walker {
	struct walking *walking;
	u32 user;
};

/* As lodic_file does it: walks the list of all that map the file, up to its own pte. */
static u64 *walk_file_space(struct count *c, u64 block, u32 user)
{
	struct rmap *rmap = rmap_of(count_owned_of(c)->rmaps, block_file(block));
	u64 page;
	u64 *pte;

	rmap_read_begin(rmap);
	pte = rmap_self_by_file(rmap, count_owned_space(c, user), block, &page);
	rmap_read_end(rmap);
	return pte;
}

static void walker_body(void *arg)
{
	struct walker *w = arg;
	struct walking *g = w->walking;
	u64 block = g->world.frames[0].block;
	u64 page, from;
	u64 *pte;

	while (!sim_stopping()) {
		from = host_now_ns();
		if (g->by_file)
			pte = walk_file_space(&g->world.count, block, w->user);
		else
			pte = rmap_self(count_owned_space(&g->world.count, w->user),
			                block, &page);
		if (!pte)
			host_fail("a process that maps the block has no pte for it",
			          __FILE__, __LINE__);
		/* The first walk is a cold one: it fetches a line from memory for every
		 * process. */
		if (from >= WARM_NS) {
			g->ns[g->by_file] += (double)(host_now_ns() - from);
			g->nr[g->by_file]++;
		}
		sim_work(100);
		sim_op_done();
	}
}

/* nr_walkers of nr_sharers processes look for their pte. Mean time in ns. */
static int walk_run(const struct sim_machine *machine, u64 seed, u32 nr_sharers,
                    u32 nr_walkers, bool by_file, double *ret_ns)
{
	struct walking *g = calloc(1, sizeof(*g));
	struct walker *walkers = calloc(nr_walkers, sizeof(*walkers));
	struct sim_result result;
	u32 user;
	int err = -ENOMEM;

	if (!g || !walkers)
		goto out;
	sim_begin(machine, seed);
	g->by_file = by_file;
	err = fig_world_make(&g->world, &count_owned, 1, 1, nr_sharers,
	                     BLOCK_COPY_BYTES);
	for (user = 0; user < nr_sharers && !err; user++) {
		err = fig_world_map_above(&g->world, user, MAPS_ABOVE);
		if (!err)
			err = fig_world_share(&g->world, user, 1);
	}
	if (err)
		goto out;
	for (user = 0; user < nr_walkers; user++) {
		walkers[user] = (struct walker){ g, user };
		sim_task(user, walker_body, &walkers[user]);
	}
	/* All processes meet at one list, so a turn can take many microseconds. */
	sim_run(WARM_NS, by_file ? 20 * WINDOW_NS : WINDOW_NS, &result);
	if (g->nr[by_file] == 0)
		err = -ETIME;
	else
		*ret_ns = g->ns[by_file] / (double)g->nr[by_file];
out:
	free(walkers);
	free(g);
	return err;
}

struct walk_point {
	u32 nr_sharers;
	bool all_walk;
};

static int walk_measure(struct fig_run *run, const struct sim_machine *machine,
                        u64 seed, void *arg, double *ret_values)
{
	const struct walk_point *point = arg;
	u32 nr_walkers = point->all_walk ? point->nr_sharers : 1;
	int err;

	(void)run;
	err = walk_run(machine, seed, point->nr_sharers, nr_walkers, false, ret_values);
	if (!err)
		err = walk_run(machine, seed, point->nr_sharers, nr_walkers, true,
		               ret_values + 1);
	if (!err)
		ret_values[2] = ret_values[0] > 0 ? ret_values[1] / ret_values[0] : 0;
	return err;
}

static int run_walk(struct fig_run *run)
{
	static const u32 sharers[] = { 1, 4, 15, 30, 60, 120 };
	struct fig_band bands[3];
	size_t i;
	int all, err = 0;

	for (all = 0; all < 2; all++) {
		const char *panel =
			all ? "all processes at once" : "one process at a time";

		for (i = 0; i < sizeof(sharers) / sizeof(*sharers) && !err; i++) {
			struct walk_point point = { sharers[i], all };
			double x = sharers[i];

			err = fig_measure(run, walk_measure, &point, 3, bands);
			if (!err)
				err = fig_add(run, panel, "process space", x, "ns",
				              FIG_PREDICTED, &bands[0], FIG_NO_PAPER);
			if (!err)
				err = fig_add(run, panel, "file space", x, "ns",
				              FIG_PREDICTED, &bands[1], FIG_NO_PAPER);
			/* The paper does not say how many processes shared the file. */
			if (!err)
				err = fig_add(run, panel, "file over process", x,
				              "ratio", FIG_CONSEQUENCE, &bands[2], 20);
		}
	}
	return err;
}

/* ---- Fig. 13: one reader's latency ---- */

static int latency_of(const struct sim_machine *machine, u64 seed,
                      const struct count_scheme *scheme, bool mapped, double *ret_ns)
{
	struct fig_read setup = {
		.scheme = scheme,
		.nr_objects = 1,
		.nr_users = 1,
		.nr_idle_users =
			7, /* enough to make lodic count locally; they only share */
		.not_shared = !mapped,
		.copy_bytes = BLOCK_COPY_BYTES,
		.nr_maps_above = MAPS_ABOVE,
	};
	struct fig_read_result result;
	int err = fig_read_run(machine, seed, &setup, &result);

	*ret_ns = !err && result.mops > 0 ? 1000 / result.mops : 0;
	return err;
}

static int latency_measure(struct fig_run *run, const struct sim_machine *machine,
                           u64 seed, void *arg, double *ret_values)
{
	const struct count_scheme *by_file = count_scheme_find("lodic_file");
	int err;

	(void)run;
	(void)arg;
	ret_values[3] = 0;
	err = latency_of(machine, seed, &count_atomic, false, &ret_values[0]);
	if (!err)
		err = latency_of(machine, seed, &count_owned, false, &ret_values[1]);
	if (!err)
		err = latency_of(machine, seed, &count_owned, true, &ret_values[2]);
	if (!err && by_file)
		err = latency_of(machine, seed, by_file, true, &ret_values[3]);
	if (!err)
		ret_values[4] = ret_values[2] / ret_values[1];
	return err;
}

static int run_latency(struct fig_run *run)
{
	static const char *const names[] = { "vanilla (atomic)", "LODIC, not mapped",
		                             "LODIC, mapped, process space",
		                             "LODIC, mapped, file space" };
	struct fig_band bands[5];
	u32 i;
	int err = fig_measure(run, latency_measure, NULL, 5, bands);

	for (i = 0; i < 4 && !err; i++)
		if (bands[i].value > 0)
			err = fig_add(run, "latency of a 4 KiB read, one CPU", names[i],
			              i, "ns", FIG_PREDICTED, &bands[i], FIG_NO_PAPER);
	if (!err)
		err = fig_add(run, "mapped over not mapped", "process space", 0,
		              "ratio", FIG_PREDICTED, &bands[4], 1.2);
	return err;
}

/* ---- Fig. 15: others map and unmap ---- */

struct mapping_point {
	const struct count_scheme *scheme;
	u32 nr_mappers;
	u64 sleep_ns;
	bool touch;
};

static int mapping_measure(struct fig_run *run, const struct sim_machine *machine,
                           u64 seed, void *arg, double *ret_values)
{
	const struct mapping_point *point = arg;
	struct fig_read setup = {
		.scheme = point->scheme,
		.nr_objects = 1,
		.nr_users = READERS,
		.copy_bytes = BLOCK_COPY_BYTES,
		.nr_maps_above = MAPS_ABOVE,
		.mapper_sleep_ns = point->sleep_ns,
		.mapper_touches = point->touch,
		.window_ns = 4 * WINDOW_NS,
	};
	struct fig_read_result quiet, disturbed;
	int err = fig_read_run(machine, seed, &setup, &quiet);

	(void)run;
	setup.nr_mappers = point->nr_mappers;
	if (!err)
		err = fig_read_run(machine, seed, &setup, &disturbed);
	if (!err)
		ret_values[0] = quiet.mops > 0 ? disturbed.mops / quiet.mops : 0;
	return err;
}

static int run_mapping_of(struct fig_run *run, struct mapping_point *point)
{
	static const u32 mappers[] = { 1, 2, 5, 10, 20 };
	char panel[FIG_NAME_BYTES];
	struct fig_band band;
	size_t i;
	int err = 0;

	snprintf(panel, sizeof(panel), "mapped for %u us, %s",
	         (u32)(point->sleep_ns / 1000),
	         point->touch ? "touched" : "not touched");
	for (i = 0; i < sizeof(mappers) / sizeof(*mappers) && !err; i++) {
		point->nr_mappers = mappers[i];
		err = fig_measure(run, mapping_measure, point, 1, &band);
		if (!err)
			err = fig_add(run, panel, point->scheme->name, mappers[i],
			              "ratio", FIG_CONSEQUENCE, &band, FIG_NO_PAPER);
	}
	return err;
}

static int run_mapping(struct fig_run *run)
{
	static const char *const schemes[] = { "lodic", "lodic_file" };
	static const struct {
		u64 sleep_ns;
		bool touch;
	} ways[] = { { 10000, false }, { 100000, false }, { 100000, true } };
	size_t scheme, way;
	int err = 0;

	for (way = 0; way < sizeof(ways) / sizeof(*ways); way++)
		for (scheme = 0; scheme < 2 && !err; scheme++) {
			struct mapping_point point = {
				.scheme = count_scheme_find(schemes[scheme]),
				.sleep_ns = ways[way].sleep_ns,
				.touch = ways[way].touch,
			};

			if (point.scheme)
				err = run_mapping_of(run, &point);
		}
	return err;
}

const struct fig fig_walk = {
	.name = "walk",
	.paper = "LODIC Fig. 12",
	.title = "Finding one's own pte: through process space and through file space",
	.x = "processes that map the file",
	.modelled =
		"the walk in core/owned/rmap.c and core/owned/process_space.c, the file's range "
		"fifth in its process; the readers' count on the file's list",
	.left_out =
		"the kernel's interval tree (here: a list), page-table levels. The paper "
		"says 1/20 and not at how many processes",
	.topology = "8x15",
	.simulated = true,
	.run = run_walk,
};

const struct fig fig_latency = {
	.name = "latency",
	.paper = "LODIC Fig. 13",
	.title = "What the way to the pte adds to a read",
	.x = "which way",
	.modelled =
		"one CPU reads one 4 KiB block over and over; eight processes map it",
	.left_out = "overlap of independent cache hits, beyond the band",
	.topology = "8x15",
	.simulated = true,
	.run = run_latency,
};

const struct fig fig_mapping = {
	.name = "mapping",
	.paper = "LODIC Fig. 15",
	.title = "60 processes read while others map and unmap",
	.x = "processes that map the file, sleep, and unmap it",
	.modelled =
		"throughput with them over throughput without; they stay mapped for "
		"10 and 100 us",
	.left_out =
		"a second of sleep as in the paper: nothing would happen in a window of "
		"microseconds. Locks that put a reader to sleep: `sleepers` has one",
	.topology = "8x15",
	.simulated = true,
	.few_machines = true,
	.run = run_mapping,
};
