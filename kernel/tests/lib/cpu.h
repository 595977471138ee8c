/* SPDX-License-Identifier: GPL-2.0 */
/* The processors that the calling thread may run on. */
#ifndef LODIC_TESTS_CPU_H
#define LODIC_TESTS_CPU_H

#include "base.h"

/* How many there are: at least 1. */
u32 cpu_nr(void);

/* Lets the calling thread run on all of them again. */
void cpu_unpin(void);

/* Pins the calling thread to the n-th of them, counted round. */
void cpu_pin(u32 n);

#endif
