/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A process's attachment: which segment is current, and how the next one is found. */
#ifndef LODIC_LIB_CLIENT_ATTACH_H
#define LODIC_LIB_CLIENT_ATTACH_H

#include <pthread.h>

#include "lib/client/retry.h"
#include "lib/client/segment.h"
#include "lib/client/start.h"

struct lodic {
	pthread_mutex_t lock;
	struct segment *segment; /* NULL: none now */
	struct retry retry;
	struct start start;
	u64 *mark; /* 1; the kernel wipes it in a forked child */
};

/* Is this process a forked child of the one that attached? */
static inline bool attach_forked(const struct lodic *lodic)
{
	return *lodic->mark == 0;
}

/* The current living segment with one more user; segment_put() ends that. If there is
 * none, it tries to get one when that is due. NULL: none now. lodic.lock is held. */
struct segment *attach_segment_get(struct lodic *lodic);

#endif
