/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * bench_count: what a ref and an unref cost in every counting scheme of core/. In each
 * round every scheme gets one slot for each walk, number of objects and number of CPUs. The
 * order is drawn anew for each round. Results are medians over rounds, and ratios to atomic
 * are medians of the ratios of each round.
 */
#ifndef LODIC_BENCH_COUNT_H
#define LODIC_BENCH_COUNT_H

#include <stdio.h>

#include "bench/field.h"
#include "cli/series.h"

#define BENCH_MAX_LIST 16u    /* sizes or numbers of CPUs in a plan */
#define BENCH_MAX_SCHEMES 38u /* with the control; as many as a table has rows */
/* Ratios are to this scheme: it counts as Linux does today. */
#define BENCH_YARDSTICK "atomic"

struct bench_plan {
	u32 cpus[BENCH_MAX_LIST];
	u32 nr_cpus;
	u32 objects[BENCH_MAX_LIST];
	u32 nr_objects;
	bool walks[FIELD_NR_WALKS];
	bool schemes[BENCH_MAX_SCHEMES];
	bool named; /* the user has named the schemes: tables show them all */
	u32 rounds;
	u32 per_user;
	bool processes;
	u64 seed;
};

struct bench_cell {
	u32 scheme;
	enum field_walk walk;
	u32 size; /* place in the plan's objects */
	u32 cpus;
	struct series mops;
	u32 nr_tried, nr_slots; /* slots, and those that counted */
	u64 nr_failed;
	struct series_spread spread, ratio; /* of mops; of mops to the yardstick's */
};

struct bench {
	struct bench_plan plan;
	struct slots slots;
	int cpus[SLOTS_MAX_WORKERS]; /* where worker i stays */
	struct field_ground *grounds[BENCH_MAX_LIST];
	struct field *fields[BENCH_MAX_SCHEMES][BENCH_MAX_LIST]; /* NULL: impossible */
	int why_not[BENCH_MAX_SCHEMES][BENCH_MAX_LIST];
	struct bench_cell *cells; /* those of a group, all schemes, stand together */
	u32 nr_cells;
	u32 nr_rounds; /* done */
	u64 duration_ns;
};

/* core/count/count.c's schemes, and the control after them. NULL: no more. */
const struct count_scheme *bench_scheme(u32 i);
u32 bench_nr_schemes(void);
/* Do people want scheme i in a table? count_scheme_is_shown() says so, or the user has named
 * it. Files have all schemes. */
bool bench_is_shown(const struct bench_plan *plan, u32 i);

/* Runs plan. -EINTR: the user has stopped it; else -errno. */
int bench_run(struct bench *b, const struct bench_plan *plan);
void bench_drop(struct bench *b);

/* NULL: not in the plan. */
const struct bench_cell *bench_cell(const struct bench *b, u32 scheme,
                                    enum field_walk walk, u32 size, u32 cpus);
/* What one operation takes on one CPU; 0 when that is not known. */
double bench_cell_ns(const struct bench_cell *cell);

void bench_print(const struct bench *b, FILE *to);
void bench_print_json(const struct bench *b, FILE *to);
/* -errno. */
int bench_write_csv(const struct bench *b, const char *path);

#endif
