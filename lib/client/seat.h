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
};

/* The seat of a context without a service. Its generation matches no claim. */
extern struct seat no_seat;

/* Asks the service for a seat in segment, which gets one more user. lodic.lock is held.
 * The errors are those of lodic_context_open(). */
int seat_open(struct lodic_context *context, struct segment *segment,
              struct seat **ret_seat);
/* Gives the seat back; no_seat and a seat that a fork has wiped are left alone.
 * lodic.lock is held. */
void seat_drop(struct seat *seat);

/* Does the seat's service live? */
bool seat_is_good(const struct seat *seat);
/* May a pin of this seat still be held? Under the rivals' schemes always: their shared
 * words do not tell, so such a seat must stay until its context is closed. */
bool seat_in_use(const struct seat *seat);

/* Posts a hint for nr blocks from block on, and wakes the service if it sleeps. */
void seat_hint(struct seat *seat, u64 block, u64 nr);

#endif
