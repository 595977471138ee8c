/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How the program gives up rights, and how a service is started: run_leave.c. */
#ifndef LODIC_PRELOAD_RUN_LEAVE_H
#define LODIC_PRELOAD_RUN_LEAVE_H

#include "preload/run_state.h"

/* How rights change. */
enum run_leave {
	RUN_LEAVE_FAILED, /* they have not: the call has failed */
	RUN_LEAVE_USER,   /* the service judges by what the kernel says of the caller */
	RUN_LEAVE_FOR_GOOD, /* U25 */
	RUN_LEAVE_HIDDEN, /* U25, and a program that this one becomes must not connect either */
};
/* The shim asks the kernel for ids until run_rights_end(). false: it has nothing to leave here, or
 * must not ask, because a filter may forbid it (U19). */
bool run_rights_begin(void);
void run_rights_end(void);
/* Before and after the call. Each keeps errno. */
void run_leaves(void);
void run_left(enum run_leave how);
/* A process with all rights is about to become this user for good: U27. Keeps errno. */
void run_becomes(u32 user);
/* run_may_start(), where it is likely. */
void run_may_start_now(void);
/* The program has opened a file: U26. Keeps errno. */
static inline void run_may_start(void)
{
	struct run_state *s = shim.run.state;

	if (s && unlikely(host_load_relaxed(&s->alone)))
		run_may_start_now();
}

/* Only a constructor may call it. */
void run_leave_start(const char *socket);
/* Nothing of the service's stays in this process. The lock is held. */
void run_let_go(struct run_state *s);

#endif
