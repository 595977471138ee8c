/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): watches on files, which tell that one has been changed.
 *
 * An instance has watches, and a queue of news. A change of a watched file causes news, which
 * is in the queue before the call that makes the change returns. News tells of a change that is
 * over, and stands in the order of the changes. Nobody waits for the reader of the queue. Bytes
 * that are changed by way of mapped memory cause none; doc/proofs.md has the other ways that cause
 * none.
 *
 * The queue is bounded (fs.inotify.max_queued_events; 16384 as a rule). When it is full, the kernel
 * adds one PORT_NEWS_LOST and drops further news, PORT_NEWS_GONE too, until there is room. News
 * that equals the last one in the queue is not added to it.
 *
 * An instance numbers its watches from 1 on, and gives each the next number. It comes back to a
 * small number after 2^31 of them, and passes over those in use. Two watches of one instance on one
 * file are the same watch, with its number.
 */
#ifndef LODIC_LIB_PORT_WATCH_H
#define LODIC_LIB_PORT_WATCH_H

#include "lib/port.h"

/* Makes an instance. A descriptor, which has input while there is news. Its last close waits for
 * the kernel to free its watches; some 20 ms if it has had any. -EMFILE: also, the user has as many
 * instances as it may. -ENFILE -ENOMEM. */
int port_watches(void);
/* Begins to watch the file to which fd leads, of a local file system; its path may change. moves:
 * also tell of a new path. Returns the watch, 1 or more. -ENOSPC: the user has as many as it may.
 * -ENOENT: there is no /proc. -EACCES, -EPERM: this process may not read it any more. -ENOMEM
 * -EBADF -EINVAL. */
int port_watch_add(int watches, int fd, bool moves);
/* Ends a watch: news of it that is in the queue stays there, then PORT_NEWS_GONE, then nothing.
 * false: there was none. It may have ended by itself. */
bool port_watch_remove(int watches, int watch);

/* What news says; there may be several at once. */
enum port_news_what {
	PORT_NEWS_LOST = 1,   /* there was no room for others; it is of no watch */
	PORT_NEWS_GONE = 2,   /* the watch has ended; its number may be another one's in the end */
	PORT_NEWS_BYTES = 4,  /* somebody has written to the file, or changed its length */
	PORT_NEWS_RIGHTS = 8, /* its mode, owner, times or number of names; or its path */
};
struct port_news {
	int watch;
	unsigned int what; /* enum port_news_what; 0: something else */
};
#define PORT_NEWS_AT_ONCE 64u
/* Takes news from the queue, a bounded number. Returns how many; 0: there is none. */
unsigned int port_watch_next(int watches, struct port_news ret[PORT_NEWS_AT_ONCE]);

#endif
