/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What it costs readers that others want their entries gone. Where an entry of a CPU's table
 * owns a reference, a task that must free or move blocks has every CPU fold its entries. In
 * Linux, lru_add_drain_all() does so. Afterwards all readers of a hot block meet on its
 * global word, until each CPU has an entry again.
 */
#include <stdio.h>

#include "sim/figures/fig_read.h"

#define BLOCK_COPY_BYTES 4096u
/* FxMark's file is the fifth range of its process (LODIC s.4.4.2, Table 2). */
#define MAPS_ABOVE 4u
#define NR_THREADS 120u
/* Two drains at the least, where there is one in a millisecond. */
#define WINDOW_NS 2000000u
#define S_NS 1000000000u

static const struct drains_series {
	const char *name, *scheme;
	u32 threads_per_process;
} drains_series[] = {
	{ "paygo_fold", "paygo_fold", 1 },
	{ "hybrid, 1 thread a process", "hybrid", 1 },
	{ "hybrid, 16 threads a process", "hybrid", 16 },
};

struct drains_point {
	const struct count_scheme *scheme;
	u32 threads, per_s;
};

static int drains_measure(struct fig_run *run, const struct sim_machine *machine,
                          u64 seed, void *arg, double *ret_values)
{
	const struct drains_point *point = arg;
	struct fig_read setup = {
		.scheme = point->scheme,
		.nr_objects = 1,
		.nr_users = (NR_THREADS + point->threads - 1) / point->threads,
		.threads_per_user = point->threads,
		.nr_threads = NR_THREADS,
		.scatter = true,
		.drain_ns = point->per_s ? S_NS / point->per_s : 0,
		.copy_bytes = BLOCK_COPY_BYTES,
		.nr_maps_above = MAPS_ABOVE,
		.no_space_lock = true, /* as in Linux 6.12 */
		.window_ns = WINDOW_NS,
	};
	struct fig_read_result result;
	int err = fig_read_run(machine, seed, &setup, &result);

	(void)run;
	ret_values[0] = result.mops;
	ret_values[1] = result.transfers_per_op;
	return err;
}

static int run_drains(struct fig_run *run)
{
	static const u32 often[] = { 0, 1000, 2000, 5000, 10000 };
	u32 step = run->options->quick ? 4 : 1;
	struct fig_band bands[2];
	size_t s, i;
	int err = 0;

	for (s = 0; s < sizeof(drains_series) / sizeof(*drains_series); s++)
		for (i = 0; i < sizeof(often) / sizeof(*often) && !err; i += step) {
			const struct drains_series *series = &drains_series[s];
			struct drains_point point = { count_scheme_find(series->scheme),
				                      series->threads_per_process,
				                      often[i] };

			if (!point.scheme)
				continue;
			err = fig_measure(run, drains_measure, &point, 2, bands);
			if (!err)
				err = fig_add(run, "120 CPUs read one block",
				              series->name, often[i], "Mops/s",
				              FIG_PREDICTED, &bands[0], FIG_NO_PAPER);
			if (!err)
				err = fig_add(run, "line transfers of an operation",
				              series->name, often[i], "transfers",
				              FIG_PREDICTED, &bands[1], FIG_NO_PAPER);
		}
	return err;
}

const struct fig fig_drains = {
	.name = "drains",
	.paper = "none",
	.title =
		"Readers of one block while all CPUs fold their entries, over and over",
	.x = "drains of all CPUs in a second",
	.modelled =
		"a task on each CPU that wakes, folds the table and sleeps; all CPUs at "
		"once; threads of a process far apart",
	.left_out =
		"what a drain of all CPUs costs beyond the switch and the fold: requests to "
		"all CPUs, and the other batches that Linux drains then",
	.topology = "8x15",
	.simulated = true,
	.one_machine = true,
	.run = run_drains,
};
