/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the figures of the KLOC paper share: runs of the tier simulator by name, and bands. A band
 * is over seeds, and over the parameters that nothing pins down. For speed the paper's
 * sizes are divided by FIG_TIER_SCALE.
 */
#ifndef LODIC_SIM_FIGURES_FIG_TIER_H
#define LODIC_SIM_FIGURES_FIG_TIER_H

#include "sim/figures/fig.h"
#include "sim/tier/run.h"

#define FIG_TIER_SCALE 256u
#define FIG_TIER_QUICK_SCALE 2048u
#define FIG_TIER_MAX_VARIANTS 32u
#define FIG_TIER_NR_WORKLOADS 5u

/* The workloads of the paper's Table 3. */
extern const char *const fig_tier_workloads[FIG_TIER_NR_WORKLOADS];

/* A policy, or another reading of one. */
struct fig_tier_series {
	const char *name;
	enum kloc_policy_id policy;
	bool lazy, piecemeal, in_slow;
};

/* Those that figures compare, with the yardstick first. */
#define FIG_TIER_NR_SERIES 10u
extern const struct fig_tier_series fig_tier_series[FIG_TIER_NR_SERIES];
const struct fig_tier_series *fig_tier_named(const char *name);

struct fig_tier_setup {
	const char *workload;
	const char *machine; /* NULL: tier-two */
	u64 fast_bytes;      /* of the paper's machine; 0: as the file has it */
	u32 ratio;           /* 0: as the file has it */
	u32 interference;    /* percent; 0: as the file has it */
	u32 kinds;           /* 0: the policy's */
	u32 prefetch;
	u32 reuse; /* of a frame while its file is open; 0: the control's own */
	u32 scale; /* 0: FIG_TIER_SCALE */
	bool trees;
};

/* One run with the parameters as they are. 0 or -errno. */
int fig_tier_run(struct fig_run *run, const struct fig_tier_setup *setup,
                 const struct fig_tier_series *series,
                 struct engine_result *ret_result);

/* Throughput of each series, relative to the first of them, with its band. ret_bands[0] is 1.
 * few: only other seeds, no other parameters. */
int fig_tier_measure(struct fig_run *run, const struct fig_tier_setup *setup,
                     const struct fig_tier_series *series, u32 nr, bool few,
                     struct fig_band *ret_bands);

#endif
