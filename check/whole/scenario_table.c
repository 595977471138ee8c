/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs with the shim, which change their descriptors more than they read. Others change the
 * files.
 */
#include "check/whole/scenarios.h"
#include "check/whole/shimmed.h"

void scenario_table(void)
{
	u32 nr = 1 + machine_draw(2);

	shimmed_begin();
	for (u32 i = 0; i < nr; i++) {
		struct shimmed_plan plan = { .changes = 2 + machine_draw(8) };

		plan.nr_rounds = 20 + machine_draw(200);
		plan.nr_threads = machine_draw(3) ? 0 : 1 + machine_draw(SHIMMED_THREADS);
		plan.gives_up = machine_draw(3) == 0;
		plan.strays = machine_draw(3) == 0;
		shimmed_start(&plan);
	}
	if (machine_draw(2))
		world_service(false);
	if (machine_draw(2))
		world_writer(1 + machine_draw(10));
	if (machine_draw(3) == 0)
		world_mover(1 + machine_draw(10));
	if (machine_draw(3) == 0)
		world_reader(50 + machine_draw(200));
}
