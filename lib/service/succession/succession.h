/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How a successor asks the service before it: it announces itself, and then has a channel of its
 * own (takeover.h). All of it runs before the main loop, so it may wait for an answer.
 */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_SUCCESSION_H
#define LODIC_LIB_SERVICE_SUCCESSION_SUCCESSION_H

#include "lib/service/base/base.h"
#include "lib/wire.h"

struct succession {
	int socket; /* -1: none */
	u64 asked_ns;
	struct wire_page page; /* the last answer */
	int fds[WIRE_MAX_FDS]; /* that came with it */
	u32 nr_fds;
};

/* Announces this process at that path. -ENOENT, -ECONNREFUSED, -ECONNRESET: nobody serves
 * there. -EACCES: the service, or its lock file, is another user's. -EBUSY: it has another
 * successor, or a resize. -EPROTO: it is of another version. -ETIMEDOUT: it does not answer. The
 * caller ends it in each case. */
int succession_begin(struct succession *a, const char *socket_path,
                     const char *lock_path);
void succession_end(struct succession *a);
/* The answer is in a->page, with nr_fds descriptors. bytes: of records behind it. -EBUSY: another
 * successor has the place, or the arena has gone. -ECONNRESET: the service has died.
 * -ETIMEDOUT: it may hear of this later. -EAGAIN: it does not. */
int succession_ask(struct succession *a, u32 op, u64 arg, u64 bytes, u32 nr_fds);
/* Lets the service know, if it has not heard for a while, that this one is at work. The answer
 * before that is lost. */
int succession_stay(struct succession *a);
void succession_close_fds(struct succession *a);

#endif
