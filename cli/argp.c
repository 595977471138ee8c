/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Stands in for libc's argp_error(), which prints a name on the command line as it is. */
#define _GNU_SOURCE
#include <argp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/text.h"

void argp_error(const struct argp_state *state, const char *format, ...)
{
	char *text = NULL, *shown;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	shown = text_escape(text ? text : format);
	fprintf(state->err_stream, "%s: %s\n", state->name, shown ? shown : format);
	free(text);
	free(shown);
	argp_state_help(state, state->err_stream, ARGP_HELP_STD_ERR);
}
