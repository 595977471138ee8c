/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Stops a child of this process at an instruction that the caller chooses. A first child is
 * stepped through once, and where each step stood is recorded. Later children do the same from
 * the same memory. So they run to a breakpoint at the recorded place, because a step costs
 * more than 20 us in a virtual machine. It needs ptrace(2) and x86-64.
 */
#ifndef LODIC_TESTS_SUPPORT_STEPS_H
#define LODIC_TESTS_SUPPORT_STEPS_H

#include <sys/types.h>

#include "host/host.h"

#define STEPS_MOST 4096u

/* The addresses of the instructions that one child went through, in their order. */
struct steps {
	u64 nr;
	u64 at[STEPS_MOST];
};

/* The child calls this: its parent follows it from now on, and it dies with its parent. false:
 * this machine does not let it. */
bool steps_follow_me(void);

/* The child stops here. Its parent is in steps_wait(), or comes to it. */
void steps_stop(void);

/* Waits until the child stops in steps_stop(): -1, or until it ends: its exit status, or 256
 * if a signal ended it. The caller must not wait for it again then. */
int steps_wait(pid_t pid);

/* Lets the child go on, and waits. */
int steps_go_on(pid_t pid);

/* The child is in steps_stop(). Records its steps while it has *stage at value. */
void steps_record(pid_t pid, const u64 *stage, u64 value, struct steps *ret_steps);

/* The child is in steps_stop(). It goes on until it has made k of the recorded steps, k < nr,
 * and stands before the next. false: it came to its next steps_stop(), or its end. */
bool steps_reach(pid_t pid, const struct steps *steps, u64 k);

#endif
