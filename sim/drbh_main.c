/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-sim drbh`: options, the points to run, and the three forms of the result. */
#include <argp.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/command.h"
#include "sim/drbh_main.h"
#include "sim/drbh_verdict.h"

#define MAX_LIST 64u
#define MAX_SCHEMES 32u

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
	bool named; /* the schemes, by --schemes */
	bool json, no_band, scatter, unmapped, has_base_work;
};

static const struct argp_option options[] = {
	{ "schemes", KEY_SCHEMES, "A,B", 0,
	  "Which schemes (default: all but the papers' rivals)", 0 },
	{ "cpus", KEY_CPUS, "N,M", 0,
	  "How many CPUs (default: a few numbers up to the machine's)", 0 },
	{ "threads-per-process", KEY_THREADS, "N", 0,
	  "Threads that count in one process's memory (default: 1)", 0 },
	{ "scatter", KEY_SCATTER, NULL, 0,
	  "A process's threads spread over the sockets, not side by side", 0 },
	{ "unmapped", KEY_UNMAPPED, NULL, 0,
	  "No process maps the block: lodic counts globally", 0 },
	{ "topology", KEY_TOPOLOGY, "NAME|FILE", 0,
	  "The machine: 8x15 (default), 4x24, 4x128, 2x12, 1x16, 1x2, host", 0 },
	{ "parameters", KEY_PARAMETERS, "NAME|FILE", 0,
	  "What things cost (default: the topology's)", 0 },
	{ "base-work", KEY_BASE_WORK, "CYCLES", 0,
	  "What a read costs besides counting (default: the parameter file's)", 0 },
	{ "no-band", KEY_NO_BAND, NULL, 0,
	  "Only the parameters as they are, not the sensitivity set", 0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of all runs (default: 1)", 0 },
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "csv", KEY_CSV, "FILE", 0, "Also write CSV", 0 },
	{ 0 },
};

static void parse_schemes(struct drbh_options *o, char *list, struct argp_state *state)
{
	char *name;

	o->nr_schemes = 0;
	o->named = true;
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
		o->cpus[o->nr_cpus++] = (u32)command_number(number, "a number of CPUs",
		                                            1, SIM_MAX_CPUS, state);
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct drbh_options *o = state->input;

	switch (key) {
	case KEY_SCHEMES: parse_schemes(o, arg, state); return 0;
	case KEY_CPUS: parse_cpus(o, arg, state); return 0;
	case KEY_THREADS:
		o->threads_per_process = (u32)command_number(arg, "a number of threads",
		                                             1, SIM_MAX_CPUS, state);
		return 0;
	case KEY_SCATTER: o->scatter = true; return 0;
	case KEY_UNMAPPED: o->unmapped = true; return 0;
	case KEY_TOPOLOGY: o->topology = arg; return 0;
	case KEY_PARAMETERS: o->parameters = arg; return 0;
	case KEY_BASE_WORK:
		o->base_work = (u32)command_number(arg, "a number of cycles", 0,
		                                   1000000000, state);
		o->has_base_work = true;
		return 0;
	case KEY_NO_BAND: o->no_band = true; return 0;
	case KEY_SEED:
		o->seed = command_number(arg, "a seed", 0, UINT64_MAX, state);
		return 0;
	case 'j': o->json = true; return 0;
	case KEY_CSV: o->csv = arg; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is more than drbh takes", arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* Fills in what the options did not say: all schemes; one CPU, a few, a socket, and so
 * on to all. */
static void options_default(struct drbh_options *o, u32 machine_cpus)
{
	static const u32 usual[] = { 1, 2, 4, 8, 15, 30, 60, 90, 120, 256 };
	u32 i;

	for (i = 0; !o->named && i < count_nr_schemes && o->nr_schemes < MAX_SCHEMES;
	     i++)
		if (!count_schemes[i]->is_rival)
			o->schemes[o->nr_schemes++] = count_schemes[i];
	if (o->nr_cpus > 0)
		return;
	for (i = 0; i < sizeof(usual) / sizeof(*usual) && usual[i] < machine_cpus; i++)
		o->cpus[o->nr_cpus++] = usual[i];
	o->cpus[o->nr_cpus++] = machine_cpus;
}

static int points_run(const struct drbh_options *o, const struct machine *m,
                      struct drbh_point *points)
{
	static struct sim_machine set[MACHINE_MAX_SET];
	u32 nr_machines = o->no_band ? 1 : machine_set(m, set);
	u32 nr = o->nr_schemes * o->nr_cpus;
	u32 i;
	int err = 0;

	set[0] = m->timing;
	for (i = 0; i < nr_machines && o->has_base_work; i++)
		set[i].base_work = o->base_work;
	for (i = 0; i < nr && !err; i++) {
		points[i].setup = (struct drbh){
			.scheme = o->schemes[i / o->nr_cpus],
			.nr_cpus = o->cpus[i % o->nr_cpus],
			.threads_per_process = o->threads_per_process,
			.scatter = o->scatter,
			.unmapped = o->unmapped,
		};
		command_progress(i, nr);
		err = drbh_measure(set, nr_machines, o->seed, &points[i]);
	}
	command_progress_end();
	return err;
}

/* A scheme that was asked for is shown, whichever it is. */
static bool shows(const struct drbh_options *o, const struct count_scheme *scheme)
{
	return o->named || count_scheme_is_shown(scheme);
}

/* One scheme that does not scale: how far it gets, and which line it moves. */
static void print_verdict_of(const char *name, const struct drbh_verdict *v)
{
	if (v->judgement == DRBH_COLLAPSES)
		printf("  %-12s %8.2f Mops/s on %u CPUs, %.2f on %u", name,
		       v->peak_mops, v->peak_cpus, v->most_mops, v->most_cpus);
	else
		printf("  %-12s %8.2f Mops/s; in proportion to its CPUs it would be "
		       "%.2f",
		       name, v->most_mops, v->straight_mops);
	if (v->line)
		printf("; line '%s' moves %.2f times an operation", v->line,
		       v->line_transfers);
	printf("\n");
}

/* "collapses: a after 15 CPUs, b after 30; on the line: counter", and then a line for each
 * scheme that does not scale. */
static void print_judgement(const struct drbh_options *o,
                            const struct drbh_point *points,
                            enum drbh_judgement judgement)
{
	struct drbh_verdict v[MAX_SCHEMES];
	const char *line = NULL;
	bool one_line = true;
	u32 chosen[MAX_SCHEMES];
	u32 i, nr = 0;

	for (i = 0; i < o->nr_schemes; i++)
		if (shows(o, o->schemes[i]) &&
		    drbh_judge(&points[i * o->nr_cpus], o->nr_cpus, &v[nr]) &&
		    v[nr].judgement == judgement)
			chosen[nr++] = i;
	printf("%s: %s", drbh_judgement_name(judgement), nr ? "" : "none");
	for (i = 0; i < nr; i++) {
		printf("%s%s", i ? ", " : "", o->schemes[chosen[i]]->name);
		if (judgement == DRBH_COLLAPSES)
			printf(" after %u CPUs", v[i].peak_cpus);
		if (!v[i].line || (line && strcmp(line, v[i].line) != 0))
			one_line = false;
		line = v[i].line;
	}
	if (nr && one_line && judgement != DRBH_SCALES)
		printf("; on the line: %s", line);
	printf("\n");
	for (i = 0; i < nr && judgement != DRBH_SCALES; i++)
		print_verdict_of(o->schemes[chosen[i]]->name, &v[i]);
}

static void print_verdict(const struct drbh_options *o, const struct drbh_point *points)
{
	struct drbh_verdict v;

	if (!drbh_judge(points, o->nr_cpus, &v)) {
		printf("\nno verdict: it takes two numbers of CPUs\n");
		return;
	}
	printf("\nverdict on %u CPUs (simulated)\n", v.most_cpus);
	print_judgement(o, points, DRBH_SCALES);
	print_judgement(o, points, DRBH_FALLS_BEHIND);
	print_judgement(o, points, DRBH_COLLAPSES);
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

		if (!shows(o, p->setup.scheme))
			continue;
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
	print_verdict(o, points);
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

static json_t *verdicts_json(const struct drbh_options *o,
                             const struct drbh_point *points)
{
	json_t *verdicts = json_array();
	struct drbh_verdict v;
	u32 i;

	for (i = 0; i < o->nr_schemes; i++) {
		if (!drbh_judge(&points[i * o->nr_cpus], o->nr_cpus, &v))
			continue;
		json_array_append_new(
			verdicts,
			json_pack("{s:s, s:s, s:i, s:f, s:i, s:s?, s:f}", "scheme",
		                  o->schemes[i]->name, "verdict",
		                  drbh_judgement_name(v.judgement), "peak_cpus",
		                  (int)v.peak_cpus, "peak_mops", v.peak_mops,
		                  "most_cpus", (int)v.most_cpus, "line", v.line,
		                  "line_transfers_per_op", v.line_transfers));
	}
	return verdicts;
}

static int print_json(const struct drbh_options *o, const struct machine *m,
                      const struct drbh_point *points, u32 nr)
{
	json_t *results = json_array();
	json_t *all;
	u32 i;

	for (i = 0; i < nr; i++)
		json_array_append_new(results, point_json(&points[i]));
	all = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:o}", "version",
	                command_version(), "commit", command_commit(), "topology",
	                m->timing.name, "parameters", m->hash, "parameter_file",
	                m->parameters, "seed", (json_int_t)o->seed, "results", results,
	                "verdicts", verdicts_json(o, points));
	if (!all)
		return -ENOMEM;
	/* command_begin() arranged that standard output is checked at exit. */
	json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	json_decref(all);
	printf("\n");
	return 0;
}

static int write_csv(const struct drbh_options *o, const struct machine *m,
                     const struct drbh_point *points, u32 nr)
{
	FILE *f = fopen(o->csv, "w");
	u32 i;

	if (!f)
		return -errno;
	fprintf(f, "topology,scheme,cpus,threads_per_process,mops,low,high,"
	           "transfers_per_op," COMMAND_CSV_COLUMNS "\n");
	for (i = 0; i < nr; i++) {
		const struct drbh_point *p = &points[i];

		fprintf(f, "%s,%s,%u,%u,%.4f,%.4f,%.4f,%.4f,", m->timing.name,
		        p->setup.scheme->name, p->setup.nr_cpus,
		        p->setup.threads_per_process, p->result.mops, p->low, p->high,
		        drbh_transfers_per_op(&p->result));
		command_csv_cells(f, m->parameters, m->hash, o->seed);
		fprintf(f, "\n");
	}
	return command_csv_close(f);
}

static int drbh_output(const struct drbh_options *o, const struct machine *m,
                       const struct drbh_point *points, u32 nr)
{
	int err = 0;

	if (o->csv)
		err = write_csv(o, m, points, nr);
	if (err)
		return command_fail(o->csv, err);
	if (o->json)
		err = print_json(o, m, points, nr);
	else
		print_table(o, m, points, nr);
	return err ? command_fail("standard output", err) : EXIT_SUCCESS;
}

/* The limits come from sim/drbh_verdict.h; drbh_main() fills them in. */
static const char doc[] =
	"Every CPU reads the same block (FxMark's DRBH), by every scheme.\v"
	"low and high are over the sensitivity set: one parameter at a time, of those that "
	"nothing pins down, goes to either end of its band. The two fitted parameters are "
	"not fitted again there.\n"
	"\n"
	"The table leaves out the scheme that does not count and the example scheme, unless "
	"--schemes names them. JSON and CSV have all.\n"
	"\n"
	"The verdict compares each scheme with itself. It collapses if its throughput on the "
	"most CPUs is below %u %% of its own peak. It falls behind if it does not collapse and "
	"reaches less than %u %% of its throughput on the fewest CPUs times the CPUs. "
	"Otherwise it scales. The line named is the one that moves between caches most "
	"often.\n"
	"\n"
	"Examples:\n"
	"  lodic-sim drbh\n"
	"  lodic-sim drbh --schemes atomic,lodic --cpus 1,120 --json\n";

int drbh_main(int argc, char **argv)
{
	static char text[sizeof(doc)];
	static const struct argp argp = {
		options, parse, NULL, text, NULL, NULL, NULL
	};
	struct drbh_options o = { .topology = "8x15",
		                  .seed = 1,
		                  .threads_per_process = 1 };
	struct drbh_point *points;
	struct machine m;
	u32 i, nr;
	int err;

	snprintf(text, sizeof(text), doc, DRBH_COLLAPSE_PERCENT, DRBH_BEHIND_PERCENT);
	if (argp_parse(&argp, argc, argv, 0, NULL, &o) != 0)
		return COMMAND_USAGE;
	/* machine_read() has said what is wrong with a file. */
	if (machine_read(o.topology, o.parameters, &m) != 0)
		return COMMAND_USAGE;
	options_default(&o, machine_nr_cpus(&m));
	for (i = 0; i < o.nr_cpus; i++) {
		if (o.cpus[i] > machine_nr_cpus(&m)) {
			fprintf(stderr, "lodic-sim: %s has %u CPUs, not %u\n",
			        m.timing.name, machine_nr_cpus(&m), o.cpus[i]);
			return COMMAND_USAGE;
		}
	}
	if (command_csv_check(o.csv) != 0)
		return COMMAND_FAILED;
	nr = o.nr_schemes * o.nr_cpus;
	points = calloc(nr, sizeof(*points));
	if (!points)
		return command_fail("memory", -ENOMEM);
	err = points_run(&o, &m, points);
	err = err ? command_fail("drbh", err) : drbh_output(&o, &m, points, nr);
	free(points);
	return err;
}
