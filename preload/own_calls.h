/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * System calls of the shim's own, past its hooks; and its memory. That comes from mmap(2), because
 * a read in a signal handler may have interrupted malloc(). The client half of liblodic is compiled
 * once more for the shim, and comes here by preload/posix/os_impl.h.
 */
#ifndef LODIC_PRELOAD_OWN_CALLS_H
#define LODIC_PRELOAD_OWN_CALLS_H

#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "preload/next.h"

/* syscall() itself would come by the shim, which may hold its lock. */
#define own_call ((long (*)(long number, ...))next_of(NEXT_SYSCALL))

/* As the system's functions of these names, for preload/posix/os_impl.h. They ask own.h. */
int own_socket(int domain, int type, int protocol);
int own_dup(int fd);
int own_close(int fd);
/* For what os_open() has opened, which own.h does not know, and for what own_dup() has made. */
int own_shut(int fd);
ssize_t own_write(int fd, const void *bytes, size_t n);
int own_dup3(int from, int to, int flags);
ssize_t own_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t own_recvmsg(int fd, struct msghdr *message, int flags);

/* The next ones, for what own.h does not know. */
int own_poll(struct pollfd *fds, nfds_t nr, int ms);
int own_clone(int (*fn)(void *), void *stack, int flags, void *arg);
/* The shim's own mmap() would serve the mapping, under the lock that its caller has. */
void *own_mmap(void *address, size_t n, int protection, int flags, int fd,
               off_t offset);
/* The same of these, which would wait for the lock. */
int own_munmap(void *at, size_t n);
int own_madvise(void *at, size_t n, int advice);
void *own_calloc(size_t nr, size_t bytes);
void own_free(void *p);

#endif
