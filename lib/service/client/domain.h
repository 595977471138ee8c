/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An arena is for one user, or for one group (ADR-0029). Every program that is attached has the
 * whole arena mapped, and can read each block in it. The service of a group holds a file only if
 * each member of the group may open it by its path (file/group.h). What a single program has opened
 * proves nothing for the others.
 *
 * The service itself decides, in its own mount namespace, when a program passes the file. A right
 * that goes later does not take blocks back; `lodic drop` does.
 */
#ifndef LODIC_LIB_SERVICE_CLIENT_DOMAIN_H
#define LODIC_LIB_SERVICE_CLIENT_DOMAIN_H

#include "lib/service/base/base.h"

struct clients;

struct client;

/* May this program attach? *ret_foreign: it is neither this user's nor root's, so that it may read,
 * and neither look at others nor change anything (authority.h). */
bool domain_takes_peer(const struct clients *s, int socket, struct port_peer *ret_peer,
                       bool *ret_foreign);
/* In whose name workers do something for this program (worker.h). */
int domain_account(const struct clients *s, const struct client *c);
/* Does the user of this program have as much as one user may, of a group's service? */
bool domain_has_contexts(const struct clients *s, const struct client *c);
bool domain_has_files(const struct clients *s, const struct client *c);
/* Might one of so many new connections be refused? */
bool domain_is_crowded(const struct clients *s, u32 more);
/* Counts a new connection of c's user. -EUSERS: all connections, or the user's, are as many as they
 * may be. -ENOMEM. */
int domain_enter(struct clients *s, struct client *c);
/* The same for one that is there already. -ENOMEM. */
int domain_count(struct clients *s, struct client *c);
/* The connection counts no more. */
void domain_leave(struct clients *s, struct client *c);
/* How many blocks may this user's contexts still pin? */
u64 domain_pins_left(const struct clients *s, const struct client *c);

#endif
