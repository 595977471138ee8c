/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What broken text may use, and the warnings that it may earn. rows.py and weave.py include it. */
#ifndef LODIC_CHECK_MUTANTS_BROKEN_H
#define LODIC_CHECK_MUTANTS_BROKEN_H

/* How long a mutant keeps its wrong window open, in host_relax() calls: without it two cores would
 * need hours to meet in it. In the checker one is enough. */
#ifndef MUTANT_WINDOW_SPINS
#define MUTANT_WINDOW_SPINS 2000u
#endif

/* times: how many windows long. What must fit into it says how many. */
#define mutant_window(times) \
	do { \
		for (u32 spins_ = MUTANT_WINDOW_SPINS * (times); spins_ > 0; spins_--) \
			host_relax(); \
	} while (0)

#endif

/* Each time anew: weave.py puts the warnings back behind each broken function. */
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
