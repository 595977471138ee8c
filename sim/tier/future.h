/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the oracle sees: a source in front of another one. It reads FUTURE_EVENTS ahead, and knows
 * for each object at which of them it is touched next. So even the oracle does not hold
 * the whole trace.
 */
#ifndef LODIC_SIM_TIER_FUTURE_H
#define LODIC_SIM_TIER_FUTURE_H

#include "sim/tier/event.h"

#define FUTURE_EVENTS (1u << 21)

/* Takes source: it is closed with the new one. NULL: no memory. */
struct tier_source *future_open(struct tier_source *source);

/* The number of the event that touches the object next; KLOC_NEVER: none of those ahead does. */
u64 future_next_use(const struct tier_source *source, u32 file, u32 kind, u32 index);

#endif
