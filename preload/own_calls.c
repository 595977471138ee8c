/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See own_calls.h. */
#define _GNU_SOURCE
#include "preload/own_calls.h"

#include <errno.h>
#include <sys/mman.h>

#define OWN_HEAD_BYTES 64u

int own_poll(struct pollfd *fds, nfds_t nr, int ms)
{
	return ((int (*)(struct pollfd *, nfds_t, int))next_of(NEXT_POLL))(fds, nr, ms);
}

int own_clone(int (*fn)(void *), void *stack, int flags, void *arg)
{
	typedef int (*clone_fn)(int (*fn)(void *), void *stack, int flags, void *arg,
	                        ...);

	return ((clone_fn)next_of(NEXT_CLONE))(fn, stack, flags, arg);
}

void *own_mmap(void *address, size_t n, int protection, int flags, int fd, off_t offset)
{
	typedef void *(*mmap_fn)(void *, size_t, int, int, int, off_t);

	return ((mmap_fn)next_of(NEXT_MMAP))(address, n, protection, flags, fd, offset);
}

int own_munmap(void *at, size_t n)
{
	return ((int (*)(void *, size_t))next_of(NEXT_MUNMAP))(at, n);
}

int own_madvise(void *at, size_t n, int advice)
{
	return ((int (*)(void *, size_t, int))next_of(NEXT_MADVISE))(at, n, advice);
}

void *own_calloc(size_t nr, size_t bytes)
{
	size_t all = nr * bytes + OWN_HEAD_BYTES;
	size_t *p = own_mmap(NULL, all, PROT_READ | PROT_WRITE,
	                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		errno = ENOMEM;
		return NULL;
	}
	*p = all;
	return (char *)p + OWN_HEAD_BYTES;
}

void own_free(void *p)
{
	size_t *head = p ? (size_t *)((char *)p - OWN_HEAD_BYTES) : NULL;

	if (head)
		own_munmap(head, *head);
}
