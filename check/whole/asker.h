/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program that speaks the wire by hand, and changes its user. It knows what doc/authority.md lets
 * it ask, and says so if it gets more, or less.
 */
#ifndef LODIC_CHECK_WHOLE_ASKER_H
#define LODIC_CHECK_WHOLE_ASKER_H

#include "check/whole/world.h"
#include "lib/wire.h"

/* In the group, if the service has one; and of neither kind. */
#define ASKER_MEMBER 2001u
#define ASKER_OTHER 2000u
#define ASKER_GROUP 3000u

enum asker_kind { ASKER_NEW, ASKER_READER, ASKER_VISITOR, ASKER_SUCCESSOR };

/* A connection. */
struct asker {
	int socket; /* -1: none */
	u32 kind;   /* enum asker_kind */
	u32 uid, group, pid_space; /* of the process that connected, then */
	bool for_group;            /* the service's */
	bool owes; /* an answer has not come in time: the next one may be that */
	u64 id, slot, number, place; /* what it was told last: a file's, a hold's, a context's */
};

/* An answer, with its descriptors. */
struct asker_answer {
	int error; /* what it says; or -ETIMEDOUT, -ECONNRESET: none has come */
	u64 bytes;
	struct wire_page page;
	int fds[WIRE_MAX_FDS];
	u32 nr_fds;
};

/* Connects to the service at path. 0, or the door's error. */
int asker_connect(struct asker *a, const char *path, bool for_group);
void asker_close(struct asker *a);
/* Sends it, without looking at what it is. */
int asker_send(const struct asker *a, const void *message, u32 bytes, const int *fds, u32 nr_fds);
/* Waits for an answer, for ms. Its descriptors must be closed. */
void asker_receive(struct asker *a, struct asker_answer *ret, int ms);
void asker_drop(struct asker_answer *answer);
/* One request that the run draws, and its answer. Fails if that breaks a rule of authority.
 * ret_channel: what a successor gets; its socket is -1 else. false: the connection is of no use. */
bool asker_asks(struct asker *a, struct asker *ret_channel);
/* The running process is another user's from now on: really, or for now alone. */
void asker_becomes(bool groups);

#endif
