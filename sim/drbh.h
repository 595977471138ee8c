/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * FxMark's DRBH on the simulated machine: every CPU reads the same 4 KiB of the same
 * file, over and over. The papers' first and last figures use this workload. Only the
 * reference counter is left in it that could fail to scale (LODIC s.5.2.3, Fig. 14).
 */
#ifndef LODIC_SIM_DRBH_H
#define LODIC_SIM_DRBH_H

#include "core/count/count.h"
#include "sim/machine.h"

struct drbh {
	const struct count_scheme *scheme;
	u32 nr_cpus; /* a thread on each, sockets filled one after another */
	u32 threads_per_process; /* the last process may have fewer */
	bool scatter; /* a process's threads are spread over all; otherwise neighbours */
	bool unmapped;      /* no process shares the block: lodic counts globally */
	bool no_space_lock; /* sim/kernel.h */
};

/* One run in a new world. 0. -errno as the scheme returned it. */
int drbh_run(const struct sim_machine *machine, u64 seed, const struct drbh *setup,
             struct sim_result *ret_result);

/* A result on the machine as it is, and the lowest and highest of its sensitivity set. */
struct drbh_point {
	struct drbh setup;
	struct sim_result result;
	double low, high;
};

/* nr machines of machine_set(), the first as it is; nr 1: no band. Fills point but for
 * setup. 0 or -errno. */
int drbh_measure(const struct sim_machine *set, u32 nr, u64 seed,
                 struct drbh_point *point);

/* Does c count as Linux does, in the frame itself? Its cost must be one line an object
 * and nothing else, and it must have no ptes. Its state is then those lines, and the
 * frame's flags lie on them. */
bool drbh_counts_in_frame(const struct count *c);

/* Line transfers of one operation. */
double drbh_transfers_per_op(const struct sim_result *result);

#endif
