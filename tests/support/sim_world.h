/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A small machine whose costs are round numbers, and tasks for it: for tests of the
 * timing model. Each test program has its own copy.
 */
#ifndef LODIC_TESTS_SUPPORT_SIM_WORLD_H
#define LODIC_TESTS_SUPPORT_SIM_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "host/sim/sim.h"

#define LINE_WORDS 8u

/* Two sockets of four CPUs. A cycle is a nanosecond, and nothing is drawn at random. */
static struct sim_machine plain_machine(void)
{
	struct sim_machine m = {
		.name = "plain",
		.nr_sockets = 2,
		.cpus_per_socket = 4,
		.hops = { { 0, 1 }, { 1, 0 } },
		.cycle_ps = 1000,
		.load_dirty = { 100, 200, 300 },
		.load_shared = { 40, 140, 240 },
		.rmw_dirty = { 110, 210, 310 },
		.rmw_shared = { 105, 205, 305 },
		.load_memory = { 150, 250, 350 },
		.hit = 1,
		.hit_dep = 4,
		.store = 2,
		.rmw_extra = 19,
		.fence = 33,
		.relax = 10,
		.copy_bytes_per_cycle = 16,
		.copy_overlap = 10,
		.hold_ns = 10,
		.shared_busy_ns = 5,
		.queued_percent = 100,
		.fence_heavy_ns = 5000,
		.skew_ns = 200,
		.slice_ns = 10000,
		.switch_ns = 100,
	};

	return m;
}

static inline u64 *new_line(const char *name)
{
	u64 *p = host_alloc(64, 64);

	assert_non_null(p);
	sim_name(p, 64, name);
	return p;
}

static inline u64 transfers_of(const struct sim_result *r, const char *name)
{
	for (u32 i = 0; i < r->nr_lines; i++)
		if (strcmp(r->lines[i].name, name) == 0)
			return r->lines[i].transfers;
	fail_msg("no line is called %s", name);
	return 0;
}

/* What tasks share with the test. It is plain memory, charged to no task. */
struct shared {
	u64 *word;
	u64 *own[SIM_MAX_CPUS];
	u64 cost[16];
	u64 ops[SIM_MAX_CPUS];
	u64 last[SIM_MAX_CPUS];
	u64 ticks[SIM_MAX_CPUS];
	u64 max_ahead, order_broken, newest;
	u32 owners[4096];
	u32 nr_owners;
	u32 inside, max_inside, holder;
};
static struct shared s;
static u32 numbers[SIM_MAX_CPUS];

static inline void begin(const struct sim_machine *m, u64 seed)
{
	memset(&s, 0, sizeof(s));
	sim_begin(m, seed);
	s.word = new_line("word");
}

static inline void tasks_on_all(void (*body)(void *), u32 nr)
{
	for (u32 i = 0; i < nr; i++) {
		numbers[i] = i;
		s.own[i] = new_line("own");
		sim_task(i, body, &numbers[i]);
	}
}

static inline void body_private(void *arg)
{
	u64 *p = s.own[*(const u32 *)arg];

	while (!sim_stopping()) {
		host_fetch_add(p, 1);
		sim_op_done();
		s.ops[*(const u32 *)arg]++;
	}
}

static inline void body_hammer(void *arg)
{
	u32 self = *(const u32 *)arg;

	while (!sim_stopping()) {
		host_fetch_add(s.word, 1);
		if (s.nr_owners < 4096 &&
		    (s.nr_owners == 0 || s.owners[s.nr_owners - 1] != self))
			s.owners[s.nr_owners++] = self;
		s.ops[self]++;
		sim_op_done();
		sim_work(50);
	}
}

static inline void hammer(const struct sim_machine *m, u64 seed, struct sim_result *r)
{
	begin(m, seed);
	tasks_on_all(body_hammer, 8);
	sim_run(10000, 500000, r);
}

#endif
