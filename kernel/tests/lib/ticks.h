/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The time stamp counter. With QEMU's `-icount shift=0 -smp 1` it counts the guest's
 * instructions. Elsewhere its numbers are cycles of something.
 */
#ifndef LODIC_TESTS_TICKS_H
#define LODIC_TESTS_TICKS_H

#include "base.h"

static inline u64 ticks(void)
{
	u32 low, high;

	/* The fences keep the processor from reading the counter too early. */
	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
	return (u64)high << 32 | low;
}

/* Sorts the samples. */
u64 ticks_median(u64 *samples, u32 nr);

/* What two readings of the counter cost. */
u64 ticks_empty(void);

#endif
