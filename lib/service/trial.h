/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A service in the caller's own process, which `lodic bench service` measures. Turns and fences are
 * those of service_run(). Frames are taken by the functions by which fills take them. One thread
 * makes all calls.
 */
#ifndef LODIC_LIB_SERVICE_TRIAL_H
#define LODIC_LIB_SERVICE_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/service/service.h"
#include "lodic/lodic.h"

struct service_trial;

/* As service_run(), but it returns when clients can connect. The caller's signals stay as they
 * are, and the service's threads get none. */
int service_trial_open(const struct service_options *options,
                       struct service_trial **ret_trial, const char **ret_why);
void service_trial_close(struct service_trial *t);

/* From now on no turn sleeps while fd is readable. 0 or -errno. */
int service_trial_wake(struct service_trial *t, int fd);
/* One turn of the main loop. It may sleep, for a tick at most while a client is connected.
 * Returns the CPU time that the calling thread has spent on it, in ns. */
uint64_t service_trial_turn(struct service_trial *t);

/* The numbers behind lodic_stat(), now; but "pinned" is that of the last request. */
void service_trial_stat(const struct service_trial *t, struct lodic_stat *ret_stat);

/* From now on the next two functions give frames blocks of this file, which a client has open.
 * Nothing is read: a hole has the bytes that the frames have. -ENOENT: it is not held. */
int service_trial_use(struct service_trial *t, uint64_t ino);
/* Gives nr free frames, in random order, blocks that were not cached. Returns how many are
 * still free. */
uint32_t service_trial_stock(struct service_trial *t, uint32_t nr);

struct service_trial_evicted {
	uint32_t frames; /* taken out of the cache */
	uint64_t ns;     /* CPU time of the calling thread */
};

/* A turn's part of eviction, for as many fills as may be under way at once. Outside of the time
 * the frames get new blocks, and readers come by a quarter of those. The call waits while a
 * fence is under way and no frame is free, for 100 ms at most. */
void service_trial_evict(struct service_trial *t, struct service_trial_evicted *ret);
/* The blocks that have come last: from the one returned up to, and without, *ret_end. */
uint64_t service_trial_newest(const struct service_trial *t, uint64_t nr,
                              uint64_t *ret_end);

/* Makes the heavy fence that a batch waits for. Returns how long it took by the clock, in ns. */
uint64_t service_trial_fence(const struct service_trial *t);

#endif
