/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The calls that Linux made of core/kloc's decisions, once more. A kernel with KLOC records what
 * came in and what it decided (sim/tier/kernel_trace.h). Here core/kloc/life.h gets the same calls,
 * for each knode, and must give the same decisions.
 *
 * It compares what happens to a file: its states, and when its pages begin to move, and why. It
 * does not compare which page moves when. core/kloc has lists of objects for that, and Linux walks
 * the page cache.
 */
#ifndef LODIC_SIM_TIER_KERNEL_REPLAY_H
#define LODIC_SIM_TIER_KERNEL_REPLAY_H

#include "host/host.h"

struct kernel_result {
	char policy[32];             /* the last one */
	u64 nr_inputs, nr_decisions; /* made again, and compared */
	u64 nr_knodes;               /* followed */
	u64 nr_left_out; /* lines before the first rules, and of knodes from then */
};

/* 0: each decision is the recorded one, and none is missing. -EINVAL: it is not, or the file is no
 * such record; it has said which line. Or the error of opening it. */
int kernel_replay(const char *path, struct kernel_result *ret_result);

#endif
