/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See watch.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "lib/service/file/watch.h"

/* A watch on a file gives no names, so an event has this size. A break waits for so many. */
#define EVENTS_AT_ONCE 64u

int watch_open(void)
{
	int watches = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	return watches < 0 ? -errno : watches;
}

/* By its description: the path may lead to another file by now. */
int watch_add(int watches, int fd, bool moves, int *ret_watch)
{
	char path[64];
	int watch;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	watch = inotify_add_watch(watches, path,
	                          IN_MODIFY | IN_ATTRIB | (moves ? IN_MOVE_SELF : 0));
	if (watch < 0)
		return errno == ENOMEM ? -ENOMEM : -ENOLCK;
	*ret_watch = watch;
	return 0;
}

bool watch_remove(int watches, int watch)
{
	return inotify_rm_watch(watches, watch) == 0;
}

/* A file that the service has open is neither deleted nor unmounted. If the kernel says so all the
 * same, or has removed the watch, the file must go. One event may tell of bytes and of rights: a
 * file is cut by a program that may not keep its bits of set-user-id. Then the bytes count. */
static enum watch_heard watch_kind(u32 mask)
{
	if (mask & IN_Q_OVERFLOW)
		return WATCH_LOST;
	if (mask & IN_IGNORED)
		return WATCH_GONE;
	if (mask & IN_MODIFY)
		return WATCH_BYTES;
	return mask & (IN_ATTRIB | IN_MOVE_SELF) ? WATCH_RIGHTS : WATCH_BYTES;
}

void watch_read(int watches, void (*each)(void *ctx, int watch, enum watch_heard heard),
                void *ctx)
{
	struct inotify_event events[EVENTS_AT_ONCE];
	ssize_t n = read(watches, events, sizeof(events));

	for (ssize_t i = 0; i < n / (ssize_t)sizeof(*events); i++)
		each(ctx, events[i].wd, watch_kind(events[i].mask));
}
