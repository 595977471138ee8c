/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* bench_count's results for people and for machines. Contract: bench/count.h. */
#include "bench/count.h"

#include <errno.h>
#include <string.h>

#include "bench/measure/report.h"
#include "bench/measure/table.h"
#include "cli/cli.h"

#define UNITS \
	"ns: a ref and an unref, or a query, on one CPU; mops: 10^6 of them a second, all " \
	"CPUs, median of undisturbed slots; ratio: median of the rounds' ratios of mops to " \
	"atomic's; spread and ratio_spread: interquartile range, of ns and of ratio; " \
	"failed: refused refs, not in the rate"

static const char *workers_name(const struct bench *b)
{
	return b->plan.processes ? "processes" : "threads";
}

/* A cell of any scheme there; NULL: no scheme has one. */
static const struct bench_cell *any_cell(const struct bench *b, u32 walk, u32 size,
                                         u32 cpus)
{
	const struct bench_cell *found = NULL;

	for (u32 i = 0; i < bench_nr_schemes() && !found; i++)
		found = bench_cell(b, i, walk, size, cpus);
	return found;
}

static void put_heading(const struct bench *b, u32 walk, u32 size, struct table *t)
{
	if (b->plan.objects[size] == 1)
		table_cell(t, "%s", field_walk_name(walk));
	else
		table_cell(t, "%s %u", field_walk_name(walk), b->plan.objects[size]);
}

static void put_cell(const struct bench_cell *c, struct table *t)
{
	char ratio[16] = "    -";
	double ns;

	if (!c || !c->spread.known) {
		table_cell(t, c ? "n/m" : "-");
		return;
	}
	ns = bench_cell_ns(c);
	if (c->ratio.known)
		snprintf(ratio, sizeof(ratio), "%5.*f", c->ratio.median < 10 ? 2 : 1,
		         c->ratio.median);
	table_cell(t, "%.*f %s", ns < 100 ? 1 : 0, ns, ratio);
}

static void put_row(const struct bench *b, int scheme, u32 cpus, struct table *t)
{
	table_row(t);
	table_cell(t, "%s", scheme < 0 ? "" : bench_scheme((u32)scheme)->name);
	for (u32 walk = 0; walk < FIELD_NR_WALKS; walk++) {
		for (u32 size = 0; size < b->plan.nr_objects; size++) {
			if (!any_cell(b, walk, size, cpus))
				continue;
			if (scheme < 0)
				put_heading(b, walk, size, t);
			else
				put_cell(bench_cell(b, (u32)scheme, walk, size, cpus),
				         t);
		}
	}
}

static void print_times(const struct bench *b, u32 cpus, FILE *to)
{
	struct table t = { 0 };

	put_row(b, -1, cpus, &t);
	for (u32 i = 0; i < bench_nr_schemes(); i++)
		if (bench_is_shown(&b->plan, i))
			put_row(b, (int)i, cpus, &t);
	if (t.nr_columns < 2)
		return;
	fprintf(to, "\n%u CPU%s: ns; rate over atomic's\n", cpus, cpus == 1 ? "" : "s");
	table_print(&t, to);
}

static void print_memory(const struct bench *b, FILE *to)
{
	u32 size = b->plan.nr_objects - 1;
	struct table t = { 0 };

	table_row(&t);
	table_cell(&t, " ");
	table_cell(&t, "/object");
	table_cell(&t, "/CPU");
	table_cell(&t, "/user");
	table_cell(&t, "taken");
	for (u32 i = 0; i < bench_nr_schemes(); i++) {
		const struct field *f = b->fields[i][size];
		struct count_cost cost;

		if (!f || !bench_is_shown(&b->plan, i))
			continue;
		count_cost(&f->count, &cost);
		table_row(&t);
		table_cell(&t, "%s", bench_scheme(i)->name);
		table_cell(&t, "%llu", (unsigned long long)cost.object_bytes);
		table_cell(&t, "%llu", (unsigned long long)cost.cpu_bytes);
		table_cell(&t, "%llu", (unsigned long long)cost.user_bytes);
		table_cell(&t, "%llu", (unsigned long long)f->taken_bytes);
	}
	fprintf(to, "\nbytes; taken: with %u objects, all shared by every user\n",
	        b->plan.objects[size]);
	table_print(&t, to);
}

/* Says what is missing, and why. */
static void print_remarks(const struct bench *b, FILE *to)
{
	for (u32 i = 0; i < bench_nr_schemes(); i++)
		for (u32 size = 0; size < b->plan.nr_objects; size++)
			if (b->why_not[i][size])
				fprintf(to, "%s cannot have %u objects: %s\n",
				        bench_scheme(i)->name, b->plan.objects[size],
				        strerror(-b->why_not[i][size]));
	for (u32 i = 0; i < b->nr_cells; i++) {
		const struct bench_cell *c = &b->cells[i];

		if (c->nr_failed)
			fprintf(to, "%s, %s, %u objects, %u CPUs: %llu refused\n",
			        bench_scheme(c->scheme)->name, field_walk_name(c->walk),
			        b->plan.objects[c->size], c->cpus,
			        (unsigned long long)c->nr_failed);
	}
}

void bench_print(const struct bench *b, FILE *to)
{
	struct machine machine;

	machine_find(&machine);
	fprintf(to, "%s, %u CPUs, %s; %u rounds in %.1f s; %s; seed %llu\n",
	        machine.cpu, machine.nr_cpus, machine.kernel, b->nr_rounds,
	        (double)b->duration_ns / 1e9, workers_name(b),
	        (unsigned long long)b->plan.seed);
	for (u32 i = 0; i < b->plan.nr_cpus; i++)
		print_times(b, b->plan.cpus[i], to);
	fputs("hot: one object; round, random N: over N objects; query: of an object that "
	      "nobody uses;\nprivate: the same walk over plain words of the thread's own; "
	      "n/m: not measurable\n",
	      to);
	print_memory(b, to);
	print_remarks(b, to);
}

static u32 add_list(char *to, u32 at, const char *name, const u32 *list, u32 nr)
{
	for (u32 i = 0; i < nr && at < REPORT_PARAMETERS_BYTES; i++)
		at += (u32)snprintf(to + at, REPORT_PARAMETERS_BYTES - at, "%s%s%u",
		                    i ? "+" : " ", i ? "" : name, list[i]);
	return at;
}

/* What the user asked for, as "name=value name=value"; without commas, for CSV. */
static void describe(const struct bench *b, char *ret)
{
	const struct bench_plan *p = &b->plan;
	const char *sep = " walk=";
	u32 at = (u32)snprintf(ret, REPORT_PARAMETERS_BYTES,
	                       "rounds=%u workers=%s per_user=%u", b->nr_rounds,
	                       workers_name(b), p->per_user);

	at = add_list(ret, at, "cpus=", p->cpus, p->nr_cpus);
	at = add_list(ret, at, "objects=", p->objects, p->nr_objects);
	for (u32 i = 0; i < FIELD_NR_WALKS && at < REPORT_PARAMETERS_BYTES; i++) {
		if (!p->walks[i])
			continue;
		at += (u32)snprintf(ret + at, REPORT_PARAMETERS_BYTES - at, "%s%s", sep,
		                    field_walk_name(i));
		sep = "+";
	}
}

static void set_real(json_t *o, const char *key, bool known, double v)
{
	json_object_set_new(o, key, known ? json_real(v) : json_null());
}

static void set_integer(json_t *o, const char *key, u64 v)
{
	json_object_set_new(o, key, json_integer((json_int_t)v));
}

static json_t *cell_json(const struct bench *b, const struct bench_cell *c)
{
	const struct series_spread *s = &c->spread;
	json_t *o = json_object();

	json_object_set_new(o, "scheme", json_string(bench_scheme(c->scheme)->name));
	json_object_set_new(o, "walk", json_string(field_walk_name(c->walk)));
	set_integer(o, "objects", b->plan.objects[c->size]);
	set_integer(o, "cpus", c->cpus);
	set_real(o, "ns", s->known, bench_cell_ns(c));
	set_real(o, "spread", s->known,
	         s->known ? c->cpus * 1e3 / s->low - c->cpus * 1e3 / s->high : 0);
	set_real(o, "mops", s->known, s->median);
	set_real(o, "ratio", c->ratio.known, c->ratio.median);
	set_real(o, "ratio_spread", c->ratio.known, c->ratio.high - c->ratio.low);
	set_integer(o, "slots", c->nr_slots);
	set_integer(o, "slots_tried", c->nr_tried);
	set_integer(o, "failed", c->nr_failed);
	return o;
}

static json_t *cost_json(const struct bench *b, u32 scheme, u32 size)
{
	const struct field *f = b->fields[scheme][size];
	json_t *o = json_object();
	struct count_cost cost;

	count_cost(&f->count, &cost);
	json_object_set_new(o, "scheme", json_string(bench_scheme(scheme)->name));
	set_integer(o, "objects", b->plan.objects[size]);
	set_integer(o, "users", f->count.nr_users);
	set_integer(o, "object_bytes", cost.object_bytes);
	set_integer(o, "cpu_bytes", cost.cpu_bytes);
	set_integer(o, "user_bytes", cost.user_bytes);
	set_integer(o, "taken_bytes", f->taken_bytes);
	return o;
}

void bench_print_json(const struct bench *b, FILE *to)
{
	json_t *o = json_object(), *results = json_array(), *costs = json_array();
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	struct report_run run = { &machine, parameters, b->plan.seed };

	machine_find(&machine);
	describe(b, parameters);
	for (u32 i = 0; i < b->nr_cells; i++)
		json_array_append_new(results, cell_json(b, &b->cells[i]));
	for (u32 i = 0; i < bench_nr_schemes(); i++)
		for (u32 size = 0; size < b->plan.nr_objects; size++)
			if (b->fields[i][size])
				json_array_append_new(costs, cost_json(b, i, size));
	report_run_json(o, &run);
	json_object_set_new(o, "workers", json_string(workers_name(b)));
	set_integer(o, "per_user", b->plan.per_user);
	set_integer(o, "rounds", b->nr_rounds);
	json_object_set_new(o, "seconds", json_real((double)b->duration_ns / 1e9));
	json_object_set_new(o, "units", json_string(UNITS));
	json_object_set_new(o, "results", results);
	json_object_set_new(o, "costs", costs);
	report_print_json(o, to);
	json_decref(o);
}

static void put_spread(const struct series_spread *s, FILE *f)
{
	if (s->known)
		fprintf(f, "%.4g,%.4g,%.4g,", s->median, s->low, s->high);
	else
		fputs(",,,", f);
}

int bench_write_csv(const struct bench *b, const char *path)
{
	FILE *f = fopen(path, "we");
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	struct report_run run = { &machine, parameters, b->plan.seed };
	int error;

	if (!f)
		return -errno;
	machine_find(&machine);
	describe(b, parameters);
	fprintf(f, "# %s, %u CPUs, %s; commit %s; seed %llu; %u rounds in %.1f s\n",
	        machine.cpu, machine.nr_cpus, machine.kernel, cli_commit(),
	        (unsigned long long)b->plan.seed, b->nr_rounds,
	        (double)b->duration_ns / 1e9);
	fputs("scheme,walk,objects,cpus,workers,per_user,ns,mops,mops_q1,mops_q3,ratio,"
	      "ratio_q1,ratio_q3,slots,slots_tried,failed," REPORT_RUN_COLUMNS "\n",
	      f);
	for (u32 i = 0; i < b->nr_cells; i++) {
		const struct bench_cell *c = &b->cells[i];

		fprintf(f, "%s,%s,%u,%u,%s,%u,", bench_scheme(c->scheme)->name,
		        field_walk_name(c->walk), b->plan.objects[c->size], c->cpus,
		        workers_name(b), b->plan.per_user);
		if (c->spread.known)
			fprintf(f, "%.4g", bench_cell_ns(c));
		fputc(',', f);
		put_spread(&c->spread, f);
		put_spread(&c->ratio, f);
		fprintf(f, "%u,%u,%llu", c->nr_slots, c->nr_tried,
		        (unsigned long long)c->nr_failed);
		report_end_row(&run, f);
	}
	error = ferror(f) ? -EIO : 0;
	if (fclose(f) != 0 && !error)
		error = -errno;
	return error;
}
