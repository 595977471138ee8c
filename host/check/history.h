/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * History: what a load may return under the memory `weak`.
 *
 * Each word has a short history of the values that reached memory. A load may return any of
 * them that is not older than one the task knows of. What a task knows is a vector clock: how
 * many accesses of each task have happened before its next one, as C11 says "happens before".
 * A value is known to who knows of its store, or of any load that returned it (coherence).
 *
 *    release store, RMW    the value carries the clock of its task
 *    relaxed store         it carries the clock that the task had at its last release fence, and
 *                          whatever older values of the same task carry: a release sequence as in
 *                          RC11 and arm64. In C11 stores of others may end it. C++20 has none
 *    relaxed load          what the value carries is kept for an acquire fence
 *    dependent load        as relaxed, but what was kept so far counts for this one load
 *    acquire load, RMW     the task's clock takes in what the value carries
 *    full fence            all full fences have one order, and each knows those before it
 *    light, heavy fence    a heavy fence is a full fence of each task, at the task's last light
 *                          fence for what was before, and at its next one for what comes after
 *
 * An RMW reads the newest value and is a full fence on both sides. A cas that fails is a relaxed
 * load. Clocks follow tasks. Store buffers belong to CPUs, and come before all this
 * (host/check/buffer.c): a value in a buffer has no place in the history yet.
 */
#ifndef LODIC_HOST_CHECK_HISTORY_H
#define LODIC_HOST_CHECK_HISTORY_H

#include "host/check/check.h"

struct clock {
	u16 at[CHECK_MAX_TASKS]; /* accesses, by task */
};

/* What a value brings along: who stored it, as its how manyeth access, and what it carries. */
struct mark {
	u32 task;
	u16 at;
	struct clock carries;
};

/* Before each schedule. */
void history_reset(void);

/* The mark of a store that the task makes now. */
void history_mark(u32 task, enum step_order order, struct mark *ret_mark);
/* v is about to reach memory at p; memory still has the value before. */
void history_stored(const u64 *p, const struct mark *mark);

/* A load that may be old. Sets *ret_newer to the number of newer values. */
u64 history_load(u32 task, const u64 *p, enum step_order order, u32 *ret_newer);
/* A cas that expects a value: may it succeed? If not, it has been a relaxed load. */
bool history_cas(u32 task, const u64 *p, u64 expected, u64 *ret_value, u32 *ret_newer);
/* A load of what the task holds, and a store to it: does the task know of all such loads? */
void history_held(u32 task, const u64 *p);
bool history_knows_held(u32 task, const u64 *p);

/* An RMW takes in what the newest value carries, and passes it on. */
void history_take_newest(u32 task, const u64 *p);

void history_fence_acquire(u32 task);
void history_fence_release(u32 task);
void history_fence_full(u32 task);
void history_fence_light(u32 task);
void history_fence_heavy(u32 task);

/* The kernel has told the task something: it knows what is in memory by now, and what all tasks did
 * before their full fences. */
void history_told(u32 task);

#endif
