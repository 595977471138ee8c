/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * `lodic-sim micro` takes the few steps that bench_micro measures on this machine, on
 * the simulated one. doc/validation.md holds the two against each other. Steps and units
 * are bench/micro.h's.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "core/owned/count_owned.h"
#include "sim/figures/fig_micro.h"
#include "sim/figures/fig_read.h"

#define MICRO_CPUS 2u
#define WARM_NS 20000u
#define WINDOW_NS 200000u

struct micro_state {
	u64 *word;
	struct fig_world world; /* for pins */
};

struct micro_task {
	struct micro_state *state;
	u32 user;
};

static void micro_fetch_add(void *arg)
{
	struct micro_task *t = arg;

	while (!sim_stopping()) {
		host_fetch_add(t->state->word, 1);
		sim_op_done();
	}
}

static void micro_cas(void *arg)
{
	struct micro_task *t = arg;
	u64 v;

	while (!sim_stopping()) {
		do
			v = host_load_relaxed(t->state->word);
		while (!host_cas(t->state->word, v, v + 1));
		sim_op_done();
	}
}

/* One way: the word says that it is this task's turn, and the task makes it the
 * other's. */
static void micro_ping_pong(void *arg)
{
	struct micro_task *t = arg;
	u64 v;

	while (!sim_stopping()) {
		v = host_load_acquire(t->state->word);
		if (v % MICRO_CPUS != t->user)
			continue;
		host_store_release(t->state->word, v + 1);
		sim_op_done();
	}
}

static void micro_ping_pong_cas(void *arg)
{
	struct micro_task *t = arg;
	u64 v = t->user;

	while (!sim_stopping()) {
		if (!host_cas(t->state->word, v, v + 1))
			continue;
		v += MICRO_CPUS;
		sim_op_done();
	}
}

static void micro_pin(void *arg)
{
	struct micro_task *t = arg;
	u64 token;

	while (!sim_stopping()) {
		if (!count_ref(&t->state->world.count, 0, t->user, &token))
			host_fail("a live object refused a reference", __FILE__,
			          __LINE__);
		count_unref(&t->state->world.count, 0, t->user, token);
		sim_op_done();
	}
}

static const struct {
	const char *name;
	void (*body)(void *);
	u32 least_cpus;
	bool one_way;
} steps[] = {
	{ "fetch_add", micro_fetch_add, 1, false },
	{ "cas", micro_cas, 1, false },
	{ "ping_pong", micro_ping_pong, 2, true },
	{ "ping_pong_cas", micro_ping_pong_cas, 2, true },
	{ "pin", micro_pin, 1, false },
};

static int micro_measure(struct fig_run *run, const struct sim_machine *machine,
                         u64 seed, void *arg, double *ret_values)
{
	const u32 *point = arg; /* step, CPUs */
	struct micro_state state = { 0 };
	struct micro_task tasks[MICRO_CPUS];
	struct sim_result result;
	/* lodic counts locally only with so many users; the others are idle. */
	u32 nr_users =
		COUNT_OWNED_SHARE_MIN > MICRO_CPUS ? COUNT_OWNED_SHARE_MIN : MICRO_CPUS;
	u32 i;
	int err;

	(void)run;
	sim_begin(machine, seed);
	state.word = host_alloc(COUNT_LINE_BYTES, COUNT_LINE_BYTES);
	if (!state.word)
		return -ENOMEM;
	err = fig_world_make(&state.world, &count_owned, 1, 1, nr_users, 64);
	for (i = 0; i < nr_users && !err; i++)
		err = fig_world_share(&state.world, i, 1);
	if (err)
		return err;
	for (i = 0; i < point[1]; i++) {
		tasks[i] = (struct micro_task){ &state, i };
		sim_task(i, steps[point[0]].body, &tasks[i]);
	}
	sim_run(WARM_NS, WINDOW_NS, &result);
	if (result.mops <= 0)
		return -ETIME;
	ret_values[0] = 1000 / result.mops * (steps[point[0]].one_way ? 1 : point[1]);
	return 0;
}

int fig_micro(struct fig_run *run, const char *topology, const char *parameters,
              bool json)
{
	json_t *results = json_array();
	struct fig_band band;
	u32 point[2];
	json_t *all;
	int err = 0;

	if (!json)
		printf("%-14s %5s %10s %10s %10s\n", "step", "CPUs", "ns", "low",
		       "high");
	for (point[0] = 0; point[0] < sizeof(steps) / sizeof(*steps); point[0]++)
		for (point[1] = steps[point[0]].least_cpus;
		     point[1] <= MICRO_CPUS && !err; point[1]++) {
			err = fig_measure(run, micro_measure, point, 1, &band);
			if (err)
				break;
			if (!json)
				printf("%-14s %5u %10.1f %10.1f %10.1f\n",
				       steps[point[0]].name, point[1], band.value,
				       band.low, band.high);
			json_array_append_new(
				results, json_pack("{s:s, s:i, s:f, s:f, s:f, s:f}",
			                           "name", steps[point[0]].name, "cpus",
			                           (int)point[1], "ns", band.value,
			                           "spread", band.high - band.low,
			                           "low", band.low, "high", band.high));
		}
	all = json_pack("{s:s, s:s, s:I, s:o}", "topology", topology, "parameters",
	                parameters, "seed", (json_int_t)run->seed, "results", results);
	if (!err && json) {
		json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
		printf("\n");
	}
	json_decref(all);
	return err;
}
