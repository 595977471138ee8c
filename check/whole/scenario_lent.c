/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs with the shim, which read files that a service has. Meanwhile services are killed, stand
 * still, and take each other's place with caches of other sizes.
 */
#include "check/whole/scenarios.h"
#include "check/whole/settle.h"
#include "check/whole/shimmed.h"

#define NS_PER_MS ((u64)1000000)

/* The last one that has started; NULL: none lives. */
static struct process *lent_service(void)
{
	for (u32 i = machine.nr_processes; i > 0; i--)
		if (world_is_service(&machine.processes[i - 1]) && !machine.processes[i - 1].dead)
			return &machine.processes[i - 1];
	return NULL;
}

static void lent_stops(struct process *service)
{
	u64 ns = (machine_draw(4) ? 1000 : 60000) * NS_PER_MS;

	if (service->resume) /* a fault has stopped it */
		return;
	process_stop(service, true);
	task_wait(NULL, machine.now_ns + machine_draw((u32)(ns / NS_PER_MS)) * NS_PER_MS);
	if (!service->dead)
		process_stop(service, false);
}

/* What befalls services. */
static void lent_befalls(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		struct process *service = lent_service();
		u32 what = machine_draw(4);

		if (machine.nr_processes >= MACHINE_MOST_PROCESSES / 2)
			return;
		if (!service)
			world_service(false);
		else if (what == 0)
			process_kill(service);
		else if (what == 1)
			lent_stops(service);
		else if (what == 2)
			world_service(true);
		task_wait(NULL, machine.now_ns + machine_draw(1500) * NS_PER_MS);
	}
}

void scenario_lent(void)
{
	u32 nr = 1 + machine_draw(2);

	shimmed_begin();
	world_service(false);
	for (u32 i = 0; i < nr; i++) {
		struct shimmed_plan plan = { .changes = 8 + machine_draw(40) };

		plan.nr_rounds = 50 + machine_draw(300);
		plan.nr_threads = machine_draw(2) ? 0 : 1 + machine_draw(SHIMMED_THREADS);
		plan.gives_up = machine_draw(4) == 0;
		shimmed_start(&plan);
	}
	settle_expect(process_start("fate", WORLD_USER, lent_befalls,
	                            (void *)(uintptr_t)machine_draw(12)));
	if (machine_draw(2))
		world_writer(1 + machine_draw(10));
	if (machine_draw(3) == 0)
		world_mover(1 + machine_draw(10));
}
