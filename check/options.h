/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What lodic-check was asked to do, and the two ways to report what it found. */
#ifndef LODIC_CHECK_OPTIONS_H
#define LODIC_CHECK_OPTIONS_H

#include "check/search.h"

#define EXIT_USAGE 2
#define EXIT_INTERRUPTED 130

struct options {
	bool all, list, mutants, json, trace, schedules_given;
	bool movers, no_movers; /* search with them, search without */
	bool strategies[4];     /* enum check_strategy */
	bool memories[CHECK_MEMORIES];
	const char *scenario, *scheme;
	const struct check_mutant *mutant;
	u64 schedules, seed, only; /* only: number + 1 */
	u32 bound, seeds, jobs;
	u32 flip; /* enum check_flip */
};

/* Where interleavings go: stdout, but with --json only JSON is there. */
FILE *options_out(const struct options *o);

/* argp; ends the program on bad usage. */
void options_parse(struct options *o, int argc, char **argv);

/* Tables for people or JSON for machines, to stdout. Return the number of failures. */
u32 report_searches(const struct options *o, const struct search *s, u32 nr);
u32 report_mutants(const struct options *o, const struct search *s, u32 nr);

#endif
