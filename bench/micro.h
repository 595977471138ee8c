/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * bench_micro: the steps that counting is made of, so that the timing model can be held
 * against a real machine. It also asks what guards a word of the thread's own CPU best: a
 * restartable update or a spin lock. In the kernel PAYGO disables preemption and takes no
 * lock, because that is cheaper (PAYGO s.3.1). And it says what each promise of a read of the
 * cache costs, and what the second CPU adds to loops that share nothing. Steps alternate in one
 * run, and results are medians over rounds.
 */
#ifndef LODIC_BENCH_MICRO_H
#define LODIC_BENCH_MICRO_H

#include "core/count/count.h"

#define MICRO_MOST_CPUS 2u

/* What the steps work on, in shared memory. */
struct micro_ground {
	u64 shared[COUNT_LINE_WORDS];
	u64 *own;    /* a line per CPU: a word, and a lock; constant */
	u32 nr_cpus; /* how many have a line; constant */
} __attribute__((aligned(COUNT_LINE_BYTES)));

struct micro_step {
	const char *name;
	const char *what;
	u32 least_cpus;
	bool one_way;         /* ns is from one success to the next, of any worker */
	bool (*usable)(void); /* NULL: everywhere */
	bool promise; /* what a promise of a read costs: bench/micro_promises.c */
	bool counts;  /* adds one to a word of the ground for each success */
	/* As in struct slots_work; arg is the ground. NULL: a pin, which bench/micro.c does. */
	u64 (*run)(void *arg, u32 worker, u64 position, u64 nr);
};

/* bench/micro_promises.c; each returns how often it failed. */
u64 micro_promise_copy(void *arg, u32 worker, u64 position, u64 nr);
u64 micro_promise_found(void *arg, u32 worker, u64 position, u64 nr);
u64 micro_promise_whole(void *arg, u32 worker, u64 position, u64 nr);
u64 micro_promise_fresh(void *arg, u32 worker, u64 position, u64 nr);
u64 micro_promise_alive(void *arg, u32 worker, u64 position, u64 nr);
u64 micro_promise_noted(void *arg, u32 worker, u64 position, u64 nr);
u64 micro_promise_counted(void *arg, u32 worker, u64 position, u64 nr);
u64 micro_promise_pinned(void *arg, u32 worker, u64 position, u64 nr);
u64 micro_promise_locked(void *arg, u32 worker, u64 position, u64 nr);

extern const struct micro_step micro_steps[];
extern const u32 micro_nr_steps;

/* The sum of all words: how many successes there have been. */
u64 micro_ground_sum(const struct micro_ground *g);

#endif
