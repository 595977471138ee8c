/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A socket to a service, with one request under way, as a rule. To ask and to look for the
 * reply never waits, so that a reading thread may do both; channel_wait() does wait.
 *
 *   closed --connect--> idle --ask--> under way --poll: the reply is there--> idle
 *     ^                                  |
 *     +---- no reply in time, nonsense --+
 *
 * The service answers in order, so a reply that comes too late would be taken for the next
 * one's. That is why a channel closes when its request's time is over.
 *
 * A program that reads many files in turn would seldom find the channel idle, and the service
 * would hear of few of them. So requests that need no reply of before may follow each other, up to
 * CHANNEL_MOST: channel_has_room().
 *
 * One thread at a time may call these: lodic.lock is held, but for a channel of one's own.
 */
#ifndef LODIC_LIB_CLIENT_CHANNEL_H
#define LODIC_LIB_CLIENT_CHANNEL_H

#include "lib/client/client.h"
#include "lib/wire.h"

/* The library treats a service that does not answer for so long as if it were away. */
#define REQUEST_TIMEOUT_NS ((u64)2000000000)
#define DEADLINE_NEVER (~(u64)0)
/* Requests under way at most. Our choice: each passes a descriptor, and the kernel counts those
 * that nobody has received. */
#define CHANNEL_MOST 64u

/* How a request went. */
struct channel_reply {
	int error; /* 0, the service's, or why there is no answer; a plain -errno */
	int because; /* the same with its reason (RE1) */
	/* NULL: none came. With -EMFILE it may have come, without its descriptors. */
	const struct wire_reply *wire;
	const int *fds; /* the channel closes them after done() */
	u32 nr_fds;
};

/* How channel_wait() waits: it lets the CPU go, or first looks for the reply for a while. */
enum channel_way { CHANNEL_SLEEP, CHANNEL_SPIN, CHANNEL_NR_WAYS };

struct channel {
	int socket;      /* -1: closed */
	int error;       /* why it was closed */
	u64 deadline_ns; /* of the request under way */
	/* Called once for each request; it may ask again. NULL: none is under way. */
	void (*done)(void *owner, const struct channel_reply *reply);
	void *owner;
	/* Those behind it, the oldest first. */
	struct channel_request {
		u64 deadline_ns;
		void (*done)(void *owner, const struct channel_reply *reply);
		void *owner;
	} more[CHANNEL_MOST - 1];
	u32 nr_more;
	/* What waits have taken lately, either way; and how many there were. */
	u64 mean_ns[CHANNEL_NR_WAYS];
	u32 nr_waits;
};

void channel_init(struct channel *c);

/* Connects a closed channel, without waiting. The service must be this user's, or trusted's.
 * -EAGAIN: the service has not taken the connections before. -EPERM: it is another user's, or no
 * socket of lodic. -ENAMETOOLONG, and the errors of connect(2). Those of socket(2) have a reason
 * (RE1). */
int channel_connect(struct channel *c, const char *path, u32 trusted);
/* Closes it. Requests under way get error. */
void channel_close(struct channel *c, int error);

/* May a request follow those under way, or is there none? */
bool channel_has_room(const struct channel *c);
/* Sends a request; fd < 0: without a descriptor. No request may be under way, unless the caller
 * has asked channel_has_room(). An error means that nothing was sent, and done() will not be
 * called. */
int channel_ask(struct channel *c, const struct wire_request *request, int fd,
                u64 deadline_ns,
                void (*done)(void *owner, const struct channel_reply *reply),
                void *owner);
/* Takes the replies that are there, and gives up if one is too late. true: nothing is under
 * way now. */
bool channel_poll(struct channel *c);
/* Waits until nothing is under way. It may spin for 100 us before it sleeps. */
void channel_wait(struct channel *c);
/* A done() for requests whose outcome changes nothing. */
void channel_ignore(void *owner, const struct channel_reply *reply);

#endif
