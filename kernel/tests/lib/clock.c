// SPDX-License-Identifier: GPL-2.0
#include "clock.h"

u64 clock_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

void clock_sleep_ms(u32 ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	nanosleep(&t, NULL);
}
