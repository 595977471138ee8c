/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See own.h. */
#define _GNU_SOURCE
#include "preload/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OWN_NR 8u
/* The shim's descriptors lie just below this number, or below the program's limit. Higher ones
 * would make the kernel's table larger, which a fork() copies. */
#define OWN_TOP 1024u
#define OWN_HEAD_BYTES 64u

/* In memory that a child keeps: it must close its copies. */
static struct {
	u64 fd; /* 1 more than its number; 0: none */
	u64 dev, ino;
} own_list[OWN_NR];

static void own_add(int fd)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return;
	for (u32 i = 0; i < OWN_NR; i++) {
		if (host_load_relaxed(&own_list[i].fd))
			continue;
		own_list[i].dev = st.st_dev;
		own_list[i].ino = st.st_ino;
		host_store_relaxed(&own_list[i].fd, (u64)fd + 1);
		return;
	}
}

/* A duplicate of fd, as high as it should lie; fd itself stays. */
static int own_dup(int fd)
{
	struct rlimit limit;
	u64 top = OWN_TOP;
	int high;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < top)
		top = limit.rlim_cur;
	high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC,
	                    top > 2 * OWN_NR ? (int)(top - OWN_NR) : 0);
	if (high < 0)
		high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);
	if (high >= 0)
		own_add(high);
	return high;
}

int own_fcntl(int fd, int command, ...)
{
	(void)command;
	return own_dup(fd);
}

int own_socket(int domain, int type, int protocol)
{
	int fd = (int)syscall(SYS_socket, domain, type, protocol);
	int high = fd < 0 ? -1 : own_dup(fd);
	int error = errno;

	if (fd >= 0)
		syscall(SYS_close, fd);
	errno = error;
	return high;
}

/* Does fd still lead to what the shim has opened? */
static bool own_same(u32 i)
{
	u64 fd = host_load_relaxed(&own_list[i].fd);
	struct stat st;

	return fd && fstat((int)fd - 1, &st) == 0 && st.st_dev == own_list[i].dev &&
	       st.st_ino == own_list[i].ino;
}

/* Its place in the list; OWN_NR: it is not the shim's. */
static u32 own_find(int fd)
{
	u32 i = 0;

	while (i < OWN_NR && host_load_relaxed(&own_list[i].fd) != (u64)fd + 1)
		i++;
	return i;
}

/* May the shim use it? If not, errno says that the other side has gone. */
static bool own_usable(int fd)
{
	u32 i = own_find(fd);

	if (i < OWN_NR && own_same(i))
		return true;
	errno = EPIPE;
	return false;
}

int own_close(int fd)
{
	u32 i = own_find(fd);
	bool ours = i == OWN_NR || own_same(i);

	if (i < OWN_NR)
		host_store_relaxed(&own_list[i].fd, 0);
	/* If it is another file by now, it is the program's. */
	return ours ? (int)syscall(SYS_close, fd) : 0;
}

ssize_t own_write(int fd, const void *bytes, size_t n)
{
	return own_usable(fd) ? syscall(SYS_write, fd, bytes, n) : -1;
}

ssize_t own_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return own_usable(fd) ? syscall(SYS_sendmsg, fd, message, flags) : -1;
}

ssize_t own_recvmsg(int fd, struct msghdr *message, int flags)
{
	return own_usable(fd) ? syscall(SYS_recvmsg, fd, message, flags) : -1;
}

bool own_is(int fd)
{
	return fd >= 0 && own_find(fd) < OWN_NR;
}

u64 own_next(u64 first, u64 last)
{
	u64 least = last + 1;

	for (u32 i = 0; i < OWN_NR; i++) {
		u64 fd = host_load_relaxed(&own_list[i].fd);

		if (fd > first && fd - 1 < least)
			least = fd - 1;
	}
	return least;
}

void own_lost(int fd)
{
	u32 i = own_find(fd);

	if (i < OWN_NR)
		own_list[i].dev = own_list[i].ino = ~(u64)0;
}

void own_forked(void)
{
	for (u32 i = 0; i < OWN_NR; i++) {
		u64 fd = host_xchg(&own_list[i].fd, 0);

		if (fd)
			syscall(SYS_close, (int)fd - 1);
	}
}

void *own_calloc(size_t nr, size_t bytes)
{
	size_t all = nr * bytes + OWN_HEAD_BYTES;
	size_t *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	                 -1, 0);

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
		munmap(head, *head);
}

char *own_strdup(const char *text)
{
	size_t n = strlen(text) + 1;
	char *copy = own_calloc(1, n);

	return copy ? memcpy(copy, text, n) : NULL;
}
