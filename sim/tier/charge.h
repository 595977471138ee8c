/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What time memory takes. Each turn of the simulation lasts as long as the busiest of these: the
 * CPUs, each tier, the link between sockets, the storage. A touch costs its CPU a latency for
 * each line that is not in the CPU's caches, `overlap' of them at a time. It costs its tier the
 * bytes over the bandwidth. The slow tier's busy time takes a share of the fast one's. A tier
 * may have a cache in front, direct-mapped in pages.
 *
 * Program time: the paper gives the share of time that a workload spends in the kernel. A step
 * of the kernel, in fast memory without contention, owes the program the rest of that share; the
 * program's own touches pay it off.
 */
#ifndef LODIC_SIM_TIER_CHARGE_H
#define LODIC_SIM_TIER_CHARGE_H

#include "core/kloc/kloc.h"
#include "sim/tier/cost.h"

enum charge_by {
	CHARGE_CPU,
	CHARGE_FAST,
	CHARGE_SLOW,
	CHARGE_LINK,
	CHARGE_STORAGE,
	CHARGE_NR
};

struct charge_cache {
	u32 *tags;    /* object and 1, by set; NULL: no cache */
	double *when; /* last use of the set, for what streams past */
	u32 nr_sets;
};

struct charge {
	const struct cost_machine *machine;
	u32 scale, threads, os_percent;
	u32 node_cpus;           /* CPUs of one node; 0: all CPUs are in one */
	double busy[CHARGE_NR];  /* ns, in this turn; of the CPUs: of one of them */
	double owed;             /* ns of program time */
	double now;              /* ns, of all turns before */
	double bound[CHARGE_NR]; /* ns that each was the busiest */
	struct charge_cache caches[COST_TIERS];
	u64 cache_hits, cache_misses; /* pages */
};

/* 0 or -ENOMEM. */
int charge_begin(struct charge *c, const struct cost_machine *machine, u32 scale,
                 u32 threads, u32 os_percent, u32 node_cpus);
void charge_end(struct charge *c);

/* bytes of an object in tier are read or written by cpu. */
void charge_touch(struct charge *c, u32 cpu, u32 tier, u32 object, u32 kind, u32 bytes,
                  bool write);
/* ns of kernel work, or of a program's (then it pays off what is owed). */
void charge_kernel(struct charge *c, double ns);
void charge_compute(struct charge *c, double ns);
void charge_storage(struct charge *c, u32 bytes);
/* A copy of an object by the kernel's own threads: its traffic. Returns what it takes them, ns,
 * without the fixed part. */
double charge_copy(struct charge *c, u32 from, u32 to, u32 bytes, u32 threads);

/* How long the turn lasts so far. */
double charge_elapsed(const struct charge *c);
/* Ends the turn. Returns how long it was. */
double charge_turn(struct charge *c);

#endif
