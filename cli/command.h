/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The commands of `lodic`, and how a word of the command line chooses one of them. Each
 * command gets argv[0] = "lodic NAME" and returns an exit status (cli/cli.h). In `lodic`, demo and
 * bench become lodic-bench, which has commands of the same names.
 */
#ifndef LODIC_CLI_COMMAND_H
#define LODIC_CLI_COMMAND_H

#define COMMAND(name, text) int command_##name(int argc, char **argv);
#include "cli/command_list.h"
#undef COMMAND

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
};

/* A command that only chooses among others: `lodic` itself, `lodic bench`. */
struct command_choice {
	const char *name;               /* "lodic", "lodic bench" */
	const char *usage;              /* what follows it, for --help */
	const char *doc;                /* for --help, as argp(3) wants it */
	const char *noun;               /* what one of them is called in messages */
	const struct command *commands; /* ends with a NULL name */
};

/* Runs the command that argv names, and returns its exit status. `help`, `help NAME`,
 * `-h` and `NAME -h` print help and return CLI_OK. No name, or a name that is not in the
 * list: says on stderr which ones there are, and returns CLI_USAGE. */
int command_choose(const struct command_choice *choice, int argc, char **argv);

/* The same for main(): it first sets up how a program of lodic's speaks. */
int command_main(const struct command_choice *choice, int argc, char **argv);

#endif
