/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Results for people and for machines. Contract: bench/measure/report.h. */
#include "bench/measure/goal.h"
#include "bench/measure/report.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/measure/table.h"
#include "cli/cli.h"
#include "lodic/lodic.h"

#define NOT_MEASURABLE "not measurable"
#define JSON_DIGITS 5

/* Appends "name=1+2+4", as far as it fits. */
static void report_add_list(char *to, size_t size, const char *name,
                            const unsigned int *values, unsigned int nr)
{
	size_t n = strlen(to);

	for (unsigned int i = 0; i < nr && n < size; i++)
		n += (size_t)snprintf(to + n, size - n, "%s%s%s%u", i ? "+" : " ",
		                      i ? "" : name, i ? "" : "=", values[i]);
}

void report_describe(const struct measure *m, uint64_t file_bytes, char *ret_parameters,
                     size_t size)
{
	const struct measure_plan *p = &m->plan;
	bool first = true;
	size_t n;

	n = (size_t)snprintf(ret_parameters, size, "file_bytes=%llu rounds=%u",
	                     (unsigned long long)file_bytes, m->nr_rounds);
	for (int a = 0; a < NR_ACCESSES && n < size; a++) {
		if (!p->access[a])
			continue;
		n += (size_t)snprintf(ret_parameters + n, size - n, "%s%s",
		                      first ? " access=" : "+",
		                      workload_access_name(a));
		first = false;
	}
	report_add_list(ret_parameters, size, "bytes", p->bytes, p->nr_bytes);
	report_add_list(ret_parameters, size, "processes", p->processes,
	                p->nr_processes);
}

static bool report_column_measurable(const struct measure *m, enum access a,
                                     uint32_t bytes, unsigned int processes)
{
	for (unsigned int i = 0; i < m->nr_cells; i++) {
		const struct cell *c = &m->cells[i];

		if (c->access == a && c->bytes == bytes && c->processes == processes &&
		    (c->measurable || c->rough))
			return true;
	}
	return false;
}

/* Three significant digits. */
static void report_format_mops(char *to, size_t n, double mops)
{
	snprintf(to, n, "%.*f", mops < 10 ? 2 : mops < 100 ? 1 : 0, mops);
}

static void report_put_cell(struct table *t, const struct cell *c)
{
	char mops[16];

	if (!c) {
		table_cell(t, " ");
		return;
	}
	if (!c->measurable && !c->rough) {
		table_cell(t, "n/m");
		return;
	}
	if (c->rough)
		mops[0] = '~';
	report_format_mops(mops + c->rough, sizeof(mops) - c->rough, c->mops.median);
	if (!c->has_ratio)
		table_cell(t, "%s    -", mops);
	else
		table_cell(t, "%s %*.*f", mops, 5, c->ratio.median < 0.1 ? 3 : 2,
		           c->ratio.median);
}

static void report_size_row(const struct measure *m, uint32_t bytes, int method,
                            struct table *t)
{
	const struct measure_plan *p = &m->plan;

	table_row(t);
	table_cell(t, "%s", method < 0 ? "" : method_name(method));
	for (int a = 0; a < NR_ACCESSES; a++) {
		for (unsigned int i = 0; p->access[a] && i < p->nr_processes; i++) {
			unsigned int n = p->processes[i];

			if (!report_column_measurable(m, a, bytes, n))
				continue;
			if (method < 0)
				table_cell(t, "%s %up", workload_access_name(a), n);
			else
				report_put_cell(t,
				                measure_cell(m, method, a, bytes, n));
		}
	}
}

static void report_size_table(const struct measure *m, uint32_t bytes, FILE *to)
{
	struct table t = { 0 };

	for (int row = -1; row < NR_METHODS; row++)
		report_size_row(m, bytes, row, &t);
	if (t.nr_columns < 2)
		return;
	fprintf(to, "\n%u-byte reads, 10^6/s of all processes; ratio to lodic_pin\n",
	        bytes);
	table_print(&t, to);
}

/* Says what the mark ~ means, if it was printed. */
static void report_say_rough(const struct measure *m, FILE *to)
{
	uint32_t tried = 0, slots = 0;

	for (unsigned int i = 0; i < m->nr_cells; i++) {
		tried += m->cells[i].rough ? m->cells[i].nr_tried : 0;
		slots += m->cells[i].rough ? m->cells[i].nr_slots : 0;
	}
	if (tried)
		fprintf(to,
		        "~: rough. Only %u of these %u slots passed undisturbed, so the "
		        "median is of all of them. Other\nprograms took the CPUs, or the "
		        "run was too short.\n",
		        slots, tried);
}

/* Names the numbers of processes that could not be measured at all. */
static void report_say_missing(const struct measure *m, const struct machine *machine,
                               FILE *to)
{
	report_say_rough(m, to);
	for (unsigned int n = 0; n < m->plan.nr_processes; n++) {
		unsigned int processes = m->plan.processes[n];
		uint32_t tried = 0, slots = 0;
		bool any = false;

		for (unsigned int i = 0; i < m->nr_cells; i++) {
			if (m->cells[i].processes != processes || m->cells[i].rough)
				continue;
			any = any || m->cells[i].measurable;
			tried += m->cells[i].nr_tried;
			slots += m->cells[i].nr_slots;
		}
		if (!any && tried > 0)
			fprintf(to,
			        "%u processes on %u CPUs: not measurable (%u of %u "
			        "slots passed undisturbed).%s\n",
			        processes, machine->nr_cpus, slots, tried,
			        m->nr_wrong_bytes ? ""
			                          : " All their reads were right.");
	}
}

void report_tables(const struct measure *m, const struct machine *machine, FILE *to)
{
	fprintf(to,
	        "%s, %u CPUs, %s; %u rounds in %.1f s; medians of undisturbed slots\n",
	        machine->cpu, machine->nr_cpus, machine->kernel, m->nr_rounds,
	        (double)m->duration_ns / 1e9);
	for (unsigned int b = 0; b < m->plan.nr_bytes; b++)
		report_size_table(m, m->plan.bytes[b], to);
	fputs("hot: reads of one block; random and zipf (0.98): of the whole file; "
	      "2p: by 2 processes;\nn/m: not measurable; -: no ratio, because too few "
	      "rounds had both slots undisturbed\n",
	      to);
	report_say_missing(m, machine, to);
}

static json_t *report_real_or_null(bool known, double v)
{
	return known ? json_real(v) : json_null();
}

static json_t *report_cell_json(const struct cell *c)
{
	double hit_ratio = measure_hit_ratio(c);
	bool known = c->measurable;
	json_t *o = json_object();

	json_object_set_new(o, "method", json_string(method_name(c->method)));
	json_object_set_new(o, "access", json_string(workload_access_name(c->access)));
	json_object_set_new(o, "bytes", json_integer(c->bytes));
	json_object_set_new(o, "processes", json_integer(c->processes));
	json_object_set_new(o, "mops", report_real_or_null(known, c->mops.median));
	json_object_set_new(o, "ratio",
	                    report_real_or_null(known && c->has_ratio,
	                                        c->ratio.median));
	json_object_set_new(o, "spread",
	                    report_real_or_null(known, c->mops.high - c->mops.low));
	json_object_set_new(o, "slots",
	                    known ? json_integer(c->nr_slots)
	                          : json_string(NOT_MEASURABLE));
	json_object_set_new(o, "hit_ratio",
	                    report_real_or_null(hit_ratio >= 0, hit_ratio));
	json_object_set_new(o, "ratio_spread",
	                    report_real_or_null(known && c->has_ratio,
	                                        c->ratio.high - c->ratio.low));
	if (c->rough)
		json_object_set_new(o, "rough_mops", json_real(c->mops.median));
	json_object_set_new(o, "slots_tried", json_integer(c->nr_tried));
	return o;
}

void report_run_json(json_t *object, const struct report_run *run)
{
	json_object_set_new(object, "machine", machine_json(run->machine));
	json_object_set_new(object, "version", json_string(cli_version()));
	json_object_set_new(object, "commit", json_string(cli_commit()));
	json_object_set_new(object, "parameters", json_string(run->parameters));
	json_object_set_new(object, "seed", json_integer((json_int_t)run->seed));
}

json_t *report_json(const struct measure *m, const struct report_run *run)
{
	json_t *o = json_object(), *results = json_array();

	for (unsigned int i = 0; i < m->nr_cells; i++)
		json_array_append_new(results, report_cell_json(&m->cells[i]));
	report_run_json(o, run);
	json_object_set_new(o, "rounds", json_integer(m->nr_rounds));
	json_object_set_new(o, "seconds", json_real((double)m->duration_ns / 1e9));
	json_object_set_new(
		o, "units",
		json_string("mops: 10^6 reads/s of all processes, median of "
	                    "undisturbed slots; ratio: median of the rounds' ratios to "
	                    "lodic_pin; spread: interquartile range of mops; "
	                    "ratio_spread: of the ratio"));
	json_object_set_new(o, "results", results);
	json_object_set_new(o, "goals", goal_json(m));
	return o;
}

void report_print_json(const json_t *json, FILE *to)
{
	json_dumpf(json, to, JSON_INDENT(1) | JSON_REAL_PRECISION(JSON_DIGITS));
	fputc('\n', to);
}

static int report_close_written(FILE *f)
{
	int error = ferror(f) ? -EIO : 0;

	if (fclose(f) != 0 && !error)
		error = -errno;
	return error;
}

int report_write_json(const json_t *json, const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return -errno;
	report_print_json(json, f);
	return report_close_written(f);
}

void report_end_row(const struct report_run *run, FILE *to)
{
	fprintf(to, ",%s,%s,%s,%llu\n", cli_version(), cli_commit(),
	        run->parameters, (unsigned long long)run->seed);
}

int report_write_csv(const struct measure *m, const struct report_run *run,
                     const char *path)
{
	const struct machine *machine = run->machine;
	FILE *f = fopen(path, "we");

	if (!f)
		return -errno;
	fprintf(f, "# %s, %u CPUs, %s; commit %s; seed %llu; %u rounds in %.1f s\n",
	        machine->cpu, machine->nr_cpus, machine->kernel, cli_commit(),
	        (unsigned long long)run->seed, m->nr_rounds,
	        (double)m->duration_ns / 1e9);
	fputs("method,access,bytes,processes,mops,mops_q1,mops_q3,"
	      "ratio,ratio_q1,ratio_q3,"
	      "slots,slots_tried,hit_ratio," REPORT_RUN_COLUMNS "\n",
	      f);
	for (unsigned int i = 0; i < m->nr_cells; i++) {
		const struct cell *c = &m->cells[i];
		double hit_ratio = measure_hit_ratio(c);

		fprintf(f, "%s,%s,%u,%u,", method_name(c->method),
		        workload_access_name(c->access), c->bytes, c->processes);
		if (c->measurable)
			fprintf(f, "%.4g,%.4g,%.4g,", c->mops.median, c->mops.low,
			        c->mops.high);
		else
			fputs(",,,", f);
		if (c->measurable && c->has_ratio)
			fprintf(f, "%.4g,%.4g,%.4g,", c->ratio.median, c->ratio.low,
			        c->ratio.high);
		else
			fputs(",,,", f);
		fprintf(f, "%u,%u,", c->nr_slots, c->nr_tried);
		if (hit_ratio >= 0)
			fprintf(f, "%.6f", hit_ratio);
		report_end_row(run, f);
	}
	return report_close_written(f);
}

int report_check_path(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	struct stat st;

	if (stat(path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return -EISDIR;
		return access(path, W_OK) == 0 ? 0 : -errno;
	}
	if (errno != ENOENT)
		return -errno;
	if (snprintf(folder, sizeof(folder), "%.*s",
	             slash ? (int)(slash - path + 1) : 1,
	             slash ? path : ".") >= (int)sizeof(folder))
		return -ENAMETOOLONG;
	return access(folder, W_OK | X_OK) == 0 ? 0 : -errno;
}
