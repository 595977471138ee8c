/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/watch.h. */
#define _GNU_SOURCE
#include "lib/port/watch.h"

#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#define FD_PATH_BYTES 32

int port_watches(void)
{
	int watches = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	return watches < 0 ? -errno : watches;
}

/* By its description: the path may lead to another file by now. */
int port_watch_add(int watches, int fd, bool moves)
{
	char path[FD_PATH_BYTES];
	int watch;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	watch = inotify_add_watch(watches, path,
	                          IN_MODIFY | IN_ATTRIB | (moves ? IN_MOVE_SELF : 0));
	return watch < 0 ? -errno : watch;
}

bool port_watch_remove(int watches, int watch)
{
	return inotify_rm_watch(watches, watch) == 0;
}

static unsigned int watch_what(uint32_t mask)
{
	return (mask & IN_Q_OVERFLOW ? PORT_NEWS_LOST : 0) |
	       (mask & IN_IGNORED ? PORT_NEWS_GONE : 0) |
	       (mask & IN_MODIFY ? PORT_NEWS_BYTES : 0) |
	       (mask & (IN_ATTRIB | IN_MOVE_SELF) ? PORT_NEWS_RIGHTS : 0);
}

/* A watch on a file gives no names, so all events have the same size. */
unsigned int port_watch_next(int watches, struct port_news ret[PORT_NEWS_AT_ONCE])
{
	struct inotify_event events[PORT_NEWS_AT_ONCE];
	ssize_t n = read(watches, events, sizeof(events));
	unsigned int nr = n < 0 ? 0 : (unsigned int)((size_t)n / sizeof(*events));

	for (unsigned int i = 0; i < nr; i++)
		ret[i] = (struct port_news){ events[i].wd, watch_what(events[i].mask) };
	return nr;
}
