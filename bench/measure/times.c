/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: bench/measure/times.h. A place is a power of two, and a part of TIMES_STEPS of it. */
#include "bench/measure/times.h"

static unsigned int times_place(uint64_t ns)
{
	unsigned int shift = 0;

	while (ns >> shift >= 2 * TIMES_STEPS)
		shift++;
	return shift * TIMES_STEPS + (unsigned int)(ns >> shift);
}

/* The largest time of a place. */
static uint64_t times_place_ns(unsigned int place)
{
	unsigned int shift = place < 2 * TIMES_STEPS ? 0 : place / TIMES_STEPS - 1;
	uint64_t first = place - shift * TIMES_STEPS;

	return ((first + 1) << shift) - 1;
}

void times_add(struct times *t, uint64_t ns)
{
	t->nr++;
	t->sum_ns += ns;
	t->max_ns = ns > t->max_ns ? ns : t->max_ns;
	t->places[times_place(ns)]++;
}

uint64_t times_part_ns(const struct times *t, double part)
{
	uint64_t wanted = (uint64_t)((double)t->nr * part), seen = 0, ns;

	for (unsigned int i = 0; i < TIMES_PLACES; i++) {
		seen += t->places[i];
		if (seen <= wanted && seen < t->nr)
			continue;
		ns = times_place_ns(i);
		return ns < t->max_ns ? ns : t->max_ns;
	}
	return 0;
}
