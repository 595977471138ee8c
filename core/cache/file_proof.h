/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One file of an arena, and whether something still proves that nobody changes it. Its
 * block -> frame translation is the arena's (core/cache/translation.h). The service writes
 * these words, readers load them.
 *
 * Rules
 * S1 live holds the file's id exactly while the proof holds. To end a proof, the service
 *    stores FILE_NONE here, then a full fence, then lets the writer go on.
 * S2 a file's id is never used again in this arena. So a reader that finds its own id here
 *    after it has copied or pinned had the proof all the while.
 * S3 size stands still while live is not FILE_NONE.
 * S4 the size is asked for under the proof, so that no writer can change it afterwards.
 * O4 live is stored with release, after the size, and loaded with acquire.
 *
 * Mutual exclusion: one thread at a time admits, revokes, begins or ends one file's proof.
 * Any number of readers may look at the same moment.
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

/* What the host does for a proof that somebody has to grant, as the kernel grants a lease.
 * take: 0, and nobody can change the file until give_back(); or an error.
 * size: the file's size now, in bytes; or an error. */
struct file_proof_ops {
	int (*take)(void *ctx);
	int (*size)(void *ctx, u64 *ret_size);
	void (*give_back)(void *ctx);
};

/* The id under which the same entry's next file is admitted (S2). Ids of an entry are
 * nr_files apart, so an id says which entry it belongs to. FILE_NONE: all are spent. */
static inline u32 file_proof_next_id(u32 id, u32 nr_files)
{
	if (MUTANT(ID_USED_AGAIN))
		return id;
	return id > (u32)-1 - nr_files ? FILE_NONE : id + nr_files;
}

/* Begins to vouch for file id (S3: the size first). */
static inline void file_proof_admit(struct file_proof *s, u32 id, u64 size)
{
	if (MUTANT(ADMIT_LIVE_FIRST))
		host_store_release(&s->live, id);
	host_store_relaxed(&s->size, size);
	host_store_release(&s->live, id); /* O4, partner: file_proof_holds() */
}

/* Stops vouching (S1). When it returns, no read or pin that begins later believes the
 * cache. Any thread of the service may call it. */
static inline void file_proof_revoke(struct file_proof *s)
{
	host_store_relaxed(&s->live, FILE_NONE);
	if (!MUTANT(REVOKE_WITHOUT_FENCE))
		host_fence_full();
}

/* Takes a proof, asks for the size under it (S4), and begins to vouch for file id. An error
 * is one of ops'; then nothing has changed. */
static inline int file_proof_begin(struct file_proof *s, u32 id,
                                   const struct file_proof_ops *ops, void *ctx,
                                   u64 *ret_size)
{
	u64 size = 0;
	int err = MUTANT(SIZE_BEFORE_LEASE) ? ops->size(ctx, &size) : 0;

	if (!err)
		err = ops->take(ctx);
	if (err)
		return err;
	if (!MUTANT(SIZE_BEFORE_LEASE))
		err = ops->size(ctx, &size);
	if (err) {
		ops->give_back(ctx);
		return err;
	}
	file_proof_admit(s, id, size);
	*ret_size = size;
	return 0;
}

/* Ends a proof: revokes, fences, and gives it back only then (S1). give_back() is the
 * system call after which a waiting writer goes on. */
static inline void file_proof_end(struct file_proof *s, void (*give_back)(void *ctx),
                                  void *ctx)
{
	if (MUTANT(LEASE_BACK_FIRST))
		give_back(ctx);
	file_proof_revoke(s);
	if (!MUTANT(LEASE_BACK_FIRST))
		give_back(ctx);
}

/* Does the proof for id still hold? Acquire, so that what the caller loads next is not
 * older. The caller must order what it read or pinned before: by an acquire fence, or by the
 * full fence of its atomic step. */
static inline bool file_proof_holds(const struct file_proof *s, u32 id)
{
	return host_load_acquire(&s->live) == id;
}

#endif
