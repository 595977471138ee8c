/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the machine is. Contract: bench/measure/machine.h. */
#define _GNU_SOURCE
#include "bench/measure/machine.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* Takes X from "model name : X". Machines without that line stay "unknown". */
static void machine_find_cpu(struct machine *machine)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];

	strcpy(machine->cpu, "unknown");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (strncmp(line, "model name", strlen("model name")) != 0 || !colon)
			continue;
		colon[strcspn(colon, "\n")] = '\0';
		snprintf(machine->cpu, sizeof(machine->cpu), "%.100s",
		         colon + strspn(colon, ": "));
		break;
	}
	fclose(f);
}

/* Does the CPU share a core with one of a smaller number? */
static bool machine_is_sibling(int cpu)
{
	char path[96];
	int first = cpu;
	FILE *f;

	snprintf(path, sizeof(path),
	         "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%d", &first) != 1)
		first = cpu;
	fclose(f);
	return first < cpu;
}

unsigned int machine_cpus(int *ret_cpus, unsigned int most)
{
	unsigned int nr = 0, taken = 0;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		return 0;
	for (int sibling = 0; sibling < 2; sibling++) {
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (!CPU_ISSET(cpu, &set) || machine_is_sibling(cpu) != sibling)
				continue;
			nr++;
			if (taken < most)
				ret_cpus[taken++] = cpu;
		}
	}
	return nr;
}

void machine_find(struct machine *machine)
{
	int unused[1];
	struct utsname name;

	*machine = (struct machine){ 0 };
	machine_find_cpu(machine);
	/* The host's name is private, and so is what stands behind the release's dash. */
	if (uname(&name) == 0)
		snprintf(machine->kernel, sizeof(machine->kernel), "%.24s %.*s %.24s",
		         name.sysname, (int)strcspn(name.release, "-"), name.release,
		         name.machine);
	machine->nr_cpus = machine_cpus(unused, 0);
	machine->memory_bytes =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

json_t *machine_json(const struct machine *machine)
{
	json_t *o = json_object();

	json_object_set_new(o, "cpu", json_string(machine->cpu));
	json_object_set_new(o, "cpus", json_integer(machine->nr_cpus));
	json_object_set_new(o, "kernel", json_string(machine->kernel));
	json_object_set_new(o, "memory_bytes",
	                    json_integer((json_int_t)machine->memory_bytes));
	return o;
}
