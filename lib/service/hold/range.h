/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A range of a file in memory of its own. Only the files of this room, and those that carry out
 * requests for ranges, look into it. */
#ifndef LODIC_LIB_SERVICE_HOLD_RANGE_H
#define LODIC_LIB_SERVICE_HOLD_RANGE_H

#include "core/cache/hold.h"
#include "lib/look.h"
#include "lib/service/hold/asker.h"
#include "lib/service/hold/lists.h"

struct client;
struct hold_load;

/* A turn asks the kernel about so many ranges at most: 2 us each. */
#define HOLDS_PROBES 64u
/* Ranges that one program may have read for it at once. */
#define HOLDS_EACH 64u

struct held_range {
	struct hold core;                 /* the first member; linked by core.next */
	u32 file;                         /* its id */
	struct held_range *older, *newer; /* in its queue */
	struct hold **at;         /* in its file's chain; NULL: no request finds it */
	struct hold_asker *asker; /* it is read for that; NULL: for nobody now */
	struct held_range *asker_next, **asker_at;
	u32 queue; /* enum holds_queue */
	u32 slot;  /* of its file */
	u32 node;  /* for whose programs it is, if its file has copies; else 0 */
	u32 tier;  /* enum tier: where its memory lies */
	u64 rests_until_ns; /* it does not move before */
	u64 number;
	u64 dev, ino;
	u64 offset, length; /* of the file, in bytes; offset is a multiple of a page */
	u64 bytes;          /* of memory: whole pages */
	u64 huge_bytes;
	u64 since_ns;
	/* FAILED: until then it stays. Just read: until then it is kept. READING, but cancelled:
	 * until then others wait for its memory. */
	u64 until_ns;
	u32 owed;     /* just read: so many who waited have not asked again */
	int fd;       /* our description of the memory, read-only; -1: none */
	int error;    /* why it failed */
	bool settled; /* those who wait have their answer */
	bool leaving; /* holds.leaving_bytes has its bytes */
	bool had;     /* core.had, as used_bytes has it */
	bool moves;   /* hold_move_all() has unlinked it */
	u8 visits;    /* givings after the first, up to HOLDS_VISITS_MAX */
	u64 nr_given;
	u64 refused_in;         /* the search for room that found it in use */
	struct hold_load *load; /* READING */
	struct hold_waiter *waiters;
	u32 nr_pids, more; /* processes that it was given to since nobody had it */
	u32 pids[LOOK_HOLD_PIDS];
};

/* Can it be given? */
static inline bool hold_is_ready(const struct held_range *r)
{
	return r->queue == HOLDS_SMALL || r->queue == HOLDS_MAIN;
}

/* Does anybody want a range that is not settled? A program that has given its wait up does not. */
static inline bool hold_is_wanted(const struct held_range *r)
{
	return r->asker || r->waiters;
}

#endif
