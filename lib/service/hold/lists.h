/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The lists that ranges and their loads stand in. They are apart from range.h, so that struct holds
 * can be seen without struct held_range. */
#ifndef LODIC_LIB_SERVICE_HOLD_LISTS_H
#define LODIC_LIB_SERVICE_HOLD_LISTS_H

#include "host/host.h"

struct hold_load;

enum holds_queue {
	HOLDS_WANTING, /* waits for room */
	HOLDS_READING,
	HOLDS_SMALL,   /* S3-FIFO: asked for once */
	HOLDS_MAIN,    /* asked for again */
	HOLDS_PAST,    /* its file has changed, or has gone */
	HOLDS_CLOSING, /* nobody has it; a worker closes it */
	HOLDS_FAILED,  /* no memory; those who wait shall hear of it */
	HOLDS_NR_QUEUES
};

/* Loads that have pieces to read; each gets its turn. */
struct hold_turns {
	struct hold_load *first, *last;
};

struct hold_loads {
	struct hold_turns near;    /* of local files */
	struct hold_turns far;     /* others, of which no piece is under way */
	struct hold_turns waiting; /* for a description to be read by (direct.h) */
	u32 nr_pieces, nr_far;     /* under way */
	u64 to_come;   /* bytes of memory that no piece has brought in yet */
	u64 noted;     /* of these, what new arenas leave to holds */
	bool stopping; /* no piece is begun any more */
	bool said;     /* the log knows why there are no huge pages */
};

#endif
