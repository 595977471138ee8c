/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Many times of one kind, and what is asked of them. A time goes into one of some thousand
 * places. So a million of them take no more memory than ten, and two processes can share it.
 */
#ifndef LODIC_BENCH_MEASURE_TIMES_H
#define LODIC_BENCH_MEASURE_TIMES_H

#include <stdint.h>

/* A time and the next place's differ by 1 part in TIMES_STEPS at most. */
#define TIMES_STEPS 32u
#define TIMES_PLACES (64u * TIMES_STEPS)

/* Begins as zeros. */
struct times {
	uint64_t nr;
	uint64_t sum_ns, max_ns;
	uint64_t places[TIMES_PLACES];
};

void times_add(struct times *t, uint64_t ns);
/* The time that a part of all times do not exceed, as 0.5 or 0.999; 3 % too large at most.
 * 0: there are none. */
uint64_t times_part_ns(const struct times *t, double part);

#endif
