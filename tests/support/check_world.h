/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What small programs for the checker share, and how a test runs them: for tests of the
 * checker itself. Each test program has its own copy.
 */
#ifndef LODIC_TESTS_SUPPORT_CHECK_WORLD_H
#define LODIC_TESTS_SUPPORT_CHECK_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host/check/check.h"

/* What a program's tasks share; it lies in the checker's memory. */
static struct world {
	u64 x, pad0[7], y, pad1[7], z, pad2[7];
	u64 seen[4]; /* what tasks found; plain */
	u64 order;   /* of tasks' steps, four bits each; plain */
	u64 nr;
	u64 bytes[8];
} * world;

static u64 outcomes; /* a bit for each that finish() met */

static void world_make(void)
{
	world = host_alloc(sizeof(*world), 64);
	check_name(&world->x, 8, "x");
	check_name(&world->y, 8, "y");
}

static struct check_result run(const struct check_scenario *s,
                               enum check_strategy strategy, enum check_memory memory,
                               u64 nr)
{
	struct check_options o = { .strategy = strategy,
		                   .memory = memory,
		                   .seed = 1,
		                   .nr_schedules = nr,
		                   .preemption_bound = 100 };
	struct check_result r;

	outcomes = 0;
	check_run(s, &o, true, &r);
	return r;
}

static const enum check_strategy all[] = { CHECK_RANDOM, CHECK_PCT3, CHECK_PCT4,
	                                   CHECK_EXHAUSTIVE };
#define NR_ALL (sizeof(all) / sizeof(all[0]))

#endif
