/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The command line of lodic-check. */
#define _GNU_SOURCE
#include "check/options.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEDULES_DEFAULT 10000u
#define SEEDS_DEFAULT 51u
#define BOUND_DEFAULT 2u
#define SCHEDULES_MAX ((u64)1 << 48)

enum key {
	KEY_ALL = 256,
	KEY_LIST,
	KEY_SCENARIO,
	KEY_SCHEME,
	KEY_MEMORY,
	KEY_MOVERS,
	KEY_NO_MOVERS,
	KEY_FLIP,
	KEY_STRATEGY,
	KEY_BOUND,
	KEY_SCHEDULES,
	KEY_SEED,
	KEY_ONLY,
	KEY_TRACE,
	KEY_MUTANTS,
	KEY_MUTANT,
	KEY_JSON,
	KEY_SEEDS,
	KEY_JOBS,
	KEY_WHOLE
};

#define U32_MAX 0xffffffffu

static const struct argp_option table[] = {
	{ "all", KEY_ALL, NULL, 0, "Every scenario for every scheme", 1 },
	{ "scenario", KEY_SCENARIO, "NAME", 0, "Only this one", 1 },
	{ "scheme", KEY_SCHEME, "NAME", 0, "Only for this scheme", 1 },
	{ "list", KEY_LIST, NULL, 0, "List all scenarios, schemes and mutants", 1 },
	{ "memory", KEY_MEMORY, "MODEL", 0,
	  "sc, tso, pso or weak; all: each of them (default). exhaustive: sc and tso only",
	  2 },
	{ "movers", KEY_MOVERS, NULL, 0,
	  "Only with movers, which move tasks to other CPUs at any moment (default: with "
	  "and without; exhaustive: without)",
	  2 },
	{ "no-movers", KEY_NO_MOVERS, NULL, 0, "Only without movers", 2 },
	{ "flip", KEY_FLIP, "NAME", 0,
	  "Change what scenarios chose where any choice would do: cpu (CPUs are numbered from "
	  "the last one), order (tasks are, too, and contexts join so), draws (what each "
	  "schedule draws); all: these three. May be given several times",
	  2 },
	{ "strategy", KEY_STRATEGY, "NAME", 0,
	  "random, pct3, pct4, exhaustive; all: the first three (default)", 2 },
	{ "schedules", KEY_SCHEDULES, "N", 0,
	  "Schedules for each scenario, scheme and memory model, with movers and without, "
	  "shared evenly by the strategies (default: 10000). A deep scenario (--list) gets "
	  "10 times as many. exhaustive: at most so many",
	  2 },
	{ "bound", KEY_BOUND, "N", 0, "Exhaustive: preemptions at most (default: 2)",
	  2 },
	{ "seed", KEY_SEED, "N", 0, "The schedules' seed (default: 1)", 2 },
	{ "mutants", KEY_MUTANTS, NULL, 0,
	  "Break each rule in turn; every mutant must be found, in --schedules at most "
	  "where that is given, else in a number of its own",
	  3 },
	{ "mutant", KEY_MUTANT, "NAME", 0,
	  "Break this rule and show what goes wrong; with --scenario, there", 3 },
	{ "seeds", KEY_SEEDS, "N", 0,
	  "With --mutants: search each with so many seeds (default: 51)", 3 },
	{ "only", KEY_ONLY, "N", 0, "Run only the schedule with this number, again",
	  4 },
	{ "trace", KEY_TRACE, NULL, 0, "With --only: print the schedule's steps", 4 },
	{ "json", KEY_JSON, NULL, 0, "Print JSON; interleavings then go to stderr", 5 },
	{ "jobs", KEY_JOBS, "N", 0, "Processes (default: as many as CPUs)", 5 },
	{ "whole", KEY_WHOLE, NULL, 0,
	  "Search the service and its readers on a simulated machine instead; must come "
	  "first. --whole --help: its options",
	  6 },
	{ 0 },
};

static const char doc[] =
	"Run lodic's protocols under schedules that real machines seldom make, and look for "
	"one that breaks a rule."
	"\v"
	"Between any two accesses to shared memory another task may run. Under tso a store "
	"may also wait in its CPU's buffer, under pso stores may pass each other there, and "
	"under weak a load may return an older value. The exit status is 0 when no rule was "
	"broken (or, with --mutants, when each mutant was found), 1 when not, 2 on bad usage. "
	"That no violation was found in N schedules does not prove that there is none.\n"
	"\n"
	"Examples:\n"
	"  lodic-check --all --schedules 100000\n"
	"  lodic-check --mutant fold-after-clear\n"
	"  lodic-check --scheme lodic --strategy exhaustive --bound 2 --memory sc \\\n"
	"              --scenario reclaim --schedules 10000000\n";

static u64 number(const char *arg, const char *what, u64 most, struct argp_state *state)
{
	char *end;
	u64 n;

	errno = 0;
	n = strtoull(arg, &end, 10);
	if (errno || *arg < '0' || *arg > '9' || *end)
		argp_error(state, "--%s takes a number, not '%s'", what, arg);
	if (n > most)
		argp_error(state, "--%s takes at most %llu", what,
		           (unsigned long long)most);
	return n;
}

static void parse_strategy(struct options *o, const char *arg, struct argp_state *state)
{
	bool known = false;

	for (u32 i = 0; i < 4; i++) {
		bool is = strcmp(arg, search_strategy_word(i)) == 0 ||
		          (strcmp(arg, "all") == 0 && i != CHECK_EXHAUSTIVE);

		o->strategies[i] = is;
		known = known || is;
	}
	if (!known)
		argp_error(state, "there is no strategy '%s'", arg);
}

static void parse_memory(struct options *o, const char *arg, struct argp_state *state)
{
	bool known = false;

	for (u32 i = 0; i < CHECK_MEMORIES; i++) {
		o->memories[i] = strcmp(arg, search_memory_word(i)) == 0 ||
		                 strcmp(arg, "all") == 0;
		known = known || o->memories[i];
	}
	if (!known)
		argp_error(state, "there is no memory model '%s'", arg);
}

static void parse_flip(struct options *o, const char *arg, struct argp_state *state)
{
	u32 flip = search_flip_named(arg);

	if (!flip)
		argp_error(state, "there is nothing to flip named '%s'", arg);
	o->flip |= flip;
}

/* What no option alone shows. */
static void check_together(const struct options *o, struct argp_state *state)
{
	if (!o->all && !o->list && !o->mutants && !o->mutant && !o->scenario &&
	    !o->scheme)
		argp_error(state, "give --all, --mutants, --mutant, --scenario, "
		                  "--scheme or --list");
	if (o->schedules == 0 || o->seeds == 0 || o->jobs == 0)
		argp_error(state, "--schedules, --seeds and --jobs must be at least 1");
	if (o->trace && !o->only)
		argp_error(state, "--trace needs --only: it prints one schedule");
	if (!o->movers && !o->no_movers)
		argp_error(state, "--movers and --no-movers exclude each other");
	if (!o->no_movers && o->strategies[CHECK_EXHAUSTIVE])
		argp_error(state, "an exhaustive search has no movers");
	if (o->strategies[CHECK_EXHAUSTIVE] && !o->memories[CHECK_SC] &&
	    !o->memories[CHECK_TSO])
		argp_error(state, "an exhaustive search is for sc and tso");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_ALL: o->all = true; break;
	case KEY_LIST: o->list = true; break;
	case KEY_SCENARIO: o->scenario = arg; break;
	case KEY_SCHEME: o->scheme = arg; break;
	case KEY_MEMORY: parse_memory(o, arg, state); break;
	case KEY_MOVERS: o->no_movers = false; break;
	case KEY_NO_MOVERS: o->movers = false; break;
	case KEY_FLIP: parse_flip(o, arg, state); break;
	case KEY_STRATEGY: parse_strategy(o, arg, state); break;
	case KEY_BOUND: o->bound = (u32)number(arg, "bound", U32_MAX, state); break;
	case KEY_SCHEDULES:
		o->schedules = number(arg, "schedules", SCHEDULES_MAX, state);
		o->schedules_given = true;
		break;
	case KEY_SEED: o->seed = number(arg, "seed", ~(u64)0, state); break;
	case KEY_ONLY: o->only = number(arg, "only", SCHEDULES_MAX, state) + 1; break;
	case KEY_TRACE: o->trace = true; break;
	case KEY_MUTANTS: o->mutants = true; break;
	case KEY_MUTANT:
		o->mutant = check_mutant_named(arg);
		if (!o->mutant)
			argp_error(state, "there is no mutant '%s'; --list names them",
			           arg);
		break;
	case KEY_JSON: o->json = true; break;
	case KEY_SEEDS:
		o->seeds = (u32)number(arg, "seeds", SEARCH_MAX_SEEDS, state);
		break;
	case KEY_JOBS:
		o->jobs = (u32)number(arg, "jobs", SEARCH_MAX_JOBS, state);
		break;
	case KEY_WHOLE: argp_error(state, "--whole must come first"); break;
	case ARGP_KEY_ARG: argp_error(state, "'%s' is not an option", arg); break;
	case ARGP_KEY_END: check_together(o, state); break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

FILE *options_out(const struct options *o)
{
	return o->json ? stderr : stdout;
}

static void print_version(FILE *stream, struct argp_state *state)
{
	(void)state;
	fprintf(stream, "lodic-check %s (%s)\n", LODIC_VERSION, LODIC_COMMIT);
}

void options_parse(struct options *o, int argc, char **argv)
{
	static const struct argp argp = { .options = table,
		                          .parser = parse,
		                          .doc = doc };
	static char help[] = "--help";
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	*o = (struct options){
		.memories = { true, true, true, true },
		.movers = true,
		.no_movers = true,
		.strategies = { [CHECK_RANDOM] = true,
		                [CHECK_PCT3] = true,
		                [CHECK_PCT4] = true },
		.schedules = SCHEDULES_DEFAULT,
		.seed = 1,
		.bound = BOUND_DEFAULT,
		.seeds = SEEDS_DEFAULT,
		.jobs = cpus > 0 ? (u32)cpus : 1,
	};
	if (argc == 2 && (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "-h") == 0))
		argv[1] = help;
	argp_err_exit_status = EXIT_USAGE;
	argp_program_version_hook = print_version;
	argp_parse(&argp, argc, argv, 0, NULL, o);
}
