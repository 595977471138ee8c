/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* KLOCs Fig. 6: the ratio of bandwidths by how much fast memory there is. Fig. 5c: kinds of objects
 * in the groups, one more at a time. */
#include <stdio.h>

#include "sim/figures/fig_tier.h"

#define GIB ((u64)1 << 30)

/* The average over the workloads, and the lowest and highest of them (the paper's bars). */
static int ratio_of(struct fig_run *run, u64 gib, u32 ratio)
{
	struct fig_band mean[FIG_TIER_NR_SERIES], bands[FIG_TIER_NR_SERIES];
	char panel[FIG_NAME_BYTES];
	u32 w, i;
	int err = 0;

	for (w = 0; w < FIG_TIER_NR_WORKLOADS && !err; w++) {
		struct fig_tier_setup setup = { .workload = fig_tier_workloads[w],
			                        .fast_bytes = gib * GIB,
			                        .ratio = ratio };
		bool no_band = run->options->no_band;
		struct fig_options options = *run->options;
		const struct fig_options *kept = run->options;

		options.no_band = true;
		run->options = &options;
		err = fig_tier_measure(run, &setup, fig_tier_series, FIG_TIER_NR_SERIES,
		                       no_band, bands);
		run->options = kept;
		for (i = 0; i < FIG_TIER_NR_SERIES && !err; i++) {
			double value = bands[i].value;

			if (w == 0)
				mean[i] = (struct fig_band){ 0, value, value };
			mean[i].value += value / FIG_TIER_NR_WORKLOADS;
			if (value < mean[i].low)
				mean[i].low = value;
			if (value > mean[i].high)
				mean[i].high = value;
		}
	}
	snprintf(panel, sizeof(panel), "%u GB of fast memory", (u32)gib);
	for (i = 1; i < FIG_TIER_NR_SERIES && !err; i++)
		err = fig_add(run, panel, fig_tier_series[i].name, ratio,
		              "times all_slow", FIG_CONSEQUENCE, &mean[i],
		              FIG_NO_PAPER);
	return err;
}

static int run_ratio(struct fig_run *run)
{
	static const u32 sizes[] = { 4, 8, 32 }, ratios[] = { 2, 4, 8 };
	u32 i, j;
	int err = 0;

	for (i = 0; i < 3 && !err; i++)
		for (j = 0; j < 3 && !err; j++)
			err = ratio_of(run, sizes[i], ratios[j]);
	return err;
}

/* In the paper's order (KLOCs s.7.3). What is not in the groups is always fast. */
static int run_kinds(struct fig_run *run)
{
	static const struct {
		const char *name;
		u32 bits;
	} steps[] = { { "none",
		        KLOC_BIT(KLOC_APP) }, /* never in a group; 0 means all */
		      { "+ page cache", KLOC_BIT(KLOC_FRAME) },
		      { "+ journal", KLOC_BIT(KLOC_JOURNAL) },
		      { "+ slab", KLOC_BIT(KLOC_SLAB) | KLOC_BIT(KLOC_TABLE) },
		      { "+ socket buffers", KLOC_BIT(KLOC_SOCKET) },
		      { "+ block I/O", KLOC_BIT(KLOC_BLOCK_IO) } };
	const struct fig_tier_series series[] = { *fig_tier_named("all_slow"),
		                                  *fig_tier_named("kloc, in need") };
	u32 w, i;
	int err = 0;

	for (w = 0; w < FIG_TIER_NR_WORKLOADS && !err; w++) {
		u32 kinds = 0;

		for (i = 0; i < sizeof(steps) / sizeof(*steps) && !err; i++) {
			struct fig_tier_setup setup = {
				.workload = fig_tier_workloads[w],
				.kinds = kinds |= steps[i].bits,
			};
			struct fig_band bands[2];

			err = fig_tier_measure(run, &setup, series, 2, true, bands);
			if (!err)
				err = fig_add(run, setup.workload, steps[i].name, 0,
				              "times all_slow", FIG_CONSEQUENCE,
				              &bands[1], FIG_NO_PAPER);
		}
	}
	return err;
}

const struct fig fig_tier_ratio = {
	.name = "tier-ratio",
	.paper = "KLOCs Fig. 6",
	.title = "Two tiers of memory: fast over slow bandwidth, by how much is fast",
	.x = "fast over slow bandwidth",
	.modelled =
		"the average over the five workloads; the band is the lowest and the "
		"highest of them, as the paper's bars are",
	.left_out = "other parameters and seeds: tier-policies has their bands",
	.simulated = true,
	.run = run_ratio,
};
const struct fig fig_tier_kinds = {
	.name = "tier-kinds",
	.paper = "KLOCs Fig. 5c",
	.title = "Kinds of objects in the groups, one more at a time",
	.x = "kinds in the groups",
	.modelled =
		"kloc that moves in need; kinds that are not in the groups are placed fast "
		"while that has room",
	.left_out = "other parameters: tier-policies has their bands",
	.simulated = true,
	.run = run_kinds,
};
