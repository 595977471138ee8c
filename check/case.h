/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What lodic-check searches: a table of cases and a table of mutants. A case is a scenario
 * for one scheme; a new scenario is a function that adds its cases.
 */
#ifndef LODIC_CHECK_CASE_H
#define LODIC_CHECK_CASE_H

#include "host/check/check.h"

struct check_case {
	const char *scenario; /* as printed and as --scenario takes it */
	const char *scheme;
	struct check_scenario run;
	/* Needs more schedules than others, because three actors must all meet. */
	bool deep;
};

struct check_list {
	struct check_case *cases;
	u32 nr, room;
};

void check_list_add(struct check_list *list, const struct check_case *c);
void check_list_all(struct check_list *list);
/* NULL when there is none. */
const struct check_case *check_list_find(const struct check_list *list,
                                         const char *scenario, const char *scheme);

/* check/count_*.c: ref, unref, freeze, query, fold for every scheme, with faults. */
void check_cases_count(struct check_list *list);
/* check/arena_*.c: liblodic's protocols. */
void check_cases_arena(struct check_list *list);
/* check/frozen_cases.c: pages that live again, and four ways to count in one word. */
void check_cases_page(struct check_list *list);
/* check/hold_*.c: the service's holds. */
void check_cases_hold(struct check_list *list);
/* check/fork_cases.c: a fork of more than one page. */
void check_cases_fork(struct check_list *list);
/* check/init_cases.c: memory is refused where a state is made. */
void check_cases_init(struct check_list *list);
/* check/own_*.c: a program's own objects. */
void check_cases_own(struct check_list *list);
/* check/kloc_*.c: knodes and tiers, and the CPUs' lists of knodes. */
void check_cases_kloc(struct check_list *list);
void check_cases_kloc_list(struct check_list *list);

/* A wrong order and where it shows. */
struct check_mutant {
	u32 number;       /* by weave.py; check_mutant_now takes it */
	const char *name; /* "fold-after-clear": as printed and as --mutant takes it */
	const char *scenario;
	const char *scheme;
	enum check_memory memory; /* the weakest-assuming one in which it shows */
	const char *breaks;       /* the rule, in a few words, with its ID */
	u64 budget;               /* schedules after which it has survived */
	/* It shows where movers move tasks to other CPUs, and is searched with them. */
	bool is_moved;
};

enum { CHECK_NO_MUTANT };

/* Generated from check/mutants/. It ends with number CHECK_NO_MUTANT. */
extern const struct check_mutant check_mutants[];

/* The i-th of all mutants, the one with that number, the one with that name. NULL: there is
 * none. */
const struct check_mutant *check_mutant_at(u32 i);
const struct check_mutant *check_mutant_find(u32 number);
const struct check_mutant *check_mutant_named(const char *name);

#endif
