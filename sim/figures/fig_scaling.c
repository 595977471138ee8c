/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * All CPUs read one block (FxMark's DRBH), on more and more CPUs, by every scheme of
 * this tree. It is LODIC's last step (LODIC s.5.2.3, Fig. 14) and PAYGO's first (PAYGO
 * s.6, Fig. 7).
 */
#include <stdio.h>
#include <string.h>

#include "sim/figures/fig_read.h"

#define BLOCK_COPY_BYTES 4096u
/* FxMark's file is the fifth range of its process (LODIC s.4.4.2, Table 2). */
#define MAPS_ABOVE 4u
/* So that the block has a few sharers also where few CPUs read. */
#define IDLE_SHARERS 4u
/* Two parameters were fitted on so many CPUs: sim/drbh_fit.c. */
#define FITTED_CPUS 120u
/* Of a scheme: operations, ratio to atomic, transfers, and the time of counting. After all
 * schemes comes how much longer lodic counts than refcache. */
#define VALUES_EACH 4u
/* Per CPU: 120 / 164.16 less 120 / 186 us (LODIC Table 3, LODIC s.5.2.1). */
#define LODIC_LESS_REFCACHE_NS (1000 * (120 / 164.16 - 120 / 186.0))

/* Numbers that the papers' texts give for one block read by all CPUs. */
static const struct {
	const char *scheme;
	u32 nr_cpus;
	enum fig_kind kind;
	double mops, ratio;
} scaling_known[] = {
	/* 164.16 in Table 3 is 65 times atomic. */
	{ "lodic", 120, FIG_PREDICTED, 164.16, 65 },
	{ "atomic", 120, FIG_FITTED, 164.16 / 65, FIG_NO_PAPER },
	{ "refcache", 120, FIG_FITTED, 186, 186 / (164.16 / 65) },
};

struct scaling_point {
	u32 nr_cpus;
	bool lodic_machine; /* LODIC's figure and not PAYGO's, which has the rivals, too */
};

static u32 scaling_nr_schemes(void)
{
	u32 most = (FIG_MAX_VALUES - 1) / VALUES_EACH;

	return count_nr_schemes < most ? count_nr_schemes : most;
}

/* A CPU's time for one read, from the rate of all of them. 0: there is no such scheme. */
static double scaling_read_ns(const double *values, u32 nr_cpus, const char *scheme)
{
	u32 i;

	for (i = 0; i < scaling_nr_schemes(); i++)
		if (strcmp(count_schemes[i]->name, scheme) == 0 &&
		    values[i * VALUES_EACH] > 0)
			return 1000 * nr_cpus / values[i * VALUES_EACH];
	return 0;
}

static bool scaling_has(const struct scaling_point *point, u32 scheme)
{
	return !point->lodic_machine || !count_schemes[scheme]->is_rival;
}

static int scaling_measure(struct fig_run *run, const struct sim_machine *machine,
                           u64 seed, void *arg, double *ret_values)
{
	const struct scaling_point *point = arg;
	double atomic = 0;
	double *v;
	u32 i;
	int err;

	(void)run;
	for (i = 0; i < scaling_nr_schemes(); i++) {
		struct fig_read setup = {
			.scheme = count_schemes[i],
			.nr_objects = 1,
			.nr_users = point->nr_cpus,
			.nr_idle_users = IDLE_SHARERS,
			.copy_bytes = BLOCK_COPY_BYTES,
			.nr_maps_above = MAPS_ABOVE,
		};
		struct fig_read_result result = { 0 };

		err = scaling_has(point, i)
		              ? fig_read_run(machine, seed, &setup, &result)
		              : 0;
		if (err)
			return err;
		v = &ret_values[i * VALUES_EACH];
		v[0] = result.mops;
		v[2] = result.transfers_per_op;
		if (count_schemes[i] == &count_atomic)
			atomic = result.mops;
	}
	for (i = 0; i < scaling_nr_schemes(); i++) {
		v = &ret_values[i * VALUES_EACH];
		v[1] = atomic > 0 ? v[0] / atomic : 0;
		v[3] = scaling_read_ns(ret_values, point->nr_cpus,
		                       count_schemes[i]->name) -
		       scaling_read_ns(ret_values, point->nr_cpus, "null");
	}
	ret_values[scaling_nr_schemes() * VALUES_EACH] =
		scaling_read_ns(ret_values, point->nr_cpus, "lodic") -
		scaling_read_ns(ret_values, point->nr_cpus, "refcache");
	return 0;
}

static int scaling_add(struct fig_run *run, const struct scaling_point *point,
                       u32 scheme, const struct fig_band *bands)
{
	bool lodic_machine = point->lodic_machine;
	u32 nr_cpus = point->nr_cpus;
	const char *name = count_schemes[scheme]->name;
	double mops = FIG_NO_PAPER, ratio = FIG_NO_PAPER;
	enum fig_kind kind = FIG_PREDICTED, ratio_kind = FIG_PREDICTED;
	size_t i;
	int err;

	for (i = 0; i < sizeof(scaling_known) / sizeof(*scaling_known); i++) {
		if (!lodic_machine || scaling_known[i].nr_cpus != nr_cpus ||
		    strcmp(scaling_known[i].scheme, name) != 0)
			continue;
		mops = scaling_known[i].mops;
		ratio = scaling_known[i].ratio;
		kind = scaling_known[i].kind;
	}
	/* atomic's throughput was fitted there, and every ratio is over it. */
	if (lodic_machine && nr_cpus == FITTED_CPUS)
		ratio_kind = FIG_FITTED;
	err = fig_add(run, "one block, all CPUs", name, nr_cpus, "Mops/s", kind, bands,
	              mops);
	if (!err)
		err = fig_add(run, "ratio to atomic", name, nr_cpus, "ratio",
		              ratio_kind, bands + 1, ratio);
	if (!err)
		err = fig_add(run, "line transfers of an operation", name, nr_cpus,
		              "transfers", FIG_PREDICTED, bands + 2, FIG_NO_PAPER);
	if (!err)
		err = fig_add(run, "counting, of one operation", name, nr_cpus, "ns",
		              kind, bands + 3, FIG_NO_PAPER);
	return err;
}

static int run_scaling_over(struct fig_run *run, const u32 *cpus, size_t nr_points,
                            bool lodic_machine)
{
	struct fig_band bands[FIG_MAX_VALUES];
	size_t i;
	u32 scheme;
	int err = 0;

	for (i = 0; i < nr_points && !err; i++) {
		struct scaling_point point = { cpus[i], lodic_machine };

		err = fig_measure(run, scaling_measure, &point,
		                  scaling_nr_schemes() * VALUES_EACH + 1, bands);
		for (scheme = 0; scheme < scaling_nr_schemes() && !err; scheme++)
			if (scaling_has(&point, scheme))
				err = scaling_add(run, &point, scheme,
				                  bands + scheme * VALUES_EACH);
		/* refcache's rate was fitted there, and lodic's has a row of its own. */
		if (!err && lodic_machine && cpus[i] == FITTED_CPUS)
			err = fig_add(run, "lodic's counting less refcache's",
			              "lodic less refcache", cpus[i], "ns", FIG_FITTED,
			              bands + scaling_nr_schemes() * VALUES_EACH,
			              LODIC_LESS_REFCACHE_NS);
	}
	return err;
}

static int run_scaling(struct fig_run *run)
{
	static const u32 cpus[] = { 1, 4, 15, 30, 60, 120 };
	static const u32 few[] = { 1, 120 };

	return run->options->quick ? run_scaling_over(run, few, 2, true)
	                           : run_scaling_over(run, cpus, 6, true);
}

static int run_scaling_paygo(struct fig_run *run)
{
	static const u32 cpus[] = { 1, 4, 12, 24, 48, 96 };
	static const u32 few[] = { 1, 96 };

	return run->options->quick ? run_scaling_over(run, few, 2, false)
	                           : run_scaling_over(run, cpus, 6, false);
}

const struct fig fig_scaling = {
	.name = "scaling",
	.paper = "LODIC Fig. 14",
	.title = "All CPUs read one 4 KiB block",
	.x = "CPUs, a process of one thread on each",
	.modelled =
		"lookup, reference, copy and return, by the schemes' own source; lines "
		"that move between 8 sockets of 15 CPUs. Fitted: the work of a read that "
		"is not counting (to RefCache's 186), how often a line stays in its socket (to "
		"atomic's 164.16 / 65). Transfers count those of RefCache's ticks too. "
		"Counting is the time of a read on its CPU, less one with null",
	.left_out =
		"the file systems of Fig. 14 (a) to (d); system calls beyond a fixed "
		"amount of work; the base of 65 is taken to be Table 3's first column",
	.topology = "8x15",
	.simulated = true,
	.run = run_scaling,
};

const struct fig fig_scaling_paygo = {
	.name = "scaling-paygo",
	.paper = "PAYGO Fig. 7",
	.title = "All CPUs read one 4 KiB block, on PAYGO's machine",
	.x = "CPUs, a process of one thread on each",
	.modelled =
		"as LODIC Fig. 14, on 4 sockets of 24 CPUs, with nothing fitted to it. "
		"refcache_sv6 and snzi_sv6 are the papers' own versions, refcache and snzi "
		"this tree's",
	.left_out =
		"the file systems; that machine's own latencies: it has those of the "
		"other one. The text gives no number, only order: PAYGO slightly below "
		"RefCache, SNZI slightly above vanilla",
	.topology = "4x24",
	.simulated = true,
	.run = run_scaling_paygo,
};
