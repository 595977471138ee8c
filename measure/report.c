/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Results for people and for machines. Contract: measure/report.h. */
#include "measure/report.h"

#include <errno.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "measure/table.h"

#ifndef LODIC_COMMIT
#define LODIC_COMMIT "unknown"
#endif

#define NOT_MEASURABLE "not measurable"
#define JSON_DIGITS 5

const char *report_commit(void)
{
	return LODIC_COMMIT;
}

/* "model name : X" -> X. Machines without that line stay "unknown". */
static void find_cpu(struct machine *machine)
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

void machine_find(struct machine *machine)
{
	int unused[1];
	struct utsname name;

	*machine = (struct machine){ 0 };
	find_cpu(machine);
	if (uname(&name) == 0) /* not its nodename: that is nobody's business */
		snprintf(machine->kernel, sizeof(machine->kernel), "%.24s %.*s %.24s",
		         name.sysname, (int)strcspn(name.release, "-"), name.release,
		         name.machine); /* what stands behind the dash is local */
	machine->nr_cpus = rig_cpus(unused, 0);
	machine->memory_bytes =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static bool column_measurable(const struct measure *m, enum access a, uint32_t bytes,
                              unsigned int processes)
{
	for (unsigned int i = 0; i < m->nr_cells; i++) {
		const struct cell *c = &m->cells[i];

		if (c->access == a && c->bytes == bytes && c->processes == processes &&
		    c->measurable)
			return true;
	}
	return false;
}

/* Three digits that say something, and no more. */
static void format_mops(char *to, size_t n, double mops)
{
	snprintf(to, n, "%.*f", mops < 10 ? 2 : mops < 100 ? 1 : 0, mops);
}

static void put_cell(struct table *t, const struct cell *c)
{
	char mops[16];

	if (!c) {
		table_cell(t, " ");
		return;
	}
	if (!c->measurable) {
		table_cell(t, "n/m");
		return;
	}
	format_mops(mops, sizeof(mops), c->mops.median);
	if (!c->has_ratio)
		table_cell(t, "%s    -", mops);
	else
		table_cell(t, "%s %*.*f", mops, 5, c->ratio.median < 0.1 ? 3 : 2,
		           c->ratio.median);
}

static void size_row(const struct measure *m, uint32_t bytes, int method,
                     struct table *t)
{
	const struct measure_plan *p = &m->plan;

	table_row(t);
	table_cell(t, "%s", method < 0 ? "" : method_name(method));
	for (int a = 0; a < NR_ACCESSES; a++) {
		for (unsigned int i = 0; p->access[a] && i < p->nr_processes; i++) {
			unsigned int n = p->processes[i];

			if (!column_measurable(m, a, bytes, n))
				continue;
			if (method < 0)
				table_cell(t, "%s %up", access_name(a), n);
			else
				put_cell(t, measure_cell(m, method, a, bytes, n));
		}
	}
}

static void size_table(const struct measure *m, uint32_t bytes, FILE *to)
{
	struct table t = { 0 };

	for (int row = -1; row < NR_METHODS; row++)
		size_row(m, bytes, row, &t);
	if (t.nr_columns < 2)
		return;
	fprintf(to, "\n%u-byte reads, 10^6/s of all processes; ratio to lodic_pin\n",
	        bytes);
	table_print(&t, to);
}

/* Which numbers of processes could not be measured at all. */
static void say_missing(const struct measure *m, const struct machine *machine,
                        FILE *to)
{
	for (unsigned int n = 0; n < m->plan.nr_processes; n++) {
		unsigned int processes = m->plan.processes[n];
		uint32_t tried = 0, slots = 0;

		for (unsigned int i = 0; i < m->nr_cells; i++) {
			if (m->cells[i].processes != processes)
				continue;
			tried += m->cells[i].nr_tried;
			slots += m->cells[i].nr_slots;
		}
		if (slots * 10 < tried)
			fprintf(to,
			        "%u processes on %u CPUs: not measurable (%u of %u "
			        "slots passed undisturbed); they ran, and read "
			        "right.\n",
			        processes, machine->nr_cpus, slots, tried);
	}
}

void report_tables(const struct measure *m, const struct machine *machine, FILE *to)
{
	fprintf(to,
	        "%s, %u CPUs, %s; %u rounds in %.1f s; medians of undisturbed slots\n",
	        machine->cpu, machine->nr_cpus, machine->kernel, m->nr_rounds,
	        (double)m->duration_ns / 1e9);
	for (unsigned int b = 0; b < m->plan.nr_bytes; b++)
		size_table(m, m->plan.bytes[b], to);
	fputs("hot: lines of one block; random, zipf (0.98): of the whole file; Np: "
	      "processes; n/m: not measurable,\n-: too few rounds in which both were undisturbed\n",
	      to);
	say_missing(m, machine, to);
}

struct goal {
	const char *what;
	enum method method;
	unsigned int processes;
	enum method over;
	unsigned int over_processes;
	uint32_t bytes; /* all on the hot block */
	double least;   /* or, when negative, at most so much */
};

static const struct goal goals[] = {
	{ "lodic_pin over pin_atomic, 64 B, 2 processes", METHOD_LODIC_PIN, 2,
	  METHOD_PIN_ATOMIC, 2, 64, 5 },
	{ "lodic_pin over pread, 64 B, 2 processes", METHOD_LODIC_PIN, 2, METHOD_PREAD,
	  2, 64, 80 },
	{ "lodic_pin, 2 processes over 1, 64 B", METHOD_LODIC_PIN, 2, METHOD_LODIC_PIN,
	  1, 64, 1.8 },
	{ "lodic_pin over pin_atomic, 4 KiB, 2 processes", METHOD_LODIC_PIN, 2,
	  METHOD_PIN_ATOMIC, 2, 4096, 1.6 },
	{ "lodic_pin over pread, 4 KiB, 2 processes", METHOD_LODIC_PIN, 2, METHOD_PREAD,
	  2, 4096, 8 },
	{ "lodic_read over lodic_pin, 64 B, 1 process", METHOD_LODIC_READ, 1,
	  METHOD_LODIC_PIN, 1, 64, 1.3 },
	{ "lodic_read over mmap, 64 B, 1 process", METHOD_LODIC_READ, 1, METHOD_MMAP, 1,
	  64, 0.55 },
	/* In time, so the other way round in rate. */
	{ "cas_pair over pin_atomic, 64 B, 1 process", METHOD_CAS_PAIR, 1,
	  METHOD_PIN_ATOMIC, 1, 64, -1.3 },
};
#define NR_GOALS (sizeof(goals) / sizeof(goals[0]))

static double goal_value(const struct measure *m, const struct goal *g)
{
	return cell_over(measure_cell(m, g->method, ACCESS_HOT, g->bytes, g->processes),
	                 measure_cell(m, g->over, ACCESS_HOT, g->bytes,
	                              g->over_processes));
}

static bool goal_met(const struct goal *g, double value)
{
	return g->least < 0 ? value <= -g->least : value >= g->least;
}

unsigned int report_goals(const struct measure *m, FILE *to)
{
	unsigned int missed = 0;

	fputs("\nOne hot block, what is promised and what was measured:\n", to);
	for (size_t i = 0; i < NR_GOALS; i++) {
		const struct goal *g = &goals[i];
		double value = goal_value(m, g);
		bool met = goal_met(g, value);

		if (value <= 0) {
			fprintf(to, "  %-48s %s\n", g->what, NOT_MEASURABLE);
			continue;
		}
		missed += !met;
		fprintf(to, "  %-48s %7.2f  (at %s %g)%s\n", g->what, value,
		        g->least < 0 ? "most" : "least",
		        g->least < 0 ? -g->least : g->least, met ? "" : "  MISSED");
	}
	return missed;
}

static json_t *goals_json(const struct measure *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < NR_GOALS; i++) {
		const struct goal *g = &goals[i];
		double value = goal_value(m, g);
		json_t *o = json_object();

		json_object_set_new(o, "what", json_string(g->what));
		json_object_set_new(o, g->least < 0 ? "at_most" : "at_least",
		                    json_real(g->least < 0 ? -g->least : g->least));
		json_object_set_new(o, "value",
		                    value > 0 ? json_real(value)
		                              : json_string(NOT_MEASURABLE));
		if (value > 0)
			json_object_set_new(o, "met", json_boolean(goal_met(g, value)));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *real_or_null(bool known, double v)
{
	return known ? json_real(v) : json_null();
}

static json_t *cell_json(const struct cell *c)
{
	double hit_ratio = cell_hit_ratio(c);
	bool known = c->measurable;
	json_t *o = json_object();

	json_object_set_new(o, "method", json_string(method_name(c->method)));
	json_object_set_new(o, "access", json_string(access_name(c->access)));
	json_object_set_new(o, "bytes", json_integer(c->bytes));
	json_object_set_new(o, "processes", json_integer(c->processes));
	json_object_set_new(o, "mops", real_or_null(known, c->mops.median));
	json_object_set_new(o, "ratio", real_or_null(c->has_ratio, c->ratio.median));
	json_object_set_new(o, "spread",
	                    real_or_null(known, c->mops.high - c->mops.low));
	json_object_set_new(o, "slots",
	                    known ? json_integer(c->nr_slots)
	                          : json_string(NOT_MEASURABLE));
	json_object_set_new(o, "hit_ratio", real_or_null(hit_ratio >= 0, hit_ratio));
	json_object_set_new(o, "ratio_spread",
	                    real_or_null(c->has_ratio, c->ratio.high - c->ratio.low));
	json_object_set_new(o, "slots_tried", json_integer(c->nr_tried));
	return o;
}

json_t *report_machine_json(const struct machine *machine)
{
	json_t *o = json_object();

	json_object_set_new(o, "cpu", json_string(machine->cpu));
	json_object_set_new(o, "cpus", json_integer(machine->nr_cpus));
	json_object_set_new(o, "kernel", json_string(machine->kernel));
	json_object_set_new(o, "memory_bytes",
	                    json_integer((json_int_t)machine->memory_bytes));
	return o;
}

json_t *report_json(const struct measure *m, const struct machine *machine,
                    uint64_t seed)
{
	json_t *o = json_object(), *results = json_array();

	for (unsigned int i = 0; i < m->nr_cells; i++)
		json_array_append_new(results, cell_json(&m->cells[i]));
	json_object_set_new(o, "machine", report_machine_json(machine));
	json_object_set_new(o, "commit", json_string(report_commit()));
	json_object_set_new(o, "seed", json_integer((json_int_t)seed));
	json_object_set_new(o, "rounds", json_integer(m->nr_rounds));
	json_object_set_new(o, "seconds", json_real((double)m->duration_ns / 1e9));
	json_object_set_new(
		o, "units",
		json_string("mops: 10^6 reads/s of all processes, median of "
	                    "undisturbed slots; ratio: median of the rounds' ratios to "
	                    "lodic_pin; spread: interquartile range of mops; "
	                    "ratio_spread: of the ratio"));
	json_object_set_new(o, "results", results);
	json_object_set_new(o, "goals", goals_json(m));
	return o;
}

void report_print_json(const json_t *json, FILE *to)
{
	json_dumpf(json, to, JSON_INDENT(1) | JSON_REAL_PRECISION(JSON_DIGITS));
	fputc('\n', to);
}

static int close_written(FILE *f)
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
	return close_written(f);
}

int report_write_csv(const struct measure *m, const struct machine *machine,
                     uint64_t seed, const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		return -errno;
	fprintf(f, "# %s, %u CPUs, %s; commit %s; seed %llu; %u rounds in %.1f s\n",
	        machine->cpu, machine->nr_cpus, machine->kernel, report_commit(),
	        (unsigned long long)seed, m->nr_rounds, (double)m->duration_ns / 1e9);
	fputs("method,access,bytes,processes,mops,mops_q1,mops_q3,"
	      "ratio,ratio_q1,ratio_q3,"
	      "slots,slots_tried,hit_ratio\n",
	      f);
	for (unsigned int i = 0; i < m->nr_cells; i++) {
		const struct cell *c = &m->cells[i];
		double hit_ratio = cell_hit_ratio(c);

		fprintf(f, "%s,%s,%u,%u,", method_name(c->method),
		        access_name(c->access), c->bytes, c->processes);
		if (c->measurable)
			fprintf(f, "%.4g,%.4g,%.4g,", c->mops.median, c->mops.low,
			        c->mops.high);
		else
			fputs(",,,", f);
		if (c->has_ratio)
			fprintf(f, "%.4g,%.4g,%.4g,", c->ratio.median, c->ratio.low,
			        c->ratio.high);
		else
			fputs(",,,", f);
		fprintf(f, "%u,%u,", c->nr_slots, c->nr_tried);
		if (hit_ratio >= 0)
			fprintf(f, "%.6f", hit_ratio);
		fputc('\n', f);
	}
	return close_written(f);
}
