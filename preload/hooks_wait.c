/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Calls in which a program waits for events, or for a time. The shim leaves them alone. A server
 * that has mapped its files makes hardly any other call that comes by the shim. So its mappings get
 * their holds in these (run_place.c).
 */
#define _GNU_SOURCE
#include "preload/hooks.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "preload/run.h"

typedef int (*poll_fn)(struct pollfd *fds, nfds_t nr, int ms);
typedef int (*poll_checked_fn)(struct pollfd *fds, nfds_t nr, int ms, size_t room);
typedef int (*ppoll_fn)(struct pollfd *fds, nfds_t nr, const struct timespec *time,
                        const sigset_t *mask);
typedef int (*select_fn)(int nr, fd_set *reads, fd_set *writes, fd_set *others,
                         struct timeval *time);
typedef int (*pselect_fn)(int nr, fd_set *reads, fd_set *writes, fd_set *others,
                          const struct timespec *time, const sigset_t *mask);
typedef int (*epoll_wait_fn)(int fd, struct epoll_event *events, int most, int ms);
typedef int (*epoll_pwait_fn)(int fd, struct epoll_event *events, int most, int ms,
                              const sigset_t *mask);
typedef int (*nanosleep_fn)(const struct timespec *time, struct timespec *left);
typedef int (*clock_nanosleep_fn)(clockid_t clock, int flags,
                                  const struct timespec *time, struct timespec *left);
typedef unsigned int (*sleep_fn)(unsigned int seconds);
typedef int (*usleep_fn)(useconds_t us);

int __poll_chk(struct pollfd *fds, nfds_t nr, int ms, size_t room);

EXPORT int poll(struct pollfd *fds, nfds_t nr, int ms)
{
	run_enters();
	return ((poll_fn)next_of(NEXT_POLL))(fds, nr, ms);
}

EXPORT int __poll_chk(struct pollfd *fds, nfds_t nr, int ms, size_t room)
{
	run_enters();
	return ((poll_checked_fn)next_of(NEXT_POLL_CHECKED))(fds, nr, ms, room);
}

EXPORT int ppoll(struct pollfd *fds, nfds_t nr, const struct timespec *time,
                 const sigset_t *mask)
{
	run_enters();
	return ((ppoll_fn)next_of(NEXT_PPOLL))(fds, nr, time, mask);
}

EXPORT int select(int nr, fd_set *reads, fd_set *writes, fd_set *others,
                  struct timeval *time)
{
	run_enters();
	return ((select_fn)next_of(NEXT_SELECT))(nr, reads, writes, others, time);
}

EXPORT int pselect(int nr, fd_set *reads, fd_set *writes, fd_set *others,
                   const struct timespec *time, const sigset_t *mask)
{
	run_enters();
	return ((pselect_fn)next_of(NEXT_PSELECT))(nr, reads, writes, others, time,
	                                           mask);
}

EXPORT int epoll_wait(int fd, struct epoll_event *events, int most, int ms)
{
	run_enters();
	return ((epoll_wait_fn)next_of(NEXT_EPOLL_WAIT))(fd, events, most, ms);
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int most, int ms,
                       const sigset_t *mask)
{
	run_enters();
	return ((epoll_pwait_fn)next_of(NEXT_EPOLL_PWAIT))(fd, events, most, ms, mask);
}

EXPORT int nanosleep(const struct timespec *time, struct timespec *left)
{
	run_enters();
	return ((nanosleep_fn)next_of(NEXT_NANOSLEEP))(time, left);
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time,
                           struct timespec *left)
{
	run_enters();
	return ((clock_nanosleep_fn)next_of(NEXT_CLOCK_NANOSLEEP))(clock, flags, time,
	                                                           left);
}

EXPORT unsigned int sleep(unsigned int seconds)
{
	run_enters();
	return ((sleep_fn)next_of(NEXT_SLEEP))(seconds);
}

EXPORT int usleep(useconds_t us)
{
	run_enters();
	return ((usleep_fn)next_of(NEXT_USLEEP))(us);
}
