/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic demo`: a real file through the cache, every byte checked, and what it is
 * worth. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure/cli.h"
#include "measure/corpus.h"
#include "measure/measure.h"
#include "measure/report.h"
#include "measure/stand.h"

#define DEFAULT_MS 30000
#define LEAST_HIT_RATIO 0.95
#define NR_DEMO_PROCESSES 3
#define MB 1e6

static const unsigned int demo_processes[NR_DEMO_PROCESSES] = { 1, 2, 4 };
static const uint32_t demo_bytes[] = { 64, LODIC_BLOCK_BYTES };

enum { KEY_WORKDIR = 256, KEY_SEED };

struct demo {
	struct stand stand;
	const char *json_out;
	uint64_t ms;
	/* What verifying found, over all readers. */
	uint64_t read_bytes, pinned_bytes, all_bytes, wrong_bytes;
	uint64_t hits, misses;
};

static const char doc[] =
	"Read a large file of this system through caches of its own, with 1, 2 and 4 "
	"processes; verify every byte against the file; compare the ways to read it. "
	"Leaves nothing behind but the JSON file."
	"\v"
	"Examples:\n"
	"  lodic demo\n"
	"  lodic demo --file /usr/bin/clang --seconds 10\n"
	"  lodic demo --json-out result.json\n"
	"\n"
	"Fails when a byte was wrong, or when fewer than 95 % of the reads through "
	"lodic were served by the cache.";

static const struct argp_option option_list[] = {
	{ "file", 'f', "PATH", 0, "Read this file (default: a large one of the system)",
	  0 },
	{ "json-out", 'o', "PATH", 0,
	  "Write the results there (default: build/demo.json, where there is a folder "
	  "build)",
	  0 },
	{ "seconds", 's', "S", 0, "Measure for so long (default: 30)", 0 },
	{ "workdir", KEY_WORKDIR, "DIR", 0,
	  "Where a copy of the file may lie for the time (default: build, else TMPDIR)",
	  0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of the accesses", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct demo *d = state->input;

	switch (key) {
	case 'f':
		/* An empty one is none: `make demo FILE=`. */
		d->stand.file = arg[0] ? arg : NULL;
		return 0;
	case 'o': d->json_out = arg; return 0;
	case 's':
		if (cli_parse_seconds_ms(arg, &d->ms) != 0 || d->ms == 0)
			argp_error(state, "'%s' is not a number of seconds above 0",
			           arg);
		return 0;
	case KEY_WORKDIR: d->stand.workdir = arg; return 0;
	case KEY_SEED:
		if (cli_parse_number(arg, 1, UINT32_MAX, &d->stand.seed) != 0)
			argp_error(state, "'%s' is not a seed, 1 ... 2^32 - 1", arg);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much; give the file with --file", arg);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int verify(struct demo *d)
{
	struct reader_order orders[RIG_MAX_READERS] = { 0 };
	struct reader_report reports[RIG_MAX_READERS];
	struct rig *rig = &d->stand.rig;

	for (unsigned int r = 0; r < RIG_MAX_READERS; r++)
		orders[r].op = READER_VERIFY;
	for (int i = 0; i < NR_DEMO_PROCESSES; i++) {
		int error = rig_ask(rig, orders, demo_processes[i], reports);

		if (cli_stopped)
			return -EINTR;
		if (error)
			return error;
		for (unsigned int r = 0; r < demo_processes[i]; r++) {
			d->read_bytes += reports[r].read_bytes;
			d->pinned_bytes += reports[r].pinned_bytes;
			d->all_bytes += reports[r].all_bytes;
			d->wrong_bytes += reports[r].nr_wrong_bytes;
			d->hits += reports[r].hits;
			d->misses += reports[r].misses > reports[r].nr_fallbacks
			                     ? reports[r].misses
			                     : reports[r].nr_fallbacks;
		}
		cli_progress("verifying",
		             100u * ((unsigned int)i + 1) / NR_DEMO_PROCESSES);
	}
	cli_progress("", 101);
	printf("verified: %.0f MB read and %.0f MB pinned through lodic by 1, 2 and 4 "
	       "processes (%.0f MB with the rival schemes): %llu wrong bytes\n",
	       (double)d->read_bytes / MB, (double)d->pinned_bytes / MB,
	       (double)d->all_bytes / MB, (unsigned long long)d->wrong_bytes);
	return 0;
}

static void make_plan(const struct demo *d, struct measure_plan *plan)
{
	*plan = (struct measure_plan){
		.access = { true, true, true },
		.nr_bytes = sizeof(demo_bytes) / sizeof(demo_bytes[0]),
		.nr_processes = NR_DEMO_PROCESSES,
		.rounds = MEASURE_MAX_ROUNDS,
		.limit_ns = d->ms * 1000000,
	};
	memcpy(plan->bytes, demo_bytes, sizeof(demo_bytes));
	memcpy(plan->processes, demo_processes, sizeof(demo_processes));
}

/* The table in words: what a reader of it should take home. */
static void say_meaning(const struct measure *m)
{
	const struct cell *pin = measure_cell(m, METHOD_LODIC_PIN, ACCESS_HOT, 64, 2);
	double atomic =
		cell_over(pin, measure_cell(m, METHOD_PIN_ATOMIC, ACCESS_HOT, 64, 2));
	double hazard =
		cell_over(pin, measure_cell(m, METHOD_PIN_HAZARD, ACCESS_HOT, 64, 2));
	double kernel =
		cell_over(pin, measure_cell(m, METHOD_PREAD, ACCESS_HOT, 64, 2));
	double mapped = cell_over(measure_cell(m, METHOD_LODIC_READ, ACCESS_HOT, 64, 2),
	                          measure_cell(m, METHOD_MMAP, ACCESS_HOT, 64, 2));
	double zipf =
		cell_over(measure_cell(m, METHOD_LODIC_READ, ACCESS_ZIPF, 4096, 2),
	                  measure_cell(m, METHOD_PREAD, ACCESS_ZIPF, 4096, 2));
	double alone =
		cell_over(measure_cell(m, METHOD_LODIC_PIN, ACCESS_ZIPF, 64, 2),
	                  measure_cell(m, METHOD_PIN_ATOMIC, ACCESS_ZIPF, 64, 2));

	if (atomic <= 0 || kernel <= 0 || hazard <= 0 || mapped <= 0 || zipf <= 0 ||
	    alone <= 0) {
		puts("\nToo few undisturbed slots to say what it is worth: run it with "
		     "two free CPUs, or for longer (--seconds).");
		return;
	}
	printf("\nTwo processes on one hot block, 64 bytes: a lodic pin is %.1f times "
	       "as fast as one counted in a shared word, %.0f times as fast as pread, "
	       "and %.2f times the hazard slots' rate; lodic_read runs at %.2f of "
	       "mmap. Spread over the file (zipf) nobody contends: there a pin runs at "
	       "%.2f of the shared word's rate (64 bytes), and lodic_read is %.1f "
	       "times as fast as pread (4 KiB).\n",
	       atomic, kernel, hazard, mapped, alone, zipf);
}

/* The lodic cache's own, verifying and measuring together. */
static double total_hit_ratio(const struct demo *d, const struct measure *m)
{
	uint64_t asked = d->hits + d->misses, served = d->hits;

	for (unsigned int i = 0; i < m->nr_cells; i++) {
		const struct cell *c = &m->cells[i];

		if (method_scheme(c->method) != LODIC_LODIC)
			continue;
		asked += c->nr_ops;
		served += cell_served(c);
	}
	return asked ? (double)served / (double)asked : 0;
}

static int judge(const struct demo *d, const struct measure *m, double hit_ratio)
{
	if (d->wrong_bytes || m->nr_wrong_bytes) {
		cli_error("%llu bytes were not the file's; please report it",
		          (unsigned long long)(d->wrong_bytes + m->nr_wrong_bytes));
		return CLI_FAILED;
	}
	if (hit_ratio < LEAST_HIT_RATIO) {
		cli_error("only %.1f %% of the reads through lodic were cache hits, at "
		          "least %.0f %% are wanted; is somebody writing to the file?",
		          100 * hit_ratio, 100 * LEAST_HIT_RATIO);
		return CLI_FAILED;
	}
	return CLI_OK;
}

static int write_results(const struct demo *d, const struct measure *m,
                         const struct machine *machine, double hit_ratio)
{
	const struct stand *s = &d->stand;
	const char *path = d->json_out;
	json_t *o;
	int error;

	if (!path && access("build", W_OK) != 0)
		return 0; /* not in a build tree, and not asked for */
	path = path ? path : "build/demo.json";
	o = report_json(m, machine, s->seed);
	json_object_set_new(o, "file",
	                    json_string(s->corpus.origin[0] ? s->corpus.origin
	                                                    : "pseudo-random bytes"));
	json_object_set_new(o, "file_bytes", json_integer((json_int_t)s->corpus.bytes));
	json_object_set_new(o, "copied", json_boolean(s->corpus.temporary));
	json_object_set_new(
		o, "verified_bytes",
		json_integer((json_int_t)(d->read_bytes + d->pinned_bytes)));
	json_object_set_new(
		o, "wrong_bytes",
		json_integer((json_int_t)(d->wrong_bytes + m->nr_wrong_bytes)));
	json_object_set_new(o, "hit_ratio", json_real(hit_ratio));
	error = report_write_json(o, path);
	json_decref(o);
	if (error)
		cli_error("cannot write %s: %s", path, strerror(-error));
	else
		printf("results in %s\n", path);
	return error;
}

static int run(struct demo *d)
{
	struct measure_plan plan;
	struct measure m = { 0 };
	struct machine machine;
	double hit_ratio;
	int error = verify(d), status;

	if (error)
		return stand_complain(&d->stand, error);
	make_plan(d, &plan);
	error = measure_run(&m, &plan, &d->stand.rig);
	if (error) {
		measure_drop(&m);
		return stand_complain(&d->stand, error);
	}
	machine_find(&machine);
	hit_ratio = total_hit_ratio(d, &m);
	report_tables(&m, &machine, stdout);
	say_meaning(&m);
	printf("%.2f %% of the reads and pins through lodic were cache hits.\n",
	       100 * hit_ratio);
	status = judge(d, &m, hit_ratio);
	if (write_results(d, &m, &machine, hit_ratio) != 0)
		status = CLI_FAILED;
	measure_drop(&m);
	return status;
}

int command_demo(int argc, char **argv)
{
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          NULL,        NULL,  NULL };
	static struct demo d = { .ms = DEFAULT_MS, .stand = { .seed = WORKLOAD_SEED } };
	int status;

	if (argp_parse(&argp, argc, argv, 0, NULL, &d) != 0)
		return CLI_USAGE;
	setvbuf(stdout, NULL, _IOLBF, 0); /* or readers would print our lines again */
	cli_catch_signals();
	status = stand_open(&d.stand, demo_processes[NR_DEMO_PROCESSES - 1]);
	if (status == CLI_OK)
		status = run(&d);
	stand_close(&d.stand);
	return cli_stopped ? CLI_STOPPED : status;
}
