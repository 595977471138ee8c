/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See world.h: a program that comes when a service may just end, or start. Nothing fails. */
#include <string.h>

#include "check/whole/settle.h"
#include "check/whole/world.h"

/* A service without programs ends after so long, and takes so long for that. */
#define IDLE_US 2000000u
#define END_US 4000u
#define MOST_PAUSE_US 2600000u

static void comer_comes(void)
{
	struct lodic_context *context;
	struct world_open open;
	struct lodic *lodic;
	int err = world_attach(&lodic);

	if (err)
		machine_fail("nothing fails, and a program does not attach: %d", err);
	err = world_context_open(lodic, &context);
	if (err)
		machine_fail("nothing fails, and a program has no context: %d", err);
	if (world_open(lodic, world_paths[machine_draw(WORLD_FILES)], &open)) {
		world_rounds(context, &open, 1, machine_draw(8));
		world_close(&open);
	}
	world_context_close(context);
	lodic_detach(lodic);
}

static void comer_run(void *arg)
{
	for (u32 i = (u32)(uintptr_t)arg; i > 0; i--) {
		u32 us = machine_draw(2) ? IDLE_US + machine_draw(END_US)
		                         : 1 + machine_draw(MOST_PAUSE_US);

		task_wait(NULL, machine.now_ns + us * NS_PER_US);
		comer_comes();
	}
}

struct process *world_comer(u32 nr_rounds)
{
	struct process *p = process_start("comer", WORLD_USER, comer_run,
	                                  (void *)(uintptr_t)nr_rounds);

	settle_expect(p);
	return p;
}

void world_no_faults(void)
{
	memset(machine.rate, 0, sizeof(machine.rate));
}
