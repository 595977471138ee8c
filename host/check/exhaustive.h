/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The exhaustive search: depth first over all choices, with at most so many preemptions.
 * A preemption is a change to another task although the running one could go on. These are
 * free: a store that reaches memory, a fault that begins, and any choice after a task has
 * ended, waits or spins.
 *
 * The search leaves out a schedule that differs from a tried one only in the order of steps
 * that do not meet. These are sleep sets (Godefroid, LNCS 1032).
 */
#ifndef LODIC_HOST_CHECK_EXHAUSTIVE_H
#define LODIC_HOST_CHECK_EXHAUSTIVE_H

#include "host/check/engine.h"

/* A new search. sleep_sets: false tries every order. */
void exhaustive_begin(u32 preemption_bound, bool sleep_sets);

/* Before each schedule: engine.choose and the rest lead there. */
void exhaustive_prepare(void);

/* After it: on to the next. false: there is none. */
bool exhaustive_next(void);

/* When there is none: was nothing left out for want of room? */
bool exhaustive_is_complete(void);

#endif
