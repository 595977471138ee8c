/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-sim`: which command is meant. */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "sim/cache/cache_main.h"
#include "sim/command.h"
#include "sim/drbh_main.h"
#include "sim/figures/fig_main.h"
#include "sim/tier/tier_main.h"

#define NAME_BYTES 64

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "drbh", drbh_main },   { "table", table_main },     { "fit", fit_main },
	{ "figure", fig_main },  { "micro", fig_micro_main }, { "tier", tier_main },
	{ "cache", cache_main },
};
#define NR_COMMANDS (sizeof(commands) / sizeof(*commands))

static const char doc[] =
	"Simulate many-core machines: how schemes of counting references scale; and two tiers of "
	"memory: what belongs where."
	"\v"
	"Commands:\n"
	"  drbh    every CPU reads one block: all schemes, 1 to 120 CPUs\n"
	"  table   the LODIC paper's numbers beside the model's\n"
	"  fit     find again the two parameters that are fitted to the paper\n"
	"  figure  one of the papers' figures\n"
	"  micro   the steps that bench_micro measures on a real machine\n"
	"  tier    two tiers of memory: KLOC and its rivals, by workload\n"
	"  cache   liblodic's cache on many CPUs: read, pin, evict\n"
	"\n"
	"  help    show this text; `lodic-sim help COMMAND' explains one command\n"
	"\n"
	"The model ranks schemes, and finds where and on which line they collapse. It does "
	"not predict absolute throughput; differences under 20 % mean nothing.\n"
	"\n"
	"Exit status: 0 for success, 1 for a failure, 2 for wrong usage, which includes a "
	"topology or parameter file that cannot be used.\n";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case ARGP_KEY_ARG:
		argp_error(state,
		           "there is no command '%s'; there are drbh, table, fit, "
		           "figure, micro, tier, cache, help",
		           arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_state_help(state, stderr, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* `help X` is `X --help`; `help` and `-h` are `--help`. */
static void understand_help(int argc, char **argv)
{
	static char help[] = "--help";

	if (argc > 2 && strcmp(argv[1], "help") == 0) {
		argv[1] = argv[2];
		argv[2] = help;
	} else if (argc > 1 &&
	           (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "-h") == 0)) {
		argv[1] = help;
	} else if (argc > 2 && strcmp(argv[2], "-h") == 0) {
		argv[2] = help;
	}
}

int main(int argc, char **argv)
{
	static const struct argp argp = { NULL, parse, "COMMAND [OPTION...]", doc, NULL,
		                          NULL, NULL };
	static char name[NAME_BYTES];
	size_t i;

	command_begin();
	understand_help(argc, argv);
	for (i = 0; argc > 1 && i < NR_COMMANDS; i++) {
		if (strcmp(commands[i].name, argv[1]) != 0)
			continue;
		/* argp shows argv[0] in its usage. */
		snprintf(name, sizeof(name), "lodic-sim %s", argv[1]);
		argv[1] = name;
		return commands[i].run(argc - 1, argv + 1);
	}
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, NULL);
	return COMMAND_USAGE;
}
