/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random numbers by splitmix64. Every random choice of a test comes from the seed that the
 * test prints.
 */
#ifndef LODIC_TESTS_RANDOM_H
#define LODIC_TESTS_RANDOM_H

#include "base.h"

/* splitmix64's mix of the bits of x. */
u64 random_mix(u64 x);

/* The next number of the sequence that *state is in. */
u64 random_next(u64 *state);

#endif
