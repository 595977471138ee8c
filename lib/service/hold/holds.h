/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Holds: ranges of files, each in a memfd of its own, which the service gives to the programs
 * that ask (ADR-0022). core/cache/hold.h decides when a range may be given and when its bytes
 * count.
 *
 *   WANTING --room--> READING --published--> SMALL, MAIN --changed--> PAST
 *      |                 |                        |                     |
 *      |                 |                        +---nobody has it-----+--> CLOSING --> gone
 *      +-----error-------+--> FAILED --a moment later--> gone
 *
 * Only the main thread calls these functions, and none of them costs more when a range is large.
 */
#ifndef LODIC_LIB_SERVICE_HOLD_HOLDS_H
#define LODIC_LIB_SERVICE_HOLD_HOLDS_H

#include "core/cache/hold.h"
#include "lib/look.h"
#include "lib/service/file/files.h"

/* A turn asks the kernel about so many ranges at most: 2 us each. */
#define HOLDS_PROBES 64u
/* Ranges that one program may have read for it at once. */
#define HOLDS_EACH 64u

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

/* A connection that waits until a range is settled. */
struct hold_waiter {
	struct hold_waiter *next, **at; /* at: NULL: it does not wait */
	struct held_range *range;       /* that it waits for; NULL: it is settled */
	struct client *client;
	int error; /* once it is settled */
};

/* What holds know about a client; it lies in struct client, zeroed at first. */
struct hold_asker {
	struct held_range *first; /* of those that are being read for it */
	u32 nr;
	struct hold_waiter waiter;
};

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

struct holds;

/* Holds, if options.hold_bytes is not 0. 0 or -ENOMEM. After lease_start(), which marks the
 * service alive. */
int holds_init(struct service *s);
/* No piece is begun any more: before worker_stop(). */
void holds_stop(struct service *s);
void holds_fini(struct service *s);

/* A new range wants room: it may be read already when this returns, or have
 * failed. Then it stays as a failed one for a while. All that come in one turn share what a turn
 * may do. */
void holds_want(struct service *s, struct held_range *r);
/* Nobody may have r any more; those who have it keep it. */
void holds_outdate(struct service *s, struct held_range *r);

/* One turn: makes room for those who want it. true: there is more to do at once. */
bool holds_run(struct service *s);
/* Now and then: ranges of changed files, ranges that nobody has any more. */
void holds_tick(struct service *s);
/* Descriptors have run out: lets some ranges go that nobody has. */
void holds_spare_descriptors(struct service *s);
/* Memory is short: lets ranges go that nobody has, as many as a turn may ask about. false: all of
 * these are in use, or there are none. */
bool holds_give_back(struct service *s);
/* Is there anything that holds_tick() must look at? */
bool holds_any(const struct service *s);

/* ---- for hold_load.c ---- */

/* The reading of the range is over: all its bytes are in the memory behind r->fd, or error says
 * why there is none. */
void holds_loaded(struct service *s, struct held_range *r, int error);

#endif
