/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A hold: a range of a file, read once into memory that nobody can change afterwards. The service
 * gives it to each program that asks (ADR-0022).
 *
 *        begin             publish              outdate, or its file's proof is gone
 *   FREE ------> LOADING ---------> SHARED ---------------------------------> PAST
 *                   |                  |                                        |
 *                   +------------------+----- leave, when nobody has it --------+--> FREE
 *
 * Rules
 * HD1 It is shared only if the proof of its file held after its last byte was read.
 * HD2 Each giving looks at the proof once more, after somebody has asked. So what is given after
 *     a writer's open has returned shows no older byte.
 * HD3 Nobody can write the memory from before it is first given.
 * HD4 Its bytes count until nobody else has the memory: mapped, open, or under way in a message.
 *     The host's look decides (ops.is_had), and nothing is given between the look and the end.
 * HD5 Its bytes count from before the first of them is read.
 *
 * Mutual exclusion: one thread calls these functions. The bytes are read by any thread, which
 * has handed them over by a lock before hold_publish().
 */
#ifndef LODIC_CORE_CACHE_HOLD_H
#define LODIC_CORE_CACHE_HOLD_H

#include "core/cache/file_proof.h"

enum hold_state { HOLD_FREE, HOLD_LOADING, HOLD_SHARED, HOLD_PAST };

struct hold {
	u32 state; /* enum hold_state */
	u32 file;  /* the file's id */
	u64 bytes; /* that count */
};

/* The memory of all holds, in bytes. */
struct hold_room {
	u64 most, used;
};

/* What the host does. seal: 0, and nobody can write the memory any more; or an error.
 * is_had: may anybody else have the memory? */
struct hold_ops {
	int (*seal)(void *ctx);
	bool (*is_had)(void *ctx);
};

/* Begins a hold of bytes of file (HD5). false: there is no room. */
static inline bool hold_begin(struct hold *h, struct hold_room *room, u32 file, u64 bytes)
{
	if (bytes > room->most - room->used)
		return false;
	room->used += bytes;
	*h = (struct hold){ HOLD_LOADING, file, bytes };
	return true;
}

/* All bytes are there. 0: it can be given. -1: the file has changed, and an error of seal():
 * nobody may have it. */
static inline int hold_publish(struct hold *h, const struct file_proof *proof,
                               const struct hold_ops *ops, void *ctx)
{
	int err = ops->seal(ctx); /* HD3 */

	/* HD1. The caller took a lock after the last byte, which is an acquire. */
	if (!err && !file_proof_holds(proof, h->file))
		err = -1;
	h->state = err ? HOLD_PAST : HOLD_SHARED;
	return err;
}

/* May it be given to somebody who has asked? (HD2) */
static inline bool hold_may_give(struct hold *h, const struct file_proof *proof)
{
	if (h->state == HOLD_SHARED && !file_proof_holds(proof, h->file))
		h->state = HOLD_PAST;
	return h->state == HOLD_SHARED;
}

/* Its file has changed, or goes: nobody gets it any more. */
static inline void hold_outdate(struct hold *h)
{
	if (h->state != HOLD_FREE)
		h->state = HOLD_PAST;
}

/* Takes its bytes back, if nobody has it (HD4). true: it is free. */
static inline bool hold_leave(struct hold *h, struct hold_room *room,
                              const struct hold_ops *ops, void *ctx)
{
	if (ops->is_had(ctx))
		return false;
	room->used -= h->bytes;
	h->state = HOLD_FREE;
	return true;
}

#endif
