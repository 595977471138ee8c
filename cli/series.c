/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Medians over rounds. Contract: cli/series.h. */
#include "cli/series.h"

#include <errno.h>
#include <stdlib.h>

int series_open(struct series *s, u32 nr_rounds)
{
	*s = (struct series){ .nr_rounds = nr_rounds };
	s->at = calloc(nr_rounds, sizeof(*s->at));
	return s->at ? 0 : -ENOMEM;
}

void series_close(struct series *s)
{
	free(s->at);
	*s = (struct series){ 0 };
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Interpolates between neighbours in rank, linearly. */
static double quantile(const double *sorted, u32 nr, double q)
{
	double at = q * (nr - 1);
	u32 low = (u32)at;

	if (low + 1 >= nr)
		return sorted[nr - 1];
	return sorted[low] + (sorted[low + 1] - sorted[low]) * (at - low);
}

static struct series_spread spread_of(double *values, u32 nr)
{
	if (nr < SERIES_LEAST)
		return (struct series_spread){ .nr = nr };
	qsort(values, nr, sizeof(*values), compare);
	return (struct series_spread){
		.known = true,
		.nr = nr,
		.median = quantile(values, nr, 0.5),
		.low = quantile(values, nr, 0.25),
		.high = quantile(values, nr, 0.75),
	};
}

struct series_spread series_spread(const struct series *s)
{
	double values[SERIES_MAX_ROUNDS];
	u32 nr = 0;

	for (u32 i = 0; i < s->nr_rounds; i++)
		if (s->at[i] > 0)
			values[nr++] = s->at[i];
	return spread_of(values, nr);
}

struct series_spread series_ratio(const struct series *a, const struct series *b)
{
	double values[SERIES_MAX_ROUNDS];
	u32 nr = 0;

	for (u32 i = 0; i < a->nr_rounds && i < b->nr_rounds; i++)
		if (a->at[i] > 0 && b->at[i] > 0)
			values[nr++] = a->at[i] / b->at[i];
	return spread_of(values, nr);
}
