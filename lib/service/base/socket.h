/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* One service for one socket. */
#ifndef LODIC_LIB_SERVICE_BASE_SOCKET_H
#define LODIC_LIB_SERVICE_BASE_SOCKET_H

#include "lib/service/base/base.h"
#include "lib/wire.h"

struct base;

/* Makes this process the only service for the socket, or says why it cannot be. Another process may
 * have the lock while nobody answers at the socket: it is at its end, or at its beginning. The
 * function waits for that one, up to 2 s. died: it is known to be at its end.
 * -EADDRINUSE: another process is; -EEXIST: something else stands at the lock's path. */
int socket_lock_soon(struct base *s, bool died, const char **ret_why);
void socket_unlock(struct base *s);
/* Lets clients connect. -EEXIST: something that is not a dead socket of ours stands at the
 * path. */
int socket_listen(struct base *s, const char **ret_why);
/* Nobody finds it any more, and nobody is let in. It stays open: a close may wait, because what
 * programs have sent goes with it, also files that do not answer. */
void socket_unlisten(struct base *s);
/* That one, if none but this process can let anybody in there; else -1. */
int socket_unheard(const struct base *s);
/* Closes it. */
void socket_close(struct base *s);
/* The same by a socket that another process has made. It listens once more, for its side effect:
 * from now on the kernel tells programs that this process is at the other end. An error leaves
 * the socket to the caller. */
int socket_adopt(struct base *s, int listening, const char **ret_why);
/* The socket where programs connect; -1: none. */
int socket_listening(const struct base *s);
/* The main loop hears of that there (service_watch_again()). */
int socket_listen_for(struct base *s, u32 what);
/* Lets the user connect, or the group, unless another process has made the path. The umask does not
 * count. 0 or -errno. */
int socket_give(const struct base *s);
/* Writes into the lock file whose the lock is now. */
int socket_sign_lock(const struct base *s);

/* false: nobody says who has sent the message. */
bool socket_says_who(const struct wire_sender *sender);
/* Is it this user, and not another one who happens to be root? Is it this user, or root? Those whom
 * the user namespace does not map are neither (AU6). */
bool socket_is_own(u32 uid);
bool socket_is_ours(u32 uid);
/* The same of the program at the other end of socket, when it connected. */
bool socket_peer_is_ours(int socket, struct port_peer *ret_peer);
bool socket_peer_is_own(int socket);
/* Is fd the lock file, opened for reading and writing? It asks no file system. */
bool socket_is_lock(const struct base *s, int fd);

#endif
