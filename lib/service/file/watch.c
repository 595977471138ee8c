/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See watch.h. */
#include <errno.h>

#include "lib/service/file/watch.h"

int watch_add(int watches, int fd, bool moves, int *ret_watch)
{
	int watch = port_watch_add(watches, fd, moves);

	if (watch < 0)
		return watch == -ENOMEM ? -ENOMEM : -ENOLCK;
	*ret_watch = watch;
	return 0;
}

/* A file that the service has open is neither deleted nor unmounted. If the kernel says so all the
 * same, or has removed the watch, the file must go. One event may tell of bytes and of rights: a
 * file is cut by a program that may not keep its bits of set-user-id. Then the bytes count. */
static enum watch_heard watch_kind(unsigned int what)
{
	if (what & PORT_NEWS_LOST)
		return WATCH_LOST;
	if (what & PORT_NEWS_GONE)
		return WATCH_GONE;
	return what == PORT_NEWS_RIGHTS ? WATCH_RIGHTS : WATCH_BYTES;
}

void watch_read(int watches, void (*each)(void *ctx, int watch, enum watch_heard heard),
                void *ctx)
{
	struct port_news news[PORT_NEWS_AT_ONCE];
	unsigned int nr = port_watch_next(watches, news);

	for (unsigned int i = 0; i < nr; i++)
		each(ctx, news[i].watch, watch_kind(news[i].what));
}
