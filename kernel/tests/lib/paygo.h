/* SPDX-License-Identifier: GPL-2.0 */
/*
 * PAYGO: its counters in /proc/vmstat and its switches in debugfs. See
 * Documentation/mm/paygo.rst. A kernel counts so when it was booted with folioref=paygo or
 * folioref=hybrid.
 */
#ifndef LODIC_TESTS_PAYGO_H
#define LODIC_TESTS_PAYGO_H

#include "base.h"

#define PAYGO_MUTANT "/sys/kernel/debug/paygo/mutant"
#define PAYGO_WINDOW "/sys/kernel/debug/paygo/window"
#define PAYGO_TURN_MS 1000 /* an entry that nobody hits folds after one or two turns */

struct paygo {
	u64 hit, install, unref, away, unref_global, fold, folded, full, held_bytes;
};

/* Whether this boot counts in tables, and the kernel has the switches. */
bool paygo_on(void);

/* The counters; all 0 if this kernel has none. */
void paygo_read(struct paygo *ret_p);

/* By how much they have grown; held_bytes is what it is now. */
struct paygo paygo_since(const struct paygo *then);

/* Prints them as a comment of the test. */
void paygo_diag(const char *name, const struct paygo *p);

/* Fails the subtest if sums differ that must be equal when no reader is inside read(). */
void paygo_check_quiet(void);

/* Folds all entries of all CPUs. */
void paygo_drain(void);

/* From now on a reader makes an entry at once, or only where CPUs contend. */
void paygo_at_once(bool at_once);

/* As it was when paygo_on() was called. */
void paygo_at_once_restore(void);

/* Forbids entries and folds those that are there; or allows them again. */
void paygo_disable(bool disable);

#endif
