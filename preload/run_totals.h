/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the processes of one `lodic run --report` have read together. It is a System V segment of
 * a page, because a program closes descriptors that it does not know, and these must outlive an
 * exec. Each process adds to it at its end. The first one, which the user has named, prints the
 * sums and removes the segment. If a signal kills that one, the next `lodic run --report` does.
 */
#ifndef LODIC_PRELOAD_RUN_TOTALS_H
#define LODIC_PRELOAD_RUN_TOTALS_H

#include <stdint.h>

#include "preload/run_seen.h"

#define RUN_TOTALS_MAGIC UINT64_C(0x736c61746f74716c)

/* Zeroed but for magic; the other words are atomic. */
struct run_totals {
	uint64_t magic;
	uint64_t processes; /* that have ended, and had a read or a mapping */
	struct seen_counts counts;
};

#endif
