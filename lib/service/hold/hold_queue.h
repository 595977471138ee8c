/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The order in which ranges that are held leave: S3-FIFO, counted in bytes. A range is in SMALL
 * until it is asked for again, and then in MAIN. GHOST has the names of ranges that left SMALL. A
 * range that comes back while its name stands there goes to MAIN at once.
 *
 * A search for room looks at each range until it finds one that nobody has. A range that is in use
 * is refused, and this search does not ask about it again.
 */
#ifndef LODIC_LIB_SERVICE_HOLD_HOLD_QUEUE_H
#define LODIC_LIB_SERVICE_HOLD_HOLD_QUEUE_H

#include "lib/service/hold/lists.h"

struct held_range;

#define HOLD_VISITS_MAX 3u
#define HOLD_NAMES 256u

struct hold_list {
	struct held_range *oldest, *newest;
	u32 nr;
	u32 nr_refused; /* of these, by the search under way */
	u64 bytes;
};

struct hold_queues {
	struct hold_list lists[HOLDS_NR_QUEUES];
	u64 most;   /* bytes that all may have */
	u64 search; /* its number */
	struct {
		u64 name, bytes; /* bytes 0: there is none */
	} ghost[HOLD_NAMES];
	u32 ghost_at; /* the oldest */
	u64 ghost_bytes;
	bool evicted; /* a range had to leave */
};

/* Puts r at the new end of a queue; it comes out of the one where it is. */
void hold_queue_move(struct hold_queues *q, struct held_range *r, u32 queue);
/* Takes r out of its queue. */
void hold_queue_remove(struct hold_queues *q, struct held_range *r);
/* r has been read: SMALL or MAIN. */
void hold_queue_insert(struct hold_queues *q, struct held_range *r);

/* A new search begins: nothing is refused. */
void hold_queue_search(struct hold_queues *q);
/* The range that should leave next, if nobody has it; NULL: all are refused, or *looks is 0. */
struct held_range *hold_queue_next(struct hold_queues *q, u32 *looks);
/* r is in use: this search does not come back to it. */
void hold_queue_refuse(struct hold_queues *q, struct held_range *r);
/* r leaves to make room. */
void hold_queue_evicted(struct hold_queues *q, const struct held_range *r);

#endif
