/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-sim drbh`: options, the points to run, and the three forms of the result. */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "sim/drbh.h"
#include "sim/drbh_main.h"

#define MAX_LIST 64u
#define MAX_SCHEMES 32u
/* A terminal gets to see that something goes on after so long. */
#define QUIET_S 2

enum {
	KEY_CSV = 256,
	KEY_SEED,
	KEY_TOPOLOGY,
	KEY_PARAMETERS,
	KEY_NO_BAND,
	KEY_SCHEMES,
	KEY_CPUS,
	KEY_THREADS,
	KEY_SCATTER,
	KEY_UNMAPPED,
	KEY_BASE_WORK,
};

struct drbh_options {
	const char *topology, *parameters, *csv;
	u64 seed;
	const struct count_scheme *schemes[MAX_SCHEMES];
	u32 nr_schemes;
	u32 cpus[MAX_LIST];
	u32 nr_cpus;
	u32 threads_per_process;
	u32 base_work;
	bool json, no_band, scatter, unmapped, has_base_work;
};

static const struct argp_option options[] = {
	{ "schemes", KEY_SCHEMES, "A,B", 0, "Which schemes (default: all)", 0 },
	{ "cpus", KEY_CPUS, "N,M", 0,
	  "How many CPUs (default: a few numbers up to the machine's)", 0 },
	{ "threads-per-process", KEY_THREADS, "N", 0,
	  "Threads that count in one process's memory (default: 1)", 0 },
	{ "scatter", KEY_SCATTER, NULL, 0,
	  "A process's threads spread over the sockets, not side by side", 0 },
	{ "unmapped", KEY_UNMAPPED, NULL, 0,
	  "Nobody maps the block: lodic counts globally", 0 },
	{ "topology", KEY_TOPOLOGY, "NAME|FILE", 0,
	  "The machine: 8x15 (default), 4x24, 4x128, 1x2, host", 0 },
	{ "parameters", KEY_PARAMETERS, "NAME|FILE", 0,
	  "What things cost (default: the topology's)", 0 },
	{ "base-work", KEY_BASE_WORK, "CYCLES", 0,
	  "Of a read outside of counting (default: the parameter file's)", 0 },
	{ "no-band", KEY_NO_BAND, NULL, 0,
	  "Only the parameters as they are, not the sensitivity set", 0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of all runs (default: 1)", 0 },
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "csv", KEY_CSV, "FILE", 0, "Also write CSV", 0 },
	{ 0 },
};

static u64 parse_number(const char *arg, u64 least, u64 most, struct argp_state *state)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(arg, &end, 10);
	if (errno || end == arg || *end || *arg == '-' || n < least || n > most)
		argp_error(state, "'%s' is not a number from %llu to %llu", arg,
		           (unsigned long long)least, (unsigned long long)most);
	return n;
}

static void parse_schemes(struct drbh_options *o, char *list, struct argp_state *state)
{
	char *name;

	o->nr_schemes = 0;
	while ((name = strsep(&list, ","))) {
		const struct count_scheme *scheme = count_scheme_find(name);

		if (!scheme)
			argp_error(state, "there is no scheme '%s'", name);
		if (o->nr_schemes == MAX_SCHEMES)
			argp_error(state, "too many schemes");
		o->schemes[o->nr_schemes++] = scheme;
	}
}

static void parse_cpus(struct drbh_options *o, char *list, struct argp_state *state)
{
	char *number;

	o->nr_cpus = 0;
	while ((number = strsep(&list, ","))) {
		if (o->nr_cpus == MAX_LIST)
			argp_error(state, "too many numbers of CPUs");
		o->cpus[o->nr_cpus++] =
			(u32)parse_number(number, 1, SIM_MAX_CPUS, state);
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct drbh_options *o = state->input;

	switch (key) {
	case KEY_SCHEMES: parse_schemes(o, arg, state); return 0;
	case KEY_CPUS: parse_cpus(o, arg, state); return 0;
	case KEY_THREADS:
		o->threads_per_process = (u32)parse_number(arg, 1, SIM_MAX_CPUS, state);
		return 0;
	case KEY_SCATTER: o->scatter = true; return 0;
	case KEY_UNMAPPED: o->unmapped = true; return 0;
	case KEY_TOPOLOGY: o->topology = arg; return 0;
	case KEY_PARAMETERS: o->parameters = arg; return 0;
	case KEY_BASE_WORK:
		o->base_work = (u32)parse_number(arg, 0, 1000000000, state);
		o->has_base_work = true;
		return 0;
	case KEY_NO_BAND: o->no_band = true; return 0;
	case KEY_SEED: o->seed = parse_number(arg, 0, UINT64_MAX, state); return 0;
	case 'j': o->json = true; return 0;
	case KEY_CSV: o->csv = arg; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is more than drbh takes", arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* What was not asked for: all schemes; one CPU, a few, a socket, and so on to all. */
static void options_default(struct drbh_options *o, u32 machine_cpus)
{
	static const u32 usual[] = { 1, 2, 4, 8, 15, 30, 60, 90, 120, 256 };
	u32 i;

	if (o->nr_schemes == 0)
		for (i = 0; i < count_nr_schemes && i < MAX_SCHEMES; i++)
			o->schemes[o->nr_schemes++] = count_schemes[i];
	if (o->nr_cpus > 0)
		return;
	for (i = 0; i < sizeof(usual) / sizeof(*usual) && usual[i] < machine_cpus; i++)
		o->cpus[o->nr_cpus++] = usual[i];
	o->cpus[o->nr_cpus++] = machine_cpus;
}

static void progress(time_t start, u32 done, u32 nr)
{
	if (!isatty(STDERR_FILENO) || time(NULL) - start < QUIET_S)
		return;
	if (done < nr)
		fprintf(stderr, "\r%u of %u points ", done, nr);
	else
		fprintf(stderr, "\r%20s\r", "");
}

static int points_run(const struct drbh_options *o, const struct machine *m,
                      struct drbh_point *points)
{
	static struct sim_machine set[MACHINE_MAX_SET];
	u32 nr_machines = o->no_band ? 1 : machine_set(m, set);
	time_t start = time(NULL);
	u32 nr = o->nr_schemes * o->nr_cpus;
	u32 i;
	int err = 0;

	set[0] = m->timing;
	for (i = 0; i < nr && !err; i++) {
		points[i].setup = (struct drbh){
			.scheme = o->schemes[i / o->nr_cpus],
			.nr_cpus = o->cpus[i % o->nr_cpus],
			.threads_per_process = o->threads_per_process,
			.scatter = o->scatter,
			.unmapped = o->unmapped,
			.base_work = o->has_base_work ? o->base_work : m->base_work,
		};
		err = drbh_measure(set, nr_machines, o->seed, &points[i]);
		progress(start, i + 1, nr);
	}
	return err;
}

static void print_table(const struct drbh_options *o, const struct machine *m,
                        const struct drbh_point *points, u32 nr)
{
	u32 i, l;

	printf("simulated: topology %s, parameters %s %s, seed %llu, %u threads a process\n"
	       "%-12s %5s %9s %9s %9s  %s\n",
	       m->timing.name, m->parameters, m->hash, (unsigned long long)o->seed,
	       o->threads_per_process, "scheme", "CPUs", "Mops/s", "low", "high",
	       "line transfers of an operation");
	for (i = 0; i < nr; i++) {
		const struct drbh_point *p = &points[i];

		printf("%-12s %5u %9.2f %9.2f %9.2f  %.2f", p->setup.scheme->name,
		       p->setup.nr_cpus, p->result.mops, p->low, p->high,
		       drbh_transfers_per_op(&p->result));
		for (l = 0; l < p->result.nr_lines && p->result.ops; l++) {
			double each = (double)p->result.lines[l].transfers /
			              (double)p->result.ops;

			if (each >= 0.005)
				printf("  %s %.2f", p->result.lines[l].name, each);
		}
		printf("\n");
	}
}

static json_t *point_json(const struct drbh_point *p)
{
	json_t *lines = json_object();
	u32 l;

	for (l = 0; l < p->result.nr_lines; l++)
		json_object_set_new(
			lines, p->result.lines[l].name,
			json_pack("{s:f, s:f}", "transfers_per_op",
		                  p->result.ops ? (double)p->result.lines[l].transfers /
		                                          (double)p->result.ops
		                                : 0.0,
		                  "wait_ns_per_op",
		                  p->result.ops ? (double)p->result.lines[l].wait_ns /
		                                          (double)p->result.ops
		                                : 0.0));
	return json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:b, s:b, s:I, s:o}",
	                 "scheme", p->setup.scheme->name, "cpus", (int)p->setup.nr_cpus,
	                 "threads_per_process", (int)p->setup.threads_per_process,
	                 "mops", p->result.mops, "low", p->low, "high", p->high,
	                 "transfers_per_op", drbh_transfers_per_op(&p->result),
	                 "scatter", (int)p->setup.scatter, "unmapped",
	                 (int)p->setup.unmapped, "ops", (json_int_t)p->result.ops,
	                 "lines", lines);
}

static int print_json(const struct drbh_options *o, const struct machine *m,
                      const struct drbh_point *points, u32 nr)
{
	json_t *results = json_array();
	json_t *all;
	u32 i;
	int err;

	for (i = 0; i < nr; i++)
		json_array_append_new(results, point_json(&points[i]));
	all = json_pack("{s:s, s:s, s:s, s:I, s:o}", "topology", m->timing.name,
	                "parameters", m->hash, "parameter_file", m->parameters, "seed",
	                (json_int_t)o->seed, "results", results);
	if (!all)
		return -ENOMEM;
	err = json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	json_decref(all);
	printf("\n");
	return err ? -EIO : 0;
}

static int write_csv(const char *path, const struct machine *m,
                     const struct drbh_point *points, u32 nr)
{
	FILE *f = fopen(path, "w");
	u32 i;

	if (!f)
		return -errno;
	fprintf(f, "topology,parameters,scheme,cpus,threads_per_process,mops,low,high,"
	           "transfers_per_op\n");
	for (i = 0; i < nr; i++) {
		const struct drbh_point *p = &points[i];

		fprintf(f, "%s,%s,%s,%u,%u,%.4f,%.4f,%.4f,%.4f\n", m->timing.name,
		        m->hash, p->setup.scheme->name, p->setup.nr_cpus,
		        p->setup.threads_per_process, p->result.mops, p->low, p->high,
		        drbh_transfers_per_op(&p->result));
	}
	return fclose(f) == 0 ? 0 : -errno;
}

static int fail(const char *what, int err)
{
	fprintf(stderr, "lodic-sim: %s: %s\n", what, strerror(-err));
	return EXIT_FAILURE;
}

static int drbh_output(const struct drbh_options *o, const struct machine *m,
                       const struct drbh_point *points, u32 nr)
{
	int err = 0;

	if (o->csv)
		err = write_csv(o->csv, m, points, nr);
	if (err)
		return fail(o->csv, err);
	if (o->json)
		err = print_json(o, m, points, nr);
	else
		print_table(o, m, points, nr);
	return err ? fail("standard output", err) : EXIT_SUCCESS;
}

static const char doc[] =
	"Every CPU reads the same block (FxMark's DRBH), by every scheme.\v"
	"low and high are over the sensitivity set: one parameter at a time that nothing "
	"pins down goes to either end of its band. Fits are not made again there.\n"
	"\n"
	"Examples:\n"
	"  lodic-sim drbh\n"
	"  lodic-sim drbh --schemes atomic,lodic --cpus 1,120 --json\n";

int drbh_main(int argc, char **argv)
{
	static const struct argp argp = { options, parse, NULL, doc, NULL, NULL, NULL };
	struct drbh_options o = { .topology = "8x15",
		                  .seed = 1,
		                  .threads_per_process = 1 };
	struct drbh_point *points;
	struct machine m;
	u32 i, nr;
	int err;

	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return EX_USAGE;
	/* What is wrong with a file, machine_read() has said. */
	if (machine_read(o.topology, o.parameters, &m) != 0)
		return EXIT_FAILURE;
	options_default(&o, machine_nr_cpus(&m));
	for (i = 0; i < o.nr_cpus; i++) {
		if (o.cpus[i] > machine_nr_cpus(&m)) {
			fprintf(stderr, "lodic-sim: %s has %u CPUs, not %u\n",
			        m.timing.name, machine_nr_cpus(&m), o.cpus[i]);
			return EX_USAGE;
		}
	}
	nr = o.nr_schemes * o.nr_cpus;
	points = calloc(nr, sizeof(*points));
	if (!points)
		return fail("memory", -ENOMEM);
	err = points_run(&o, &m, points);
	err = err ? fail("drbh", err) : drbh_output(&o, &m, points, nr);
	free(points);
	return err;
}
