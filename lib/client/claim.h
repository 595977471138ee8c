/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A file's slot and id in one segment, or the reason why it has none.
 *
 * A file that is written to gets a new id each time. Its claim in this segment stays, and its
 * words change in place, while other threads read by it. So a file may be written for ever. An
 * open one keeps two claims, and one more for each service that has ended since.
 *
 * CL1 generation and file never change. What else a reader needs it loads in this order: first
 *    (acquire), size (acquire), the proof. The id is a part of first, so that the id that is
 *    vouched for is that of the block that was read.
 * CL2 the service has ended the old id before it answers with a new one. Then come a release
 *    fence, the proof and size, and last first (release). A reader that has the new first has the
 *    new size and proof. One that has the old first, and anything new, finds that nobody vouches
 *    for the old id (O22). No id comes again in a generation.
 * CL3 a view has the claim's address only, and the claim may be of a later id by now. So the id
 *    that must be vouched for is that of the frame's block. It is loaded before seq, which says
 *    that it is the view's.
 */
#ifndef LODIC_LIB_CLIENT_CLAIM_H
#define LODIC_LIB_CLIENT_CLAIM_H

#include "core/cache/cache.h"
#include "lib/client/segment.h"

struct lodic_file;

struct claim {
	/* GENERATION_UNCLAIMED: not cached, see reason. In each layout of inline.h the first
	 * word, and never 0. */
	u64 generation;
	u64 first;               /* the file's block 0: block_id(id, 0); atomic (CL1) */
	u64 size;                /* as long as the claim is good (S3); atomic */
	struct cache_file core;  /* its proof (atomic), and its id (lodic.lock) */
	u32 slot;                /* lodic.lock */
	bool told;               /* the service knows that it is given up; lodic.lock */
	/* Why it is not cached: an errno with its reason (RE1), but positive; atomic, relaxed. */
	u64 reason;
	struct lodic_file *file; /* whose claim it is */
	struct claim *older; /* other threads may still look at it: freed at close */
};

/* What a reader takes of a claim (CL1). */
static inline u64 claim_first(const struct claim *claim)
{
	return host_load_acquire(&claim->first);
}

/* After claim_first(). */
static inline u64 claim_size(const struct claim *claim)
{
	return host_load_acquire(&claim->size);
}

/* After claim_size(), also after the bytes. block: the first one, or another one that was read. */
static inline struct cache_file claim_core(const struct claim *claim, u64 block)
{
	return (struct cache_file){
		.proof = (const struct file_proof *)host_load_relaxed(
			(const u64 *)&claim->core.proof),
		.id = block_file(block),
	};
}

/* A claim on nothing, for that reason. NULL: there is no memory. */
struct claim *claim_make_none(struct lodic_file *file, u64 reason);
/* Why the service's answer to FILE_OPEN gives no claim; 0: it does. */
int claim_refused(const struct segment *segment, const struct channel_reply *reply);
/* The claim that the service's answer gives. NULL: there is no memory. lodic.lock is held, and
 * segment is the current one. */
struct claim *claim_make(struct lodic_file *file, const struct segment *segment,
                         const struct wire_reply *wire);
/* Puts the answer in place of what the claim says, which is of the same segment. Other threads may
 * read by it (CL2). */
void claim_renew(struct claim *claim, const struct segment *segment,
                 const struct wire_reply *wire);
/* Is the claim worth keeping: in the current segment, and not revoked? lodic.lock is held.
 * segment is the current one; NULL: none. */
bool claim_is_good(const struct segment *segment, const struct claim *claim);

#endif
