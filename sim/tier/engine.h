/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One run: the events of a source go through core/kloc with one policy, and charge.h says how
 * long they take. The engine is core/kloc's caller. It keeps which object is which. Between two
 * turns it does what kloc_next() wants, as far as the kernel's threads have time for it. When both
 * tiers are full, it gives frames back.
 */
#ifndef LODIC_SIM_TIER_ENGINE_H
#define LODIC_SIM_TIER_ENGINE_H

#include <stdio.h>

#include "core/kloc/kloc.h"
#include "sim/tier/charge.h"
#include "sim/tier/event.h"

struct engine_options {
	enum kloc_policy_id policy;
	const struct cost *cost;
	u32 scale;
	u64 fast_bytes, slow_bytes; /* 0: the machine's capacity over scale */
	u32 kinds;                  /* bits: kinds in the groups; 0: the policy's */
	u32 prefetch;               /* frames ahead of a sequential reader */
	u64 segment_bytes; /* a knode for each so many bytes of a file; 0: one a file */
	bool trees;        /* keep the paper's trees, and charge for them */
	bool in_slow;      /* nimble, nimble++: kernel objects begin in slow memory */
	bool lazy;         /* kloc: what is closed leaves only in need (KLOCs s.4.1) */
	bool piecemeal; /* kloc: activity promotes what is touched, not the whole group */
	bool one_by_one;  /* no concurrent moves */
	bool memory_only; /* programs have no time of their own */
	bool nodes; /* tiers are nodes; the tasks change theirs when it is measured */
	bool check; /* asserts all invariants of core/kloc at the end; slow */
	u64 seed;   /* of the machine that core/ has its memory from; changes nothing */
	FILE *log;  /* of decisions; NULL: none */
};

/* Of the measured part, except where it says otherwise. */
struct engine_result {
	double ns;
	double bound[CHARGE_NR]; /* ns that each was the busiest */
	u64 events;
	u64 touched[KLOC_NR_KINDS]; /* bytes */
	u64 lines[KLOC_NR_KINDS];   /* of 64 bytes */
	u64 added[KLOC_NR_KINDS], added_bytes[KLOC_NR_KINDS];
	u64 removed[KLOC_NR_KINDS];
	u64 lived_ns[KLOC_NR_KINDS];     /* of those removed, added together */
	u64 slow_touched[KLOC_NR_KINDS]; /* bytes */
	u64 placed_slow[KLOC_NR_KINDS];
	u64 moved[KLOC_NR_KINDS][KLOC_NR_WHATS];
	/* Of frames whose file is open: uses, and frames that were used. A frame counts once more
	 * each time that its file is opened. */
	u64 open_uses, open_frames;
	u64 missed, reclaimed; /* frames read from storage; given back */
	u64 ungrouped;         /* files that core/kloc had no room for */
	u64 failed;            /* objects for which there was no room at all */
	u64 list_hits, list_misses, tree_walks, tree_visits;
	u64 scanned;
	u64 cache_hits, cache_misses;
	u64 live_at_begin[KLOC_NR_KINDS], live_at_end[KLOC_NR_KINDS];
	u64 retained;         /* of the whole run: objects that moved too often */
	u64 used[COST_TIERS]; /* bytes, at the end */
	u64 capacity[COST_TIERS];
	struct kloc_cost cost;
	struct kloc_parameters parameters;
	u64 peak_objects, peak_knodes; /* of the whole run */
};

/* Runs the whole source. Prints what is wrong. 0 or -errno. */
int engine_run(struct tier_source *source, const struct engine_options *options,
               struct engine_result *ret_result);

/* Memory of the simulated machine for a core/kloc of that size, before sim_begin(). false: there
 * is no address space. */
bool engine_memory(u64 nr_objects, u64 nr_knodes);

u64 engine_moved(const struct engine_result *r, enum kloc_what what);
u64 engine_placed_slow(const struct engine_result *r);
/* Bytes of what core/kloc keeps for the groups, at its peak. */
u64 engine_metadata_bytes(const struct engine_result *r);
/* How often a frame that is used is used while its file is open. */
double engine_reuse(const struct engine_result *r);
u64 engine_small_objects(const struct engine_result *r);

#endif
