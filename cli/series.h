/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A number per round, and what many rounds say: median and quartiles. The ratio of two
 * series is the median of their rounds' ratios. So a machine that is slower for a while is
 * slower for both.
 */
#ifndef LODIC_CLI_SERIES_H
#define LODIC_CLI_SERIES_H

#include "host/host.h"

#define SERIES_MAX_ROUNDS 4096u
/* With fewer rounds the result is unknown. */
#define SERIES_LEAST 3u

struct series {
	double *at; /* one per round; 0: that round has none */
	u32 nr_rounds;
};

/* The median and quartiles of nr rounds. known: there were enough rounds. */
struct series_spread {
	bool known;
	u32 nr;
	double median, low, high;
};

/* -ENOMEM. */
int series_open(struct series *s, u32 nr_rounds);
void series_close(struct series *s);

struct series_spread series_spread(const struct series *s);
/* The ratio of a to b, in the rounds that both have. */
struct series_spread series_ratio(const struct series *a, const struct series *b);

#endif
