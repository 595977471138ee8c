/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What lodic-whole was asked to do. */
#ifndef LODIC_CHECK_WHOLE_OPTIONS_H
#define LODIC_CHECK_WHOLE_OPTIONS_H

#include <stdio.h>

#include "check/whole/scenarios.h"

#define OPTIONS_MOST_JOBS 256u

struct options {
	u64 schedules, seed;
	u32 jobs;
	bool list, trace, json, coverage;
	bool faults[NR_FAULTS];          /* kinds that a run may draw */
	const struct scenario *scenario; /* NULL: each run draws one */
};

/* argp. Ends the program on bad usage. */
void options_parse(struct options *o, int argc, char **argv);
/* What is to be given besides the seed, so that a schedule runs again. */
void options_print(const struct options *o, FILE *to);

#endif
