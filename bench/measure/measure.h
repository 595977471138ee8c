/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The slot engine. All methods alternate in one run. In each round, every method gets one
 * short slot for each access, size and number of processes, in an order drawn anew. A slot
 * counts only when no reader was switched out in its window, and the readers' windows
 * overlapped. So a busy machine loses slots, but does not falsify them. The result is the
 * median. The ratio is the median of the rounds' ratios to lodic_pin's slot in that round.
 * Where hardly a slot counts, the median of all slots stands in, and is called rough.
 */
#ifndef LODIC_BENCH_MEASURE_MEASURE_H
#define LODIC_BENCH_MEASURE_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/measure/rig.h"

#define MEASURE_MAX_BYTES 4      /* sizes in a plan */
#define MEASURE_MAX_PROCESSES 10 /* numbers of processes in a plan */
#define MEASURE_MAX_ROUNDS 4096
/* A cell with fewer slots is not measurable. */
#define MEASURE_LEAST_SLOTS 8

struct measure_plan {
	bool access[NR_ACCESSES];
	uint32_t bytes[MEASURE_MAX_BYTES];
	unsigned int nr_bytes;
	unsigned int processes[MEASURE_MAX_PROCESSES];
	unsigned int nr_processes;
	uint32_t rounds;
	uint64_t
		limit_ns; /* stop after the round in which this time is over; 0: never */
};

/* A median with its quartiles. */
struct spread {
	double median, low, high;
};

struct cell {
	enum method method;
	enum access access;
	uint32_t bytes;
	unsigned int processes;
	/* The rate of all readers together in each round, 10^6 reads/s; 0: the round has
	 * no slot that counts. rough_at: of the last slot, counted or not. */
	float *mops_at;
	float *rough_at;
	uint32_t nr_tried; /* slots */
	uint32_t nr_slots; /* those that counted */
	/* In all slots, counted or not, and in their warm-up. */
	uint64_t nr_ops, hits, misses, nr_fallbacks;
	/* Set by measure_run() at its end; zero while not measurable. */
	bool measurable;
	/* Not measurable, but what follows is there: of all slots, which other programs
	 * have slowed. Only where each process could have a CPU. */
	bool rough;
	struct spread mops;
	bool has_ratio;
	struct spread ratio; /* to lodic_pin of the same access, bytes, processes */
};

struct measure {
	struct measure_plan plan;
	struct cell *cells;
	unsigned int nr_cells;
	uint32_t nr_rounds; /* done */
	uint64_t duration_ns;
	uint64_t nr_wrong_bytes; /* in the last read of each slot */
};

/* Runs the plan. -errno with rig->why; -EINTR: cli_stopped. */
int measure_run(struct measure *m, const struct measure_plan *plan, struct rig *rig);
void measure_drop(struct measure *m);

/* NULL: not in the plan. */
const struct cell *measure_cell(const struct measure *m, enum method method,
                                enum access access, uint32_t bytes,
                                unsigned int processes);

/* The share of the reads that a cache served; a refused pin counts as not served.
 * Negative: the method has no cache, or nothing was read. */
double measure_hit_ratio(const struct cell *cell);
/* The number of nr_ops that a cache served. */
uint64_t measure_served(const struct cell *cell);

/* The median of the rounds' ratios of a to b, when both have slots in the same rounds;
 * otherwise the ratio of their medians. 0: one of them has no numbers at all. Rough cells
 * give rough ratios. */
double measure_over(const struct cell *a, const struct cell *b);

#endif
