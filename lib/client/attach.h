/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A process's attachment: which segment is current, the channel to its service, and how the
 * next one is found.
 *
 * A reader whose service has gone comes back by steps that never wait. attach_step() does
 * what can be done now: it connects, asks HELLO, or takes the reply and maps the arena. Each
 * read that finds no cache makes one step at most, under port_lock_try(). Functions
 * that may block make the same steps, and wait between them. A reader never starts a service.
 */
#ifndef LODIC_LIB_CLIENT_ATTACH_H
#define LODIC_LIB_CLIENT_ATTACH_H

#include "lib/client/copy.h"
#include "lib/client/retry.h"
#include "lib/client/segment.h"
#include "lib/client/start.h"
#include "lib/port.h"

struct lodic {
	struct port_lock lock;
	int cancel_state;        /* of the thread that holds the lock */
	u64 users;               /* the program, contexts, files, holds; atomic */
	struct segment *segment; /* NULL: none now */
	u64 generation;          /* the segment's; atomic: looked at without the lock */
	struct channel channel;
	bool greeted;       /* the channel has led to the segment's service */
	int error;          /* why it leads nowhere now */
	struct retry retry; /* to connect */
	struct start start;
	struct retry start_retry;
	struct copies copies; /* for small holds; under the lock */
	u64 *mark;            /* 1; the kernel wipes it in a forked child */
};

/* Is this process a forked child of the one that attached? */
static inline bool attach_forked(const struct lodic *lodic)
{
	return *lodic->mark == 0;
}

/* Is s the segment that seats and claims should be in? Anybody may ask. */
static inline bool attach_is_current(const struct lodic *lodic, const struct segment *s)
{
	return s && s->generation == host_load_relaxed(&lodic->generation) &&
	       segment_alive(s);
}

/* An attachment to the service at socket, which is not connected yet. It starts none, and reads no
 * settings. trusted: as settings_trusted() has it. -ENOMEM. */
int attach_later(const char *socket, u32 trusted, struct lodic **ret_lodic);

/* Takes lodic.lock. A thread that holds it is not cancelled. */
void attach_lock(struct lodic *lodic);
bool attach_trylock(struct lodic *lodic); /* false: somebody has it */
void attach_unlock(struct lodic *lodic);

/* One user more or less; the last one frees it. The lock is not held. */
void attach_get(struct lodic *lodic);
void attach_put(struct lodic *lodic);

/* lodic.lock is held for all below. */

/* Goes on towards a current segment, as far as that is possible without waiting. 0: there
 * is one, and its channel is free. -EINPROGRESS: a reply is on its way. Otherwise why there
 * is none; lodic.retry says when the next try is due. */
int attach_step(struct lodic *lodic);
/* The same, but waits for replies: never -EINPROGRESS. */
int attach_wait(struct lodic *lodic);
/* The same, but if nobody listens it starts a service, once. It lets go of lodic.lock
 * meanwhile. */
int attach_start(struct lodic *lodic);

/* Hangs up, and lets go of the segment's memory (segment_leave()). context_leave() does it for
 * seats. Afterwards there is no current segment. */
void attach_leave(struct lodic *lodic);
/* From now on the service is the one at socket, and trusted is as for attach_later(). Nobody tries
 * to connect before at_ns. -ENOMEM: all is as before. */
int attach_move(struct lodic *lodic, const char *socket, u32 trusted, u64 at_ns);
/* Asks by the channel. It is free: attach_step() has just returned 0. */
int attach_ask(struct lodic *lodic, const struct wire_request *request, int fd,
               void (*done)(void *owner, const struct channel_reply *reply),
               void *owner);
/* Asks, and waits for the reply. An error: done() was not called. */
int attach_call(struct lodic *lodic, const struct wire_request *request, int fd,
                void (*done)(void *owner, const struct channel_reply *reply),
                void *owner);
/* The same, but asks the service of that generation alone: a file's id means something else to
 * its successor. -ECONNRESET: it has gone. -ETIMEDOUT: also if it lets nobody in. */
int attach_call_same(struct lodic *lodic, u64 generation,
                     const struct wire_request *request, int fd,
                     void (*done)(void *owner, const struct channel_reply *reply),
                     void *owner);
/* Tells the service that something of the segment of that generation is given back. Waits
 * for the reply, at most as long as one request may take. If the service cannot be told now,
 * it finds out by itself. */
void attach_tell(struct lodic *lodic, u64 generation,
                 const struct wire_request *request);

#endif
