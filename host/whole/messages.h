/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What has become of messages. The machine does not know what they say: the search names their
 * kinds, and the machine counts for each kind what has befallen its messages.
 *
 * A request is a message that is answered. Its receiver owes an answer for it, and the next message
 * that it sends there answers the oldest one.
 */
#ifndef LODIC_HOST_WHOLE_MESSAGES_H
#define LODIC_HOST_WHOLE_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "host/host.h"

#define MESSAGE_MOST_KINDS 80u
#define MESSAGE_MOST_OWED 8u

struct process;

enum message_fate {
	MESSAGE_TAKEN,
	MESSAGE_SENDER_FIRST, /* its sender was killed when it was about to send */
	MESSAGE_SENDER_AFTER, /* or before its message was taken, or answered */
	MESSAGE_TAKER_FIRST,  /* the receiver ended, and had not taken it */
	MESSAGE_TAKER_AFTER,  /* it ended, and had not answered; or it did nothing since */
	MESSAGE_LOST_PEER,    /* nobody was there to take it */
	MESSAGE_FULL,         /* it had no room */
	MESSAGE_LATE,         /* it was taken more than a second later */
	MESSAGE_GIVEN_UP,     /* who asked has hung up, and lives; or nobody took the answer */
	MESSAGE_FDS_LOST,     /* its receiver could have no more descriptors */
	MESSAGE_BAD,          /* it was short, or said what no such message says */
	NR_MESSAGE_FATES
};
extern const char *const message_fates[NR_MESSAGE_FATES];

struct message_name {
	u32 kind; /* 0: none that is counted */
	bool is_request, is_bad;
};

/* Of a socket: the kinds of what it has taken and not answered, and of the answer it took last. */
struct messages {
	u32 owed[MESSAGE_MOST_OWED];
	u32 nr_owed;
	u32 answer; /* 0: it has sent something since */
};

/* Set once, before the first run. owed: the request that is answered; 0: none. */
extern struct message_name (*message_name)(const void *bytes, size_t nr_bytes, u32 owed);

struct message_name messages_name(const struct messages *m, const void *bytes,
                                  size_t nr_bytes);
void messages_fate(u32 kind, enum message_fate fate);
/* It has been sent, or taken, at that side. */
void messages_sent(struct messages *m, const struct message_name *name);
void messages_taken(struct messages *m, const struct message_name *name, u64 waited_ns);
/* All that is owed. */
void messages_owed_fate(const struct messages *m, enum message_fate fate);

/* socket.c: a process ends, with all its messages. */
void socket_process_ends(struct process *process);

#endif
