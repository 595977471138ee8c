/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* KLOCs Fig. 4: policies by workload. The same for the controls. Fig. 5a: between sockets. */
#include "sim/figures/fig_tier.h"
#include "sim/tier/work.h"

#define MIKU_PERCENT 81u /* sim/parameters/tier-two: the band's end */
#define MODELLED \
	"generators with the shape of the paper's workloads, all sizes divided by 256; " \
	"core/kloc decides, and a model of bandwidth, latency and their interference says " \
	"how long it takes"
#define LEFT_OUT \
	"the programs themselves; a CPU's caches, but for a share of misses; device traffic; " \
	"write-back that waits for the disk"

static int policies_of(struct fig_run *run, const char *workload, const char *panel,
                       u32 interference)
{
	struct fig_tier_setup setup = { .workload = workload,
		                        .interference = interference };
	struct fig_band bands[FIG_TIER_NR_SERIES];
	int err = fig_tier_measure(run, &setup, fig_tier_series, FIG_TIER_NR_SERIES,
	                           false, bands);
	u32 i;

	for (i = 1; i < FIG_TIER_NR_SERIES && !err; i++)
		err = fig_add(run, panel, fig_tier_series[i].name, 0, "times all_slow",
		              FIG_CONSEQUENCE, &bands[i], FIG_NO_PAPER);
	return err;
}

static int run_by_workload(struct fig_run *run)
{
	int err = 0;
	u32 i;

	for (i = 0; i < FIG_TIER_NR_WORKLOADS && !err; i++)
		err = policies_of(run, fig_tier_workloads[i], fig_tier_workloads[i], 0);
	return err;
}

static int run_controls(struct fig_run *run)
{
	int err = 0;
	u32 i;

	for (i = 0; i < work_nr_kinds && !err; i++)
		if (work_kinds[i]->is_control)
			err = policies_of(run, work_kinds[i]->name, work_kinds[i]->name,
			                  0);
	/* What the slow tier does takes most of the fast one. */
	if (!err)
		err = policies_of(run, "phases", "phases, interference", MIKU_PERCENT);
	return err;
}

/* Tasks leave a socket where another program streams; their memory follows, or not. */
static int run_nodes(struct fig_run *run)
{
	static const struct fig_tier_series series[] = {
		{ "all_remote", KLOC_POLICY_ALL_FAST, false, false, false },
		{ "nimble", KLOC_POLICY_NIMBLE, false, false, false },
		{ "autonuma", KLOC_POLICY_AUTONUMA, false, false, false },
		{ "kloc_numa", KLOC_POLICY_KLOC_NUMA, false, false, false },
		{ "all_local", KLOC_POLICY_ALL_SLOW, false, false, false },
	};
	const u32 nr = sizeof(series) / sizeof(*series);
	struct fig_band bands[sizeof(series) / sizeof(*series)];
	int err = 0;
	u32 w, i;

	for (w = 0; w < FIG_TIER_NR_WORKLOADS && !err; w++) {
		struct fig_tier_setup setup = { .workload = fig_tier_workloads[w],
			                        .machine = "tier-optane" };

		err = fig_tier_measure(run, &setup, series, nr, true, bands);
		for (i = 1; i < nr && !err; i++)
			err = fig_add(run, setup.workload, series[i].name, 0,
			              "times all_remote", FIG_CONSEQUENCE, &bands[i],
			              FIG_NO_PAPER);
	}
	return err;
}

const struct fig fig_tier_policies = {
	.name = "tier-policies",
	.paper = "KLOCs Fig. 4",
	.title = "Two tiers of memory: policies by workload",
	.x = "policy",
	.modelled = MODELLED,
	.left_out = LEFT_OUT,
	.simulated = true,
	.run = run_by_workload,
};
const struct fig fig_tier_controls = {
	.name = "tier-controls",
	.paper = "none: controls",
	.title = "Where grouping by file should gain, and where it should not",
	.x = "policy",
	.modelled = MODELLED,
	.left_out = LEFT_OUT,
	.simulated = true,
	.run = run_controls,
};
const struct fig fig_tier_nodes = {
	.name = "tier-nodes",
	.paper = "KLOCs Fig. 5a",
	.title =
		"Two sockets, a cache of DRAM in front of each: tasks are pushed to the other one",
	.x = "policy",
	.modelled = MODELLED
	"; each socket's DRAM is a cache in pages, and another program "
	"streams through the first socket's",
	.left_out = LEFT_OUT,
	.simulated = true,
	.run = run_nodes,
};
