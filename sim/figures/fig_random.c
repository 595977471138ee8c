/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The figures' random numbers: sim/figures/fig.h. */
#include "host/random.h"
#include "sim/figures/fig.h"

/* Any seed will do, 0 too. */
u64 fig_random(u64 *state)
{
	return random_next(state);
}

double fig_random_unit(u64 *state)
{
	return (double)(fig_random(state) >> 11) * 0x1p-53;
}
