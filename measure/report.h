/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What was measured, for people and for machines. */
#ifndef LODIC_MEASURE_REPORT_H
#define LODIC_MEASURE_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "measure/measure.h"

#define REPORT_CPU_BYTES 128

struct machine {
	char cpu[REPORT_CPU_BYTES];
	char kernel[REPORT_CPU_BYTES];
	unsigned int nr_cpus; /* that we may use */
	uint64_t memory_bytes;
};

void machine_find(struct machine *machine);

/* One table per size: methods down, accesses and processes across; then what it means.
 * Columns without one measurable cell are left out, and named in a line below. */
void report_tables(const struct measure *m, const struct machine *machine, FILE *to);

/* The ratios that this project promises, each with what it promises. Returns how
 * many of those that could be measured are not met. */
unsigned int report_goals(const struct measure *m, FILE *to);

/* {"machine", "commit", "results", "goals", ...}; the caller may add keys. */
json_t *report_json(const struct measure *m, const struct machine *machine,
                    uint64_t seed);
json_t *report_machine_json(const struct machine *machine);
const char *report_commit(void);

/* Writes json as a text of its own. -errno. */
int report_write_json(const json_t *json, const char *path);
void report_print_json(const json_t *json, FILE *to);

/* One line a cell, with what was run in front as comments. -errno. */
int report_write_csv(const struct measure *m, const struct machine *machine,
                     uint64_t seed, const char *path);

#endif
