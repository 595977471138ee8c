/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What was measured: tables for people, JSON and CSV for machines. */
#ifndef LODIC_BENCH_MEASURE_REPORT_H
#define LODIC_BENCH_MEASURE_REPORT_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "bench/measure/machine.h"
#include "bench/measure/measure.h"

/* How a result came about. Each row of a CSV file ends with it (REPORT_RUN_COLUMNS), and
 * each JSON object has keys of the same names. */
struct report_run {
	const struct machine *machine;
	const char *parameters; /* "name=value name=value", without commas and quotes */
	uint64_t seed;
};
#define REPORT_RUN_COLUMNS "version,commit,parameters,seed"
#define REPORT_PARAMETERS_BYTES 256

/* The parameters of what m has run on a file of so many bytes. */
void report_describe(const struct measure *m, uint64_t file_bytes, char *ret_parameters,
                     size_t size);

/* Prints one table per size: methods down, accesses and processes across; then what the
 * table means. Columns without one measurable or rough cell are left out, and a line below names
 * them. */
void report_tables(const struct measure *m, const struct machine *machine, FILE *to);

/* Adds "machine" and what REPORT_RUN_COLUMNS names. */
void report_run_json(json_t *object, const struct report_run *run);
/* All of it: the run, "results" and "goals". The caller may add keys. */
json_t *report_json(const struct measure *m, const struct report_run *run);
void report_print_json(const json_t *json, FILE *to);
/* Writes json as a text of its own. -errno. */
int report_write_json(const json_t *json, const char *path);

/* Writes a line for each cell. Comments in front name the machine. -errno. */
int report_write_csv(const struct measure *m, const struct report_run *run,
                     const char *path);
/* Ends a row of CSV with what REPORT_RUN_COLUMNS names, the comma in front included. */
void report_end_row(const struct report_run *run, FILE *to);

/* Can a file be written at path? Touches nothing, so a full disk goes unseen. 0 or
 * -errno. */
int report_check_path(const char *path);

#endif
