/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Processes with several threads, by every scheme: all CPUs read one block, and 1, 2, 4, 8
 * or 16 of them are one process. LODIC's Table 3 asks this of the pte alone (LODIC
 * s.5.2.4; sim/figures/fig_threads.c has it beside the paper's numbers). This figure asks
 * what a scheme keeps of its rate when its processes get threads.
 *
 * A process's threads sit on neighbouring CPUs, or as far apart as can be. In a third
 * series another CPU returns some of the references, as if their tasks had moved
 * (PAYGO s.3.4). The figure counts the returns on the CPU of the reference and elsewhere.
 */
#include <stdio.h>
#include <string.h>

#include "sim/figures/fig_read.h"

#define BLOCK_COPY_BYTES 4096u
/* FxMark's file is the fifth range of its process (LODIC s.4.4.2, Table 2). */
#define MAPS_ABOVE 4u
#define NR_THREADS 120u
/* Ours: far more than a scheduler moves (LODIC s.3 has 5 of a million), so that a window
 * meets some. */
#define SPLIT_PER_MILLION 1000u

enum {
	VALUE_MOPS,
	VALUE_TRANSFERS,
	VALUE_KEPT,  /* of the rate at one thread a process */
	VALUE_ENTRY, /* of 100 references, how many in an entry of a CPU's table */
	VALUE_HOME,
	VALUE_AWAY,
	NR_VALUES,
};

static const u32 process_threads[] = { 1, 2, 4, 8, 16 };
#define NR_POINTS (sizeof(process_threads) / sizeof(*process_threads))

static const struct placing {
	const char *name;
	bool scatter;
	u32 split_per_million;
} placings[] = {
	{ "side by side", false, 0 },
	{ "far apart", true, 0 },
	{ "1 in 1000 returned elsewhere", true, SPLIT_PER_MILLION },
};

struct processes_series {
	const struct count_scheme *scheme;
	const struct placing *placing;
	bool by_user;
};

static int processes_read(const struct sim_machine *machine, u64 seed,
                          const struct processes_series *series, u32 threads,
                          double *ret_values)
{
	struct fig_read setup = {
		.scheme = series->scheme,
		.nr_objects = 1,
		.nr_users = (NR_THREADS + threads - 1) / threads,
		.threads_per_user = threads,
		.nr_threads = NR_THREADS,
		.scatter = series->placing->scatter,
		.split_per_million = series->placing->split_per_million,
		.copy_bytes = BLOCK_COPY_BYTES,
		.nr_maps_above = MAPS_ABOVE,
		.no_space_lock = true, /* as in Linux 6.12 */
	};
	struct fig_read_result result;
	int err = fig_read_run(machine, seed, &setup, &result);
	double nr, entries;

	if (err)
		return err;
	nr = (double)(result.nr_home + result.nr_away);
	entries = (double)(result.nr_entry_home + result.nr_entry_away);
	ret_values[VALUE_MOPS] = result.mops;
	ret_values[VALUE_TRANSFERS] = result.transfers_per_op;
	ret_values[VALUE_ENTRY] = nr > 0 ? 100 * entries / nr : 0;
	ret_values[VALUE_HOME] = (double)result.nr_home;
	ret_values[VALUE_AWAY] = (double)result.nr_away;
	return 0;
}

/* All points of a series on one machine. Where the scheme does not count by user, threads of
 * one process are to it as threads of many. */
static int processes_measure(struct fig_run *run, const struct sim_machine *machine,
                             u64 seed, void *arg, double *ret_values)
{
	const struct processes_series *series = arg;
	size_t i;
	int err = 0;

	(void)run;
	for (i = 0; i < NR_POINTS && !err; i++) {
		double *values = ret_values + i * NR_VALUES;

		if (i == 0 || series->by_user)
			err = processes_read(machine, seed, series, process_threads[i],
			                     values);
		else
			memcpy(values, ret_values, NR_VALUES * sizeof(*values));
		values[VALUE_KEPT] = values[VALUE_MOPS] / ret_values[VALUE_MOPS];
	}
	return err;
}

static int processes_counts_by_user(const struct sim_machine *machine, u64 seed,
                                    const struct count_scheme *scheme,
                                    bool *ret_by_user)
{
	struct fig_world world;
	struct count_cost cost;
	int err;

	sim_begin(machine, seed);
	err = fig_world_make(&world, scheme, 1, 1, NR_THREADS, BLOCK_COPY_BYTES);
	if (err)
		return err;
	count_cost(&world.count, &cost);
	*ret_by_user = scheme->has_ptes || cost.user_bytes > 0;
	return 0;
}

/* A panel for each placing and value. */
static int processes_add(struct fig_run *run, const struct processes_series *series,
                         u32 threads, const struct fig_band *bands)
{
	static const struct {
		const char *name, *unit;
	} panels[NR_VALUES] = {
		[VALUE_MOPS] = { "reads", "Mops/s" },
		[VALUE_TRANSFERS] = { "line transfers of an operation", "transfers" },
		[VALUE_KEPT] = { "kept", "ratio" },
		[VALUE_ENTRY] = { "counted in an entry", "percent" },
		[VALUE_HOME] = { "returned where taken", "refs" },
		[VALUE_AWAY] = { "returned elsewhere", "refs" },
	};
	const struct placing *placing = series->placing;
	u32 nr_values = placing->split_per_million ? NR_VALUES : VALUE_HOME;
	char panel[FIG_NAME_BYTES];
	u32 v;
	int err = 0;

	for (v = 0; v < nr_values && !err; v++) {
		if (v == VALUE_ENTRY && !series->scheme->table)
			continue;
		snprintf(panel, sizeof(panel), "%s, %s", panels[v].name, placing->name);
		err = fig_add(run, panel, series->scheme->name, threads, panels[v].unit,
		              FIG_PREDICTED, &bands[v], FIG_NO_PAPER);
	}
	return err;
}

static int run_processes_of(struct fig_run *run, struct processes_series *series)
{
	struct fig_band bands[NR_POINTS * NR_VALUES];
	size_t i;
	int err = processes_counts_by_user(&run->machines[0], run->seed, series->scheme,
	                                   &series->by_user);

	if (!err)
		err = fig_measure(run, processes_measure, series, NR_POINTS * NR_VALUES,
		                  bands);
	for (i = 0; i < NR_POINTS && !err; i++)
		err = processes_add(run, series, process_threads[i],
		                    bands + i * NR_VALUES);
	return err;
}

static int run_processes(struct fig_run *run)
{
	/* Quick: only far apart, which is the harder one. */
	u32 first = run->options->quick ? 1 : 0;
	u32 last = run->options->quick ? 1 : 2;
	u32 p, i;
	int err = 0;

	for (p = first; p <= last; p++)
		for (i = 0; i < count_nr_schemes && !err; i++) {
			struct processes_series series = { count_schemes[i],
				                           &placings[p], false };

			if (series.scheme->is_rival)
				continue;
			err = run_processes_of(run, &series);
		}
	return err;
}

const struct fig fig_processes = {
	.name = "processes",
	.paper = "LODIC Table 3, for every scheme",
	.title = "All CPUs read one 4 KiB block, in processes of several threads",
	.x = "threads in each process; 120 in all",
	.modelled =
		"as LODIC Fig. 14, with threads of a process side by side or spread over "
		"the sockets; references that another CPU returns, 1 in 1000",
	.left_out =
		"what else threads of a process share: its address space's lock, its open "
		"file. So a scheme that counts outside the process keeps its whole rate "
		"here. The move of a task, which costs more than any of this",
	.topology = "8x15",
	.simulated = true,
	.few_machines = true,
	.run = run_processes,
};
