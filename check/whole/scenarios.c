/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See scenarios.h. */
#include "check/whole/scenarios.h"

#include <errno.h>
#include <string.h>

#include "check/whole/settle.h"
#include "check/whole/waits.h"

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

static void reads_begin(void)
{
	switch (machine_draw(16)) {
	case 0: reads_interrupted(); break;
	case 1: reads_starved(); break;
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
	{ "reads", reads_begin },
	{ "threads", scenario_threads },
	{ "files", scenario_files },
	{ "holds", scenario_holds },
	{ "look", scenario_look },
	{ "succession", scenario_succession },
	{ "strangers", scenario_strangers },
	{ "users", scenario_users },
	{ "rubbish", scenario_rubbish },
	{ "cancels", scenario_cancels },
	{ "takeover", scenario_takeover },
	{ "resize", scenario_resize },
	{ "cuts", cuts_begin },
	{ "comers", comers_begin },
	{ "table", scenario_table },
	{ "lent", scenario_lent },
	{ "starts", scenario_starts },
	{ "idle", scenario_idle },
	{ "short", scenario_short },
	{ "seats", scenario_seats },
	{ "channels", scenario_channels },
	{ "worker", scenario_worker },
	{ "config", scenario_config },
	{ "far", scenario_far },
	{ "turns", scenario_turns },
	{ "races", scenario_races },
	{ "pressure", scenario_pressure },
	{ "budget", scenario_budget },
};
const u32 nr_scenarios = sizeof(scenarios) / sizeof(scenarios[0]);
const char *scenario_name;

const struct scenario *scenario_find(const char *name)
{
	for (u32 i = 0; i < nr_scenarios; i++)
		if (strcmp(scenarios[i].name, name) == 0)
			return &scenarios[i];
	return NULL;
}

const struct scenario *scenario_draw(void)
{
	return &scenarios[machine_draw(nr_scenarios)];
}

void scenario_begin(const struct scenario *scenario)
{
	scenario_name = scenario->name;
	settle_begin();
	waits_begin();
	scenario->begin();
}
