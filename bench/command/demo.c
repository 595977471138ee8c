/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic demo`: reads a real file through the cache, checks every byte, and shows what the
 * cache is worth. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/measure/corpus.h"
#include "bench/measure/measure.h"
#include "bench/measure/report.h"
#include "bench/measure/stand.h"
#include "cli/cli.h"
#include "cli/command.h"
#include "cli/text.h"

#define DEFAULT_MS 30000
#define LEAST_HIT_RATIO 0.95
#define NR_DEMO_PROCESSES 3
#define MB 1e6
/* Large enough to keep all readers at work between two orders. */
#define VERIFY_STEP_BYTES ((uint64_t)16 << 20)

static const unsigned int demo_processes[NR_DEMO_PROCESSES] = { 1, 2, 4 };
static const uint32_t demo_bytes[] = { 64, LODIC_BLOCK_BYTES };

struct demo {
	struct stand stand;
	const char *json_out; /* NULL: none is written */
	uint64_t ms;
	/* What verifying found, summed over the readers. */
	uint64_t read_bytes, pinned_bytes, all_bytes, wrong_bytes;
	uint64_t hits, misses;
};

static const char doc[] =
	"Show on this machine that the cache is right and what it is worth. The demo starts "
	"caches of its own and reads a large file of this system through them, with 1, 2 and "
	"4 processes. It compares every byte with the file, and then measures the ways to "
	"read the file against each other. Afterwards only the JSON file stays."
	"\v"
	"Examples:\n"
	"  lodic demo\n"
	"  lodic demo --file /usr/bin/clang --seconds 10\n"
	"  lodic demo --json-out result.json\n"
	"\n"
	"The demo fails (exit status 1) when a byte was wrong, or when the cache served fewer "
	"than 95 % of the reads through lodic.";

static const struct argp_option option_list[] = {
	{ "json-out", 'o', "PATH", 0,
	  "Write the results there. The default is build/demo.json, where there is a "
	  "folder build",
	  0 },
	{ "seconds", 's', "S", 0, "Measure for S seconds (default: 30)", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct demo *d = state->input;

	switch (key) {
	case 'o': d->json_out = arg; return 0;
	case 's':
		if (cli_parse_seconds_ms(arg, &d->ms) != 0 || d->ms == 0)
			argp_error(state, "'%s' is not a number of seconds above 0",
			           arg);
		return 0;
	case ARGP_KEY_INIT: state->child_inputs[0] = &d->stand; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static void add_report(struct demo *d, const struct reader_report *r)
{
	d->read_bytes += r->read_bytes;
	d->pinned_bytes += r->pinned_bytes;
	d->all_bytes += r->all_bytes;
	d->wrong_bytes += r->nr_wrong_bytes;
	d->hits += r->hits;
	d->misses += r->misses > r->nr_fallbacks ? r->misses : r->nr_fallbacks;
}

/* The bytes from offset on, by nr processes at once. */
static int verify_step(struct demo *d, unsigned int nr, uint64_t offset)
{
	uint64_t left = d->stand.corpus.bytes - offset;
	struct rig *rig = &d->stand.rig;
	int error;

	for (unsigned int r = 0; r < nr; r++)
		rig->orders[r] = (struct reader_order){
			.op = READER_VERIFY,
			.verify_offset = offset,
			.verify_bytes =
				left < VERIFY_STEP_BYTES ? left : VERIFY_STEP_BYTES,
		};
	error = rig_ask(rig, nr);
	if (cli_stopped)
		return -EINTR;
	for (unsigned int r = 0; r < nr && !error; r++)
		add_report(d, &rig->reports[r]);
	return error;
}

static int verify(struct demo *d)
{
	uint64_t bytes = d->stand.corpus.bytes;

	for (unsigned int i = 0; i < NR_DEMO_PROCESSES; i++) {
		for (uint64_t at = 0; at < bytes; at += VERIFY_STEP_BYTES) {
			int error = verify_step(d, demo_processes[i], at);

			if (error)
				return error;
			cli_progress("verifying",
			             (unsigned int)(100 * (i * bytes + at) /
			                            (NR_DEMO_PROCESSES * bytes)));
		}
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

/* The rate of one method over another's, for two processes. 0: it cannot be said. *rough: because
 * other programs have slowed the slots. */
static double worth(const struct measure *m, enum method method, enum method over,
                    enum access access, uint32_t bytes, bool *rough)
{
	const struct cell *a = measure_cell(m, method, access, bytes, 2);
	const struct cell *b = measure_cell(m, over, access, bytes, 2);

	if (a && b && (a->rough || b->rough)) {
		*rough = true;
		return 0;
	}
	return measure_over(a, b);
}

/* Says in words what the table shows. Rough numbers show nothing. */
static void say_meaning(const struct measure *m)
{
	bool rough = false;
	double atomic = worth(m, METHOD_LODIC_PIN, METHOD_PIN_ATOMIC, ACCESS_HOT, 64, &rough);
	double hazard = worth(m, METHOD_LODIC_PIN, METHOD_PIN_HAZARD, ACCESS_HOT, 64, &rough);
	double kernel = worth(m, METHOD_LODIC_PIN, METHOD_PREAD, ACCESS_HOT, 64, &rough);
	double mapped = worth(m, METHOD_LODIC_READ, METHOD_MMAP, ACCESS_HOT, 64, &rough);
	double zipf =
		worth(m, METHOD_LODIC_READ, METHOD_PREAD, ACCESS_ZIPF, 4096, &rough);
	double alone = worth(m, METHOD_LODIC_PIN, METHOD_PIN_ATOMIC, ACCESS_ZIPF, 64, &rough);

	if (rough) {
		puts("\nOther programs took the CPUs, or the run was too short. So the demo "
		     "cannot say what the cache is worth.\nRun it with two free CPUs, or for "
		     "longer (--seconds).");
		return;
	}
	if (atomic <= 0 || kernel <= 0 || hazard <= 0 || mapped <= 0 || zipf <= 0 ||
	    alone <= 0) {
		puts("\nThe demo compares two processes, so it takes two CPUs to say what "
		     "the cache is worth.");
		return;
	}
	printf("\nWhen two processes read 64 bytes of one hot block, a lodic pin is %.1f "
	       "times as fast as a pin that a shared word counts. It is %.0f times as "
	       "fast as pread, and runs at %.2f times the rate of hazard slots. "
	       "lodic_read runs at %.2f of the rate of mmap.\n"
	       "When reads spread over the file (zipf), processes hardly meet. There a "
	       "pin runs at %.2f of the shared word's rate (64 bytes), and lodic_read is "
	       "%.1f times as fast as pread (4 KiB).\n",
	       atomic, kernel, hazard, mapped, alone, zipf);
}

/* Of the lodic cache, over verifying and measuring. */
static double total_hit_ratio(const struct demo *d, const struct measure *m)
{
	uint64_t asked = d->hits + d->misses, served = d->hits;

	for (unsigned int i = 0; i < m->nr_cells; i++) {
		const struct cell *c = &m->cells[i];

		if (method_cache(c->method) != CACHE_LODIC)
			continue;
		asked += c->nr_ops;
		served += measure_served(c);
	}
	return asked ? (double)served / (double)asked : 0;
}

static int judge(const struct demo *d, const struct measure *m, double hit_ratio)
{
	if (d->wrong_bytes || m->nr_wrong_bytes) {
		cli_error("%llu bytes were not the file's; please report this",
		          (unsigned long long)(d->wrong_bytes + m->nr_wrong_bytes));
		return CLI_FAILED;
	}
	if (hit_ratio < LEAST_HIT_RATIO) {
		cli_error(
			"the cache served %.1f %% of the reads through lodic, and must "
			"serve %.0f %%; does a process write to the file?",
			100 * hit_ratio, 100 * LEAST_HIT_RATIO);
		return CLI_FAILED;
	}
	return CLI_OK;
}

static int complain_json(const struct demo *d, int error)
{
	cli_error("cannot write %s: %s", d->json_out, strerror(-error));
	return CLI_FAILED;
}

/* An exit status; a failure has been said. */
static int write_results(const struct demo *d, const struct measure *m,
                         const struct machine *machine, double hit_ratio)
{
	const struct stand *s = &d->stand;
	char parameters[REPORT_PARAMETERS_BYTES];
	const struct report_run about = { machine, parameters, s->seed };
	json_t *o;
	int error;

	if (!d->json_out)
		return 0; /* not in a build tree, and not asked for */
	report_describe(m, s->corpus.bytes, parameters, sizeof(parameters));
	o = report_json(m, &about);
	json_object_set_new(o, "file",
	                    text_json(s->corpus.origin[0] ? s->corpus.origin
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
	error = report_write_json(o, d->json_out);
	json_decref(o);
	if (error)
		return complain_json(d, error);
	fputs("The results are in ", stdout);
	text_print(d->json_out, 0);
	puts(".");
	return CLI_OK;
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
	printf("The cache served %.2f %% of the reads and pins through lodic.\n",
	       100 * hit_ratio);
	status = judge(d, &m, hit_ratio);
	if (write_results(d, &m, &machine, hit_ratio) != CLI_OK)
		status = CLI_FAILED;
	measure_drop(&m);
	return status;
}

int command_demo(int argc, char **argv)
{
	static const struct argp_child children[] = { { &stand_argp, 0, NULL, 0 },
		                                      { 0 } };
	static const struct argp argp = { option_list, parse, NULL, doc,
		                          children,    NULL,  NULL };
	static struct demo d = { .ms = DEFAULT_MS, .stand = { .seed = WORKLOAD_SEED } };
	int status, error;

	if (argp_parse(&argp, argc, argv, 0, NULL, &d) != 0)
		return CLI_USAGE;
	if (!d.json_out && access("build", W_OK) == 0)
		d.json_out = "build/demo.json";
	error = d.json_out ? report_check_path(d.json_out) : 0;
	if (error)
		return complain_json(&d, error);
	setvbuf(stdout, NULL, _IOLBF, 0); /* or readers would print our lines again */
	cli_catch_signals();
	status = stand_open(&d.stand, demo_processes[NR_DEMO_PROCESSES - 1]);
	if (status == CLI_OK)
		status = run(&d);
	stand_close(&d.stand);
	return cli_stopped ? CLI_STOPPED : status;
}
