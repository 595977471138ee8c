/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The two forms of the result: sim/cache/report.h. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "sim/cache/report.h"
#include "sim/command.h"

/* The way that others are held against. */
#define FLOOR "private"

static bool is_same(const struct cache_setup *a, const struct cache_setup *b)
{
	return a->what == b->what && a->nr_readers == b->nr_readers &&
	       a->nr_blocks == b->nr_blocks;
}

const struct cache_point *cache_report_other(const struct cache_report *r,
                                             const struct cache_point *p,
                                             const char *way)
{
	u32 i;

	for (i = 0; i < r->nr; i++)
		if (is_same(&r->points[i].setup, &p->setup) &&
		    strcmp(r->points[i].setup.way->name, way) == 0)
			return &r->points[i];
	return NULL;
}

/* Throughput as a part of private's; 0: private was not run. */
static double to_floor(const struct cache_report *r, const struct cache_point *p)
{
	const struct cache_point *floor = cache_report_other(r, p, FLOOR);

	return floor && floor->result.sim.mops > 0
	               ? p->result.sim.mops / floor->result.sim.mops
	               : 0;
}

static double per_frame(const struct cache_service *s, u64 what)
{
	return s->nr_taken ? (double)what / (double)s->nr_taken : 0;
}

/* Thousands of frames a second, the service's pauses included. */
static double frame_rate(const struct cache_result *r)
{
	return r->run_ns ? (double)r->service.nr_taken * 1e6 / (double)r->run_ns : 0;
}

static double lost_percent(const struct cache_point *p)
{
	return p->alone > 0 ? 100 * (1 - p->result.sim.mops / p->alone) : 0;
}

/* ---- for people ---- */

static void print_hottest(const struct cache_point *p)
{
	double each;
	const char *name = cache_hottest(&p->result, &each);

	if (name)
		printf("%s %.2f", name, each);
	else
		printf("none");
}

static void print_rates(const struct cache_report *r, enum cache_what what, u32 blocks)
{
	const char *last = "";
	bool head = false;
	u32 i;

	for (i = 0; i < r->nr; i++) {
		const struct cache_point *p = &r->points[i];
		const char *name = p->setup.way->name;

		if (p->setup.what != what || p->setup.nr_blocks != blocks)
			continue;
		if (!head && blocks == 1)
			printf("\n%s: one hot block\n", cache_what_name(what));
		else if (!head)
			printf("\n%s: %u blocks by Zipf's law, %.2f\n",
			       cache_what_name(what), blocks, CACHE_ZIPF);
		if (!head)
			printf("%-11s %5s %9s %9s %9s %10s %10s  %s\n", "scheme",
			       "CPUs", "Mops/s", "low", "high", "of private",
			       "transfers", "hottest line");
		head = true;
		printf("%-11s %5u %9.2f %9.2f %9.2f %10.2f %10.2f  ",
		       strcmp(name, last) ? name : "", p->setup.nr_readers,
		       p->result.sim.mops, p->low, p->high, to_floor(r, p),
		       cache_transfers_per_op(&p->result));
		print_hottest(p);
		printf("\n");
		last = name;
	}
}

static void print_evictions(const struct cache_report *r)
{
	const char *last = "";
	bool head = false;
	u32 i;

	for (i = 0; i < r->nr; i++) {
		const struct cache_point *p = &r->points[i];
		const struct cache_service *s = &p->result.service;
		const char *name = p->setup.way->name;

		if (p->setup.what != CACHE_EVICT)
			continue;
		if (!head)
			printf("\nevict: pins of the hot half of %u blocks, while the "
			       "service evicts %u frames a fence\nfor each frame: ns "
			       "of the service's time, and lines looked at for "
			       "pins; k/s: thousand frames a second\n"
			       "%-11s %8s %7s %7s %6s %7s %6s %6s %6s %8s %6s  %s\n",
			       p->setup.nr_blocks, p->setup.batch, "scheme", "contexts",
			       "ns", "choose", "fence", "look", "fill", "lines", "k/s",
			       "Mpins/s", "lost %", "hottest line of a pin");
		head = true;
		printf("%-11s %8u %7.0f %7.0f %6.0f %7.0f %6.0f %6.1f %6.1f %8.2f %6.1f  ",
		       strcmp(name, last) ? name : "", p->setup.nr_readers,
		       cache_frame_ns(s), per_frame(s, s->choose_ns),
		       per_frame(s, s->fence_ns), per_frame(s, s->walk_ns),
		       per_frame(s, s->fill_ns), per_frame(s, s->lines),
		       frame_rate(&p->result), p->result.sim.mops, lost_percent(p));
		print_hottest(p);
		printf("\n");
		last = name;
	}
}

void cache_report_print(const struct cache_report *r)
{
	enum cache_what what;
	u32 i, most = 0;

	printf("simulated: topology %s, parameters %s %s, seed %llu, low and high over %u "
	       "machines\na context a CPU; a pinned block is computed with for %u "
	       "cycles\n",
	       r->machine->timing.name, r->machine->parameters, r->machine->hash,
	       (unsigned long long)r->seed, r->nr_machines, r->work);
	for (i = 0; i < r->nr; i++)
		if (r->points[i].setup.nr_blocks > most)
			most = r->points[i].setup.nr_blocks;
	for (what = CACHE_READ; what < CACHE_EVICT; what++) {
		print_rates(r, what, 1);
		if (most > 1)
			print_rates(r, what, most);
	}
	print_evictions(r);
}

/* ---- JSON ---- */

static json_t *lines_json(const struct sim_result *sim)
{
	json_t *lines = json_object();
	double ops = sim->ops ? (double)sim->ops : 1;
	u32 i;

	for (i = 0; i < sim->nr_lines; i++)
		json_object_set_new(lines, sim->lines[i].name,
		                    json_pack("{s:f, s:f}", "transfers_per_op",
		                              (double)sim->lines[i].transfers / ops,
		                              "wait_ns_per_op",
		                              (double)sim->lines[i].wait_ns / ops));
	return lines;
}

static json_t *service_json(const struct cache_point *p)
{
	const struct cache_service *s = &p->result.service;
	double looked = (double)(s->nr_taken + s->nr_refused);

	return json_pack(
		"{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f}",
		"frame_ns", cache_frame_ns(s), "choose_ns", per_frame(s, s->choose_ns),
		"fence_ns", per_frame(s, s->fence_ns), "look_ns",
		per_frame(s, s->walk_ns), "fill_ns", per_frame(s, s->fill_ns),
		"lines_per_frame", per_frame(s, s->lines), "looks_per_frame",
		per_frame(s, s->nr_looks), "frames_per_second",
		1000 * frame_rate(&p->result), "refused",
		looked > 0 ? (double)s->nr_refused / looked : 0.0, "frames",
		(json_int_t)s->nr_taken, "frames_hinted",
		(json_int_t)s->nr_filled_hints, "alone_mops", p->alone,
		"readers_lose_percent", lost_percent(p));
}

static json_t *point_json(const struct cache_report *r, const struct cache_point *p)
{
	double each;
	const char *hottest = cache_hottest(&p->result, &each);
	json_t *o = json_pack(
		"{s:s, s:i, s:i, s:s, s:i, s:f, s:f, s:f, s:f, s:s, s:f, s:I, s:o}",
		"scheme", p->setup.way->name, "cpus", (int)p->cpus, "contexts",
		(int)p->setup.nr_readers, "what", cache_what_name(p->setup.what),
		"blocks", (int)p->setup.nr_blocks, "mops", p->result.sim.mops, "low",
		p->low, "high", p->high, "transfers_per_op",
		cache_transfers_per_op(&p->result), "hottest",
		hottest ? hottest : "none", "hottest_transfers_per_op", each, "ops",
		(json_int_t)p->result.sim.ops, "lines", lines_json(&p->result.sim));

	if (o && to_floor(r, p) > 0)
		json_object_set_new(o, "of_private", json_real(to_floor(r, p)));
	if (o && p->setup.what == CACHE_EVICT)
		json_object_set_new(o, "service", service_json(p));
	return o;
}

int cache_report_json(const struct cache_report *r)
{
	json_t *results = json_array();
	json_t *all;
	u32 i;

	for (i = 0; i < r->nr; i++)
		json_array_append_new(results, point_json(r, &r->points[i]));
	all = json_pack("{s:s, s:s, s:b, s:s, s:s, s:s, s:I, s:i, s:i, s:f, s:o}",
	                "version", command_version(), "commit", command_commit(),
	                "simulated", 1, "topology", r->machine->timing.name,
	                "parameters", r->machine->hash, "parameter_file",
	                r->machine->parameters, "seed", (json_int_t)r->seed, "machines",
	                (int)r->nr_machines, "work_cycles", (int)r->work, "zipf",
	                CACHE_ZIPF, "results", results);
	if (!all)
		return -ENOMEM;
	/* command_begin() arranged that standard output is checked at exit. */
	json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	json_decref(all);
	printf("\n");
	return 0;
}
