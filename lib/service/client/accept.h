/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef LODIC_LIB_SERVICE_CLIENT_ACCEPT_H
#define LODIC_LIB_SERVICE_CLIENT_ACCEPT_H

#include "lib/service/base/base.h"

struct client;
struct clients;

/* Makes a client of each program that waits for a connection, of some in a turn. One that may not
 * look at the service is hung up on. One for which there is no room hears so; heard_all: the loop
 * has heard of all that have hung up. */
void accept_clients(struct clients *s, bool heard_all);
/* The service ends, and nobody finds its socket any more. Those that wait there hear so at once,
 * unless another process may let them in yet. */
void accept_send_away(struct clients *s);
/* Opens a descriptor that is given up when no other is left, to let somebody in. */
void accept_begin(struct clients *s);
void accept_end(struct clients *s);
/* A successor's client, at this end of its channel, of the program that like is. 0 or -errno, and
 * then socket is still the caller's. */
int accept_successor(struct clients *s, int socket, const struct client *like);
/* Takes over all connections of old, whose arena is dead. Those for which there is no memory end
 * with old. */
void accept_take_over(struct clients *s, struct clients *old);
/* The main loop calls it now and then. It hangs up on programs that have asked for nothing in 10 s.
 * After a shortage it lets others in again. */
void accept_tick(struct clients *s);
/* Does the loop hear of nobody who connects, until the next tick? */
bool accept_is_paused(const struct clients *s);
/* Is there anything for which the loop must not sleep without end? */
bool accept_wants_ticks(const struct clients *s);

/* Asserts what must be true of the list of clients, and of its sums, between two turns. */
void accept_check(const struct clients *s);

#endif
