/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The heavy fence between the service and its readers' pins (O5 in core/cache/arena.h). Eviction
 * and moves want it, each for a batch of frames. Only the main thread comes here; a thread of
 * fence.c's own makes the fence where that takes milliseconds.
 */
#ifndef LODIC_LIB_SERVICE_FRAME_FENCE_H
#define LODIC_LIB_SERVICE_FRAME_FENCE_H

#include "lib/service/base/base.h"

struct frames;

enum fence_state {
	FENCE_WAITS, /* it has not begun, or is under way */
	FENCE_OVER,
	FENCE_FAILED /* nothing is ordered */
};

/* Chooses the fence, before memory_make(): memory.shape.barrier. -errno: the user has asked for
 * one that this machine does not have; *ret_why says so. */
int fence_start(struct frames *s, const char **ret_why);
void fence_fini(struct frames *s);
bool fence_is_light(const struct frames *s);

/* A fence that begins after this call; its number. One serves all that want it before it has
 * begun. With locked pins it is over at once. */
u64 fence_want(struct frames *s);
enum fence_state fence_state(const struct frames *s, u64 number);

/* Readable when a fence is over; -1: there is no such event. Then fence_reap(). */
int fence_event(const struct frames *s);
void fence_reap(struct frames *s);

#endif
