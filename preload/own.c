/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See own.h. */
#define _GNU_SOURCE
#include "preload/own.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/own_calls.h"
#include "preload/shim.h"

#define OWN_BELOW 8u
/* The shim's descriptors lie just below this number, or below the program's limit. Higher ones
 * would make the kernel's table larger, which a fork() copies. */
#define OWN_TOP 1024u
#define OWN_LOST (~(u64)0) /* in place of the device */

static void own_add(int fd, bool kept)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return;
	for (u32 i = 0; i < OWN_NR; i++) {
		if (host_load_relaxed(&shim.own.list[i].fd))
			continue;
		shim.own.list[i].dev = st.st_dev;
		shim.own.list[i].ino = st.st_ino;
		shim.own.list[i].kept = kept;
		host_store_relaxed(&shim.own.list[i].fd, (u64)fd + 1);
		if (i >= host_load_relaxed(&shim.own.nr))
			host_store_release(&shim.own.nr, i + 1);
		return;
	}
}

/* A duplicate of fd, as high as it should lie; fd itself stays. */
static int own_high(int fd)
{
	struct rlimit limit;
	u64 top = OWN_TOP;
	int high;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < top)
		top = limit.rlim_cur;
	high = (int)own_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC,
	                     top > 2 * OWN_BELOW ? (int)(top - OWN_BELOW) : 0);
	if (high < 0)
		high = (int)own_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 0);
	return high;
}

int own_dup(int fd)
{
	int high = own_high(fd);

	if (high >= 0)
		own_add(high, false);
	return high;
}

int own_keep(int fd)
{
	int high = own_high(fd);

	own_call(SYS_close, fd);
	if (high >= 0)
		own_add(high, true);
	return high;
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

/* Does fd still lead to what the shim has opened? */
static bool own_same(u32 i)
{
	u64 fd = host_load_relaxed(&shim.own.list[i].fd);
	struct stat st;

	return fd && fstat((int)fd - 1, &st) == 0 &&
	       st.st_dev == shim.own.list[i].dev && st.st_ino == shim.own.list[i].ino;
}

static bool own_is_lost(u32 i)
{
	return host_load_relaxed(&shim.own.list[i].dev) == OWN_LOST;
}

/* Its place in the list, among those that are lost or those that are not. OWN_NR: it is not
 * there. A number may be lost and be the shim's once more. */
static u32 own_find(int fd, bool lost)
{
	u32 i = 0, nr = (u32)host_load_acquire(&shim.own.nr);

	while (i < nr && (host_load_relaxed(&shim.own.list[i].fd) != (u64)fd + 1 ||
	                  own_is_lost(i) != lost))
		i++;
	return i < nr ? i : OWN_NR;
}

/* May the shim use it? If not, errno says that the other side has gone. */
static bool own_usable(int fd)
{
	u32 i = own_find(fd, false);

	if (i < OWN_NR && own_same(i))
		return true;
	errno = EPIPE;
	return false;
}

int own_close(int fd)
{
	u32 i = own_find(fd, true);
	bool ours;

	if (i == OWN_NR)
		i = own_find(fd, false);
	ours = i == OWN_NR || own_same(i);
	if (i < OWN_NR)
		host_store_relaxed(&shim.own.list[i].fd, 0);
	/* If it is another file by now, it is the program's. */
	return ours ? (int)own_call(SYS_close, fd) : 0;
}

long own_write(int fd, const void *bytes, size_t n)
{
	return own_usable(fd) ? own_call(SYS_write, fd, bytes, n) : -1;
}

long own_sendmsg(int fd, const struct msghdr *message, int flags)
{
	return own_usable(fd) ? own_call(SYS_sendmsg, fd, message, flags) : -1;
}

/* Moves what has come away from the numbers of the standard descriptors. */
static void own_rise(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c;
	     c = CMSG_NXTHDR(message, c)) {
		int *fds = (int *)CMSG_DATA(c);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int high = fds[i] > STDERR_FILENO ? -1 : own_high(fds[i]);

			if (high < 0)
				continue;
			own_call(SYS_close, fds[i]);
			fds[i] = high;
		}
	}
}

long own_recvmsg(int fd, struct msghdr *message, int flags)
{
	long n = own_usable(fd) ? own_call(SYS_recvmsg, fd, message, flags) : -1;

	if (n >= 0)
		own_rise(message);
	return n;
}

bool own_is(int fd)
{
	return fd >= 0 && own_find(fd, false) < OWN_NR;
}

u64 own_next(u64 first, u64 last)
{
	u64 least = last + 1;

	for (u32 i = 0; i < OWN_NR; i++) {
		u64 fd = host_load_relaxed(&shim.own.list[i].fd);

		if (fd > first && fd - 1 < least && !own_is_lost(i))
			least = fd - 1;
	}
	return least;
}

void own_lost(int fd)
{
	u32 i = own_find(fd, false);

	if (i < OWN_NR)
		host_store_relaxed(&shim.own.list[i].dev, OWN_LOST);
}

void own_forked(void)
{
	for (u32 i = 0; i < OWN_NR; i++) {
		bool ours = own_same(i);
		u64 fd;

		if (ours && shim.own.list[i].kept)
			continue;
		fd = host_xchg(&shim.own.list[i].fd, 0);
		if (ours)
			own_call(SYS_close, (int)fd - 1);
	}
}

void own_hang_up(void)
{
	for (u32 i = 0; i < OWN_NR; i++)
		if (!shim.own.list[i].kept && own_same(i))
			own_call(SYS_shutdown,
			         (int)host_load_relaxed(&shim.own.list[i].fd) - 1,
			         SHUT_RDWR); /* an event is no socket */
}

int own_dup3(int from, int to, int flags)
{
	return own_usable(to) ? (int)own_call(SYS_dup3, from, to, flags) : -1;
}
