/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Wrong orders on purpose. A rule that no test defends is not a rule, so each one has a
 * mutant: a build of core/ in which that rule alone is broken (-DLODIC_MUTANT=NAME's
 * number), and a test that must fail on it. Normal builds have none of this code.
 */
#ifndef LODIC_MUTANT_H
#define LODIC_MUTANT_H

enum mutant {
	MUTANT_NONE,
	MUTANT_NO_PIN,           /* a pin that is not counted */
	MUTANT_CLEAR_AFTER_WALK, /* translation cleared after the contexts were walked */
	MUTANT_SEQ_AFTER_FILL,   /* seq moved only once, when the fill is done */
	MUTANT_NO_IDENTITY_CHECK, /* an optimistic read believes the translation */
	MUTANT_NO_RECHECK,        /* a soft miss does not look again */
	MUTANT_CLEAR_BEFORE_FOLD, /* a pte cleared before its count is in the global word */
	MUTANT_UNMAP_DROPS_COUNT, /* a pte cleared and its count forgotten */
	MUTANT_UNREF_OTHER_SLOT,  /* unref at the slot found now, not at the token's */
	MUTANT_REMAP_MOVES_COUNT, /* a count that moves to another address */
	MUTANT_FORK_COPIES_COUNT, /* counter bits copied to the child */
	MUTANT_GLOBAL_BEFORE_LOCALS, /* a query that reads the global word first */
	MUTANT_THAW_STORES, /* frozen thawed by a store: late failed refs are lost */
	MUTANT_NR
};

#ifndef LODIC_MUTANT
#define LODIC_MUTANT 0
#endif

#define MUTANT(name) (LODIC_MUTANT == MUTANT_##name)

/* How long a mutant keeps its wrong window open, in host_relax() calls: without it two
 * cores would need hours to meet in it. */
#define MUTANT_WINDOW_SPINS 2000u

#define MUTANT_WINDOW(name) \
	do { \
		if (MUTANT(name)) \
			for (u32 spins_ = 0; spins_ < MUTANT_WINDOW_SPINS; spins_++) \
				host_relax(); \
	} while (0)

#endif
