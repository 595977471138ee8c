/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Eviction as users meet it: three traces through a real service. lodic_read() is the only
 * reader, so eviction hears of no visits but those in its context. The hit ratio must be
 * within half a point of the reference (tests/support/trace.h). tests/unit/test_reclaim.c
 * tests eviction alone, without service and context.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/cache_fixture.h"
#include "tests/support/trace.h"

#define MOST_POINTS_OFF 0.5

static u64 nr_accesses = TRACE_SHORT;
static u64 only_light; /* 1: the one trace by light pins */

struct replay {
	struct test_bed bed;
	u64 hits;
};

/* One access: was it a hit? A miss returns when its block is cached, because the reference
 * caches it at once. */
static bool replay_read(void *ctx, u32 block)
{
	struct replay *r = ctx;
	off_t offset = (off_t)block * LODIC_BLOCK_BYTES;
	u64 before = r->hits;
	u64 word;

	REQUIRE(lodic_read(r->bed.context, r->bed.file, &word, sizeof(word), offset) ==
	                sizeof(word),
	        "block %u", block);
	r->hits = test_context_stat(r->bed.context).hits;
	if (r->hits > before)
		return true;
	REQUIRE(lodic_prefetch(r->bed.context, r->bed.file, offset, 1, LODIC_WAIT) == 0,
	        "block %u", block);
	return false;
}

static bool replay_one(const struct trace_reference *reference, bool light)
{
	static struct trace trace;
	static struct replay r;
	u64 wanted = nr_accesses == TRACE_LONG ? reference->hits_long
	                                       : reference->hits_short;
	double points;
	u64 hits;

	r = (struct replay){ 0 };
	test_bed_init(&r.bed, LODIC_LODIC);
	r.bed.service.options.sizes.cache_bytes =
		(u64)reference->nr_frames * LODIC_BLOCK_BYTES;
	r.bed.service.options.keeping.buffered = true; /* a miss need not wait for the disk */
	r.bed.service.options.tables.barrier =
		light ? SERVICE_BARRIER_LIGHT : SERVICE_BARRIER_LOCK;
	test_bed_make(&r.bed, (u64)TRACE_NR_BLOCKS * LODIC_BLOCK_BYTES);
	trace_init(&trace, reference->kind);
	hits = trace_replay(&trace, nr_accesses, replay_read, &r);
	points = 100.0 * ((double)hits - (double)wanted) / (double)nr_accesses;
	printf("%-6s %5u frames, %s pins: %.4f of %llu accesses hit, reference %.4f: "
	       "%+.3f points\n",
	       trace_names[reference->kind], reference->nr_frames,
	       light ? "light" : "locked", (double)hits / (double)nr_accesses,
	       (unsigned long long)nr_accesses, (double)wanted / (double)nr_accesses,
	       points);
	fflush(stdout);
	test_bed_free(&r.bed);
	return points <= MOST_POINTS_OFF && points >= -MOST_POINTS_OFF;
}

/* Reader and service take turns. On one CPU a turn is a switch of tasks. On two it is an
 * interrupt to a CPU that sleeps, which costs a virtual machine seven times as much. */
static void stay_on_one_cpu(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		perror("hit_ratio: not on one CPU, so it takes longer");
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = {
		{ .name = "--accesses", .number = &nr_accesses },
		{ .name = "--light", .number = &only_light },
		{ 0 },
	};
	bool all = true;

	fixture_begin(argc, argv, options);
	stay_on_one_cpu();
	REQUIRE(nr_accesses == TRACE_SHORT || nr_accesses == TRACE_LONG,
	        "there are references for %u and %u accesses", TRACE_SHORT, TRACE_LONG);
	for (size_t i = 0; !only_light && i < TRACE_NR_REFERENCES; i++)
		all = replay_one(&trace_references[i], false) && all;
	/* A stock of free frames, and victims that nobody has come back for. Each miss may
	 * have to wait for the fence, so one trace must do. */
	if (only_light)
		all = replay_one(&trace_references[1], true);
	REQUIRE(all, "more than %.1f points off", MOST_POINTS_OFF);
	return 0;
}
