/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_count's rounds. Contract: bench/count.h. */
#include "bench/count.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure/machine.h"
#include "bench/measure/shared.h"
#include "bench/measure/workload.h"
#include "bench/private.h"
#include "cli/cli.h"

const struct count_scheme *bench_scheme(u32 i)
{
	if (i < count_nr_schemes)
		return count_schemes[i];
	return i == count_nr_schemes ? &private_control : NULL;
}

u32 bench_nr_schemes(void)
{
	return count_nr_schemes + 1;
}

bool bench_is_shown(const struct bench_plan *plan, u32 i)
{
	const struct count_scheme *scheme = bench_scheme(i);

	/* With a table, the lock that stands in for preemption off would be measured. */
	return plan->schemes[i] && (plan->named || scheme == &private_control ||
	                            (count_scheme_is_shown(scheme) && !scheme->table));
}

const struct bench_cell *bench_cell(const struct bench *b, u32 scheme,
                                    enum field_walk walk, u32 size, u32 cpus)
{
	for (u32 i = 0; i < b->nr_cells; i++) {
		const struct bench_cell *c = &b->cells[i];

		if (c->scheme == scheme && c->walk == walk && c->size == size &&
		    c->cpus == cpus)
			return c;
	}
	return NULL;
}

double bench_cell_ns(const struct bench_cell *cell)
{
	return cell->spread.known ? cell->cpus * 1e3 / cell->spread.median : 0;
}

/* FIELD_HOT goes with one object, a walk with several, a query with one object and CPU. */
static bool group_fits(const struct bench_plan *p, enum field_walk walk, u32 size,
                       u32 cpus)
{
	bool one = p->objects[size] == 1;

	if (!p->walks[walk])
		return false;
	if (walk == FIELD_QUERY)
		return one && cpus == 1;
	return one == (walk == FIELD_HOT);
}

static int add_cells(struct bench *b, enum field_walk walk, u32 size, u32 cpus)
{
	int error = 0;

	for (u32 i = 0; i < bench_nr_schemes() && !error; i++) {
		struct bench_cell *c = &b->cells[b->nr_cells];

		if (!b->fields[i][size])
			continue;
		*c = (struct bench_cell){
			.scheme = i, .walk = walk, .size = size, .cpus = cpus
		};
		error = series_open(&c->mops, b->plan.rounds);
		b->nr_cells += !error;
	}
	return error;
}

static int make_cells(struct bench *b)
{
	const struct bench_plan *p = &b->plan;
	u32 most = bench_nr_schemes() * FIELD_NR_WALKS * p->nr_objects * p->nr_cpus;
	int error = 0;

	b->cells = calloc(most, sizeof(*b->cells));
	if (!b->cells)
		return -ENOMEM;
	for (u32 n = 0; n < p->nr_cpus; n++)
		for (u32 walk = 0; walk < FIELD_NR_WALKS; walk++)
			for (u32 size = 0; size < p->nr_objects && !error; size++)
				if (group_fits(p, walk, size, p->cpus[n]))
					error = add_cells(b, walk, size, p->cpus[n]);
	return error;
}

static u32 most_cpus(const struct bench_plan *p)
{
	u32 most = 0;

	for (u32 i = 0; i < p->nr_cpus; i++)
		most = p->cpus[i] > most ? p->cpus[i] : most;
	return most;
}

/* The results name what a scheme cannot do. What this program cannot do ends the run. */
static int make_fields(struct bench *b, u32 nr_workers)
{
	const struct bench_plan *p = &b->plan;
	int error = 0;

	for (u32 size = 0; size < p->nr_objects && !error; size++) {
		error = field_ground_open(&b->grounds[size], p->objects[size],
		                          nr_workers, p->per_user, b->cpus, p->seed);
		for (u32 i = 0; i < bench_nr_schemes() && !error; i++) {
			if (!p->schemes[i])
				continue;
			error = cli_stopped ? -EINTR : 0;
			if (!error)
				b->why_not[i][size] =
					field_open(&b->fields[i][size], bench_scheme(i),
				                   b->grounds[size], &b->slots);
			if (b->why_not[i][size] == -EPIPE)
				error = -EPIPE;
		}
	}
	return error;
}

static int run_slot(struct bench *b, struct bench_cell *c, u64 *random)
{
	struct slots_result result;
	int error = field_measure(b->fields[c->scheme][c->size], c->walk,
	                          workload_random(random), &b->slots, c->cpus, &result);

	if (error)
		return error;
	c->nr_tried += result.nr_tried;
	c->nr_slots += result.counts;
	c->nr_failed += result.nr_failed;
	if (result.counts)
		c->mops.at[b->nr_rounds] = result.mops;
	return 0;
}

static bool same_group(const struct bench_cell *a, const struct bench_cell *b)
{
	return a->walk == b->walk && a->size == b->size && a->cpus == b->cpus;
}

/* Runs one slot for each of nr cells, in an order drawn anew. In a fixed order each scheme
 * would always have the same neighbour, and the caches that this neighbour leaves. */
static int run_group(struct bench *b, struct bench_cell *group, u32 nr, u64 *random)
{
	u32 order[BENCH_MAX_SCHEMES];
	int error = 0;

	for (u32 i = 0; i < nr; i++)
		order[i] = i;
	for (u32 i = nr - 1; i > 0; i--) {
		u32 j = (u32)(workload_random(random) % (i + 1)), t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	for (u32 i = 0; i < nr && !error; i++)
		error = cli_stopped ? -EINTR : run_slot(b, &group[order[i]], random);
	return error;
}

static int run_round(struct bench *b, u64 *random)
{
	int error = 0;
	u32 nr;

	for (u32 i = 0; i < b->nr_cells && !error; i += nr) {
		for (nr = 1; i + nr < b->nr_cells &&
		             same_group(&b->cells[i], &b->cells[i + nr]);)
			nr++;
		error = run_group(b, &b->cells[i], nr, random);
		cli_progress("measuring", (100 * (b->nr_rounds * b->nr_cells + i)) /
		                                  (b->plan.rounds * b->nr_cells));
	}
	return error;
}

static void evaluate(struct bench *b)
{
	u32 yardstick = 0;

	while (yardstick < count_nr_schemes &&
	       strcmp(bench_scheme(yardstick)->name, BENCH_YARDSTICK) != 0)
		yardstick++;
	for (u32 i = 0; i < b->nr_cells; i++) {
		struct bench_cell *c = &b->cells[i];
		const struct bench_cell *to =
			bench_cell(b, yardstick, c->walk, c->size, c->cpus);

		c->spread = series_spread(&c->mops);
		if (to)
			c->ratio = series_ratio(&c->mops, &to->mops);
	}
}

static void check_fields(struct bench *b)
{
	for (u32 i = 0; i < bench_nr_schemes(); i++)
		for (u32 size = 0; size < b->plan.nr_objects; size++)
			if (b->fields[i][size])
				field_check(b->fields[i][size]);
}

int bench_run(struct bench *b, const struct bench_plan *plan)
{
	u64 begin = host_now_ns(), random = plan->seed;
	u32 nr_workers = most_cpus(plan);
	int error;

	memset(b, 0, sizeof(*b));
	b->plan = *plan;
	machine_cpus(b->cpus, nr_workers);
	error = shared_open();
	if (!error)
		error = slots_open(&b->slots, b->cpus, nr_workers, plan->processes);
	if (!error)
		error = make_fields(b, nr_workers);
	if (!error)
		error = make_cells(b);
	while (!error && b->nr_rounds < plan->rounds) {
		error = run_round(b, &random);
		b->nr_rounds += !error;
	}
	cli_progress("", 101);
	b->duration_ns = host_now_ns() - begin;
	if (error)
		return error;
	check_fields(b);
	evaluate(b);
	return 0;
}

void bench_drop(struct bench *b)
{
	slots_close(&b->slots);
	for (u32 i = 0; i < bench_nr_schemes(); i++)
		for (u32 size = 0; size < b->plan.nr_objects; size++)
			if (b->fields[i][size])
				field_close(b->fields[i][size]);
	for (u32 i = 0; i < b->nr_cells; i++)
		series_close(&b->cells[i].mops);
	free(b->cells);
	b->cells = NULL;
	b->nr_cells = 0;
}
