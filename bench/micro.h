/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * bench_micro: the steps that counting is made of, so that the timing model can be held
 * against a real machine, and the question how a word of one's own CPU is best guarded: by
 * a restartable update, or by a spin lock. In the kernel PAYGO disables preemption and
 * takes no lock, for that is the cheaper way (PAYGO s.3.1). Steps alternate in one run;
 * results are medians over rounds.
 */
#ifndef LODIC_BENCH_MICRO_H
#define LODIC_BENCH_MICRO_H

#include "core/count/count.h"

#define MICRO_MOST_CPUS 2u

/* What the steps work on, in shared memory. */
struct micro_ground {
	u64 shared[COUNT_LINE_WORDS];
	u64 *own;    /* a line per CPU: a word, and a lock; constant */
	u32 nr_cpus; /* that there are lines for; constant */
} __attribute__((aligned(COUNT_LINE_BYTES)));

struct micro_step {
	const char *name;
	const char *what;
	u32 least_cpus;
	bool one_way;         /* ns is from one success to the next, whoever has it */
	bool (*usable)(void); /* NULL: everywhere */
	bool counts;          /* adds one to a word of the ground for each success */
	/* As struct slots_work's, arg is the ground; NULL: a pin, bench/micro.c has it. */
	u64 (*run)(void *arg, u32 worker, u64 position, u64 nr);
};

extern const struct micro_step micro_steps[];
extern const u32 micro_nr_steps;

/* The sum of all words: as many successes as there ever were. */
u64 micro_ground_sum(const struct micro_ground *g);

#endif
