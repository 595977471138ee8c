/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic-sim`: which command is meant. */
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "sim/command.h"
#include "sim/drbh_main.h"
#include "sim/figures/fig_main.h"

#define NAME_BYTES 64

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
} commands[] = {
	{ "drbh", drbh_main },  { "table", table_main },     { "fit", fit_main },
	{ "figure", fig_main }, { "micro", fig_micro_main },
};
#define NR_COMMANDS (sizeof(commands) / sizeof(*commands))

static const char doc[] =
	"Simulate many-core machines: how schemes of counting references scale."
	"\v"
	"Commands:\n"
	"  drbh    every CPU reads one block: all schemes, 1 to 120 CPUs\n"
	"  table   the LODIC paper's numbers beside the model's\n"
	"  fit     find again the two parameters that are fitted to the paper\n"
	"  figure  one of the papers' figures\n"
	"  micro   the steps that bench_micro measures on a real machine\n"
	"\n"
	"`lodic-sim COMMAND --help' tells more.\n"
	"\n"
	"The model ranks schemes, and finds where and on which line they collapse. It does "
	"not predict absolute throughput; differences under 20 % mean nothing.\n";

static error_t parse(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	switch (key) {
	case ARGP_KEY_ARG:
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "which command? `lodic-sim --help' lists them");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int main(int argc, char **argv)
{
	static const struct argp argp = { NULL, parse, "COMMAND [OPTION...]", doc, NULL,
		                          NULL, NULL };
	static char name[NAME_BYTES];
	size_t i;

	command_begin();
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
