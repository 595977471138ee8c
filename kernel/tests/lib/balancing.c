// SPDX-License-Identifier: GPL-2.0
#include "balancing.h"
#include "text.h"

#define BALANCING "/sys/kernel/debug/sched/numa_balancing"

static const struct {
	const char *path;
	u64 fast, usual;
} periods[] = {
	{ BALANCING "/scan_delay_ms", 1, 1000 },
	{ BALANCING "/scan_period_min_ms", 1, 1000 },
	{ BALANCING "/scan_period_max_ms", 10, 60000 },
};

int balancing_fast(bool fast)
{
	int err = 0;
	u32 i;

	for (i = 0; i < NR(periods) && !err; i++)
		err = text_write_number(periods[i].path, fast ? periods[i].fast : periods[i].usual);
	return err;
}
