/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The search over schedules of the whole product. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/whole/world.h"

static void schedule(u64 seed, bool tracing, bool faults)
{
	world_begin(seed);
	machine.tracing = tracing;
	if (faults)
		for (u32 i = 0; i < NR_FAULTS; i++)
			if (machine_draw(2))
				machine.rate[i] = (u32)16 << machine_draw(8);
	if (faults && getenv("WIDE") && machine_draw(2)) {
		machine.fault_call = machine_draw(NR_CALLS);
		machine.rate[FAULT_ERRNO] = 1 + machine_draw(16);
	}
	for (u32 i = 1 + machine_draw(getenv("WIDE") ? 8 : 3); i > 0; i--)
		world_reader(50 + machine_draw(400));
	if (machine_draw(3) > 0)
		world_writer(1 + machine_draw(10));
	if (machine_draw(4) == 0)
		world_mover(1 + machine_draw(10));
	machine_run();
}

int main(int argc, char **argv)
{
	u64 seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	u64 nr = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	bool tracing = getenv("TRACE"), faults = !getenv("NO_FAULTS");

	image_find();
	for (u64 i = seed; i < seed + nr; i++) {
		schedule(i, tracing, faults);
		if (machine.failed) {
			printf("seed %llu: %s\n", (unsigned long long)i, machine.what);
			fflush(stdout);
			if (!getenv("GO_ON"))
				return 1;
		}
	}
	printf("%llu schedules: %llu reads, %llu pins, %llu services; "
	       "last: %.3f s, %llu steps, hash %016llx\n",
	       (unsigned long long)nr, (unsigned long long)world.nr_reads,
	       (unsigned long long)world.nr_pins,
	       (unsigned long long)world.nr_services, (double)machine.now_ns / 1e9,
	       (unsigned long long)machine.steps, (unsigned long long)machine.hash);
	return 0;
}
