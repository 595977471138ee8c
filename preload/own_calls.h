/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * System calls of the shim's own, past its hooks; and its memory. That comes from mmap(2), because
 * a read in a signal handler may have interrupted malloc().
 */
#ifndef LODIC_PRELOAD_OWN_CALLS_H
#define LODIC_PRELOAD_OWN_CALLS_H

#include <poll.h>
#include <stddef.h>
#include <sys/types.h>

#include "preload/next.h"

/* syscall() itself would come by the shim, which may hold its lock. */
#define own_call ((long (*)(long number, ...))next_of(NEXT_SYSCALL))

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
