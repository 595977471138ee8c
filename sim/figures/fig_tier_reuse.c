/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How often must a frame be used while its file is open, so that moving whole groups pays? The
 * KLOC paper does not say how often its workloads do that, and all depends on it.
 */
#include <stdio.h>

#include "sim/figures/fig_tier.h"

static int reuse_of(struct fig_run *run, const char *panel, u32 ratio, u32 reuse)
{
	struct fig_tier_setup setup = { .workload = "phases",
		                        .ratio = ratio,
		                        .reuse = reuse };
	struct fig_band bands[FIG_TIER_NR_SERIES];
	int err = fig_tier_measure(run, &setup, fig_tier_series, FIG_TIER_NR_SERIES,
	                           true, bands);
	u32 i;

	for (i = 1; i < FIG_TIER_NR_SERIES && !err; i++)
		err = fig_add(run, panel, fig_tier_series[i].name, reuse,
		              "times all_slow", FIG_CONSEQUENCE, &bands[i],
		              FIG_NO_PAPER);
	return err;
}

/* Where the workloads are on that axis. */
static int reuse_is(struct fig_run *run, const char *workload)
{
	static struct engine_result result;
	struct fig_tier_setup setup = { .workload = workload };
	int err = fig_tier_run(run, &setup, fig_tier_named("all_slow"), &result);

	return err ? err
	           : fig_add_value(run, "the workloads", workload, 0, "uses",
	                           FIG_CONSEQUENCE, engine_reuse(&result),
	                           FIG_NO_PAPER);
}

static int run_reuse(struct fig_run *run)
{
	static const u32 ratios[] = { 2, 4, 8 };
	char panel[FIG_NAME_BYTES];
	u32 i, reuse;
	int err = 0;

	for (i = 0; i < sizeof(ratios) / sizeof(*ratios) && !err; i++) {
		snprintf(panel, sizeof(panel), "slow memory 1:%u", ratios[i]);
		for (reuse = 1; reuse <= 64 && !err; reuse *= 2)
			err = reuse_of(run, panel, ratios[i], reuse);
	}
	for (i = 0; i < FIG_TIER_NR_WORKLOADS && !err; i++)
		err = reuse_is(run, fig_tier_workloads[i]);
	return err;
}

const struct fig fig_tier_reuse = {
	.name = "tier-reuse",
	.paper = "none: a sweep",
	.title = "How often a frame is used while its file is open",
	.x = "reads of a frame while its file is open",
	.modelled =
		"the control `phases`: files are opened, read so often all over, and closed "
		"for long; twice as many bytes as fast memory has",
	.left_out = "other parameters than the ratio of bandwidths; writes",
	.simulated = true,
	.run = run_reuse,
};
