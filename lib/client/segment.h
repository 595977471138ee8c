/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One service's arena, mapped into this process, and the socket to that service. When the
 * service dies its segment is dead for good: a successor has a segment of its own.
 */
#ifndef LODIC_LIB_CLIENT_SEGMENT_H
#define LODIC_LIB_CLIENT_SEGMENT_H

#include <pthread.h>

#include "core/cache/arena.h"
#include "lib/client/client.h"
#include "lib/wire.h"

/* The library treats a service that does not answer for so long as if it were away. */
#define REQUEST_TIMEOUT_MS 2000

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

static inline bool segment_alive(const struct segment *s)
{
	return host_load_acquire(&s->arena.header->alive) == s->alive_value;
}

/* Connects to the service at path and maps its arena; the caller is the first user. The
 * errors are those of lodic_attach(). */
int segment_open(const char *path, struct segment **ret_segment);

/* One user less; the last one unmaps it. lodic.lock is held. */
void segment_put(struct segment *segment);

/* Sends one request and receives its reply. fd < 0: there is no descriptor to send.
 * timeout_ms < 0: waits as long as the service lives. Descriptors that come back are
 * ret_fds[0..*ret_nr); with NULL the function closes them. */
int segment_request(struct segment *s, const struct wire_request *request, int fd,
                    int timeout_ms, struct wire_reply *ret_reply, int *ret_fds,
                    u32 *ret_nr);

/* Waits until the service has done what it could for every hint posted before. */
int segment_sync(struct segment *segment);

#endif
