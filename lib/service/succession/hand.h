/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a successor in another process is given, request by request (takeover.h has the rules). Only
 * the main thread calls these. None changes what the service does, but for the last one (HO3).
 *
 * A successor asks by a channel of its own: the service makes it, when it has judged the program
 * that announces itself (authority.h).
 */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_HAND_H
#define LODIC_LIB_SERVICE_SUCCESSION_HAND_H

#include "lib/service/client/client.h"

struct service;

/* SUCCEED: c announces itself as a successor, and gets the channel. -EACCES: it has not passed the
 * lock file as it should. -EBUSY: another one has the place, or a resize is under way.
 * -ECONNREFUSED: the service ends. */
int hand_begin(struct service *s, struct client *c, struct exchange *x);
/* HAND_ARENA to HANDED. -EBUSY: c has lost its place, or a resize is under way. -ENOENT: there is
 * no such file. -EINVAL: HANDED comes before HAND_OVER. */
int hand_carry_out(struct service *s, struct client *c, struct exchange *x);
/* May another arena take this one's place? Not while a successor has the socket: it may have sent
 * HANDED, and serve already. One that is silent loses its place. */
bool hand_gives_way(struct service *s);
/* Does a successor want to take over, and is it not silent? Then the service does not end because
 * it is idle. */
bool hand_is_wanted(const struct service *s);
/* The service ends, and so does the takeover: HO6. -EBUSY: the successor serves, because it has
 * said so before, or it may, because it cannot be told. */
int hand_stop(struct service *s);

#endif
