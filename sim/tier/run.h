/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One run from names: for the command and for the figures. */
#ifndef LODIC_SIM_TIER_RUN_H
#define LODIC_SIM_TIER_RUN_H

#include "sim/tier/cost.h"
#include "sim/tier/engine.h"

#define RUN_SCALE 64u /* a run takes seconds, and files still have several frames */
#define RUN_MAX_POLICIES 16u
#define RUN_NAME_BYTES 32u

struct run {
	const char *workload; /* or a trace */
	const char *trace, *format, *record;
	u64 seed;
	u32 reuse; /* of a frame while its file is open, in controls; 0: their own */
	struct engine_options
		options; /* cost, scale and more; the policy is set by run_policy() */
};

/* Do this machine's tiers belong to sockets? Then tasks move, and other policies make sense. */
bool run_has_nodes(const struct cost *cost);

/* Policies as users write and read them: "all_slow", "nimble++", "kloc". On a machine with
 * nodes, "all_local" and "all_remote". KLOC_NR_POLICIES: there is none. */
enum kloc_policy_id run_policy_named(const char *name, bool nodes);
const char *run_policy_name(enum kloc_policy_id policy, bool nodes,
                            char ret_name[RUN_NAME_BYTES]);

/* The policies that a table shows. Returns how many. */
u32 run_policies(bool nodes, enum kloc_policy_id *ret_policies);
/* The one that throughput is relative to: all_slow, or all_remote. */
enum kloc_policy_id run_yardstick(bool nodes);

/* Prints what is wrong. 0 or -errno. */
int run_policy(const struct run *run, enum kloc_policy_id policy,
               struct engine_result *ret_result);

#endif
