/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See own_calls.h. */
#define _GNU_SOURCE
#include "preload/own_calls.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/own.h"

#define OWN_HEAD_BYTES 64u

int own_dup(int fd)
{
	int high = own_copy(fd);

	if (high >= 0)
		return high;
	errno = -high;
	return -1;
}

int own_socket(int domain, int type, int protocol)
{
	int fd = (int)own_call(SYS_socket, domain, type, protocol);
	int high = fd < 0 ? -1 : own_dup(fd);
	int error = errno;

	if (fd >= 0)
		own_call(SYS_close, fd);
	errno = error;
	return high;
}

int own_close(int fd)
{
	return own_ends(fd) ? (int)own_call(SYS_close, fd) : 0;
}

int own_shut(int fd)
{
	return own_is(fd) ? own_close(fd) : (int)own_call(SYS_close, fd);
}

/* If not, the other side has gone. */
static bool may_use(int fd)
{
	if (own_usable(fd))
		return true;
	errno = EPIPE;
	return false;
}

ssize_t own_write(int fd, const void *bytes, size_t n)
{
	return may_use(fd) ? own_call(SYS_write, fd, bytes, n) : -1;
}

int own_dup3(int from, int to, int flags)
{
	return may_use(to) ? (int)own_call(SYS_dup3, from, to, flags) : -1;
}

ssize_t own_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return may_use(fd) ? own_call(SYS_sendmsg, fd, message, flags) : -1;
}

static void rise(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c;
	     c = CMSG_NXTHDR(message, c)) {
		int *fds = (int *)CMSG_DATA(c);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++)
			fds[i] = own_rise(fds[i]);
	}
}

ssize_t own_recvmsg(int fd, struct msghdr *message, int flags)
{
	ssize_t n = may_use(fd) ? own_call(SYS_recvmsg, fd, message, flags) : -1;

	if (n >= 0)
		rise(message);
	return n;
}

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
