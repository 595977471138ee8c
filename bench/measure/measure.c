/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The slot engine. Contract: bench/measure/measure.h. */
#include "bench/measure/measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* Slots are shorter than a scheduler's tick, so that most pass undisturbed. The warm-up
 * brings the table, the sequence and the code back into the CPU's caches. */
#define WARM_NS 500000
#define WINDOW_NS 1500000
/* From the order to the common start: two wake-ups, measured at up to 60 us. */
#define START_DELAY_NS 150000
#define OVERLAP_LEAST 0.7
#define MAX_TRIES 3 /* for a slot that was disturbed */
/* With more processes than CPUs hardly a slot counts, so try only every fourth round. */
#define CROWDED_EVERY 4

static bool measure_cell_fits(enum method method, enum access access,
                              unsigned int processes)
{
	/* Yardsticks: a bare compare-and-swap pair is one for one process on one block, and
	 * pins apart for two. */
	if (method == METHOD_CAS_PAIR)
		return access == ACCESS_HOT && processes == 1;
	if (method == METHOD_LODIC_PIN_APART)
		return access == ACCESS_HOT && processes == 2;
	return true;
}

/* Apart, one reader has the cache of lodic_pin for itself. */
static enum method measure_method_of(const struct cell *cell, unsigned int reader)
{
	return cell->method == METHOD_LODIC_PIN_APART && reader == 0 ? METHOD_LODIC_PIN
	                                                             : cell->method;
}

static int measure_add_cell(struct measure *m, enum method method, enum access access,
                            uint32_t bytes, unsigned int processes)
{
	struct cell *cells = reallocarray(m->cells, m->nr_cells + 1, sizeof(*cells));
	struct cell *cell;

	if (!cells)
		return -ENOMEM;
	m->cells = cells;
	cell = &cells[m->nr_cells];
	*cell = (struct cell){ .method = method,
		               .access = access,
		               .bytes = bytes,
		               .processes = processes };
	cell->mops_at = calloc(m->plan.rounds, sizeof(*cell->mops_at));
	cell->rough_at = calloc(m->plan.rounds, sizeof(*cell->rough_at));
	m->nr_cells++;
	return cell->mops_at && cell->rough_at ? 0 : -ENOMEM;
}

/* Cells of one group (access, bytes, processes) stand together. */
static int measure_make_cells(struct measure *m)
{
	const struct measure_plan *p = &m->plan;
	int error = 0;

	for (unsigned int b = 0; b < p->nr_bytes; b++)
		for (int a = 0; a < NR_ACCESSES; a++)
			for (unsigned int n = 0; p->access[a] && n < p->nr_processes;
			     n++)
				for (int i = 0; i < NR_METHODS && !error; i++)
					if (measure_cell_fits(i, a, p->processes[n]))
						error = measure_add_cell(
							m, i, a, p->bytes[b],
							p->processes[n]);
	return error;
}

static bool measure_same_group(const struct cell *a, const struct cell *b)
{
	return a->access == b->access && a->bytes == b->bytes &&
	       a->processes == b->processes;
}

/* The time that all windows share, over the time that any of them covers. */
static double measure_overlap(const struct reader_report *reports, unsigned int nr)
{
	uint64_t first = reports[0].begin_ns, last = reports[0].end_ns;
	uint64_t begin = first, end = last;

	for (unsigned int i = 1; i < nr; i++) {
		const struct reader_report *r = &reports[i];

		begin = r->begin_ns > begin ? r->begin_ns : begin;
		first = r->begin_ns < first ? r->begin_ns : first;
		end = r->end_ns < end ? r->end_ns : end;
		last = r->end_ns > last ? r->end_ns : last;
	}
	return end > begin ? (double)(end - begin) / (double)(last - first) : 0;
}

/* Does the slot count, and what is its rate? *ret_rough is the rate in any case. */
static bool measure_judge_slot(const struct reader_report *reports, unsigned int nr,
                               float *ret_mops, float *ret_rough)
{
	bool counts = measure_overlap(reports, nr) >= OVERLAP_LEAST;
	double mops = 0;

	for (unsigned int i = 0; i < nr; i++) {
		const struct reader_report *r = &reports[i];

		if (r->preempted || r->end_ns <= r->begin_ns || r->nr_ops == 0)
			counts = false;
		if (r->end_ns > r->begin_ns)
			mops += 1e3 * (double)r->nr_ops /
			        (double)(r->end_ns - r->begin_ns);
	}
	*ret_rough = (float)mops;
	if (counts)
		*ret_mops = (float)mops;
	return counts;
}

static void measure_book_slot(struct measure *m, struct cell *cell,
                              const struct reader_report *reports)
{
	cell->nr_tried++;
	for (unsigned int i = 0; i < cell->processes; i++) {
		cell->nr_ops += reports[i].nr_all_ops;
		cell->hits += reports[i].hits;
		cell->misses += reports[i].misses;
		cell->nr_fallbacks += reports[i].nr_fallbacks;
		m->nr_wrong_bytes += reports[i].nr_wrong_bytes;
	}
}

static int measure_run_slot(struct measure *m, struct cell *cell, struct rig *rig,
                            uint32_t round, uint64_t *random)
{
	unsigned int nr = cell->processes;
	bool spin = nr <= rig->nr_cpus;
	int tries = spin ? MAX_TRIES : 1, error;

	for (int i = 0; i < tries; i++) {
		/* Each slot reads elsewhere in the sequence. Otherwise a method would find
		 * lines that its neighbour has just brought into the CPU's caches. */
		uint64_t position = workload_random(random);
		uint64_t start = cli_now_ns() + START_DELAY_NS;

		for (unsigned int r = 0; r < nr; r++)
			rig->orders[r] = (struct reader_order){
				.op = READER_SLOT,
				.method = measure_method_of(cell, r),
				.access = cell->access,
				.bytes = cell->bytes,
				.position = position + r * (WORKLOAD_STEPS / nr),
				.start_ns = start,
				.warm_ns = WARM_NS,
				.window_ns = WINDOW_NS,
				.cpu = spin ? rig->cpus[r] : -1,
				.spin = spin,
			};
		error = rig_ask(rig, nr);
		if (error)
			return error;
		measure_book_slot(m, cell, rig->reports);
		if (measure_judge_slot(rig->reports, nr, &cell->mops_at[round],
		                       &cell->rough_at[round])) {
			cell->nr_slots++;
			break;
		}
	}
	return 0;
}

/* One slot for each of the nr cells of a group, in an order drawn anew. */
static int measure_run_group(struct measure *m, struct cell *group, unsigned int nr,
                             struct rig *rig, uint32_t round, uint64_t *random)
{
	unsigned int order[NR_METHODS];
	int error = 0;

	for (unsigned int i = 0; i < nr; i++)
		order[i] = i;
	for (unsigned int i = nr - 1; i > 0; i--) {
		unsigned int j = (unsigned int)(workload_random(random) % (i + 1));
		unsigned int t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	for (unsigned int i = 0; i < nr && !error; i++)
		error = cli_stopped ? -EINTR
		                    : measure_run_slot(m, &group[order[i]], rig, round,
		                                       random);
	return error;
}

static unsigned int measure_percent_done(const struct measure *m, uint32_t round,
                                         uint64_t begin_ns)
{
	unsigned int percent = 100 * round / m->plan.rounds, by_time;

	if (m->plan.limit_ns) {
		by_time = (unsigned int)(100 * (cli_now_ns() - begin_ns) /
		                         m->plan.limit_ns);
		percent = by_time > percent ? by_time : percent;
	}
	return percent > 100 ? 100 : percent;
}

static int measure_run_round(struct measure *m, struct rig *rig, uint32_t round,
                             uint64_t begin_ns, uint64_t *random)
{
	unsigned int nr;
	int error = 0;

	for (unsigned int i = 0; i < m->nr_cells && !error; i += nr) {
		struct cell *group = &m->cells[i];

		for (nr = 1;
		     i + nr < m->nr_cells && measure_same_group(group, &group[nr]);)
			nr++;
		if (group->processes > rig->nr_cpus && round % CROWDED_EVERY != 0)
			continue;
		error = measure_run_group(m, group, nr, rig, round, random);
		cli_progress("measuring", measure_percent_done(m, round, begin_ns));
	}
	return error;
}

static int measure_compare_doubles(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Interpolates linearly between neighbours in rank. */
static double measure_quantile(const double *sorted, unsigned int nr, double q)
{
	double at = q * (nr - 1);
	unsigned int low = (unsigned int)at;
	double part = at - low;

	if (low + 1 >= nr)
		return sorted[nr - 1];
	return sorted[low] * (1 - part) + sorted[low + 1] * part;
}

static bool measure_spread_of(double *values, unsigned int nr, unsigned int least,
                              struct spread *ret_spread)
{
	if (nr < least)
		return false;
	qsort(values, nr, sizeof(*values), measure_compare_doubles);
	*ret_spread = (struct spread){
		.median = measure_quantile(values, nr, 0.5),
		.low = measure_quantile(values, nr, 0.25),
		.high = measure_quantile(values, nr, 0.75),
	};
	return true;
}

/* The rates of the rounds that have one; over those of b in the same rounds, unless b is
 * NULL. */
static unsigned int measure_rates(const float *a, const float *b, uint32_t rounds,
                                  double *ret_values)
{
	unsigned int nr = 0;

	for (uint32_t r = 0; r < rounds; r++)
		if (a[r] > 0 && (!b || b[r] > 0))
			ret_values[nr++] = (double)a[r] / (b ? (double)b[r] : 1);
	return nr;
}

static void measure_evaluate_cell(const struct measure *m, struct cell *c,
                                  unsigned int nr_cpus, double *values)
{
	const struct cell *pin =
		measure_cell(m, METHOD_LODIC_PIN, c->access, c->bytes, c->processes);
	unsigned int nr = measure_rates(c->mops_at, NULL, m->nr_rounds, values);

	c->measurable = measure_spread_of(values, nr, MEASURE_LEAST_SLOTS, &c->mops);
	if (c->measurable) {
		nr = measure_rates(c->mops_at, pin->mops_at, m->nr_rounds, values);
		c->has_ratio =
			measure_spread_of(values, nr, MEASURE_LEAST_SLOTS, &c->ratio);
	} else if (c->processes <= nr_cpus) {
		nr = measure_rates(c->rough_at, NULL, m->nr_rounds, values);
		c->rough = measure_spread_of(values, nr, 1, &c->mops);
		nr = measure_rates(c->rough_at, pin->rough_at, m->nr_rounds, values);
		c->has_ratio = measure_spread_of(values, nr, 1, &c->ratio);
	}
}

static int measure_evaluate(struct measure *m, unsigned int nr_cpus)
{
	double *values = calloc(m->nr_rounds + 1, sizeof(*values));

	if (!values)
		return -ENOMEM;
	for (unsigned int i = 0; i < m->nr_cells; i++)
		measure_evaluate_cell(m, &m->cells[i], nr_cpus, values);
	free(values);
	return 0;
}

int measure_run(struct measure *m, const struct measure_plan *plan, struct rig *rig)
{
	uint64_t begin = cli_now_ns(), random = rig->workload.seed;
	int error;

	*m = (struct measure){ .plan = *plan };
	error = measure_make_cells(m);
	while (!error && m->nr_rounds < plan->rounds) {
		error = measure_run_round(m, rig, m->nr_rounds, begin, &random);
		m->nr_rounds += !error;
		m->duration_ns = cli_now_ns() - begin;
		if (plan->limit_ns && m->duration_ns > plan->limit_ns)
			break;
	}
	cli_progress("", 101);
	if (!error)
		error = measure_evaluate(m, rig->nr_cpus);
	return error;
}

void measure_drop(struct measure *m)
{
	for (unsigned int i = 0; i < m->nr_cells; i++) {
		free(m->cells[i].mops_at);
		free(m->cells[i].rough_at);
	}
	free(m->cells);
	*m = (struct measure){ 0 };
}

const struct cell *measure_cell(const struct measure *m, enum method method,
                                enum access access, uint32_t bytes,
                                unsigned int processes)
{
	for (unsigned int i = 0; i < m->nr_cells; i++) {
		const struct cell *c = &m->cells[i];

		if (c->method == method && c->access == access && c->bytes == bytes &&
		    c->processes == processes)
			return c;
	}
	return NULL;
}

uint64_t measure_served(const struct cell *cell)
{
	/* The cache counts its misses, and the readers count refused pins. The cache may
	 * count a refused pin as a hit of the read that replaced it. */
	uint64_t refused = cell->nr_fallbacks;

	if (cell->misses > refused)
		refused = cell->misses;
	return refused < cell->nr_ops ? cell->nr_ops - refused : 0;
}

double measure_hit_ratio(const struct cell *cell)
{
	if (method_cache(cell->method) < 0 || cell->nr_ops == 0)
		return -1;
	return (double)measure_served(cell) / (double)cell->nr_ops;
}

double measure_over(const struct cell *a, const struct cell *b)
{
	if (!a || !b || !(a->measurable || a->rough) || !(b->measurable || b->rough))
		return 0;
	if (a->has_ratio && b->has_ratio && measure_same_group(a, b))
		return a->ratio.median / b->ratio.median;
	return a->mops.median / b->mops.median;
}
