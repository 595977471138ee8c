/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One budget for blocks and holds (ADR-0040): what the arena's frames have, and what holds have,
 * is never more than budget.bytes together. It is counted here alone.
 *
 *   the arena begins small. It is handed over larger (resize.h) when blocks had to leave it, the
 *                    budget has room, and so have the machine and the control group. `lodic
 *                    load` asks before, so that nothing need leave
 *   a hold           takes what the arena leaves. If that is too little, warm holds go; then the
 *                    arena is handed over smaller
 *   warm holds       also go if the arena is full, and has less than its part of the budget; and
 *                    if a user has made the budget smaller than what is there
 *
 * What nobody has used has not been taken. Only the main thread comes here.
 */
/* Both call it, and it calls both: the other half is resize.h, and the other half is pressure.h. */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_BUDGET_H
#define LODIC_LIB_SERVICE_SUCCESSION_BUDGET_H

#include "host/host.h"

struct arena;
struct cgroup;
struct holding;
struct pressure;
struct service;
struct service_sizes;

/* Our choice. The arena begins with as much at most: from there on pins are light. */
#define BUDGET_START_BYTES ((u64)64 << 20)
/* Holds leave so much of the budget to blocks, and BUDGET_START_BYTES at most. */
#define BUDGET_LEAST_PART 16u
/* Warm holds give way to blocks that have less than this part of it. */
#define BUDGET_BLOCKS_PART 4u

struct budget {
	struct service_sizes *sizes; /* of which it chooses cache_bytes */
	const struct arena *arena;
	struct holding *holding;
	struct pressure *pressure;
	struct service *of; /* to be handed over smaller, or larger */

	u64 bytes;   /* 0: there is none, and the arena keeps its size */
	u64 evicted; /* blocks, up to the last look */
	u64 next_ns; /* when a larger arena may be tried again */
	u64 asked; /* the number of the last resize that began for it; 0: none, or it has failed
		      * and that has been said */
};

/* What the arena has at least. */
u64 budget_least(u64 bytes);
/* What the arena begins with. hold_bytes: as in the options. A budget of more than half of all
 * memory is somebody's wish: then it is the whole part for blocks, if that is free. */
u64 budget_start(u64 bytes, u64 hold_bytes, const struct cgroup *room);
/* The arena's next size, if holds need so many bytes in all, which they have not. 0: they cannot
 * have them. */
u64 budget_smaller(u64 bytes, u64 cache_bytes, u64 hold_bytes);
/* The same, if blocks had to leave. 0: it stays as it is. */
u64 budget_larger(u64 bytes, u64 cache_bytes, u64 hold_bytes);

/* At the start: the arena's size. */
void budget_begin(struct budget *b);
/* What blocks and holds may have together; 0: there is no budget. */
u64 budget_limit(const struct budget *b);
/* A user wants it to be so many bytes. */
void budget_set(struct budget *b, u64 bytes);
/* What holds may have now, beside the arena, or the larger of two while a resize runs. */
u64 budget_for_holds(const struct budget *b);
/* The most that they may have, once the arena has made room. */
u64 budget_for_holds_at_most(const struct budget *b);
/* Holds need so many bytes in all. true: there will be more room when a resize is over. */
bool budget_make_room(struct budget *b, u64 hold_bytes);
/* What the arena and holds have now. */
u64 budget_used(const struct budget *b);
/* A user is about to load files: blocks need so many bytes in all. The arena is handed over larger,
 * as far as the budget and free memory allow it. 0: also if it stays as it is. The errors are those
 * of resize_begin(). */
int budget_ask(struct budget *b, u64 block_bytes);
/* The arena's size, if the budget was bytes. */
u64 budget_arena(const struct budget *b, u64 bytes);
/* Before the arena is made: the service that this one takes over from has so large an arena. */
void budget_follow(struct budget *b, u64 cache_bytes);
/* A resize is over, and this arena is the larger or smaller one. */
void budget_resized(struct budget *b);
/* Takes over all that old, of another arena, knows. */
void budget_take_over(struct budget *b, const struct budget *old);
/* The main loop calls it now and then. */
void budget_tick(struct budget *b);

#endif
