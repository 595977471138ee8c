/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What each thread reads by, and how the shim steps aside: run_threads.c. */
#ifndef LODIC_PRELOAD_RUN_THREADS_H
#define LODIC_PRELOAD_RUN_THREADS_H

#include "preload/run_state.h"

/* From now on the shim serves nothing, and makes no system call of its own. */
void run_stop(void);
/* The same, and it writes its report now: a filter for system calls is about to come. */
void run_confined(void);
/* The same, with what the lock is for. The lock is held. */
void run_step_aside(struct run_state *s);
/* A child is about to run on this thread's thread-local words: U18. */
void run_suspends(void);
/* In a forked child. false: the shim does nothing more here. */
bool run_forked(void);
/* The program ends, in a way that the shim can see; or is about to close stderr. */
void run_end(bool stderr_closing);

/* Only a constructor may call it. */
bool run_threads_start(void);
/* What this thread reads by. NULL: it has nothing now. */
struct run_reader *reader_mine(struct run_state *s);
/* Gives back what nobody uses. The service takes one request at a time, and this does not wait for
 * it. The lock is held. */
void run_sweep(struct run_state *s, u64 now);

#endif
