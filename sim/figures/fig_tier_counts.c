/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What can be counted: KLOCs Fig. 2, by kind; Fig. 5b, where objects are placed and how they
 * move. And Table 6, the memory of the groups. */
#include <stdio.h>
#include <string.h>

#include "sim/figures/fig_tier.h"

#define MB 1e6
#define NS_PER_MS 1e6
#define SHARE(part, whole) ((whole) > 0 ? 100.0 * (double)(part) / (double)(whole) : 0)

/* KLOCs s.3.3: slab pages live for 36 ms, page cache for 160; the text names RocksDB and Redis. */
static double paper_lifetime(const char *workload, u32 kind)
{
	if (strcmp(workload, "rocksdb") != 0 && strcmp(workload, "redis") != 0)
		return FIG_NO_PAPER;
	return kind == KLOC_FRAME ? 160 : kind == KLOC_SLAB ? 36 : FIG_NO_PAPER;
}

/* Shares of bytes allocated and of lines touched, by kind, and how long objects of a kind live.
 * Time is scaled with the bytes, so a lifetime is multiplied by the scale. */
static int objects_of(struct fig_run *run, const char *workload)
{
	struct fig_tier_setup setup = { .workload = workload };
	double scale = run->options->quick ? FIG_TIER_QUICK_SCALE : FIG_TIER_SCALE;
	static struct engine_result r;
	u64 bytes[KLOC_NR_KINDS], all = 0, lines = 0;
	u32 kind;
	int err = fig_tier_run(run, &setup, fig_tier_named("all_fast"), &r);

	for (kind = 0; kind < KLOC_NR_KINDS && !err; kind++) {
		/* What was there before the measured part counts, too. */
		bytes[kind] = r.added_bytes[kind];
		if (kind == KLOC_APP || kind == KLOC_FRAME)
			bytes[kind] += r.live_at_begin[kind] * 4096;
		all += bytes[kind];
		lines += r.lines[kind];
	}
	for (kind = 0; kind < KLOC_NR_KINDS && !err; kind++) {
		const char *name = kloc_kind_name(kind);
		char panel[FIG_NAME_BYTES];

		if (bytes[kind] == 0 && r.lines[kind] == 0)
			continue;
		snprintf(panel, sizeof(panel), "bytes allocated: %s", workload);
		err = fig_add_value(run, panel, name, 0, "%", FIG_CONSEQUENCE,
		                    SHARE(bytes[kind], all), FIG_NO_PAPER);
		snprintf(panel, sizeof(panel), "references: %s", workload);
		if (!err)
			err = fig_add_value(run, panel, name, 0, "%", FIG_CONSEQUENCE,
			                    SHARE(r.lines[kind], lines), FIG_NO_PAPER);
		snprintf(panel, sizeof(panel), "lifetime: %s", workload);
		if (!err && r.removed[kind] > 0)
			err = fig_add_value(run, panel, name, 0, "ms", FIG_CONSEQUENCE,
			                    (double)r.lived_ns[kind] * scale /
			                            (double)r.removed[kind] / NS_PER_MS,
			                    paper_lifetime(workload, kind));
	}
	return err;
}

static int run_objects(struct fig_run *run)
{
	int err = 0;
	u32 i;

	for (i = 0; i < FIG_TIER_NR_WORKLOADS && !err; i++)
		err = objects_of(run, fig_tier_workloads[i]);
	return err;
}

static int run_slow(struct fig_run *run)
{
	struct fig_tier_setup setup = { .workload = "rocksdb" };
	static struct engine_result r;
	u32 i, kind;
	int err = 0;

	for (i = 1; i < FIG_TIER_NR_SERIES && !err; i++) {
		const struct fig_tier_series *s = &fig_tier_series[i];
		u64 small = 0;

		err = fig_tier_run(run, &setup, s, &r);
		if (err)
			break;
		for (kind = KLOC_JOURNAL; kind < KLOC_NR_KINDS; kind++)
			small += r.placed_slow[kind];
		err = fig_add_value(run, "frames placed in slow memory", s->name, 0,
		                    "frames", FIG_CONSEQUENCE,
		                    (double)r.placed_slow[KLOC_FRAME], FIG_NO_PAPER);
		if (!err)
			err = fig_add_value(run, "small objects placed in slow memory",
			                    s->name, 0, "objects", FIG_CONSEQUENCE,
			                    (double)small, FIG_NO_PAPER);
		if (!err)
			err = fig_add_value(run, "moved to slow memory", s->name, 0,
			                    "objects", FIG_CONSEQUENCE,
			                    (double)engine_moved(&r, KLOC_DEMOTE),
			                    FIG_NO_PAPER);
		if (!err)
			err = fig_add_value(run, "moved to fast memory", s->name, 0,
			                    "objects", FIG_CONSEQUENCE,
			                    (double)engine_moved(&r, KLOC_PROMOTE),
			                    FIG_NO_PAPER);
	}
	return err;
}

/* Objects and knodes of the scaled run, by sizeof, at the paper's size. */
static int run_memory(struct fig_run *run)
{
	static const double paper_mb[FIG_TIER_NR_WORKLOADS] = { 101, 83, 44, 12, 43 };
	double scale = run->options->quick ? FIG_TIER_QUICK_SCALE : FIG_TIER_SCALE;
	static struct engine_result r;
	u32 i;
	int err = 0;

	for (i = 0; i < FIG_TIER_NR_WORKLOADS && !err; i++) {
		struct fig_tier_setup setup = { .workload = fig_tier_workloads[i] };
		double objects, knodes;

		err = fig_tier_run(run, &setup, fig_tier_named("kloc"), &r);
		if (err)
			break;
		/* Files are as many as in the paper at any scale. */
		objects = (double)r.peak_objects * scale;
		knodes = (double)r.peak_knodes;
		err = fig_add_value(
			run, "the index alone", setup.workload, 0, "MB",
			FIG_CONSEQUENCE,
			(objects * r.cost.link_bytes + knodes * r.cost.knode_bytes) /
				MB,
			paper_mb[i]);
		if (!err)
			err = fig_add_value(run, "all that core/kloc keeps",
			                    setup.workload, 0, "MB", FIG_CONSEQUENCE,
			                    (objects * r.cost.object_bytes +
			                     knodes * r.cost.knode_bytes) /
			                            MB,
			                    FIG_NO_PAPER);
		if (!err)
			err = fig_add_value(
				run, "the index, of fast memory", setup.workload, 0,
				"%", FIG_CONSEQUENCE,
				SHARE(objects * r.cost.link_bytes +
			                      knodes * r.cost.knode_bytes,
			              (double)r.capacity[KLOC_FAST] * scale),
				FIG_NO_PAPER);
	}
	return err;
}

#define LEFT_OUT \
	"where the paper draws a bar without a number in its text, there is none here"

const struct fig fig_tier_objects = {
	.name = "tier-objects",
	.paper = "KLOCs Fig. 2a, 2c, 2d",
	.title = "What memory is used for, by kind",
	.x = "kind",
	.modelled =
		"what the generators allocate and touch, in lines of 64 bytes; lifetimes "
		"with all memory fast, times the scale",
	.left_out = LEFT_OUT,
	.simulated = true,
	.run = run_objects,
};
const struct fig fig_tier_slow = {
	.name = "tier-slow",
	.paper = "KLOCs Fig. 5b",
	.title = "RocksDB: what is placed in slow memory, and what moves",
	.x = "policy",
	.modelled = "counts of the measured part, at 1/256 of the paper's size",
	.left_out = LEFT_OUT,
	.simulated = true,
	.run = run_slow,
};
const struct fig fig_tier_memory = {
	.name = "tier-memory",
	.paper = "KLOCs Table 6",
	.title = "Memory that grouping takes",
	.x = "workload",
	.modelled =
		"sizeof, for the most objects and knodes that the scaled run had, times the "
		"scale; files are as many as in the paper",
	.left_out =
		"the lists of CPUs, which are a few KiB; that a host has the object's other "
		"fields anyway",
	.simulated = true,
	.run = run_memory,
};
