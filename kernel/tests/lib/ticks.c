// SPDX-License-Identifier: GPL-2.0
#include "ticks.h"

#define ROUNDS 1001

static int compare(const void *a, const void *b)
{
	u64 x = *(const u64 *)a, y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

u64 ticks_median(u64 *samples, u32 nr)
{
	qsort(samples, nr, sizeof(samples[0]), compare);
	return samples[nr / 2];
}

u64 ticks_empty(void)
{
	static u64 samples[ROUNDS];
	u32 i;

	for (i = 0; i < ROUNDS; i++) {
		u64 began = ticks();

		samples[i] = ticks() - began;
	}
	return ticks_median(samples, ROUNDS);
}
