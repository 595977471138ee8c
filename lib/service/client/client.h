/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The programs that are connected, or that were and may still read. */
/* Two files that it calls hang up: the other half is answer.h, and the other half is opening.h. */
#ifndef LODIC_LIB_SERVICE_CLIENT_CLIENT_H
#define LODIC_LIB_SERVICE_CLIENT_CLIENT_H

#include "lib/service/client/connection.h"

struct clients;

/* What a reader or a successor must know of the arena. */
void client_tell_arena(const struct clients *s, struct wire_reply *reply);
/* A page to answer with, of zeros. -ENOMEM. */
int client_make_page(struct exchange *x);
/* Is any program attached? Those who only ask do not count. */
bool client_any(const struct clients *s);
/* Since when the service has been without one; from now on. */
u64 client_idle_since(const struct clients *s);
void client_idle_begin(struct clients *s);
/* The client that may take this service's place; NULL: there is none. */
struct client *client_successor(const struct clients *s);
/* It serves, or may serve: a hang-up takes nothing from it any more. */
void client_successor_serves(struct clients *s);
/* The client's socket is readable. */
void client_ready(struct clients *s, struct client *c);
/* Takes what is unread out of the socket, and workers close its descriptors; to be called before
 * socket closes. The kernel would close them in this thread, and that may wait: for a server, or
 * for what SO_LINGER says. Nothing more comes in afterwards. Returns how many messages it was: some
 * hundred at most, as the kernel has room for. */
u32 client_drain(struct clients *s, int socket);
/* The other side of the socket is closed, or speaks nonsense. A successor is told that it is none
 * any more, or that this service ends. One that has the socket and cannot be told keeps its
 * place. */
void client_hang_up(struct clients *s, struct client *c);
/* The client's process is dead: its descriptor has input. */
void client_process_died(struct clients *s, struct client *c);
/* The main loop calls it now and then: contexts of silent clients are asked about again. */
void client_tick(struct clients *s);
/* Asks about some of those contexts, and takes back what is over. true: there are more. */
bool client_reap(struct clients *s);
/* Closes some files of clients that have hung up. true: there are more. */
bool client_close_hung_up(struct clients *s);
/* Frees the clients that are gone and have no file open; to be called once no event can
 * name them. */
void client_free_gone(struct clients *s);
void client_free_all(struct clients *s);

#endif
