/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic bench counter`: what a get and a put of a program's own object cost, by lodic/counter.h
 * and by other ways. In each round every way gets one slot for each number of threads and of
 * objects. Results are medians over rounds; ratios are medians of the rounds' ratios.
 */
#ifndef LODIC_BENCH_COMMAND_COUNTER_H
#define LODIC_BENCH_COMMAND_COUNTER_H

#include <stdio.h>

#include "bench/measure/slots.h"
#include "cli/series.h"
#include "lodic/counter.h"

#define BENCH_COUNTER_WAYS 10u
#define BENCH_COUNTER_LIST 12u /* numbers of objects, of threads, of holds */
#define BENCH_COUNTER_OBJECTS 512u
#define BENCH_COUNTER_CPUS 1024u
#define BENCH_COUNTER_ENTRIES 4096u
/* Long-lived references: so many times a CPU's table, at most. */
#define BENCH_COUNTER_HOLDS (4 * BENCH_COUNTER_ENTRIES)

/* An object, on a line of its own. */
struct bench_object {
	struct lodic_counter counter; /* of lodic's ways */
	uint64_t word;                /* of the others */
	uint64_t unused[6];
};

/* What the ways count in. */
struct bench_ground {
	struct lodic_domain *paygo, *percpu, *atomic;
	struct bench_object *objects;
	uint64_t *own; /* a line per CPU and object */
	uint32_t nr_objects;
	uint32_t mask; /* nr_objects - 1 */
	/* Long-lived references, by worker 0. */
	struct bench_object *held;
	uint64_t *tokens;
	uint32_t hold;
	uint64_t nr_in_word; /* of a get of each object, while those are held */
};

/* A way to count, as a slot's work: a get and a put per operation. */
struct bench_way {
	const char *name;
	const char *what;
	u64 (*run)(void *arg, u32 worker, u64 position, u64 nr);
	bool (*works)(void); /* NULL: everywhere */
};

extern const struct bench_way bench_ways[BENCH_COUNTER_WAYS];

/* Places in bench_ways, which goals name. */
enum {
	WAY_PRIVATE,
	WAY_BARE,
	WAY_BARE_APART,
	WAY_PAYGO,
	WAY_GUARD,
	WAY_PERCPU,
	WAY_PERCPU_BARE,
	WAY_ATOMIC,
	WAY_FETCH_ADD,
	WAY_CAS
};

struct bench_cell {
	u32 way, threads, objects;
	struct series mops;
	struct series_spread spread, ratio;
	u32 nr_tried, nr_slots;
};

/* Long-lived references: so many on each CPU, of objects of their own. */
struct bench_hold {
	u32 hold;
	struct series ns;
	struct series_spread spread;
	double in_word; /* share of the gets that count in the object's word */
};

struct bench_crowd {
	u32 threads;
	u64 puts, away;
};

struct bench_counter {
	u32 rounds;
	u64 seed;
	bool json;
	u32 objects[BENCH_COUNTER_LIST], nr_objects;
	u32 threads[BENCH_COUNTER_LIST], nr_threads;
	u32 crowd; /* threads; 0: none */
	struct bench_cell *cells;
	u32 nr_cells;
	struct bench_hold holds[BENCH_COUNTER_LIST];
	u32 nr_holds;
	struct bench_crowd crowded;
	double create_us, kill_us;
	struct lodic_domain_stat stat;
};

const struct bench_cell *bench_counter_cell(const struct bench_counter *b, u32 way,
                                            u32 threads, u32 objects);
void bench_counter_print(const struct bench_counter *b, FILE *to);
void bench_counter_print_json(const struct bench_counter *b, FILE *to);

#endif
