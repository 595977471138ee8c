/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A small core/kloc for tests: its shape, a log of its decisions, and a caller that moves all that
 * it is given at once.
 */
#ifndef LODIC_TESTS_SUPPORT_KLOC_RIG_H
#define LODIC_TESTS_SUPPORT_KLOC_RIG_H

#include "core/kloc/kloc.h"

struct kloc_rig {
	struct kloc *k;
	u64 hash; /* of all decisions, in order */
	u64 nr[KLOC_NR_WHATS][KLOC_NR_WHYS];
	struct kloc_decision last;
	u64 (*next_use)(u32 object, u64 key); /* for the oracle */
};

/* Two tiers of so many bytes, 64 objects, 16 knodes, 4 CPUs (of nodes 0, 0, 1, 1), lists of 4. */
struct kloc_shape kloc_rig_shape(enum kloc_policy_id policy, u64 fast, u64 slow);
/* Fails the test when kloc_init() does. */
void kloc_rig_start(struct kloc_rig *r, const struct kloc_shape *shape);
void kloc_rig_stop(struct kloc_rig *r);

/* An open file with that inode, opened on CPU 0. */
u32 kloc_rig_file(struct kloc_rig *r, u64 inode);
/* An object; the test fails if there is no room. */
u32 kloc_rig_add(struct kloc_rig *r, u32 knode, enum kloc_kind kind, u32 bytes);
u32 kloc_rig_tier(const struct kloc_rig *r, u32 object);
/* Takes moves and ends them, until there is none; how many there were. */
u32 kloc_rig_drain(struct kloc_rig *r);
enum kloc_state kloc_rig_state(const struct kloc_rig *r, u32 knode);

#endif
