/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See scenarios.h. */
#include "check/whole/scenarios.h"

#include <errno.h>
#include <string.h>

#include "check/whole/settle.h"
#include "check/whole/waits.h"

#define NS_PER_MS ((u64)1000000)
/* The end of a service awaits a worker for 200 ms. */
#define SLOW_MS 2000u

/* Nothing fails but the reads of the service's workers: each is interrupted, as long as faults
 * last. */
static void reads_interrupted(void)
{
	const struct call_errnos *can = &call_errnos[CALL_READ_PIECES];
	u32 which = 0;

	while (which < (u32)can->nr && can->errnos[which] != EINTR)
		which++;
	world_no_faults();
	machine.no_reads = true;
	machine.fault_call = CALL_READ_PIECES;
	machine.fault_which = which;
	machine.rate[FAULT_ERRNO] = 1;
}

/* Nothing fails but memory for the product. So a worker's read may have none. */
static void reads_starved(void)
{
	world_no_faults();
	machine.no_reads = true;
	machine.fault_call = CALL_ALLOC;
	machine.fault_which = CALL_MOST_ERRNOS;
	machine.rate[FAULT_ERRNO] = 4u << machine_draw(5);
}

static void ender_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		struct process *service;

		task_wait(NULL, machine.now_ns + machine_draw(1000) * NS_PER_MS);
		service = world_youngest_service();
		if (service)
			process_signal(service, SIGNAL_END);
	}
}

/* Nothing fails, but the disk is slow. So services end while their workers read. */
static void reads_slow(void)
{
	world_no_faults();
	machine.no_reads = true;
	machine.read_ms = SLOW_MS;
	settle_expect(process_start("ender", WORLD_USER, ender_run,
	                            (void *)(uintptr_t)(1 + machine_draw(8))));
}

static void reads_begin(void)
{
	switch (machine_draw(16)) {
	case 0: reads_interrupted(); break;
	case 1: reads_starved(); break;
	case 2: reads_slow(); break;
	default: break;
	}
	for (u32 i = 1 + machine_draw(world.wide ? 8 : 3); i > 0; i--)
		world_reader(50 + machine_draw(400));
	if (machine_draw(3) > 0)
		world_writer(1 + machine_draw(10));
	if (machine_draw(4) == 0)
		world_mover(1 + machine_draw(10));
}

static void cuts_begin(void)
{
	for (u32 i = 1 + machine_draw(4); i > 0; i--)
		world_reader(50 + machine_draw(400));
	world_cutter(1 + machine_draw(6));
}

static void comers_begin(void)
{
	world_no_faults();
	for (u32 i = 1 + machine_draw(3); i > 0; i--)
		world_comer(1 + machine_draw(6));
}

const struct scenario scenarios[] = {
	{ "reads", reads_begin, true },
	{ "threads", scenario_threads, true },
	{ "files", scenario_files, true },
	{ "holds", scenario_holds, true },
	{ "look", scenario_look, true },
	{ "succession", scenario_succession, true },
	{ "strangers", scenario_strangers, true },
	{ "users", scenario_users, true },
	{ "rubbish", scenario_rubbish, true },
	{ "cancels", scenario_cancels, true },
	{ "takeover", scenario_takeover, false },
	{ "resize", scenario_resize, false },
	{ "cuts", cuts_begin, true },
	{ "comers", comers_begin, false },
	{ "table", scenario_table, true },
	{ "lent", scenario_lent, true },
	{ "starts", scenario_starts, false },
	{ "idle", scenario_idle, false },
	{ "short", scenario_short, false },
	{ "seats", scenario_seats, false },
	{ "channels", scenario_channels, false },
	{ "worker", scenario_worker, false },
	{ "config", scenario_config, false },
	{ "far", scenario_far, false },
	{ "turns", scenario_turns, false },
	{ "races", scenario_races, false },
	{ "pressure", scenario_pressure, false },
	{ "budget", scenario_budget, false },
};
const u32 nr_scenarios = sizeof(scenarios) / sizeof(scenarios[0]);

const struct scenario *scenario_find(const char *name)
{
	for (u32 i = 0; i < nr_scenarios; i++)
		if (strcmp(scenarios[i].name, name) == 0)
			return &scenarios[i];
	return NULL;
}

const struct scenario *scenario_draw(void)
{
	bool one_error = machine.fault_call < NR_CALLS; /* it must not be in vain */
	u32 nr = 0, which;

	for (u32 i = 0; i < nr_scenarios; i++)
		nr += !one_error || scenarios[i].faulty;
	which = machine_draw(nr);
	for (u32 i = 0;; i++)
		if ((!one_error || scenarios[i].faulty) && which-- == 0)
			return &scenarios[i];
}

void scenario_begin(const struct scenario *scenario)
{
	settle_begin();
	waits_begin();
	scenario->begin();
}
