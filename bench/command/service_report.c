/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `lodic bench service` prints. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/command/service.h"
#include "bench/measure/report.h"
#include "bench/measure/table.h"

#define NS_PER_S 1e9

/* What a row counts, what its times are of, and by which clock. */
static const struct {
	const char *what, *counts, *times_of, *clock;
} names[NR_ROWS] = {
	[ROW_EVICT] = { "evict", "frames", "a turn", "cpu" },
	[ROW_EVICT_PINNED] = { "evict_pinned", "frames", "a turn", "cpu" },
	[ROW_FILL] = { "fill", "blocks", "a turn", "cpu" },
	[ROW_OPEN] = { "open", "opens", "an open", "cpu" },
	[ROW_OPEN_WALL] = { "open_wall", "opens", "an open", "wall" },
	[ROW_REAP] = { "reap", "contexts", "a turn", "cpu" },
	[ROW_TURN] = { "turn", "turns", "a turn", "cpu" },
	[ROW_BARRIER] = { "barrier", "fences", "a fence", "wall" },
};

static double per_second(uint64_t nr, uint64_t ns)
{
	return ns ? (double)nr * NS_PER_S / (double)ns : 0;
}

static double us(uint64_t ns)
{
	return (double)ns / 1e3;
}

static json_t *result_json(enum service_row row, const struct service_result *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "what", json_string(names[row].what));
	json_object_set_new(o, "per_second",
	                    json_real(per_second(r->nr, r->times.sum_ns)));
	json_object_set_new(o, "p50_us", json_real(us(times_part_ns(&r->times, 0.5))));
	json_object_set_new(o, "p999_us",
	                    json_real(us(times_part_ns(&r->times, 0.999))));
	json_object_set_new(o, "max_us", json_real(us(r->times.max_ns)));
	json_object_set_new(o, "counts", json_string(names[row].counts));
	json_object_set_new(o, "times_of", json_string(names[row].times_of));
	json_object_set_new(o, "clock", json_string(names[row].clock));
	json_object_set_new(o, "nr", json_integer((json_int_t)r->nr));
	if (r->wall_ns)
		json_object_set_new(o, "per_second_wall",
		                    json_real(per_second(r->nr, r->wall_ns)));
	return o;
}

void bench_service_report_json(const struct service_bench *b)
{
	json_t *o = json_object(), *results = json_array();
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	const struct report_run about = { &machine, parameters, 1 };

	machine_find(&machine);
	snprintf(parameters, sizeof(parameters),
	         "memory=%" PRIu64 " contexts=%" PRIu64 " files=%" PRIu64 " ms=%" PRIu64
	         " pinning=%" PRIu64 " pins=%" PRIu64,
	         b->memory, b->nr_contexts, b->nr_files, b->ms, b->nr_pinning,
	         b->nr_pins);
	for (int i = 0; i < NR_ROWS; i++)
		json_array_append_new(results, result_json(i, &b->results[i]));
	report_run_json(o, &about);
	json_object_set_new(o, "frames", json_integer((json_int_t)b->frames));
	json_object_set_new(o, "contexts", json_integer((json_int_t)b->nr_contexts));
	json_object_set_new(o, "files", json_integer((json_int_t)b->nr_files));
	json_object_set_new(o, "barrier", json_string(b->light ? "light" : "lock"));
	json_object_set_new(o, "pinned", json_integer((json_int_t)b->pinned));
	json_object_set_new(o, "held", json_integer((json_int_t)b->held));
	json_object_set_new(o, "descriptors", json_integer((json_int_t)b->limit));
	json_object_set_new(o, "refused",
	                    b->refused ? json_string(strerrorname_np(-b->refused))
	                               : json_null());
	json_object_set_new(o, "results", results);
	report_print_json(o, stdout);
	json_decref(o);
}

static void put_rate(struct table *t, uint64_t nr, uint64_t ns)
{
	if (ns)
		table_cell(t, "%.0f", per_second(nr, ns));
	else
		table_cell(t, " ");
}

void bench_service_report_table(const struct service_bench *b)
{
	struct table t = { 0 };

	printf("%" PRIu64 " frames, %" PRIu64 " contexts, %" PRIu64
	       " files, %s pins\n\n",
	       b->frames, b->nr_contexts, b->nr_files, b->light ? "light" : "locked");
	table_row(&t);
	table_cell(&t, "what");
	table_cell(&t, "per second");
	table_cell(&t, "by the clock");
	table_cell(&t, "p50 us");
	table_cell(&t, "p99.9 us");
	table_cell(&t, "max us");
	table_cell(&t, "of");
	for (int i = 0; i < NR_ROWS; i++) {
		const struct service_result *r = &b->results[i];
		bool wall = strcmp(names[i].clock, "wall") == 0;

		table_row(&t);
		table_cell(&t, "%s", names[i].what);
		put_rate(&t, r->nr, wall ? 0 : r->times.sum_ns);
		put_rate(&t, r->nr, wall ? r->times.sum_ns : r->wall_ns);
		table_cell(&t, "%.1f", us(times_part_ns(&r->times, 0.5)));
		table_cell(&t, "%.1f", us(times_part_ns(&r->times, 0.999)));
		table_cell(&t, "%.1f", us(r->times.max_ns));
		table_cell(&t, "%s, %s", names[i].times_of, names[i].clock);
	}
	table_print(&t, stdout);
	printf("per second: frames, blocks, opens, contexts, turns in a second of CPU time of "
	       "the service;\nby the clock: in a second that passes. open is CPU time of all "
	       "threads of the service,\nthe other rows of cpu are its main thread's. "
	       "barrier is how long the heavy fence takes.\n"
	       "evict_pinned: %" PRIu64 " contexts hold %" PRIu64 " pins.\n",
	       b->nr_pinning, b->pinned);
	if (b->refused)
		printf("held at once: %" PRIu64 " files, with %" PRIu64
		       " descriptors; the next got %s, and was read by pread.\n",
		       b->held, b->limit, strerrorname_np(-b->refused));
	else
		printf("held at once: all %" PRIu64 " files, with %" PRIu64
		       " descriptors.\n",
		       b->held, b->limit);
}
