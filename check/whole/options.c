/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The command line of lodic-whole. */
#include "check/whole/options.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCHEDULES_DEFAULT 10000u
#define EXIT_USAGE 2

enum key {
	KEY_SCENARIO = 256,
	KEY_LIST,
	KEY_SCHEDULES,
	KEY_SEED,
	KEY_FAULT,
	KEY_NO_FAULT,
	KEY_TRACE,
	KEY_COVERAGE,
	KEY_JSON,
	KEY_JOBS
};

static const struct argp_option table[] = {
	{ "scenario", KEY_SCENARIO, "NAME", 0,
	  "Only this one (default: each schedule draws one)", 1 },
	{ "list", KEY_LIST, NULL, 0, "List all scenarios and kinds of fault", 1 },
	{ "schedules", KEY_SCHEDULES, "N", 0, "How many (default: 10000)", 2 },
	{ "seed", KEY_SEED, "N", 0,
	  "The first schedule's seed (default: 1); the next one has the next number", 2 },
	{ "fault", KEY_FAULT, "KIND", 0,
	  "Only this kind of fault; again for another one. errno: a call fails as its comment "
	  "says. short: fewer bytes. delay: a call takes long. death: a process is killed. stop: "
	  "it stands still for a while. hang: the file system does not answer for a while",
	  3 },
	{ "no-fault", KEY_NO_FAULT, "KIND", 0, "Not this kind; all: no fault at all", 3 },
	{ "trace", KEY_TRACE, NULL, 0,
	  "Print to stderr what happens: the time, the program, the call. For one schedule", 4 },
	{ "coverage", KEY_COVERAGE, NULL, 0,
	  "Print how often each call was made, and each of its errors drawn. Fails if one never "
	  "was and has no reason",
	  4 },
	{ "json", KEY_JSON, NULL, 0, "Print JSON", 5 },
	{ "jobs", KEY_JOBS, "N", 0, "Processes (default: as many as CPUs)", 5 },
	{ 0 },
};

static const char doc[] =
	"Run lodic's service and its readers, as they are, on a simulated machine, and look for "
	"a schedule that breaks a rule."
	"\v"
	"One seed gives one schedule: whose turn it is, what fails, which process dies. Memory "
	"is sequentially consistent. Time is virtual. The exit status is 0 when no rule was "
	"broken, 1 when one was, 2 on bad usage, 130 when the search was stopped. That no "
	"violation was found in N schedules does not prove that there is none.\n"
	"\n"
	"Examples:\n"
	"  lodic-check --whole --schedules 100000\n"
	"  lodic-check --whole --seed 7 --schedules 1 --no-fault all --trace\n";

static u64 number(const char *arg, const char *what, u64 most, struct argp_state *state)
{
	char *end;
	u64 n;

	errno = 0;
	n = strtoull(arg, &end, 10);
	if (errno || *arg < '0' || *arg > '9' || *end)
		argp_error(state, "--%s takes a number, not '%s'", what, arg);
	if (n == 0 || n > most)
		argp_error(state, "--%s takes 1 to %llu", what, (unsigned long long)most);
	return n;
}

static void set_fault(bool *faults, const char *name, bool to, struct argp_state *state)
{
	bool known = strcmp(name, "all") == 0;

	for (u32 i = 0; i < NR_FAULTS; i++) {
		if (strcmp(name, "all") != 0 && strcmp(name, fault_names[i]) != 0)
			continue;
		faults[i] = to;
		known = true;
	}
	if (!known)
		argp_error(state, "there is no kind of fault '%s'; --list names them",
		           name);
}

/* The first --fault means: no other. */
static void add_fault(struct options *o, const char *name, struct argp_state *state)
{
	static bool given;

	if (!given)
		memset(o->faults, 0, sizeof(o->faults));
	given = true;
	set_fault(o->faults, name, true, state);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case KEY_SCENARIO:
		o->scenario = scenario_find(arg);
		if (!o->scenario)
			argp_error(state, "there is no scenario '%s'; --list names them",
			           arg);
		break;
	case KEY_LIST: o->list = true; break;
	case KEY_SCHEDULES:
		o->schedules = number(arg, "schedules", (u64)1 << 48, state);
		break;
	case KEY_SEED: o->seed = number(arg, "seed", (u64)1 << 60, state); break;
	case KEY_FAULT: add_fault(o, arg, state); break;
	case KEY_NO_FAULT: set_fault(o->faults, arg, false, state); break;
	case KEY_TRACE: o->trace = true; break;
	case KEY_COVERAGE: o->coverage = true; break;
	case KEY_JSON: o->json = true; break;
	case KEY_JOBS:
		o->jobs = (u32)number(arg, "jobs", OPTIONS_MOST_JOBS, state);
		break;
	case ARGP_KEY_ARG: argp_error(state, "'%s' is not an option", arg); break;
	case ARGP_KEY_END:
		if (o->trace && o->schedules != 1)
			argp_error(state, "--trace needs --schedules 1");
		break;
	default: return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

void options_parse(struct options *o, int argc, char **argv)
{
	static const struct argp argp = { .options = table,
		                          .parser = parse,
		                          .doc = doc };
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	*o = (struct options){ .schedules = SCHEDULES_DEFAULT,
		               .seed = 1,
		               .jobs = cpus < 1                  ? 1
		                       : cpus > OPTIONS_MOST_JOBS ? OPTIONS_MOST_JOBS
		                                                  : (u32)cpus };
	for (u32 i = 0; i < NR_FAULTS; i++)
		o->faults[i] = true;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, o);
}

void options_print(const struct options *o, FILE *to)
{
	if (o->scenario)
		fprintf(to, " --scenario %s", o->scenario->name);
	for (u32 i = 0; i < NR_FAULTS; i++)
		if (!o->faults[i])
			fprintf(to, " --no-fault %s", fault_names[i]);
}
