/* SPDX-License-Identifier: GPL-2.0 */
/* LODIC's counters in /proc/vmstat: see Documentation/mm/lodic.rst. */
#ifndef LODIC_TESTS_COUNTERS_H
#define LODIC_TESTS_COUNTERS_H

#include "base.h"

struct counters {
	u64 ref, unref, unref_global, fold, folded;
	u64 fallback, lookup;
};

/* Reads the counters. Returns false, with zeros, if this kernel has none. */
bool counters_read(struct counters *ret_c);

/* Whether this kernel has LODIC. */
bool counters_present(void);

/* Checks the sums that must hold when no reader is inside read(). */
void counters_check_quiet(void);

/* By how much they have grown. */
struct counters counters_since(const struct counters *then);

/* Prints them as a comment of the test. */
void counters_diag(const char *name, const struct counters *d);

#endif
