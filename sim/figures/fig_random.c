/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The figures' random numbers: sim/figures/fig.h. */
#include "sim/figures/fig.h"

/* SplitMix64: any seed will do, 0 too. */
u64 fig_random(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

double fig_random_unit(u64 *state)
{
	return (double)(fig_random(state) >> 11) * 0x1p-53;
}
