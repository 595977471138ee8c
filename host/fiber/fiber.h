/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Fibers: stacks that take turns on one thread. The checker and the timing model run
 * every simulated task as one, so that they alone decide who goes next.
 *
 * One thread uses fibers at a time. A fiber's body must not return: it switches away for
 * the last time. A fiber that is never switched to again is simply reset or freed; what
 * its stack held is forgotten, as with a killed process.
 */
#ifndef LODIC_HOST_FIBER_FIBER_H
#define LODIC_HOST_FIBER_FIBER_H

#include <stddef.h>

struct fiber;

/* A fiber with a stack of at least stack_bytes, or NULL when there is no memory. It runs
 * nothing until fiber_reset(). */
struct fiber *fiber_new(size_t stack_bytes);

/* The next switch to f starts body(arg) at the top of its stack. */
void fiber_reset(struct fiber *f, void (*body)(void *), void *arg);

/* The calling thread's own stack, to switch back to. It has no stack to free. */
struct fiber *fiber_main(void);

/* Leaves from, which must be the running one, and goes on where to left off. Cost: a
 * handful of moves; no system call. */
void fiber_switch(struct fiber *from, struct fiber *to);

#endif
