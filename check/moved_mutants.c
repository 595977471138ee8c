/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Wrong orders that show where tasks are moved to other CPUs, and where each shows. */
#include "check/case.h"

const struct check_mutant check_mutants_moved[] = {
	{ MUTANT_TEMPLATE_UNREF_HERE, "template-unref-here", "reclaim", "template",
	  CHECK_SC, "Y1: unref at the token's stripe", 100000 },
	{ MUTANT_PAYGO_UNREF_HERE, "paygo-unref-here", "reclaim", "paygo", CHECK_SC,
	  "A1: a reference goes back to its home", 1000000 },
	{ MUTANT_PAYGO_ANCHOR_NOT_ATOMIC, "paygo-anchor-not-atomic", "one-cpu", "paygo",
	  CHECK_SC, "A5: an anchor is changed atomically", 1000000 },
	{ MUTANT_PAYGO_LOCAL_FIRST, "paygo-local-first", "stay", "paygo", CHECK_SC,
	  "A4: the anchor is read before the local count", 100000 },
	{ MUTANT_PERCPU_LOCALS_FIRST, "percpu-locals-first", "stay", "percpu", CHECK_SC,
	  "the fold reads undone first", 100000 },
	{ MUTANT_PERCPU_UNDO_LOCAL, "percpu-undo-local", "stay", "percpu", CHECK_SC,
	  "D2: a failed ref is taken back where all CPUs see it", 100000 },
	{ MUTANT_SLOPPY_SPARES_FIRST, "sloppy-spares-first", "stay", "sloppy", CHECK_SC,
	  "U2: central is read before the spares", 100000 },
	{ MUTANT_SLOPPY_SPARE_BACK, "sloppy-spare-back", "stay", "sloppy", CHECK_SC,
	  "U3: a failed ref gives its spare back centrally", 100000 },
	{ MUTANT_REFCACHE_TICK_ELSEWHERE, "refcache-tick-elsewhere", "epochs",
	  "refcache", CHECK_SC, "E2: only a CPU itself flushes its slots", 1000000 },
	{ MUTANT_COUNTER_AWAY_PLAIN, "own-away-plain", "own-kill", "paygo", CHECK_SC,
	  "M22: away changes by atomics", 500000 },
	{ MUTANT_COUNTER_UNREF_HERE, "own-unref-here", "own-kill", "paygo", CHECK_SC,
	  "a reference goes back as its token says", 200000 },
	{ MUTANT_COUNTER_LOCAL_FIRST, "own-local-first", "own-ask", "paygo", CHECK_SC,
	  "M24: a look reads away, then local", 1000000 },
	{ .number = MUTANT_NONE },
};
