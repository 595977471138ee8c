/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Watches on files, by inotify: what the kernel tells of a file that somebody has changed. It
 * tells of that when the change is over. lease.c says what the service makes of it.
 *
 * Watches are numbered from 1 on, and the kernel gives each the next number. It comes back to a
 * small number after 2^31 watches, and passes over those in use. By then the service has long read
 * what it was told of removed ones. So that is never taken for news of a later watch.
 *
 * Two watches of one instance on one inode would be the same watch. An arena has one instance, and
 * holds a file once.
 */
#ifndef LODIC_LIB_SERVICE_FILE_WATCH_H
#define LODIC_LIB_SERVICE_FILE_WATCH_H

#include "lib/service/base/base.h"

/* What has been heard. */
enum watch_heard {
	WATCH_LOST, /* the kernel's queue was full, and it may be anything of any file */
	WATCH_GONE,  /* the watch has: mostly the service has removed it */
	WATCH_BYTES, /* somebody has written to the file or cut it */
	WATCH_RIGHTS, /* its mode, owner, times or number of names have changed; or its path */
};

/* Makes an instance, in which there are no watches yet. A descriptor, or -errno. Its close takes
 * some 20 ms when watches have been there. */
int watch_open(void);
/* Begins to watch the file to which fd leads. With moves it also hears of a new path.
 * -ENOLCK: the kernel grants no further watch. -ENOMEM. */
int watch_add(int watches, int fd, bool moves, int *ret_watch);
/* Nothing more comes of it, but for what is in the queue, and WATCH_GONE. false: there was none. */
bool watch_remove(int watches, int watch);
/* Reads what is there, a bounded number of events, and calls each() for every one of them. The
 * watch may have been removed since. */
void watch_read(int watches, void (*each)(void *ctx, int watch, enum watch_heard heard),
                void *ctx);

#endif
