/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a watch on a file (port/watch.h) tells the service. lease.c says what the service makes of
 * it.
 *
 * A number of a watch is used again after 2^31 others. By then the service has long read what it
 * was told of the removed one. So that is never taken for news of a later watch. An arena has one
 * instance, and holds a file once. So no two of its watches are the same.
 */
#ifndef LODIC_LIB_SERVICE_FILE_WATCH_H
#define LODIC_LIB_SERVICE_FILE_WATCH_H

#include "lib/port/watch.h"
#include "lib/service/base/base.h"

/* What has been heard. */
enum watch_heard {
	WATCH_LOST, /* the kernel's queue was full, and it may be anything of any file */
	WATCH_GONE,  /* the watch has: mostly the service has removed it */
	WATCH_BYTES, /* somebody has written to the file or cut it */
	WATCH_RIGHTS, /* its mode, owner, times or number of names have changed; or its path */
};

/* Begins to watch the file to which fd leads. With moves it also hears of a new path.
 * -ENOLCK: the kernel grants no further watch. -ENOMEM. */
int watch_add(int watches, int fd, bool moves, int *ret_watch);
/* Reads what is there, a bounded number of events, and calls each() for every one of them. The
 * watch may have been removed since. */
void watch_read(int watches, void (*each)(void *ctx, int watch, enum watch_heard heard),
                void *ctx);

#endif
