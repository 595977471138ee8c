/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See nodes.h. A node that is full refuses nothing: a cache that starts is worth more than one that
 * lies as asked. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/port/pages.h"
#include "lib/service/memory/nodes.h"

#define FOLDER "/sys/devices/system/node"
#define PATH_BYTES 512
/* Nodes, or CPUs. */
#define MOST_NUMBERS NODES_MOST_CPUS
#define NUMBER_WORDS (MOST_NUMBERS / (8 * sizeof(unsigned long)))
/* All of them one by one: four digits and a comma. */
#define LIST_BYTES (5 * MOST_NUMBERS + 1)

/* Sets the bit of each number that a list like "0-3,8" names. false: there is no such list. */
static bool nodes_read_list(const char *folder, const char *name,
                            unsigned long *ret_bits)
{
	char path[PATH_BYTES], text[LIST_BYTES], *at = text;
	unsigned long from, to;
	u32 nr = 0;

	memset(ret_bits, 0, NUMBER_WORDS * sizeof(*ret_bits));
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (port_system_text(path, text, sizeof(text)) < 0)
		return false;
	while (nr < MOST_NUMBERS && isdigit((unsigned char)*at)) {
		from = to = strtoul(at, &at, 10);
		if (*at == '-' && isdigit((unsigned char)at[1]))
			to = strtoul(at + 1, &at, 10);
		for (; from <= to && from < MOST_NUMBERS; from++, nr++)
			ret_bits[from / 64] |= 1ul << from % 64;
		if (*at == ',')
			at++;
	}
	return nr > 0;
}

static bool nodes_has(const unsigned long *bits, u32 number)
{
	return bits[number / 64] >> number % 64 & 1;
}

/* The CPUs of a node; they are near to memory of that one, or of another. */
static void nodes_take_cpus(struct nodes *n, const char *folder, u32 node, u32 near)
{
	unsigned long cpus[NUMBER_WORDS];
	char name[32];

	snprintf(name, sizeof(name), "node%u/cpulist", node);
	if (!nodes_read_list(folder, name, cpus))
		return;
	n->nr_near += near == node;
	for (u32 cpu = 0; cpu < NODES_MOST_CPUS; cpu++) {
		if (!nodes_has(cpus, cpu))
			continue;
		n->of_cpu[cpu] = (u16)near;
		n->nr_cpus = cpu < n->nr_cpus ? n->nr_cpus : cpu + 1;
	}
}

void nodes_look(struct nodes *n, const char *folder)
{
	unsigned long memory[NUMBER_WORDS], cpus[NUMBER_WORDS];
	int other = -1, bare = -1;

	memset(n, 0, sizeof(*n));
	n->fast = n->slow = -1;
	n->nr_cpus = 1;
	n->stands_in = folder != NULL;
	folder = folder ? folder : FOLDER;
	if (!nodes_read_list(folder, "has_memory", memory) ||
	    !nodes_read_list(folder, "has_cpu", cpus))
		return;
	for (u32 node = 0; node < PORT_MOST_NODES; node++) {
		if (!nodes_has(memory, node))
			continue;
		if (!nodes_has(cpus, node)) {
			bare = bare < 0 ? (int)node : bare;
			continue;
		}
		if (n->fast < 0)
			n->fast = (int)node;
		else
			other = other < 0 ? (int)node : other;
	}
	for (u32 node = 0; n->fast >= 0 && node < PORT_MOST_NODES; node++)
		if (nodes_has(cpus, node))
			nodes_take_cpus(n, folder, node,
			                nodes_has(memory, node) ? node : (u32)n->fast);
	/* Persistent and CXL memory show up without CPUs. */
	n->slow = bare >= 0 ? bare : other;
}

u32 nodes_of_cpu(const struct nodes *n, u64 cpu)
{
	return n->of_cpu[cpu < NODES_MOST_CPUS ? cpu : 0];
}

int nodes_bind(const struct nodes *n, void *at, u64 bytes, u32 node)
{
	int err = port_node_prefer(at, bytes, node);

	return n->stands_in ? 0 : err;
}
