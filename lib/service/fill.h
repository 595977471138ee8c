/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* From a hint to a cached block. */
#ifndef LODIC_LIB_SERVICE_FILL_H
#define LODIC_LIB_SERVICE_FILL_H

#include "lib/service/state.h"

int fill_init(struct service *s);
void fill_fini(struct service *s);
/* Takes up to `most` hints out of each context's ring. */
void fill_take_hints(struct service *s, u32 most);
/* Begins reads. true: there is more to do at once. */
bool fill_run(struct service *s);
/* Publishes the reads that have come back. */
void fill_reap(struct service *s);
/* Waits until no read is under way. */
void fill_wait_all(struct service *s);
/* Is everything done that was asked for up to ticket? */
bool fill_is_past(const struct service *s, u64 ticket);
/* Takes a cached frame away from readers, out of its file and out of the eviction queues.
 * false: the frame is pinned. */
bool fill_take_back(struct service *s, u32 frame);
/* Asserts what must hold while no read is under way. */
void fill_check(struct service *s);

#endif
