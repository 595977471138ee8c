/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What `lodic-sim tier' found, for people and as JSON: sim/tier/tier_report.h. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "sim/command.h"
#include "sim/tier/tier_report.h"

static const char *const resources[CHARGE_NR] = { "cpu", "fast", "slow", "link",
	                                          "storage" };

static double throughput(const struct tier_report *report, const struct tier_row *row)
{
	return row->result.ns > 0 ? report->yardstick_ns / row->result.ns : 0;
}

static u64 moved_down(const struct engine_result *r)
{
	return engine_moved(r, KLOC_DEMOTE);
}

/* On a machine with nodes: to the node of the task. */
static u64 moved_up(const struct engine_result *r)
{
	return engine_moved(r, KLOC_PROMOTE) + engine_moved(r, KLOC_FOLLOW) +
	       engine_moved(r, KLOC_COPY);
}

static u32 bound_by(const struct engine_result *r)
{
	u32 most = 0, by;

	for (by = 1; by < CHARGE_NR; by++)
		if (r->bound[by] > r->bound[most])
			most = by;
	return most;
}

static const char *workload_of(const struct tier_report *report)
{
	return report->run->trace ? report->run->trace : report->run->workload;
}

void tier_report_print(const struct tier_report *report)
{
	const struct engine_options *o = &report->run->options;
	char name[RUN_NAME_BYTES];
	u32 i;

	printf("simulated: %s, parameters %s %s, scale %u, seed %llu\n",
	       workload_of(report), o->cost->name, o->cost->hash, o->scale,
	       (unsigned long long)report->run->seed);
	printf("%-17s %10s %10s %10s %12s %12s %10s  %s\n", "policy", "throughput",
	       report->nodes ? "from first" : "down", report->nodes ? "to task" : "up",
	       "slow allocs", "small objs", "metadata", "bound by");
	for (i = 0; i < report->nr; i++) {
		const struct engine_result *r = &report->rows[i].result;
		u32 by = bound_by(r);

		printf("%-17s %10.2f %10llu %10llu %12llu %12llu %10llu  %s %.0f %%\n",
		       run_policy_name(report->rows[i].policy, report->nodes, name),
		       throughput(report, &report->rows[i]),
		       (unsigned long long)moved_down(r),
		       (unsigned long long)moved_up(r),
		       (unsigned long long)engine_placed_slow(r),
		       (unsigned long long)engine_small_objects(r),
		       (unsigned long long)engine_metadata_bytes(r), resources[by],
		       r->ns > 0 ? 100 * r->bound[by] / r->ns : 0);
	}
	printf("a frame was used %.3g times while its file was open\n",
	       engine_reuse(&report->rows[0].result));
	printf("throughput: relative to %s; differences under 20 %% mean nothing\n",
	       run_policy_name(run_yardstick(report->nodes), report->nodes, name));
}

static json_t *parameters_json(const struct tier_report *report,
                               const struct engine_result *r)
{
	const struct engine_options *o = &report->run->options;

	return json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:i, s:i, s:i}", "file",
	                 o->cost->name, "hash", o->cost->hash, "scale", (int)o->scale,
	                 "seed", (json_int_t)report->run->seed, "fast_bytes",
	                 (json_int_t)r->capacity[KLOC_FAST], "slow_bytes",
	                 (json_int_t)r->capacity[KLOC_SLOW], "segment_bytes",
	                 (json_int_t)r->parameters.segment_bytes, "prefetch",
	                 (int)o->prefetch, "fast_mb_s",
	                 (int)o->cost->machine.read_mb_s[KLOC_FAST], "slow_mb_s",
	                 (int)o->cost->machine.read_mb_s[KLOC_SLOW]);
}

/* By kind: how many, where they were placed, how they moved, how long they lived. */
static json_t *kinds_json(const struct engine_result *r)
{
	json_t *kinds = json_object();
	u32 kind;

	for (kind = 0; kind < KLOC_NR_KINDS; kind++) {
		if (r->added[kind] == 0 && r->touched[kind] == 0)
			continue;
		json_object_set_new(
			kinds, kloc_kind_name(kind),
			json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "added",
		                  (json_int_t)r->added[kind], "added_bytes",
		                  (json_int_t)r->added_bytes[kind], "slow_allocations",
		                  (json_int_t)r->placed_slow[kind], "touched_bytes",
		                  (json_int_t)r->touched[kind], "slow_touched_bytes",
		                  (json_int_t)r->slow_touched[kind], "down",
		                  (json_int_t)r->moved[kind][KLOC_DEMOTE], "up",
		                  (json_int_t)(r->moved[kind][KLOC_PROMOTE] +
		                               r->moved[kind][KLOC_FOLLOW]),
		                  "lived_ns",
		                  r->removed[kind] ? (double)r->lived_ns[kind] /
		                                             (double)r->removed[kind]
		                                   : 0.0));
	}
	return kinds;
}

static json_t *row_json(const struct tier_report *report, const struct tier_row *row)
{
	const struct engine_result *r = &row->result;
	char name[RUN_NAME_BYTES];
	json_t *bound = json_object();
	u32 by;

	for (by = 0; by < CHARGE_NR; by++)
		json_object_set_new(bound, resources[by],
		                    json_real(r->ns > 0 ? r->bound[by] / r->ns : 0));
	return json_pack(
		"{s:s, s:s, s:f, s:{s:I, s:I}, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:I, s:I, "
		"s:I, s:I, s:I, s:I, s:o, s:o, s:o}",
		"workload", workload_of(report), "policy",
		run_policy_name(row->policy, report->nodes, name), "throughput",
		throughput(report, row), "migrations", "down",
		(json_int_t)moved_down(r), "up", (json_int_t)moved_up(r),
		"slow_allocations", (json_int_t)engine_placed_slow(r), "small_objects",
		(json_int_t)engine_small_objects(r), "metadata_bytes",
		(json_int_t)engine_metadata_bytes(r), "ns", r->ns, "reuse",
		engine_reuse(r), "events", (json_int_t)r->events, "list_hits",
		(json_int_t)r->list_hits, "list_misses", (json_int_t)r->list_misses,
		"tree_walks", (json_int_t)r->tree_walks, "tree_visits",
		(json_int_t)r->tree_visits, "retained", (json_int_t)r->retained,
		"peak_objects", (json_int_t)r->peak_objects, "failed",
		(json_int_t)r->failed, "bound", bound, "kinds", kinds_json(r),
		"parameters", parameters_json(report, r));
}

int tier_report_json(const struct tier_report *report)
{
	json_t *results = json_array(), *all;
	u32 i;

	for (i = 0; i < report->nr; i++)
		json_array_append_new(results, row_json(report, &report->rows[i]));
	all = json_pack("{s:s, s:s, s:o}", "version", command_version(), "commit",
	                command_commit(), "results", results);
	if (!all)
		return -ENOMEM;
	json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	json_decref(all);
	printf("\n");
	return 0;
}
