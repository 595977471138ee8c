/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The machine that is measured on, as far as results must name it. */
#ifndef LODIC_BENCH_MEASURE_MACHINE_H
#define LODIC_BENCH_MEASURE_MACHINE_H

#include <jansson.h>
#include <stdint.h>

#define MACHINE_TEXT_BYTES 128

struct machine {
	char cpu[MACHINE_TEXT_BYTES];
	char kernel[MACHINE_TEXT_BYTES];
	unsigned int nr_cpus; /* that this process may use */
	uint64_t memory_bytes;
};

void machine_find(struct machine *machine);
json_t *machine_json(const struct machine *machine);

/* Gives the CPUs that this process may use, at most so many. CPUs that share a core with
 * one of a smaller number come last. Returns how many there are in all. */
unsigned int machine_cpus(int *ret_cpus, unsigned int most);

#endif
