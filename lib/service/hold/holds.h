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
/* The two call each other: the other half is hold_load.h. */
#ifndef LODIC_LIB_SERVICE_HOLD_HOLDS_H
#define LODIC_LIB_SERVICE_HOLD_HOLDS_H

#include "host/host.h"

struct held_range;
struct hold_asker;

struct holding;

struct holds;

/* Holds, if options.sizes.hold_bytes is not 0. 0 or -ENOMEM. After lease_start(), which marks the
 * service alive. */
int holds_init(struct holding *s);
/* No piece is begun any more: before worker_stop(). */
void holds_stop(struct holding *s);
void holds_fini(struct holding *s);

/* A new range wants room: it may be read already when this returns, or have
 * failed. Then it stays as a failed one for a while. All that come in one turn share what a turn
 * may do. */
void holds_want(struct holding *s, struct held_range *r);
/* Nobody may have r any more; those who have it keep it. */
void holds_outdate(struct holding *s, struct held_range *r);

/* One turn: makes room for those who want it. true: there is more to do at once. */
bool holds_run(struct holding *s);
/* Now and then: ranges of changed files, ranges that nobody has any more. */
void holds_tick(struct holding *s);
/* Descriptors have run out: lets some ranges go that nobody has. */
void holds_spare_descriptors(struct holding *s);
/* Memory is short: lets ranges go that nobody has, as many as a turn may ask about. false: all of
 * these are in use, or there are none. */
bool holds_give_back(struct holding *s);
/* Is there anything that holds_tick() must look at? */
bool holds_any(const struct holding *s);
/* Does a range want room that it has not got yet? */
bool holds_any_wanting(const struct holding *s);
/* What all of them have, in bytes. */
u64 holds_used(const struct holding *s);
/* Asserts what must be true of all ranges between two calls. */
void holds_check(const struct holding *s);
/* The same of those that a client has asked for. */
void holds_check_asker(const struct hold_asker *asker);

/* ---- for hold_load.c ---- */

/* The reading of the range is over: all its bytes are in the memory behind r->fd, or error says
 * why there is none. */
void holds_loaded(struct holding *s, struct held_range *r, int error);

#endif
