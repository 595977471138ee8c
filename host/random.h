/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Pseudo-random numbers for hosts, tests and measurements (splitmix64: Steele, Lea, Flood,
 * OOPSLA 2014). The same seed gives the same numbers on every machine. core/ must not use
 * this: it asks host_choose(), so that the host decides.
 */
#ifndef LODIC_HOST_RANDOM_H
#define LODIC_HOST_RANDOM_H

#include "host/host.h"

/* What separates two neighbours in a sequence: odd, and 2^64 over the golden ratio. */
#define RANDOM_STEP 0x9e3779b97f4a7c15u

/* Spreads z over all 64 bits; two inputs never give the same output. */
static inline u64 random_mix(u64 z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

/* The next number of a sequence. Its state is one word, and any seed will do, 0 too. */
static inline u64 random_next(u64 *state)
{
	*state += RANDOM_STEP;
	return random_mix(*state);
}

#endif
