/* SPDX-License-Identifier: GPL-2.0 */
/* The monotonic clock, and pauses. */
#ifndef LODIC_TESTS_CLOCK_H
#define LODIC_TESTS_CLOCK_H

#include "base.h"

u64 clock_now_ns(void);

void clock_sleep_ms(u32 ms);

#endif
