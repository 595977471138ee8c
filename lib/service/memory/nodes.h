/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Which nodes of memory the machine has, and which CPUs are near to which. A test may name a
 * folder that stands in for the kernel's (options.placing.nodes). The service then believes it,
 * and memory stays where the kernel puts it.
 */
#ifndef LODIC_LIB_SERVICE_MEMORY_NODES_H
#define LODIC_LIB_SERVICE_MEMORY_NODES_H

#include "host/host.h"

/* The machine's nodes of memory. */
#define NODES_MOST_CPUS 4096u
struct nodes {
	int fast, slow; /* for the two tiers; -1: there is none */
	u32 nr_near;    /* that have memory and CPUs */
	u32 nr_cpus;    /* the highest number of one, plus 1 */
	bool stands_in; /* a test's */
	u16 of_cpu[NODES_MOST_CPUS];
};

/* Looks at a folder like /sys/devices/system/node; NULL: at that one. */
void nodes_look(struct nodes *n, const char *folder);
/* The node of a CPU. cpu is a program's word: one that is not there counts as the first. */
u32 nodes_of_cpu(const struct nodes *n, u64 cpu);

/* Asks for memory at a node, or another one where that is full. 0 or -errno. */
int nodes_bind(const struct nodes *n, void *at, u64 bytes, u32 node);

#endif
