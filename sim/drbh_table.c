/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic-sim table`: every number that the LODIC paper's text gives for reads of one hot
 * block, and what it says without numbers, beside the model's. Two rows are fitted and
 * prove nothing. The model gives the others on its own, good or bad.
 *
 * The paper does not say on which CPUs the threads of one process ran. So Table 3 has
 * two rows each: side by side, and spread over the sockets.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/command.h"
#include "sim/drbh.h"
#include "sim/drbh_main.h"

#define NO_PAPER (-1.0)

enum { KEY_TOPOLOGY = 256, KEY_PARAMETERS, KEY_SEED };

/* The value of a row is scheme's throughput, or its ratio to a second setup's. */
struct row {
	const char *what;
	const char *source;
	bool fitted;
	double paper;     /* or NO_PAPER */
	const char *says; /* what the paper says instead of a number */
	const char *scheme;
	u32 cpus, threads;
	bool scatter;
	/* The ratio's other side; its scheme is NULL where there is none. inverted: of
	 * times, not of throughputs. */
	const char *to_scheme;
	u32 to_cpus;
	bool to_unmapped, inverted;
};

static const struct row rows[] = {
	{ "vanilla, 120 CPUs, Mops/s", "LODIC s.5.2.3", true, PAPER_VANILLA, NULL,
	  "atomic", 120, 1, false, NULL, 0, false, false },
	{ "RefCache, 120 CPUs, Mops/s", "LODIC s.5.2.1", true, PAPER_REFCACHE, NULL,
	  "refcache", 120, 1, false, NULL, 0, false, false },
	{ "LODIC, 120 CPUs, Mops/s", "LODIC Table 3", false, PAPER_LODIC, NULL, "lodic",
	  120, 1, false, NULL, 0, false, false },
	{ "LODIC to vanilla, 120 CPUs", "LODIC s.5.2.3", true, PAPER_LODIC_TIMES, NULL,
	  "lodic", 120, 1, false, "atomic", 120, false, false },
	{ "2 threads a process, side by side", "LODIC Table 3", false, 58.87, NULL,
	  "lodic", 120, 2, false, NULL, 0, false, false },
	{ "2 threads a process, spread", "LODIC Table 3", false, 58.87, NULL, "lodic",
	  120, 2, true, NULL, 0, false, false },
	{ "4 threads a process, side by side", "LODIC Table 3", false, 32.54, NULL,
	  "lodic", 120, 4, false, NULL, 0, false, false },
	{ "4 threads a process, spread", "LODIC Table 3", false, 32.54, NULL, "lodic",
	  120, 4, true, NULL, 0, false, false },
	{ "8 threads a process, side by side", "LODIC Table 3", false, 19.61, NULL,
	  "lodic", 120, 8, false, NULL, 0, false, false },
	{ "8 threads a process, spread", "LODIC Table 3", false, 19.61, NULL, "lodic",
	  120, 8, true, NULL, 0, false, false },
	{ "16 threads a process, side by side", "LODIC Table 3", false, 8.79, NULL,
	  "lodic", 120, 16, false, NULL, 0, false, false },
	{ "16 threads a process, spread", "LODIC Table 3", false, 8.79, NULL, "lodic",
	  120, 16, true, NULL, 0, false, false },
	{ "mapped to unmapped, time of a read", "LODIC Fig. 13", false, 1.20, NULL,
	  "lodic", 1, 1, false, "lodic", 1, true, true },
	{ "LODIC, 120 CPUs to 1", "LODIC s.5.2.3", false, NO_PAPER, "scales linearly",
	  "lodic", 120, 1, false, "lodic", 1, false, false },
	{ "file space, 120 CPUs to 1", "LODIC s.5.2.3", false, NO_PAPER,
	  "fails to scale", "lodic_file", 120, 1, false, "lodic_file", 1, false,
	  false },
	{ "no counter, 120 CPUs to LODIC", "LODIC s.5.1", false, NO_PAPER,
	  "nearly as good", "null", 120, 1, false, "lodic", 120, false, false },
	{ "PAYGO to RefCache, 96 CPUs", "PAYGO s.6.2", false, NO_PAPER,
	  "slightly lower", "paygo", 96, 1, false, "refcache", 96, false, false },
	{ "SNZI to vanilla, 96 CPUs", "PAYGO s.6.2", false, NO_PAPER, "slight gain",
	  "snzi", 96, 1, false, "atomic", 96, false, false },
};
#define NR_ROWS (sizeof(rows) / sizeof(*rows))

struct table {
	struct machine machine;
	struct sim_machine set[MACHINE_MAX_SET];
	u32 nr_machines;
	u64 seed;
};

struct value {
	double value, low, high;
};

static double ratio_of(const struct row *row, double a, double b)
{
	return row->inverted ? b / a : a / b;
}

static int row_run(const struct table *t, const struct row *row, u32 machine,
                   double *ret_value)
{
	struct drbh setup = {
		.scheme = count_scheme_find(row->scheme),
		.nr_cpus = row->cpus,
		.threads_per_process = row->threads,
		.scatter = row->scatter,
	};
	struct sim_result result, to;
	int err = drbh_run(&t->set[machine], t->seed + machine, &setup, &result);

	if (err || !row->to_scheme) {
		*ret_value = result.mops;
		return err;
	}
	setup.scheme = count_scheme_find(row->to_scheme);
	setup.nr_cpus = row->to_cpus;
	setup.unmapped = row->to_unmapped;
	err = drbh_run(&t->set[machine], t->seed + machine, &setup, &to);
	if (!err)
		*ret_value = ratio_of(row, result.mops, to.mops);
	return err;
}

static int row_measure(const struct table *t, const struct row *row,
                       struct value *ret_value)
{
	u32 i;
	int err;

	for (i = 0; i < t->nr_machines; i++) {
		double v;

		err = row_run(t, row, i, &v);
		if (err)
			return err;
		if (i == 0)
			*ret_value = (struct value){ v, v, v };
		if (v < ret_value->low)
			ret_value->low = v;
		if (v > ret_value->high)
			ret_value->high = v;
	}
	return 0;
}

static void row_print(const struct row *row, const struct value *v)
{
	char paper[32], off[32] = "";

	snprintf(paper, sizeof(paper), "%s", row->says ? row->says : "");
	if (row->paper >= 0) {
		snprintf(paper, sizeof(paper), "%.2f", row->paper);
		snprintf(off, sizeof(off), "%+.0f %%",
		         (v->value / row->paper - 1) * 100);
	}
	printf("%-36s %-17s %15s %9.2f %9.2f %9.2f %8s%s\n", row->what, row->source,
	       paper, v->value, v->low, v->high, off,
	       row->paper >= 0 && row->paper >= v->low && row->paper <= v->high
	               ? "  in band"
	               : "");
}

static int table_rows(const struct table *t, bool fitted)
{
	size_t i;
	int err;

	printf("%s\n%-36s %-17s %15s %9s %9s %9s\n",
	       fitted ? "Fitted: a parameter was chosen so that these come out"
	              : "Predicted: no parameter was chosen by looking at these",
	       "", "source", "paper", "model", "low", "high");
	for (i = 0; i < NR_ROWS; i++) {
		struct value v = { 0, 0, 0 };

		if (rows[i].fitted != fitted)
			continue;
		if (!count_scheme_find(rows[i].scheme)) {
			printf("%-36s no scheme '%s' in this build\n", rows[i].what,
			       rows[i].scheme);
			continue;
		}
		err = row_measure(t, &rows[i], &v);
		if (err)
			return err;
		row_print(&rows[i], &v);
		fflush(stdout);
	}
	return 0;
}

struct table_options {
	const char *topology, *parameters;
	u64 seed;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct table_options *o = state->input;

	switch (key) {
	case KEY_TOPOLOGY: o->topology = arg; return 0;
	case KEY_PARAMETERS: o->parameters = arg; return 0;
	case KEY_SEED:
		o->seed = command_number(arg, "a seed", 0, UINT64_MAX, state);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is more than table takes", arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "topology", KEY_TOPOLOGY, "NAME|FILE", 0,
	  "Another machine than the paper's 8x15, of 120 CPUs or more", 0 },
	{ "parameters", KEY_PARAMETERS, "NAME|FILE", 0,
	  "What things cost (default: the topology's)", 0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of all runs (default: 1)", 0 },
	{ 0 },
};

int table_main(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		NULL,
		"The LODIC paper's numbers for one hot block, beside "
		"the model's.",
		NULL,
		NULL,
		NULL
	};
	static struct table t;
	struct table_options o = { .topology = "8x15", .seed = 1 };
	int err;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return COMMAND_USAGE;
	if (machine_read(o.topology, o.parameters, &t.machine) != 0)
		return COMMAND_USAGE;
	if (machine_nr_cpus(&t.machine) < PAPER_CPUS) {
		fprintf(stderr,
		        "lodic-sim: the paper's machine has 120 CPUs, %s fewer\n",
		        t.machine.timing.name);
		return COMMAND_USAGE;
	}
	t.seed = o.seed;
	t.nr_machines = machine_set(&t.machine, t.set);
	printf("simulated: topology %s, parameters %s %s, seed %llu, bands over %u "
	       "machines\n\n",
	       t.machine.timing.name, t.machine.parameters, t.machine.hash,
	       (unsigned long long)t.seed, t.nr_machines);
	err = table_rows(&t, true);
	printf("\n");
	if (!err)
		err = table_rows(&t, false);
	return err ? command_fail("table", err) : EXIT_SUCCESS;
}
