/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): a socket where programs connect, who they are, and the lock file
 * beside it. Only the service has this.
 */
#ifndef LODIC_LIB_PORT_LISTEN_H
#define LODIC_LIB_PORT_LISTEN_H

#include "lib/port.h"

/* ---- the socket and its path ---- */

/* Makes the file that programs connect to. It is this user's alone from its first moment on; the
 * umask takes away more. -EADDRINUSE: something is there. -EINVAL: the socket has a path.
 * -ENAMETOOLONG: a socket's path is shorter. -EPERM: the file system has no such files. -ENOENT
 * -ENOTDIR -EACCES -ELOOP -EROFS -ENOSPC -EDQUOT -EBADF, PORT_FILE_ERRNOS. */
PORT_HANGS int port_bind(int socket, const char *path);
/* Programs can connect from now on, waiting of them at most before they are taken. They see the
 * calling process as the one at the other end, if another one has made the socket, too. -EINVAL: it
 * has no path, or is connected. -EOPNOTSUPP: such sockets do not listen. -ENOMEM -EACCES -ENOTSOCK
 * -EBADF. */
int port_listen(int socket, unsigned int waiting);
/* Takes the program that has waited longest; its socket never waits. A descriptor is taken before
 * anybody looks whether one waits. So -EMFILE -ENFILE -ENOMEM say nothing of that. -EAGAIN: nobody
 * waits. -ECONNABORTED -EPERM -EACCES -EINTR. -EINVAL: it does not listen. -EBADF -ENOTSOCK
 * -EOPNOTSUPP. */
int port_accept(int listening);

/* Rights of what path leads to, as chmod(2) takes them. -EPERM: it is another user's. -EROFS, and
 * what port_look_at() says. */
PORT_HANGS int port_set_rights(const char *path, uint32_t rights);
/* The group of path itself, if that is a symbolic link. -EPERM: this process may not give it to
 * that group. -EDQUOT -EROFS, and what port_look_at() says. */
PORT_HANGS int port_set_group(const char *path, uint32_t group);

/* Two sockets, each at the other end of the other one. Neither waits. -EMFILE -ENFILE -ENOMEM
 * -ENOBUFS. -EACCES -EPERM -EAFNOSUPPORT -EPROTONOSUPPORT: this process gets no such sockets. */
int port_channel(int ret_sockets[2]);

/* ---- who is at the other end ---- */

/* From now on each message at socket says who has sent it (struct port_message), and brings nothing
 * else that was not sent. Sockets that are accepted there do the same. What was sent before says
 * nothing. -EBADF -ENOTSOCK -EOPNOTSUPP. */
int port_ask_senders(int socket);
/* Has the process at the other end this group, as it was when it connected? false, too: nobody
 * knows, or there is no memory. */
bool port_peer_has_group(int socket, uint32_t group);
/* A descriptor of the process at the other end, as it was when it connected. It has input once the
 * process is dead. It is never another one's that has got the same number. -ESRCH -EINVAL -ENODATA:
 * it is dead, or this process cannot name it. -EMFILE -ENFILE -ENOMEM -ENODEV -ENOSYS -EPERM -EBADF
 * -ENOTSOCK. */
int port_peer_process(int socket);
/* Nothing more comes in at socket, and the other side can send nothing more. What is there can
 * still be received, and then the end: got and nr_fds are 0, and nobody has sent it (said).
 * -ENOTCONN -EBADF -ENOTSOCK. */
int port_stop_receiving(int socket);

/* ---- the lock file ---- */

/* Opens a file to read and to write it, and makes one of this user's alone if there is none.
 * -ELOOP: path is a symbolic link. -ENXIO -ENODEV, and what port_create() says. */
PORT_HANGS int port_open_or_create(const char *path);
/* Opens the file to read and to write it. -ENOENT: there is none. And what port_open_or_create()
 * says. */
PORT_HANGS int port_open_to_write(const char *path);
/* Locks the file, until the last descriptor of this description closes: in the kernel's time, if
 * the process is killed. -EAGAIN: another description has the lock. -ENOLCK -EINTR -EBADF,
 * PORT_FILE_ERRNOS. */
PORT_HANGS int port_lock_file(int fd);
/* Cuts the file to nothing. -EBADF -EINVAL -EPERM -EFBIG -ETXTBSY -EROFS, PORT_FILE_ERRNOS. */
PORT_HANGS int port_truncate(int fd);
/* Does path, which is no symbolic link, lead to the file that fd leads to? */
PORT_HANGS bool port_leads_to(const char *path, int fd);
/* Do both lead to the same file? It asks no file system. */
bool port_is_same_file(int a, int b);

#endif
