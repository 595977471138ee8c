/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mm/kloc_life.h needs of its surroundings: types, and rules that a test breaks on purpose.
 * The other surroundings of the same text are lodic's simulator, service and model checker.
 */
#ifndef _MM_KLOC_HOST_H
#define _MM_KLOC_HOST_H

#include <linux/compiler.h>
#include <linux/types.h>

/* debugfs kloc/mutant. The names are in mm/kloc_debug.c, in this order. */
enum kloc_mutant {
	MUTANT_KLOC_NONE,
	/* The life: mm/kloc_life.h. */
	MUTANT_KLOC_CLOSE_FIRST,
	MUTANT_KLOC_UNLINK_OPEN,
	MUTANT_KLOC_AGED_STAYS,
	MUTANT_KLOC_COUNTER_IGNORED,
	MUTANT_KLOC_PLACE_ANY_STATE,
	/* What Linux adds to it. */
	MUTANT_KLOC_CLOSE_TWICE,
	MUTANT_KLOC_STAYS_LISTED,
	MUTANT_KLOC_STAYS_PINNED,
	MUTANT_KLOC_NOT_ISOLATED,
	MUTANT_KLOC_PASS_GOES_ON,
	MUTANT_KLOC_BUSY_LOST,
	MUTANT_KLOC_USES_LOST,
	MUTANT_KLOC_LIMIT_IGNORED,
	NR_KLOC_MUTANTS
};

#ifdef CONFIG_KLOC_DEBUG
extern unsigned int kloc_mutant;
#define MUTANT(name) unlikely(READ_ONCE(kloc_mutant) == MUTANT_##name)
#else
#define MUTANT(name) (false && MUTANT_##name)
#endif

#endif /* _MM_KLOC_HOST_H */
