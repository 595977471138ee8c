/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Litmus programs: a few tasks of a few steps, which the checker runs (host/check) and the axioms
 * judge (tests/support/axioms.h). x, y and z are words, 0 at first; r0 to r11 are registers.
 *
 *    x=1           a relaxed store; "x=1 release" releases
 *    r0=x          a relaxed load; "r0=x acquire" and "r0=x dep" are the other kinds
 *    x+=1          an RMW; "r0=x+1" also keeps the value before
 *    r0=x?1        a cas of x from 1 to LITMUS_CAS: was it made?
 *    full, acquire, release, light, heavy: fences
 */
#ifndef LODIC_TESTS_SUPPORT_LITMUS_H
#define LODIC_TESTS_SUPPORT_LITMUS_H

#include "host/check/check.h"

#define LITMUS_TASKS 4u
#define LITMUS_STEPS 4u /* of a task */
#define LITMUS_WORDS 3u
#define LITMUS_REGISTERS 12u
#define LITMUS_NO_REGISTER LITMUS_REGISTERS
#define LITMUS_CAS 7u

enum litmus_kind {
	LITMUS_LOAD,
	LITMUS_LOAD_DEP,
	LITMUS_LOAD_ACQUIRE,
	LITMUS_STORE,
	LITMUS_STORE_RELEASE,
	LITMUS_ADD,
	LITMUS_CAS_FROM,
	LITMUS_FULL,
	LITMUS_ACQUIRE,
	LITMUS_RELEASE,
	LITMUS_LIGHT,
	LITMUS_HEAVY
};

struct litmus_step {
	enum litmus_kind kind;
	u32 word, reg;
	u32 number; /* what is stored, added or expected */
};

struct litmus_program {
	u32 nr_tasks;
	u32 nr_steps[LITMUS_TASKS];
	struct litmus_step steps[LITMUS_TASKS][LITMUS_STEPS];
	bool one_cpu; /* for all tasks; otherwise each has its own */
};

/* What came out: words at the end and registers, four bits each. */
#define LITMUS_BITS 4u
static inline u64 litmus_word(u32 word, u64 value)
{
	return value << word * LITMUS_BITS;
}

static inline u64 litmus_register(u32 reg, u64 value)
{
	return value << (LITMUS_WORDS + reg) * LITMUS_BITS;
}

/* One more task. Its steps have "; " between them. */
void litmus_add_task(struct litmus_program *p, const char *steps);
/* The outcome and the tasks in the same form, as a row of tests/unit/test_check_litmus.c. */
void litmus_print(const struct litmus_program *p, u64 outcome);
/* Is it so in the outcome? text is as "r0=1 x=2". */
bool litmus_holds(const char *text, u64 outcome);

/* Runs the program as a scenario. After each schedule it calls met(), and that of each pilot. */
void litmus_search(const struct litmus_program *p, const struct check_options *o,
                   void (*met)(u64 outcome));

#endif
