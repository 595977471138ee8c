/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The programs that are connected, and the contexts that they have. */
#ifndef LODIC_LIB_SERVICE_CLIENT_STATE_H
#define LODIC_LIB_SERVICE_CLIENT_STATE_H

#include "core/cache/arena.h"
#include "core/cache/context.h"
#include "lib/service/service.h"
#include "lodic/lodic.h"

struct base;
struct client;
struct exchange;
struct files;
struct frames;
struct holding;
struct look_resize;
struct memory;
struct service;
struct shared_memory;
struct tiers;

/* The owner of the context at a place of the walk list. */
struct seat_owner {
	struct client *client;
	u32 older, newer; /* the client's other places; FRAME_NONE: there are no more */
	void *memory;
	u64 bytes;
	int fd; /* memory_ask() asks it who has the memory; -1: the kernel does not tell */
	u64 quota; /* frames it may pin */
};

/* The frames that are pinned, counted piece by piece (stat.c). */
struct stat_count {
	u64 wanted, begun, done; /* counts, by number */
	u64 pinned;              /* what the last one found that is done */
	u64 found;               /* what this one has found so far */
	u32 place;               /* where it goes on: the context, and the entry */
	u32 at;                  /* (or the frame, where frames have shared counters) */
	u8 *seen;                /* a bit for each frame */
};

/* Calls upwards: what a client may ask of succession. */
struct clients_above {
	struct service *of;
	int (*hand_begin)(struct service *of, struct client *c, struct exchange *x);
	int (*hand_carry_out)(struct service *of, struct client *c, struct exchange *x);
	int (*hand_stop)(struct service *of);
	int (*resize_request)(struct service *of, u64 cache_bytes, u64 block_bytes,
	                      struct look_resize *ret);
	void (*resize_drop)(struct service *of, u64 from, u64 to, u64 dev, u64 ino);
	void (*resize_move)(struct service *of, u64 to, u64 dev, u64 ino);
	u64 (*memory_limit)(const struct service *of); /* 0: there is none */
};

struct clients {
	struct base *base;
	const struct service_options *options;
	const struct service_sharing *sharing;
	struct lodic_stat *stat;
	struct memory *memory;
	struct arena *arena;
	const struct arena_shape *shape;
	const struct shared_memory *control, *data, *shared;
	struct tiers *tiers;
	struct files *files;
	struct frames *frames;
	struct holding *holding;
	struct clients_above above;

	struct client *first;
	/* The client that may take this service's place, and has the socket and the lock at the
	 * end; NULL: none. HO5, HO7. */
	struct client *successor;
	u64 last_serial;    /* of the newest client */
	u32 nr_clients;     /* that are attached; those who only ask do not count */
	u32 nr_silent;      /* of all: the other side of the socket is closed */
	u32 nr_reaping;     /* of these: there are contexts to ask about */
	u32 nr_waiting;     /* requests that are answered when their work is done */
	u32 nr_connections; /* clients that are not gone */
	u32 nr_unasked;     /* of these: they have not asked for anything yet */
	u32 nr_turned_away; /* since the last tick: there was no room for them */
	struct domain_user *users; /* whose they are (domain.c) */
	int spare; /* accept_hang_up() gives it up for a moment when descriptors run out */
	bool accept_paused; /* the listening socket is not watched (accept.c) */
	u32 accept_turns;   /* in which nobody was let in, to hear of hang-ups first */
	u64 idle_since_ns;
	struct seat_owner seats[ARENA_MAX_CONTEXTS];
	u32 nr_pinning; /* contexts that may pin */
	u64 past_counters[CONTEXT_NR_COUNTERS];
	struct stat_count count;
};

#endif
