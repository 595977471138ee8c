/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which command is meant. Contract: cli/command.h. */
#include "cli/command.h"

#include <argp.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#define MAX_NAME_BYTES 64
#define MAX_LIST_BYTES 128

/* What argp has found: the words from the command's name on. */
struct words {
	int argc; /* 0: no command was named */
	char **argv;
};

static error_t command_parse(int key, char *arg, struct argp_state *state)
{
	struct words *words = state->input;

	(void)arg;
	switch (key) {
	case 'h': argp_state_help(state, stdout, ARGP_HELP_STD_HELP); return 0;
	case ARGP_KEY_ARG:
		/* All that follows is the command's own to parse. */
		words->argc = state->argc - state->next + 1;
		words->argv = state->argv + state->next - 1;
		state->next = state->argc;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_state_help(state, stderr, ARGP_HELP_STD_HELP & ~ARGP_HELP_EXIT_OK);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int command_unknown(const struct command_choice *choice, const char *name)
{
	char list[MAX_LIST_BYTES] = "";
	size_t n = 0;

	for (const struct command *c = choice->commands; c->name; c++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s, ", c->name);
	cli_error("there is no %s '%s'; there are %shelp", choice->noun, name, list);
	return CLI_USAGE;
}

static int command_enter(const struct command_choice *choice, int argc, char **argv)
{
	static char name[MAX_NAME_BYTES], help[] = "--help";

	for (const struct command *c = choice->commands; c->name; c++) {
		if (strcmp(c->name, argv[0]) != 0)
			continue;
		snprintf(name, sizeof(name), "%s %s", choice->name, argv[0]);
		argv[0] = name;
		if (argc > 1 && strcmp(argv[1], "-h") == 0)
			argv[1] = help;
		return c->run(argc, argv);
	}
	return command_unknown(choice, argv[0]);
}

/* `help X Y` is `X Y --help`, and `help` is `--help`. */
static int command_help(const struct command_choice *choice, const struct argp *argp,
                        int argc, char **argv)
{
	static char help[] = "--help";
	char name[MAX_NAME_BYTES];
	char *own[] = { name, help, NULL };

	if (argc == 1 || argv[1][0] == '-' || strcmp(argv[1], "help") == 0) {
		snprintf(name, sizeof(name), "%s", choice->name);
		argp_parse(argp, 2, own, 0, NULL, NULL); /* prints and exits */
		return CLI_OK;
	}
	memmove(argv, argv + 1, (size_t)(argc - 1) * sizeof(*argv));
	argv[argc - 1] = help;
	return command_enter(choice, argc, argv);
}

int command_choose(const struct command_choice *choice, int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0 },
		{ 0 },
	};
	const struct argp argp = { options, command_parse, choice->usage, choice->doc,
		                   NULL,    NULL,          NULL };
	struct words words = { 0 };

	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &words) != 0 ||
	    words.argc == 0)
		return CLI_USAGE;
	if (strcmp(words.argv[0], "help") == 0)
		return command_help(choice, &argp, words.argc, words.argv);
	return command_enter(choice, words.argc, words.argv);
}

int command_main(const struct command_choice *choice, int argc, char **argv)
{
	argp_err_exit_status = CLI_USAGE;
	cli_offer_version(choice->name);
	cli_check_output();
	setlocale(LC_CTYPE, ""); /* what the terminal can show */
	return command_choose(choice, argc, argv);
}
