/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A program that is connected, and a request of it. */
#ifndef LODIC_LIB_SERVICE_CLIENT_CONNECTION_H
#define LODIC_LIB_SERVICE_CLIENT_CONNECTION_H

#include "lib/service/base/base.h"
#include "lib/service/file/opens.h"
#include "lib/service/frame/sync.h"
#include "lib/service/hold/asker.h"
#include "lib/wire.h"
#include "lib/service/base/source.h"

/* What a connection is for: its first request decides (authority.h). */
enum client_kind {
	CLIENT_NEW, /* it has asked for nothing yet */
	CLIENT_READER,
	CLIENT_VISITOR,
	CLIENT_SUCCESSOR /* the service has made the connection (hand.h) */
};

struct client {
	struct client *next;
	struct source socket_source, process_source;
	u64 serial; /* larger: came later */
	u64 since_ns;
	int pid; /* as the service sees it; 0: it cannot */
	u32 uid;
	bool foreign;             /* of a group's service: another user's (domain.h) */
	struct domain_user *user; /* that it counts for; NULL: none, as it is gone */
	/* A group's programs must not share this: one could make the others wait at it. -1: it has
	 * that which all share. */
	int wake;
	int socket;  /* -1: silent; its contexts stay while anybody has their memory */
	int process; /* port_peer_process(); -1: none */
	u32 kind;    /* enum client_kind */
	bool moved; /* greeted by the service before: what it opens would be for that one */
	bool gone;  /* to be freed once its files are closed and no event can name it */
	bool asked; /* for anything, ever */
	bool waits; /* for sync */
	struct fill_sync sync;
	u64 heard_ns;            /* a successor: when it last asked */
	bool had_place;          /* a successor: it has been given the socket */
	u64 stat_wanted;         /* waits for this count (stat.h); 0: it does not */
	struct opening *opening; /* a file that a worker looks at; NULL: none */
	u32 nr_contexts;
	u32 newest;  /* the place of its newest context; FRAME_NONE: it has none */
	u32 reap_at; /* the place to ask about next; FRAME_NONE: this pass is over */
	struct opens opens;
	struct hold_asker holds;
};

/* One request and the reply to it. */
struct exchange {
	struct wire_request request;
	struct wire_sender sender;
	struct wire_reply reply;
	int fds[WIRE_MAX_FDS]; /* received; -1: an operation has kept it */
	u32 nr_fds;
	int out[WIRE_MAX_FDS]; /* to send back */
	u32 nr_out;
	struct wire_page *page; /* to send instead of reply; NULL: none */
	int close_after; /* that of out which is to be closed once it is sent; -1: none */
	bool later;      /* the reply comes when the work is done */
};

/* authority.c has it, so that a file does not look into the struct for it. */
bool client_is_reader(const struct client *c);

#endif
