/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Contexts as the service has them: a place on the walk list, memory, a quota, an owner. When
 * one is over: see place_may_leave().
 */
#ifndef LODIC_LIB_SERVICE_CLIENT_PLACE_H
#define LODIC_LIB_SERVICE_CLIENT_PLACE_H

#include "lib/service/client/connection.h"

struct clients;

/* What the reader of a new context is told. */
struct place_offer {
	u32 place;
	u64 quota, bytes;
	int fd; /* the memory; the caller closes it when it is sent */
};

/* Would the next context come too late to pin? */
bool place_is_late(const struct clients *s);
/* Gives client a context; with reads_only one that may not pin, in any case.
 * -EUSERS: ARENA_MAX_CONTEXTS are there. -EMFILE: no descriptor is left. -ENOMEM. */
int place_open(struct clients *s, struct client *client, bool reads_only,
               struct place_offer *ret_offer);
/* Takes the context in place off the walk list. */
void place_leave(struct clients *s, u32 place);
/* May the context in place, whose reader has hung up or is dead, leave now (O25)? Yes, if
 * nobody has its memory any more, by a mapping or a descriptor: the kernel says so. Where
 * the kernel does not tell, the process must be dead. Costs a few system calls. */
bool place_may_leave(const struct clients *s, u32 place);

/* Asserts what must be true of places and quotas between two turns. */
void place_check(const struct clients *s);

#endif
