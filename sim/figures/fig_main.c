/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic-sim figure NAME` and `lodic-sim micro`: options, the machines of the band, and
 * the list of all figures.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/command.h"
#include "sim/figures/fig.h"
#include "sim/figures/fig_main.h"
#include "sim/figures/fig_micro.h"
#include "sim/machine.h"

extern const struct fig fig_maximum, fig_held, fig_memory, fig_costs, fig_query,
	fig_reclaim, fig_walk, fig_latency, fig_scaling, fig_mapping, fig_sleepers,
	fig_threads, fig_applications, fig_spectrum, fig_scaling_paygo, fig_weak,
	fig_anchor, fig_reclaim_paygo, fig_drop, fig_processes, fig_entries, fig_drains,
	fig_counter, fig_tier_policies, fig_tier_controls, fig_tier_kinds,
	fig_tier_ratio, fig_tier_objects, fig_tier_slow, fig_tier_memory,
	fig_tier_nodes, fig_tier_claims, fig_tier_reuse, fig_xfs, fig_breakdown,
	fig_breakdown_paygo, fig_curve24;

const struct fig *const figs[] = {
	&fig_maximum,       &fig_held,          &fig_memory,
	&fig_costs,         &fig_query,         &fig_reclaim,
	&fig_walk,          &fig_latency,       &fig_scaling,
	&fig_breakdown,     &fig_xfs,           &fig_mapping,
	&fig_sleepers,      &fig_threads,       &fig_applications,
	&fig_spectrum,      &fig_scaling_paygo, &fig_breakdown_paygo,
	&fig_curve24,       &fig_weak,          &fig_anchor,
	&fig_reclaim_paygo, &fig_drop,          &fig_processes,
	&fig_entries,       &fig_drains,        &fig_counter,
	&fig_tier_policies, &fig_tier_controls, &fig_tier_kinds,
	&fig_tier_ratio,    &fig_tier_objects,  &fig_tier_slow,
	&fig_tier_memory,   &fig_tier_nodes,    &fig_tier_claims,
	&fig_tier_reuse,
};
const u32 nr_figs = sizeof(figs) / sizeof(*figs);

const char *const fig_compared[FIG_NR_COMPARED] = {
	"atomic", "refcache", "paygo", "paygo_fold", "lodic", "hybrid"
};

enum {
	KEY_CSV = 256,
	KEY_SEED,
	KEY_TOPOLOGY,
	KEY_PARAMETERS,
	KEY_NO_BAND,
	KEY_QUICK,
	KEY_LIST
};

struct fig_arguments {
	struct fig_options options;
	const struct fig *fig;
	bool list;
};

static const struct argp_option figure_options[] = {
	{ "list", KEY_LIST, NULL, 0, "List the figures", 0 },
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "csv", KEY_CSV, "FILE", 0, "Also write CSV", 0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of all runs (default: 1)", 0 },
	{ "topology", KEY_TOPOLOGY, "NAME", 0, "Another machine than the figure's own",
	  0 },
	{ "parameters", KEY_PARAMETERS, "FILE", 0, "Another parameter file", 0 },
	{ "no-band", KEY_NO_BAND, NULL, 0,
	  "Only the parameters as they are, not the sensitivity set", 0 },
	{ "quick", KEY_QUICK, NULL, 0, "Few points", 0 },
	{ 0 },
};

static const struct fig *fig_find(const char *name)
{
	u32 i;

	for (i = 0; i < nr_figs; i++)
		if (strcmp(figs[i]->name, name) == 0)
			return figs[i];
	return NULL;
}

static u64 parse_seed(const char *arg, struct argp_state *state)
{
	return command_number(arg, "a seed", 0, UINT64_MAX, state);
}

static error_t parse_figure(int key, char *arg, struct argp_state *state)
{
	struct fig_arguments *a = state->input;

	switch (key) {
	case KEY_LIST: a->list = true; return 0;
	case 'j': a->options.json = true; return 0;
	case KEY_CSV: a->options.csv = arg; return 0;
	case KEY_SEED: a->options.seed = parse_seed(arg, state); return 0;
	case KEY_TOPOLOGY: a->options.topology = arg; return 0;
	case KEY_PARAMETERS: a->options.parameters = arg; return 0;
	case KEY_NO_BAND: a->options.no_band = true; return 0;
	case KEY_QUICK: a->options.quick = true; return 0;
	case ARGP_KEY_ARG:
		if (a->fig)
			argp_error(state, "one figure at a time");
		a->fig = fig_find(arg);
		if (!a->fig)
			argp_error(state, "there is no figure '%s'; --list shows them",
			           arg);
		return 0;
	case ARGP_KEY_END:
		if (!a->fig && !a->list)
			argp_error(state, "which figure? --list shows them");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int fig_output(const struct fig_heading *heading, const struct fig_table *table,
                      const struct fig_options *options)
{
	int err = 0;

	if (options->csv)
		err = fig_write_csv(heading, table, options->csv);
	if (err)
		return command_fail(options->csv, err);
	/* Standard output is checked at exit. */
	if (options->json)
		err = fig_print_json(heading, table);
	else
		fig_print(heading, table);
	return err ? command_fail("standard output", err) : EXIT_SUCCESS;
}

/* Keeps the first machine, and those with another hold time or another cost of a queue:
 * these decide contended rows. Figures that would otherwise take minutes use
 * it. Returns how many are left. */
static u32 fig_keep_few(struct sim_machine *set, u32 nr)
{
	u32 kept = 1, i;

	for (i = 1; i < nr; i++)
		if (set[i].hold_ns != set[0].hold_ns ||
		    set[i].queued_percent != set[0].queued_percent)
			set[kept++] = set[i];
	return kept;
}

/* Fills in a run's machines and seed. nr_machines stays 0 if the figure has no machine. fig:
 * NULL for micro, which is none. */
static int fig_prepare(struct fig_run *run, const struct fig_options *options,
                       const struct fig *fig, const char *topology,
                       struct machine *machine, struct sim_machine *set)
{
	int err;

	run->options = options;
	run->seed = options->seed;
	run->machines = set;
	if (!topology)
		return 0;
	err = machine_read(topology, options->parameters, machine);
	if (err)
		return err;
	run->nr_machines = machine_set(machine, set);
	if (fig && fig->few_machines)
		run->nr_machines = fig_keep_few(set, run->nr_machines);
	if (options->no_band || (fig && fig->one_machine))
		run->nr_machines = 1;
	return 0;
}

static const char fig_doc[] =
	"Make one of the papers' figures on the simulated machine.\v"
	"Each row says where it comes from: predicted; fitted (it, or what it is a ratio to, "
	"was fitted); explained (a mechanism is in the model to explain it); consequence (of "
	"something that the paper does not give); arithmetic. low and high are over the "
	"sensitivity set, the parameters that nothing pins down.\n"
	"\n"
	"Examples:\n"
	"  lodic-sim figure --list\n"
	"  lodic-sim figure threads --csv threads.csv\n";

int fig_main(int argc, char **argv)
{
	static const struct argp argp = { figure_options, parse_figure, "NAME", fig_doc,
		                          NULL,           NULL,         NULL };
	static struct sim_machine set[MACHINE_MAX_SET];
	static struct machine machine;
	struct fig_arguments a = { .options.seed = 1 };
	struct fig_table table = { 0 };
	struct fig_run run = { .table = &table };
	struct fig_heading heading;
	const char *topology;
	u32 i;
	int err;

	if (argp_parse(&argp, argc, argv, 0, NULL, &a) != 0)
		return COMMAND_USAGE;
	for (i = 0; a.list && i < nr_figs; i++)
		printf("%-16s %s: %s\n", figs[i]->name, figs[i]->paper, figs[i]->title);
	if (!a.fig)
		return EXIT_SUCCESS;
	if (command_csv_check(a.options.csv) != 0)
		return COMMAND_FAILED;
	topology = a.fig->topology;
	if (topology && a.options.topology)
		topology = a.options.topology;
	/* machine_read() has said what is wrong with a file. */
	if (fig_prepare(&run, &a.options, a.fig, topology, &machine, set) != 0)
		return COMMAND_USAGE;
	err = a.fig->run(&run);
	command_progress_end();
	heading = (struct fig_heading){ a.fig,
		                        topology         ? topology
		                        : run.parameters ? "memory tiers"
		                                         : "none",
		                        topology         ? machine.parameters
		                        : run.parameters ? run.parameters
		                                         : "none",
		                        topology ? machine.hash : run.hash,
		                        run.seed,
		                        run.nr_machines };
	if (err)
		err = command_fail(a.fig->name, err);
	else
		err = fig_output(&heading, &table, &a.options);
	free(table.rows);
	return err;
}

static error_t parse_micro(int key, char *arg, struct argp_state *state)
{
	struct fig_options *options = state->input;

	switch (key) {
	case 'j': options->json = true; return 0;
	case KEY_SEED: options->seed = parse_seed(arg, state); return 0;
	case KEY_TOPOLOGY: options->topology = arg; return 0;
	case KEY_PARAMETERS: options->parameters = arg; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int fig_micro_main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "json", 'j', NULL, 0, "Print JSON", 0 },
		{ "seed", KEY_SEED, "N", 0, "Seed of all runs (default: 1)", 0 },
		{ "topology", KEY_TOPOLOGY, "NAME", 0, "The machine (default: 1x2)",
		  0 },
		{ "parameters", KEY_PARAMETERS, "FILE", 0, "Another parameter file",
		  0 },
		{ 0 },
	};
	static const struct argp argp = {
		options,
		parse_micro,
		NULL,
		"Simulate the steps that bench_micro measures on this machine.",
		NULL,
		NULL,
		NULL
	};
	static struct sim_machine set[MACHINE_MAX_SET];
	static struct machine machine;
	struct fig_options o = { .topology = "1x2", .seed = 1 };
	struct fig_run run = { 0 };
	int err;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return COMMAND_USAGE;
	if (fig_prepare(&run, &o, NULL, o.topology, &machine, set) != 0)
		return COMMAND_USAGE;
	err = fig_micro(&run, o.topology, machine.hash, o.json);
	command_progress_end();
	return err ? command_fail("micro", err) : EXIT_SUCCESS;
}
