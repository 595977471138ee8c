// SPDX-License-Identifier: GPL-2.0
#include "cpu.h"

u32 cpu_nr(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	return CPU_COUNT(&set) ? CPU_COUNT(&set) : 1;
}

void cpu_pin(u32 n)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(n % cpu_nr(), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

void cpu_unpin(void)
{
	cpu_set_t set;
	u32 i;

	CPU_ZERO(&set);
	for (i = 0; i < CPU_SETSIZE; i++)
		CPU_SET(i, &set);
	sched_setaffinity(0, sizeof(set), &set);
}
