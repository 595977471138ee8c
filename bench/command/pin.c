/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic bench pin`: the slot engine with a plan of the user's. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/command/bench.h"
#include "bench/measure/goal.h"
#include "bench/measure/measure.h"
#include "bench/measure/report.h"
#include "bench/measure/stand.h"
#include "cli/cli.h"

#define DEFAULT_ROUNDS 60
#define LEAST_BYTES 64
#define MAX_LIST_BYTES 128

enum { KEY_CSV = 256, KEY_GOALS };

struct bench {
	struct stand stand;
	struct measure_plan plan;
	const char *csv;
	bool json;
	bool goals; /* fail when a ratio is missed */
};

static const char pin_doc[] =
	"For each scheme that counts pins, measure what it costs to pin a block, to copy "
	"from it and to unpin it. Measure also what other ways to read cost. All methods alternate "
	"in one run of about half a minute. The tables show the medians of the time slots "
	"in which nothing disturbed the readers."
	"\v"
	"Examples:\n"
	"  lodic bench pin\n"
	"  lodic bench pin --json --csv pin.csv > pin.json\n"
	"  lodic bench pin --access hot --bytes 64 --processes 1,2,4,8 --rounds 200\n";

static const struct argp_option pin_options[] = {
	{ "json", 'j', NULL, 0, "Print JSON and not tables", 0 },
	{ "rounds", 'r', "N", 0,
	  "Run N rounds; each gives every method one slot (default: 60)", 0 },
	{ "csv", KEY_CSV, "PATH", 0, "Write the results as CSV, too", 0 },
	{ "processes", 'p', "LIST", 0,
	  "Measure with these numbers of reader processes (default: 1,2)", 0 },
	{ "access", 'a', "LIST", 0,
	  "Read blocks in these ways: hot, random, zipf (default: all)", 0 },
	{ "bytes", 'b', "LIST", 0,
	  "Read this many bytes at a time: powers of two, 64 to 4096 (default: 64,4096)",
	  0 },
	{ "goals", KEY_GOALS, NULL, 0,
	  "Return 1 when a ratio that the project promises is missed", 0 },
	{ 0 },
};

/* Calls take() for each piece of a list; false: one of the pieces is wrong. */
static bool take_list(const char *list,
                      bool (*take)(struct measure_plan *, const char *),
                      struct measure_plan *plan)
{
	char copy[MAX_LIST_BYTES], *rest = copy, *piece;

	if (strlen(list) >= sizeof(copy) || list[0] == '\0')
		return false;
	strcpy(copy, list);
	while ((piece = strsep(&rest, ",")))
		if (!take(plan, piece))
			return false;
	return true;
}

static bool take_processes(struct measure_plan *plan, const char *text)
{
	uint64_t n;

	if (cli_parse_number(text, 1, RIG_MAX_READERS, &n) != 0 ||
	    plan->nr_processes == MEASURE_MAX_PROCESSES)
		return false;
	for (unsigned int i = 0; i < plan->nr_processes; i++)
		if (plan->processes[i] == n)
			return false;
	plan->processes[plan->nr_processes++] = (unsigned int)n;
	return true;
}

static bool take_bytes(struct measure_plan *plan, const char *text)
{
	uint64_t n;

	if (cli_parse_number(text, LEAST_BYTES, LODIC_BLOCK_BYTES, &n) != 0 ||
	    n & (n - 1) || plan->nr_bytes == MEASURE_MAX_BYTES)
		return false;
	for (unsigned int i = 0; i < plan->nr_bytes; i++)
		if (plan->bytes[i] == n)
			return false;
	plan->bytes[plan->nr_bytes++] = (uint32_t)n;
	return true;
}

static bool take_access(struct measure_plan *plan, const char *text)
{
	enum access a;

	if (workload_access_parse(text, &a) != 0)
		return false;
	plan->access[a] = true;
	return true;
}

static error_t parse_list(int key, const char *arg, struct argp_state *state)
{
	struct measure_plan *plan = &((struct bench *)state->input)->plan;

	if (key == 'p') {
		plan->nr_processes = 0;
		if (!take_list(arg, take_processes, plan))
			argp_error(
				state,
				"'%s' is not a list of at most %d different numbers from 1 "
				"to %d",
				arg, MEASURE_MAX_PROCESSES, RIG_MAX_READERS);
	} else if (key == 'a') {
		memset(plan->access, 0, sizeof(plan->access));
		if (!take_list(arg, take_access, plan))
			argp_error(state, "'%s' is not a list of hot, random, zipf",
			           arg);
	} else {
		plan->nr_bytes = 0;
		if (!take_list(arg, take_bytes, plan))
			argp_error(
				state,
				"'%s' is not a list of at most %d different powers of two "
				"from 64 to 4096",
				arg, MEASURE_MAX_BYTES);
	}
	return 0;
}

static error_t parse_pin(int key, char *arg, struct argp_state *state)
{
	struct bench *b = state->input;
	uint64_t n;

	switch (key) {
	case 'j': b->json = b->stand.quiet = true; return 0;
	case 'r':
		if (cli_parse_number(arg, 1, MEASURE_MAX_ROUNDS, &n) != 0)
			argp_error(state, "'%s' is not a number of rounds from 1 to %d",
			           arg, MEASURE_MAX_ROUNDS);
		else
			b->plan.rounds = (uint32_t)n;
		return 0;
	case 'p':
	case 'a':
	case 'b': return parse_list(key, arg, state);
	case KEY_CSV: b->csv = arg; return 0;
	case KEY_GOALS: b->goals = true; return 0;
	case ARGP_KEY_INIT: state->child_inputs[0] = &b->stand; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static unsigned int most_processes(const struct measure_plan *plan)
{
	unsigned int most = 0;

	for (unsigned int i = 0; i < plan->nr_processes; i++)
		most = plan->processes[i] > most ? plan->processes[i] : most;
	return most;
}

static int complain_csv(const struct bench *b, int error)
{
	cli_error("cannot write %s: %s", b->csv, strerror(-error));
	return CLI_FAILED;
}

static int publish(const struct bench *b, const struct measure *m)
{
	char parameters[REPORT_PARAMETERS_BYTES];
	struct machine machine;
	const struct report_run run = { &machine, parameters, b->stand.seed };
	unsigned int missed;
	int error = 0;

	machine_find(&machine);
	report_describe(m, b->stand.corpus.bytes, parameters, sizeof(parameters));
	if (b->json) {
		json_t *o = report_json(m, &run);

		report_print_json(o, stdout);
		json_decref(o);
	} else {
		report_tables(m, &machine, stdout);
	}
	missed = goal_report(m, b->json ? NULL : stdout);
	if (b->csv)
		error = report_write_csv(m, &run, b->csv);
	if (error)
		return complain_csv(b, error);
	if (m->nr_wrong_bytes) {
		cli_error("%llu bytes were not the file's; please report this",
		          (unsigned long long)m->nr_wrong_bytes);
		return CLI_FAILED;
	}
	if (b->goals && missed) {
		cli_error("%u of the promised ratios were missed", missed);
		return CLI_FAILED;
	}
	return CLI_OK;
}

int command_bench_pin(int argc, char **argv)
{
	static const struct argp_child children[] = { { &stand_argp, 0, NULL, 0 },
		                                      { 0 } };
	static const struct argp argp = { pin_options, parse_pin, NULL, pin_doc,
		                          children,    NULL,      NULL };
	static struct bench b = {
		.stand = { .seed = WORKLOAD_SEED },
		.plan = { .access = { true, true, true },
		          .bytes = { LEAST_BYTES, LODIC_BLOCK_BYTES },
		          .nr_bytes = 2,
		          .processes = { 1, 2 },
		          .nr_processes = 2,
		          .rounds = DEFAULT_ROUNDS },
	};
	struct measure m = { 0 };
	int status, error;

	if (argp_parse(&argp, argc, argv, 0, NULL, &b) != 0)
		return CLI_USAGE;
	error = b.csv ? report_check_path(b.csv) : 0;
	if (error)
		return complain_csv(&b, error);
	cli_catch_signals();
	status = stand_open(&b.stand, most_processes(&b.plan));
	if (status == CLI_OK) {
		error = measure_run(&m, &b.plan, &b.stand.rig);
		status = error ? stand_complain(&b.stand, error) : publish(&b, &m);
	}
	measure_drop(&m);
	stand_close(&b.stand);
	return cli_stopped ? CLI_STOPPED : status;
}
