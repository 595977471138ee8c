/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A file that a client opens, while a worker looks at it. Only the main thread comes here. */
/* The two call each other: the other half is client.h. */
#ifndef LODIC_LIB_SERVICE_CLIENT_OPENING_H
#define LODIC_LIB_SERVICE_CLIENT_OPENING_H

#include "lib/service/client/connection.h"

struct clients;

/* The client's next request waits in the socket until this one is answered. So no client has
 * more than one open under way. */
int opening_begin(struct clients *s, struct client *c, struct exchange *x);
/* Nobody waits for the file that a worker looks at for the client. */
void opening_forget(struct client *c);

#endif
