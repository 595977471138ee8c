/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The four overheads of reference counting that the papers compare schemes by: counting,
 * space, query and time (LODIC s.2.2, Table 1). The paper gives orders of growth; here
 * they are measured on the simulated machine. Every scheme in the table of schemes has a
 * row.
 */
#include <errno.h>
#include <stdio.h>

#include "sim/figures/fig_read.h"

#define BLOCK_COPY_BYTES 64u
#define NR_FEW 4u
/* One CPU of the machine asks. */
#define BLOCKS_TO_FREEZE 16u

enum costs_value {
	COST_ALONE,     /* ns of ref and unref, one CPU */
	COST_TOGETHER,  /* the same, all CPUs on one object: CPU time of an operation */
	COST_TRANSFERS, /* lines moved by one of these */
	COST_OBJECT,    /* bytes */
	COST_FIXED,     /* bytes */
	COST_QUERY_FEW, /* ns, 4 sharers */
	COST_QUERY_MANY, /* ns, all CPUs but one share */
	COST_FREEZE,     /* ns, from the last unref until all are frozen */
	COST_NR
};

static const struct {
	const char *panel, *unit;
	enum fig_kind kind;
} costs[COST_NR] = {
	[COST_ALONE] = { "counting: one CPU", "ns", FIG_PREDICTED },
	[COST_TOGETHER] = { "counting: all CPUs, one block", "ns", FIG_PREDICTED },
	[COST_TRANSFERS] = { "counting: transfers", "transfers", FIG_PREDICTED },
	[COST_OBJECT] = { "space: of one object", "bytes", FIG_ARITHMETIC },
	[COST_FIXED] = { "space: of no object", "bytes", FIG_ARITHMETIC },
	[COST_QUERY_FEW] = { "query: 4 sharers", "ns", FIG_PREDICTED },
	[COST_QUERY_MANY] = { "query: 119 sharers", "ns", FIG_PREDICTED },
	[COST_FREEZE] = { "time: until 16 blocks are frozen", "ns", FIG_PREDICTED },
};

/* ns of CPU time that a ref and unref take, beyond the read around them. */
static int costs_count(const struct sim_machine *machine, u64 seed,
                       const struct count_scheme *scheme, u32 nr_cpus,
                       u32 nr_idle_users, double *ret_ns, double *ret_transfers)
{
	struct fig_read setup = {
		.scheme = scheme,
		.nr_objects = 1,
		.nr_users = nr_cpus,
		.nr_idle_users = nr_idle_users,
		.copy_bytes = BLOCK_COPY_BYTES,
		.warm_ns = 15000, /* operations are short here, and many */
		.window_ns = 30000,
	};
	struct fig_read_result with, without;
	int err = fig_read_run(machine, seed, &setup, &with);

	setup.scheme = &count_null;
	if (!err)
		err = fig_read_run(machine, seed, &setup, &without);
	if (err || with.mops <= 0 || without.mops <= 0)
		return err ? err : -ETIME;
	*ret_ns = 1000.0 * nr_cpus / with.mops - 1000.0 * nr_cpus / without.mops;
	*ret_transfers = with.transfers_per_op - without.transfers_per_op;
	return 0;
}

static int costs_measure(struct fig_run *run, const struct sim_machine *machine,
                         u64 seed, void *arg, double *ret_values)
{
	const struct count_scheme *scheme = arg;
	u32 nr_cpus = machine->nr_sockets * machine->cpus_per_socket;
	double unused;
	int err;

	(void)run;
	/* Idle users make lodic count in ptes, as it does wherever counting matters. */
	err = costs_count(machine, seed, scheme, 1, NR_FEW, &ret_values[COST_ALONE],
	                  &unused);
	if (!err)
		err = costs_count(machine, seed, scheme, nr_cpus, 0,
		                  &ret_values[COST_TOGETHER],
		                  &ret_values[COST_TRANSFERS]);
	if (!err)
		err = fig_memory_of(machine, seed, scheme, &ret_values[COST_OBJECT],
		                    &ret_values[COST_FIXED]);
	ret_values[COST_QUERY_FEW] = ret_values[COST_QUERY_MANY] = 0;
	ret_values[COST_FREEZE] = 0;
	if (err || !scheme->counts)
		return err;
	err = fig_query_of(machine, seed, scheme, NR_FEW, &ret_values[COST_QUERY_FEW]);
	if (!err)
		err = fig_query_of(machine, seed, scheme, nr_cpus - 1,
		                   &ret_values[COST_QUERY_MANY]);
	if (!err)
		err = fig_freeze_of(machine, seed, scheme, nr_cpus - 1,
		                    BLOCKS_TO_FREEZE, &ret_values[COST_FREEZE]);
	return err;
}

static int run_costs(struct fig_run *run)
{
	struct fig_band bands[COST_NR];
	u32 scheme, i;
	int err = 0;

	for (scheme = 0; scheme < count_nr_schemes && !err; scheme++) {
		const struct count_scheme *s = count_schemes[scheme];

		if (s->is_rival)
			continue;
		err = fig_measure(run, costs_measure, (void *)s, COST_NR, bands);
		for (i = 0; i < COST_NR && !err; i++) {
			if (i >= COST_QUERY_FEW && !s->counts)
				continue;
			err = fig_add(run, costs[i].panel, s->name, i, costs[i].unit,
			              costs[i].kind, &bands[i], FIG_NO_PAPER);
		}
	}
	return err;
}

const struct fig fig_costs = {
	.name = "costs",
	.paper = "LODIC Table 1",
	.title = "Counting, space, query and time overhead, measured",
	.x = "which overhead",
	.modelled =
		"ns that a ref and unref add to a read, alone and with 120 CPUs on one "
		"block, and the lines they move; bytes by count_cost(); ns of a query "
		"that finds no user; ns from the last unref until 16 blocks are frozen, "
		"with RefCache's epochs of 10 ms",
	.left_out =
		"collisions: see spectrum and weak. Bytes are of this tree's layout, with "
		"a line for each word that CPUs share",
	.topology = "8x15",
	.simulated = true,
	.few_machines = true,
	.run = run_costs,
};
