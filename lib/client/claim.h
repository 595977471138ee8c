/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A file's slot and id in one segment, or the reason why it has none. */
#ifndef LODIC_LIB_CLIENT_CLAIM_H
#define LODIC_LIB_CLIENT_CLAIM_H

#include "core/cache/cache.h"
#include "lib/client/segment.h"

struct lodic_file;

struct claim {
	u64 generation;         /* GENERATION_UNCLAIMED: not cached, see reason */
	u64 first;              /* the file's block 0: block_id(id, 0) */
	u64 size;               /* as long as the claim is good (S3) */
	struct cache_file core; /* its proof, and its id */
	u32 slot;
	u64 reason;              /* why it is not cached: an errno; atomic, relaxed */
	struct lodic_file *file; /* whose claim it is */
	struct claim *older; /* other threads may still look at it: freed at close */
};

/* lodic.lock is held for each of these. segment is the current one; NULL: none. */

/* Asks the service for the file behind fd. A claim that the service refuses is unclaimed
 * and says why. NULL: there is no memory. */
struct claim *claim_make(struct segment *segment, struct lodic_file *file, int fd);
/* Tells the service that the claim's file is closed. Does not free the claim. */
void claim_release(struct segment *segment, const struct claim *claim);
/* Is the claim worth keeping: in the current segment, and not revoked? */
bool claim_is_good(const struct segment *segment, const struct claim *claim);

#endif
