/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A file's slot and id in one segment, or the reason why it has none. */
#ifndef LODIC_LIB_CLIENT_CLAIM_H
#define LODIC_LIB_CLIENT_CLAIM_H

#include "core/cache/cache.h"
#include "lib/client/segment.h"

struct lodic_file;

struct claim {
	/* GENERATION_UNCLAIMED: not cached, see reason. In each layout of inline.h the first
	 * word, and never 0. */
	u64 generation;
	u64 first;              /* the file's block 0: block_id(id, 0) */
	u64 size;               /* as long as the claim is good (S3) */
	struct cache_file core; /* its proof, and its id */
	u32 slot;
	bool told;               /* the service knows that it is given up; lodic.lock */
	u64 reason;              /* why it is not cached: an errno; atomic, relaxed */
	struct lodic_file *file; /* whose claim it is */
	struct claim *older; /* other threads may still look at it: freed at close */
};

/* A claim on nothing, for that reason (an errno > 0). NULL: there is no memory. */
struct claim *claim_make_none(struct lodic_file *file, u64 reason);
/* The claim that the service's answer to FILE_OPEN gives, or one on nothing. NULL: there is
 * no memory. lodic.lock is held, and segment is the current one. */
struct claim *claim_make(struct lodic_file *file, const struct segment *segment,
                         const struct channel_reply *reply);
/* Is the claim worth keeping: in the current segment, and not revoked? lodic.lock is held.
 * segment is the current one; NULL: none. */
bool claim_is_good(const struct segment *segment, const struct claim *claim);

#endif
