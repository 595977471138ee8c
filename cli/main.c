/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* `lodic`: which sub-command is meant. */
#include "measure/cli.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lodic/lodic.h"

#ifndef LODIC_COMMIT
#define LODIC_COMMIT "unknown"
#endif

#define MAX_NAME_BYTES 64

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
	{ "serve", command_serve }, { "stat", command_stat }, { "demo", command_demo },
	{ "bench", command_bench }, { "map", command_map },
};
#define NR_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const char doc[] =
	"A page cache shared between processes."
	"\v"
	"Commands:\n"
	"  demo    read a large file of this system through the cache, verify every\n"
	"          byte, and compare the ways to read it\n"
	"  serve   run the cache's service (programs that use liblodic start it)\n"
	"  stat    what the running cache holds and has done\n"
	"  bench   measure: `lodic bench pin', `lodic bench memory'\n"
	"  map     run a program so that what it reads again and again is mapped too,\n"
	"          for kernels with LODIC\n"
	"\n"
	"`lodic COMMAND --help' tells more.\n"
	"\n"
	"Examples:\n"
	"  lodic demo\n"
	"  lodic serve --memory 1G --immutable '/srv/models/*'\n"
	"  lodic stat --watch\n"
	"  lodic map -- grep -c lodic notes.txt\n";

static int unknown_command(const char *name)
{
	cli_error("there is no command '%s'; `lodic --help' lists them", name);
	return CLI_USAGE;
}

static int run_command(int argc, char **argv)
{
	static char name[MAX_NAME_BYTES];

	for (size_t i = 0; i < NR_COMMANDS; i++) {
		if (strcmp(commands[i].name, argv[0]) != 0)
			continue;
		snprintf(name, sizeof(name), "lodic %s", argv[0]);
		argv[0] = name;
		return commands[i].run(argc, argv);
	}
	return unknown_command(argv[0]);
}

struct choice {
	int argc; /* of the command; 0: none was named */
	char **argv;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct choice *choice = state->input;

	(void)arg;
	switch (key) {
	case 'V':
		printf("lodic %d.%d (%s)\n", LODIC_VERSION_MAJOR, LODIC_VERSION_MINOR,
		       LODIC_COMMIT);
		exit(CLI_OK);
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

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "version", 'V', NULL, 0, "Print the version", 0 },
		{ 0 },
	};
	static const struct argp argp = { options, parse, "COMMAND [OPTION...]",
		                          doc,     NULL,  NULL,
		                          NULL };
	struct choice choice = { 0 };

	argp_err_exit_status = CLI_USAGE;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &choice) != 0 ||
	    choice.argc == 0)
		return CLI_USAGE;
	return run_command(choice.argc, choice.argv);
}
