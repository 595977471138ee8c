/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Many searches on all CPUs. A search is one case under one memory model, strategy and
 * mutant, with movers or without. Several processes run them, because host/check has one
 * world per process.
 */
#ifndef LODIC_CHECK_SEARCH_H
#define LODIC_CHECK_SEARCH_H

#include "check/case.h"

#define SEARCH_MAX_JOBS 256u
#define SEARCH_MAX_SEEDS 1001u

/* STOPPED: by Ctrl-C, or not begun when the last worker crashed. RUNNING, when all is over:
 * it crashed. */
enum search_state { SEARCH_WAITING, SEARCH_RUNNING, SEARCH_DONE, SEARCH_STOPPED };

struct search {
	const struct check_case *c;
	struct check_options options;
	u32 mutant;
	u32 nr_seeds; /* 0: one search; else one for each seed, to its first violation */
	/* Written by the process that runs it. */
	enum search_state state;
	struct check_result
		result;         /* one seed: of it; more: sums, and the first's place */
	u32 nr_found, nr_tried; /* seeds */
	u64 median, max;        /* schedules to detection, of the seeds that found it */
};

/* Zeroed, and shared with the processes that search_all() makes; NULL: no memory. */
struct search *search_alloc(u32 nr);

/* Runs them all, nr_jobs at a time. false: interrupted, or a search ended in a crash; its
 * state then is not SEARCH_DONE. */
bool search_all(struct search *searches, u32 nr, u32 nr_jobs, bool quiet);

/* Shows the violation that s found, to its options' out: seed, replay command,
 * interleaving. */
void search_show(const struct search *s);

const char *search_memory_word(enum check_memory memory);
/* What follows the memory's word: ", movers", or nothing. */
const char *search_movers_word(bool movers);
/* Bits of enum check_flip; 0: there is none with that name. */
u32 search_flip_named(const char *name);
const char *search_strategy_word(enum check_strategy strategy);

#endif
