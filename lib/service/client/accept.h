/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef LODIC_LIB_SERVICE_CLIENT_ACCEPT_H
#define LODIC_LIB_SERVICE_CLIENT_ACCEPT_H

#include "lib/service/base/base.h"

struct clients;

/* Makes a client of each program that waits for a connection, of some in a turn. One that may not
 * look at the service is hung up on. One for which there is no room hears so; heard_all: the loop
 * has heard of all that have hung up. */
void accept_clients(struct clients *s, bool heard_all);
/* A descriptor that is given up when no other is left, to let somebody in. -1: there is none. */
int accept_open_spare(void);
/* The main loop calls it now and then. It hangs up on programs that have asked for nothing in 10 s.
 * After a shortage it lets others in again. */
void accept_tick(struct clients *s);
/* Is there anything for which the loop must not sleep without end? */
bool accept_wants_ticks(const struct clients *s);

#endif
