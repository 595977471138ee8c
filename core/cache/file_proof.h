/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A file space in an arena: one file, held under a proof that nobody changes it. Its
 * block -> frame translation is the arena's (core/cache/translation.h). The service writes,
 * readers load.
 *
 * Rules
 * S1 live holds the file's id exactly while the proof holds. Whoever takes the proof
 *    away first stores FILE_NONE here, then a full fence, then lets the writer go on.
 * S2 a file's id is never used again in this arena, so a reader that finds its own id
 *    here after it has copied or pinned had the proof all the while.
 * S3 size stands still while live is not FILE_NONE.
 * O4 live is stored with release, after the size, and loaded with acquire.
 */
#ifndef LODIC_CORE_CACHE_FILE_PROOF_H
#define LODIC_CORE_CACHE_FILE_PROOF_H

#include "core/block.h"
#include "core/mutant.h"

struct file_proof {
	u64 live; /* the file's id, FILE_NONE when revoked or unused */
	u64 size; /* bytes */
	u64 unused[6];
};
_Static_assert(sizeof(struct file_proof) == 64, "a cache line each");

/* Begins to vouch for file id (S3: the size first). */
static inline void file_proof_admit(struct file_proof *s, u32 id, u64 size)
{
	if (MUTANT(ADMIT_LIVE_FIRST))
		host_store_release(&s->live, id);
	host_store_relaxed(&s->size, size);
	host_store_release(&s->live,
	                   id); /* O4, partner: the load in file_proof_holds() */
}

/* Stops vouching (S1). When it returns, no read or pin that begins later believes the
 * cache. May be called by any thread of the service. */
static inline void file_proof_revoke(struct file_proof *s)
{
	host_store_relaxed(&s->live, FILE_NONE);
	if (!MUTANT(REVOKE_WITHOUT_FENCE))
		host_fence_full();
}

/* Does the proof for id still hold? Acquire, so that what the caller loads next is not
 * older; what it copied before is ordered by its own fence or cas. */
static inline bool file_proof_holds(const struct file_proof *s, u32 id)
{
	return host_load_acquire(&s->live) == id;
}

#endif
