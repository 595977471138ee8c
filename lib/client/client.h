/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The client half of liblodic: how a process is tied to a service, and what happens to
 * those ties when the service dies or the process forks.
 *
 *   lodic -----> segment        one service's arena, mapped here (attach.c)
 *   context ---> seat ------+   this thread's context memory in that segment (context.c)
 *   file ------> claim      |   the file's slot and id in that segment (file.c)
 *
 * Segments, seats and claims carry the generation of their service. A read or pin goes
 * to the cache only when seat and claim agree, one comparison that also covers "no
 * service", "not cached" and "forked": a seat lies in memory that the kernel wipes in a
 * child (MADV_WIPEONFORK), so its generation is 0 there.
 *
 * Locks: lodic.lock guards which segment is current and every claim's making; segment's
 * socket_lock makes one request at a time. In that order. The paths that serve from the
 * cache take neither.
 */
#ifndef LODIC_LIB_CLIENT_CLIENT_H
#define LODIC_LIB_CLIENT_CLIENT_H

#include <pthread.h>

#include "core/cache/cache.h"
#include "lib/wire.h"
#include "lodic/lodic.h"

#define EXPORT __attribute__((visibility("default")))

/* A service that does not answer for so long is treated as if it were away. */
#define REQUEST_TIMEOUT_MS 2000
/* How often a dead service or a lost file is tried again: first, and at most. */
#define RETRY_FIRST_NS 20000000u
#define RETRY_LAST_NS 2000000000u

/* How often one open file may be cached anew after somebody wrote to it. Claims live until
 * it is closed, since other threads may be looking at them; and a file that is written so
 * often is not worth caching. */
#define MAX_CLAIMS 4096u

#define GENERATION_NONE ((u64)0)       /* a seat without a segment */
#define GENERATION_UNCLAIMED (~(u64)0) /* a claim without one */

struct segment {
	struct arena arena;
	u64 generation;
	u64 alive_value;
	int socket;
	int wake;  /* eventfd that rouses the service */
	u32 users; /* lodic, seats; under lodic.lock */
	pthread_mutex_t socket_lock;
	void *control, *data, *counts;
	u64 control_bytes, data_bytes, count_bytes;
};

/* One page of its own, wiped in a forked child. */
struct seat {
	u64 generation;
	u64 pin_generation; /* the same under ARENA_SCANNED, else GENERATION_NONE */
	struct context core;
	struct lodic_context *context; /* whose seat it is */
	struct segment *segment;
	void *memory;
	u64 memory_bytes;
	u64 place;
	struct seat *older; /* the context's seat before, if it still has pins */
};

struct claim {
	u64 generation; /* GENERATION_UNCLAIMED: not cached, see reason */
	u64 first;      /* the file's block 0: block_id(id, 0) */
	u64 size;       /* as long as the claim is good (S3) */
	struct cache_file core; /* its proof, and its id */
	u32 slot;
	u64 reason; /* why it is not cached: an errno; atomic, relaxed */
	struct lodic_file *file; /* whose claim it is */
	struct claim *older; /* other threads may still look at it: freed at close */
};

/* When to try something again: doubles from RETRY_FIRST_NS to RETRY_LAST_NS. */
struct retry {
	u64 at_ns;
	u64 step_ns;
};

struct lodic {
	pthread_mutex_t lock;
	struct segment *segment; /* NULL: none now */
	struct retry retry;
	char *socket_path;
	char *program; /* "" : start none */
	u64 cache_bytes;
	u32 idle_exit_ms;
	u32 scheme;
	u64 *mark; /* 1; the kernel wipes it in a forked child */
};

struct lodic_context {
	struct seat *seat;    /* never NULL; no_seat when there is none */
	struct seat *retired; /* earlier seats that still have pins */
	struct lodic *lodic;
	struct retry retry;
	u64 past[CONTEXT_NR_COUNTERS]; /* counts of earlier seats, and without a seat */
};

struct lodic_file {
	struct claim
		*claim; /* never NULL; atomic: acquire to read, release to replace */
	struct lodic *lodic;
	int fd;
	u32 nr_claims;
	struct retry retry; /* under lodic.lock; at_ns may be looked at without */
};

extern struct seat no_seat;

static inline bool segment_alive(const struct segment *s)
{
	return host_load_acquire(&s->arena.header->alive) == s->alive_value;
}

static inline const struct claim *file_claim(const struct lodic_file *file)
{
	return (const struct claim *)host_load_acquire((const u64 *)&file->claim);
}

/* Is this process a forked child of the one that attached? */
static inline bool lodic_forked(const struct lodic *lodic)
{
	return *lodic->mark == 0;
}

bool retry_due(struct retry *r);
void retry_reset(struct retry *r);

/* A page of n bytes that a forked child finds zeroed; NULL when there is none. */
void *wiped_alloc(size_t n);
void wiped_free(void *p, size_t n);

/* Maps bytes of fd, not for a forked child; NULL when that fails or fd is shorter. */
void *map_shared(int fd, u64 bytes, int protection);

/* attach.c. lodic.lock is held for these. segment_get() returns the current living
 * segment with one more user, or tries to get one when that is due; NULL: none now. */
struct segment *segment_get(struct lodic *lodic);
void segment_put(struct segment *segment);
int segment_open(const char *path, struct segment **ret_segment);
/* One request and its reply; fd < 0: none to send. timeout_ms < 0: as long as the
 * service lives. Descriptors that come back are ret_fds[0..*ret_nr). */
int segment_request(struct segment *s, const struct wire_request *request, int fd,
                    int timeout_ms, struct wire_reply *ret_reply, int *ret_fds,
                    u32 *ret_nr);

/* start.c: starts the service and waits until it listens or has failed. */
int service_start(const struct lodic *lodic);
char *service_program(void);

/* context.c: a new seat when the old one is dead and it is time to try. */
void context_reseat(struct lodic_context *context);
void seat_drop(struct seat *seat);
bool seat_in_use(const struct seat *seat);
/* file.c: a new claim likewise. */
void file_reclaim(struct lodic_file *file);
/* file's claim, if it agrees with context's seat and both are still good, after one try to
 * make them so; NULL: go to the kernel (no service, not cached, forked). */
const struct claim *file_tie(struct lodic_context *context, struct lodic_file *file);

/* read.c: posts a hint, and wakes the service if it sleeps. */
void seat_hint(struct seat *seat, u64 block, u64 nr);

#endif
