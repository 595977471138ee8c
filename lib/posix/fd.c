/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port.h. Descriptors, events, pipes; waiting. */
#define _GNU_SOURCE
#include "lib/port.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <os_impl.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

_Static_assert((int)PORT_INPUT == POLLIN && (int)PORT_OUTPUT == POLLOUT,
               "what a wait is for");

void port_sleep(uint64_t ns)
{
	const struct timespec pause = { .tv_sec = (time_t)(ns / NS_PER_S),
		                        .tv_nsec = (long)(ns % NS_PER_S) };

	os_nanosleep(&pause, NULL);
}

void port_close(int fd)
{
	os_close(fd);
}

int port_dup(int fd)
{
	int other = os_dup(fd);

	return other < 0 ? -errno : other;
}

int port_replace(int fd, int number)
{
	return os_dup3(fd, number, O_CLOEXEC) < 0 ? -errno : 0;
}

int port_mode(int fd, unsigned int *ret_mode)
{
	int flags = os_fcntl(fd, F_GETFL, 0);

	if (flags < 0)
		return -errno;
	*ret_mode = ((flags & O_ACCMODE) != O_WRONLY ? PORT_MAY_READ : 0) |
	            ((flags & O_ACCMODE) != O_RDONLY ? PORT_MAY_WRITE : 0) |
	            (flags & O_PATH ? PORT_NAMES_ONLY : 0) |
	            (flags & O_DIRECT ? PORT_DIRECT : 0) |
	            (flags & O_NONBLOCK ? PORT_NEVER_WAITS : 0);
	return 0;
}

int port_event(void)
{
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return event < 0 ? -errno : event;
}

bool port_event_tell(int event)
{
	const uint64_t one = 1;

	return os_write(event, &one, sizeof(one)) == sizeof(one);
}

bool port_event_take(int event)
{
	uint64_t told;

	return os_read(event, &told, sizeof(told)) == sizeof(told);
}

/* An eventfd has no type. */
bool port_is_event(int fd)
{
	int flags = os_fcntl(fd, F_GETFL, 0);
	struct stat st;

	return flags >= 0 && flags & O_NONBLOCK && fstat(fd, &st) == 0 &&
	       (st.st_mode & S_IFMT) == 0;
}

int port_pipe(int ret_fds[2])
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) != 0)
		return -errno;
	os_fcntl(fds[0], F_SETFL, O_NONBLOCK);
	ret_fds[0] = fds[0];
	ret_fds[1] = fds[1];
	return 0;
}

int64_t port_take(int fd, void *to, size_t bytes)
{
	ssize_t n;

	do
		n = os_read(fd, to, bytes);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

int port_wait(int fd, enum port_waiting what, int ms)
{
	struct pollfd wait = { .fd = fd, .events = (short)what };
	int ready = os_poll(&wait, 1, ms);

	return ready < 0 ? -errno : ready;
}

int port_ready(int fd, enum port_waiting what)
{
	int ready;

	do
		ready = port_wait(fd, what, 0);
	while (ready == -EINTR); /* one that has come already */
	return ready;
}
