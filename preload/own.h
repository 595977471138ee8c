/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the shim of `lodic run` itself has in the program. These are two descriptors, the socket to
 * the service and the event that wakes it, and some memory. The client half of liblodic is
 * compiled once more for the shim, and calls these functions by preload/posix/os_impl.h.
 *
 * - The descriptors lie high, because a program counts on getting low numbers. The program cannot
 *   close them: it has not opened them. Its close() of such a number gives EBADF.
 * - A bare system call may close one, and the number then is another file's. So each use looks
 *   first whether the number still leads to what the shim has opened.
 * - A forked child closes its copies, so that the service sees when the parent ends.
 * - Memory comes from mmap(2), because a read in a signal handler may have interrupted malloc().
 */
#ifndef LODIC_PRELOAD_OWN_H
#define LODIC_PRELOAD_OWN_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "host/host.h"
#include "preload/next.h"

/* A system call of the shim's own. syscall() would come by the shim, which may hold its lock. */
#define own_call ((long (*)(long number, ...))next_of(NEXT_SYSCALL))

int own_socket(int domain, int type, int protocol);
int own_dup(int fd);
int own_close(int fd);
int own_poll(struct pollfd *ready, int ms); /* of one descriptor */
ssize_t own_write(int fd, const void *bytes, size_t n);
int own_dup3(int from, int to, int flags);
/* The next clone(), past the shim's hook. */
int own_clone(int (*fn)(void *), void *stack, int flags, void *arg);
ssize_t own_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t own_recvmsg(int fd, struct msghdr *message, int flags);
/* The next mmap(): the shim's own would serve the mapping, under the lock that its caller has. */
void *own_mmap(void *address, size_t n, int protection, int flags, int fd,
               off_t offset);
/* The same of these, which would wait for the lock. */
int own_munmap(void *at, size_t n);
int own_madvise(void *at, size_t n, int advice);
void *own_calloc(size_t nr, size_t bytes);
void own_free(void *p);
/* Is there memory behind these bytes of a file that is mapped to be shared? When its disk is full,
 * the first touch of a page would kill the program with a SIGBUS. Before Linux 5.14 nobody can
 * ask. */
bool own_has_memory(void *at, size_t bytes);

/* Is fd the shim's? */
bool own_is(int fd);
/* The lowest number in [first, last] that is the shim's; above last: none. */
u64 own_next(u64 first, u64 last);
/* The program has taken this number for another file. The shim's descriptor is lost. */
void own_lost(int fd);
/* In a forked child. */
void own_forked(void);
/* Keeps a descriptor that is not the service's: a forked child has it, too. Returns its new number,
 * high up; fd itself goes. */
int own_keep(int fd);
/* A thread that waits for an answer of the service waits no longer: nobody will answer. */
void own_hang_up(void);

#endif
