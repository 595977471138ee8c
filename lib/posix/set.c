/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/set.h. */
#define _GNU_SOURCE
#include "lib/port/set.h"

#include <errno.h>
#include <sys/epoll.h>

#define MOST_AT_ONCE 64u

static int set_control(int set, int command, int fd, unsigned int what, void *whose)
{
	struct epoll_event event = {
		.events = (what & PORT_INPUT ? EPOLLIN : 0) |
		          (what & PORT_NEW_INPUT ? EPOLLIN | EPOLLET : 0),
		.data.ptr = whose,
	};

	return epoll_ctl(set, command, fd, &event) == 0 ? 0 : -errno;
}

int port_set(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC);

	return set < 0 ? -errno : set;
}

int port_set_add(int set, int fd, unsigned int what, void *whose)
{
	return set_control(set, EPOLL_CTL_ADD, fd, what, whose);
}

int port_set_change(int set, int fd, unsigned int what, void *whose)
{
	return set_control(set, EPOLL_CTL_MOD, fd, what, whose);
}

void port_set_remove(int set, int fd)
{
	set_control(set, EPOLL_CTL_DEL, fd, 0, NULL);
}

int port_set_wait(int set, void **ret_whose, unsigned int most, int ms)
{
	struct epoll_event events[MOST_AT_ONCE];
	int nr = epoll_wait(set, events,
	                    (int)(most < MOST_AT_ONCE ? most : MOST_AT_ONCE), ms);

	if (nr < 0)
		return -errno;
	for (int i = 0; i < nr; i++)
		ret_whose[i] = events[i].data.ptr;
	return nr;
}
