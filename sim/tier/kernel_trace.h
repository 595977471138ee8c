/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What Linux says of its knodes, as tracefs prints the events kloc:kloc_rules, kloc:kloc_input and
 * kloc:kloc_decision. Lines of other events are left out. Names and numbers are as in the kernel's
 * Documentation/mm/kloc.rst.
 */
#ifndef LODIC_SIM_TIER_KERNEL_TRACE_H
#define LODIC_SIM_TIER_KERNEL_TRACE_H

#include <stdio.h>

#include "core/kloc/kloc.h"

#define KERNEL_LINE_BYTES 512u

enum kernel_event { KERNEL_RULES, KERNEL_INPUT, KERNEL_DECISION, KERNEL_NR_EVENTS };

enum kernel_input {
	INPUT_NEW,
	INPUT_OPEN,
	INPUT_CLOSE,
	INPUT_USE,
	INPUT_UNLINK,
	INPUT_MOVED,
	INPUT_TICK,
	INPUT_END,
	NR_INPUTS
};

enum kernel_decision {
	DECISION_ACTIVATE,
	DECISION_DEACTIVATE,
	DECISION_DEMOTE,
	DECISION_PROMOTE,
	DECISION_PLACE,
	DECISION_KEEP,
	DECISION_RETAIN,
	DECISION_FORGIVE,
	DECISION_END,
	NR_DECISIONS
};

struct kernel_trace {
	FILE *f;
	char *path;
	u64 line;
	char text[KERNEL_LINE_BYTES];
	const char *said; /* of text, the event and its fields */
	enum kernel_event event;
	u32 what; /* enum kernel_input, enum kernel_decision */
	u32 now;  /* tick */
	u32 knode;
	u64 n;                   /* of an input */
	u64 fast, slow;          /* of a decision: pages */
	enum kloc_why why;       /* of a decision */
	struct life_rules rules; /* of rules */
	char policy[32];
};

const char *kernel_decision_name(enum kernel_decision what);

/* 0; or -ENOENT, -ENOMEM ..., and it has said what is wrong. */
int kernel_trace_open(const char *path, struct kernel_trace *ret_trace);
void kernel_trace_close(struct kernel_trace *t);
/* The next event of ours: 1, or 0 at the end. -EINVAL: it has said what is wrong. */
int kernel_trace_next(struct kernel_trace *t);
/* Says what is wrong with the line. -EINVAL. */
int kernel_trace_wrong(const struct kernel_trace *t, const char *why);

#endif
