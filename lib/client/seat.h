/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A context's place in one segment: its memory there, and the service's word for it. */
#ifndef LODIC_LIB_CLIENT_SEAT_H
#define LODIC_LIB_CLIENT_SEAT_H

#include "core/cache/cache.h"
#include "lib/client/segment.h"

struct lodic_context;

/* One page of its own, which the kernel wipes in a forked child. */
struct seat {
	u64 generation;
	u64 pin_generation; /* the same under ARENA_SCANNED, else GENERATION_NONE */
	struct context core;
	struct lodic_context *context; /* whose seat it is */
	struct segment *segment;
	void *memory;
	u64 memory_bytes;
	u64 place;
	struct seat *older; /* the context's seat before, if it still has pins */
	bool left;          /* seat_leave() */
};

/* The seat of a context without a service. Its generation matches no claim. */
extern struct seat no_seat;

/* lodic.lock is held for these two. */

/* Makes a seat of the service's answer to CONTEXT_OPEN; segment, whose service it is, gets
 * one more user. -EPROTO: the answer is not as it must be. -ENOMEM: there is no memory, or
 * no room for mappings. */
int seat_make(struct lodic_context *context, struct segment *segment,
              const struct channel_reply *reply, struct seat **ret_seat);
/* Frees the seat; no_seat and a seat that a fork has wiped are left alone. */
void seat_free(struct seat *seat);

/* Lets go of the service's memory, as segment_leave() does. The seat stays, and is a dead one.
 * no_seat and a seat that a fork has wiped are left alone. lodic.lock is held. */
void seat_leave(struct seat *seat);

/* May a pin of this seat still be held? Under the rivals' schemes always: their shared
 * words do not tell, so such a seat must stay until its context is closed. */
bool seat_in_use(const struct seat *seat);

/* Posts a hint for nr blocks from block on (with HINT_ASKED or without), and wakes the service
 * if it sleeps. */
void seat_hint(struct seat *seat, u64 block, u64 nr);

#endif
