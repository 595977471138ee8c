/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic bench pin`: the slot engine with a plan of the user's. `lodic bench memory` is
 * in cli/memory.c. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure/cli.h"
#include "measure/measure.h"
#include "cli/memory.h"
#include "measure/report.h"
#include "measure/stand.h"

#define DEFAULT_ROUNDS 60
#define LEAST_BYTES 64
#define MAX_LIST_BYTES 128

enum {
	KEY_CSV = 256,
	KEY_PROCESSES,
	KEY_ACCESS,
	KEY_BYTES,
	KEY_SEED,
	KEY_WORKDIR,
	KEY_GOALS
};

struct bench {
	struct stand stand;
	struct measure_plan plan;
	const char *csv;
	bool json;
	bool goals; /* a missed goal is a failure */
};

static const char pin_doc[] =
	"Measure what it costs to pin a block, copy from it and unpin it, in each way "
	"of counting, and what other ways to read cost. Methods alternate in one run; "
	"the medians of undisturbed slots are printed."
	"\v"
	"Examples:\n"
	"  lodic bench pin\n"
	"  lodic bench pin --json --csv pin.csv > pin.json\n"
	"  lodic bench pin --access hot --bytes 64 --processes 1,2,4,8 --rounds 200\n";

static const struct argp_option pin_options[] = {
	{ "json", 'j', NULL, 0, "Print JSON", 0 },
	{ "file", 'f', "PATH", 0, "Read this file (default: a large one of the system)",
	  0 },
	{ "rounds", 'r', "N", 0, "Rounds, each with a slot for everybody (default: 60)",
	  0 },
	{ "csv", KEY_CSV, "PATH", 0, "Write the results there too, a line each", 0 },
	{ "processes", 'p', "LIST", 0, "Numbers of reader processes (default: 1,2)",
	  0 },
	{ "access", 'a', "LIST", 0, "Of hot, random, zipf (default: all)", 0 },
	{ "bytes", 'b', "LIST", 0, "Powers of two, 64 ... 4096 (default: 64,4096)", 0 },
	{ "seed", KEY_SEED, "N", 0, "Seed of the accesses", 0 },
	{ "goals", KEY_GOALS, NULL, 0, "Fail when a promised ratio is missed", 0 },
	{ "workdir", KEY_WORKDIR, "DIR", 0,
	  "Where a copy of the file may lie for the time (default: build, else TMPDIR)",
	  0 },
	{ 0 },
};

/* Calls take() for each piece of a list; false: one of them is wrong. */
static bool each(const char *list, bool (*take)(struct measure_plan *, const char *),
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

	if (access_parse(text, &a) != 0)
		return false;
	plan->access[a] = true;
	return true;
}

static error_t parse_list(int key, const char *arg, struct argp_state *state)
{
	struct measure_plan *plan = &((struct bench *)state->input)->plan;

	if (key == 'p') {
		plan->nr_processes = 0;
		if (!each(arg, take_processes, plan))
			argp_error(state, "'%s': up to %d different numbers, 1 to %d",
			           arg, MEASURE_MAX_PROCESSES, RIG_MAX_READERS);
	} else if (key == 'a') {
		memset(plan->access, 0, sizeof(plan->access));
		if (!each(arg, take_access, plan))
			argp_error(state, "'%s': there are hot, random, zipf", arg);
	} else {
		plan->nr_bytes = 0;
		if (!each(arg, take_bytes, plan))
			argp_error(state,
			           "'%s': up to %d different powers of two, 64 to 4096",
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
	case 'f': b->stand.file = arg[0] ? arg : NULL; return 0;
	case 'r':
		if (cli_parse_number(arg, 1, MEASURE_MAX_ROUNDS, &n) != 0)
			argp_error(state, "'%s' is not 1 to %d rounds", arg,
			           MEASURE_MAX_ROUNDS);
		else
			b->plan.rounds = (uint32_t)n;
		return 0;
	case 'p':
	case 'a':
	case 'b': return parse_list(key, arg, state);
	case KEY_CSV: b->csv = arg; return 0;
	case KEY_SEED:
		if (cli_parse_number(arg, 1, UINT32_MAX, &b->stand.seed) != 0)
			argp_error(state, "'%s' is not a seed, 1 ... 2^32 - 1", arg);
		return 0;
	case KEY_GOALS: b->goals = true; return 0;
	case KEY_WORKDIR: b->stand.workdir = arg; return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is too much; give the file with --file", arg);
		return 0;
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

static int publish(const struct bench *b, const struct measure *m)
{
	FILE *nowhere = b->json ? fopen("/dev/null", "we") : NULL;
	struct machine machine;
	unsigned int missed;
	int error = 0;

	machine_find(&machine);
	if (b->json) {
		json_t *o = report_json(m, &machine, b->stand.seed);

		report_print_json(o, stdout);
		json_decref(o);
	} else {
		report_tables(m, &machine, stdout);
	}
	missed = report_goals(m, nowhere ? nowhere : stdout);
	if (nowhere)
		fclose(nowhere);
	if (b->csv)
		error = report_write_csv(m, &machine, b->stand.seed, b->csv);
	if (error) {
		cli_error("cannot write %s: %s", b->csv, strerror(-error));
		return CLI_FAILED;
	}
	if (m->nr_wrong_bytes) {
		cli_error("%llu bytes were not the file's; please report it",
		          (unsigned long long)m->nr_wrong_bytes);
		return CLI_FAILED;
	}
	if (b->goals && missed) {
		cli_error("%u promised ratios were missed", missed);
		return CLI_FAILED;
	}
	return CLI_OK;
}

static int bench_pin(int argc, char **argv)
{
	static const struct argp argp = { pin_options, parse_pin, NULL, pin_doc,
		                          NULL,        NULL,      NULL };
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

static const char bench_doc[] =
	"Measure the cache on this machine."
	"\v"
	"Measurements:\n"
	"  pin      ways to pin and to read a block, against each other\n"
	"  memory   bytes per frame, per context and per mapped block\n"
	"\n"
	"`lodic bench pin --help' tells more.\n"
	"\n"
	"Examples:\n"
	"  lodic bench pin --access hot\n"
	"  lodic bench memory --json\n";

struct choice {
	int argc;
	char **argv;
};

static error_t parse_bench(int key, char *arg, struct argp_state *state)
{
	struct choice *choice = state->input;

	(void)arg;
	switch (key) {
	case ARGP_KEY_ARG:
		choice->argc = state->argc - state->next + 1;
		choice->argv = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_state_help(state, stderr, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int command_bench(int argc, char **argv)
{
	static const struct argp argp = {
		NULL, parse_bench, "MEASUREMENT [OPTION...]", bench_doc, NULL,
		NULL, NULL
	};
	static char pin_name[] = "lodic bench pin",
		    memory_name[] = "lodic bench memory";
	struct choice choice = { 0 };

	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &choice) != 0 ||
	    choice.argc == 0)
		return CLI_USAGE;
	if (strcmp(choice.argv[0], "pin") == 0) {
		choice.argv[0] = pin_name;
		return bench_pin(choice.argc, choice.argv);
	}
	if (strcmp(choice.argv[0], "memory") == 0) {
		choice.argv[0] = memory_name;
		return bench_memory(choice.argc, choice.argv);
	}
	cli_error("there is no measurement '%s'; there are pin and memory",
	          choice.argv[0]);
	return CLI_USAGE;
}
