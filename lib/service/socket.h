/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One service for one socket. */
#ifndef LODIC_LIB_SERVICE_SOCKET_H
#define LODIC_LIB_SERVICE_SOCKET_H

#include "lib/service/state.h"

/* Makes this process the only service for the socket, or says why it cannot be.
 * -EADDRINUSE: another process is; -EEXIST: something else stands at the lock's path. */
int socket_lock(struct service *s, const char **ret_why);
void socket_unlock(struct service *s);
/* Lets clients connect. -EEXIST: something that is not a dead socket of ours stands at the
 * path. */
int socket_listen(struct service *s, const char **ret_why);
void socket_unlisten(struct service *s);

#endif
