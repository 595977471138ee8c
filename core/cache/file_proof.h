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
 * S5 who answers for the end of a proof looks for it in a table. From the take on until the
 *    file is admitted and entered there, it must not look. Otherwise it overlooks the proof, or
 *    ends one that is admitted only then. One lock is held for all of the steps, and for each
 *    answer.
 * O4 live is stored with release, after the size, and loaded with acquire.
 *
 * Mutual exclusion: one thread at a time admits, revokes, begins or ends one file's proof. For
 * proofs that a host grants, the lock of S5 sees to it.
 * Any number of readers may look at the same moment.
 */
#ifndef LODIC_CORE_CACHE_FILE_PROOF_H
#define LODIC_CORE_CACHE_FILE_PROOF_H

#include "core/block.h"

struct file_proof {
	u64 live; /* the file's id, FILE_NONE when revoked or unused */
	u64 size; /* bytes */
	u64 unused[6];
};
_Static_assert(sizeof(struct file_proof) == 64, "a cache line each");

/* What the host does for a proof that somebody has to grant, as the kernel grants a lease.
 * lock, unlock: of the table, S5.
 * take: 0, and nobody can change the file until give_back(); or an error.
 * size: the file's size now, in bytes; or an error.
 * enter: into the table. */
struct file_proof_ops {
	void (*lock)(void *ctx);
	int (*take)(void *ctx);
	int (*size)(void *ctx, u64 *ret_size);
	void (*enter)(void *ctx);
	void (*give_back)(void *ctx);
	void (*unlock)(void *ctx);
};

/* The id under which the same entry's next file is admitted (S2). Ids of an entry are
 * nr_files apart, so an id says which entry it belongs to. FILE_NONE: all are spent. */
static inline u32 file_proof_next_id(u32 id, u32 nr_files)
{
	return id > (u32)-1 - nr_files ? FILE_NONE : id + nr_files;
}

/* Begins to vouch for file id (S3: the size first). */
static inline void file_proof_admit(struct file_proof *s, u32 id, u64 size)
{
	host_store_relaxed(&s->size, size);
	host_store_release(&s->live, id); /* O4, partner: file_proof_holds() */
}

/* Stops vouching (S1). When it returns, no read or pin that begins later believes the
 * cache. Any thread of the service may call it. */
static inline void file_proof_revoke(struct file_proof *s)
{
	host_store_relaxed(&s->live, FILE_NONE);
	host_fence_full();
}

/* The first half of file_proof_begin(). The table is locked (S5). */
static inline int file_proof_grant(struct file_proof *s, u32 id,
                                   const struct file_proof_ops *ops, void *ctx,
                                   u64 *ret_size)
{
	u64 size = 0;
	int err;

	err = ops->take(ctx);
	if (err)
		return err;
	err = ops->size(ctx, &size);
	if (err) {
		ops->give_back(ctx);
		return err;
	}
	file_proof_admit(s, id, size);
	*ret_size = size;
	return 0;
}

/* Takes a proof, asks for the size under it (S4), and begins to vouch for file id. Then it enters
 * the proof where its end is answered (S5). An error is one of ops'; then nothing has changed. */
static inline int file_proof_begin(struct file_proof *s, u32 id,
                                   const struct file_proof_ops *ops, void *ctx,
                                   u64 *ret_size)
{
	int err;

	ops->lock(ctx);
	err = file_proof_grant(s, id, ops, ctx, ret_size);
	if (!err)
		ops->enter(ctx);
	ops->unlock(ctx);
	return err;
}

/* Ends a proof: revokes, fences, and gives it back only then (S1). give_back() is the
 * system call after which a waiting writer goes on. The table is locked (S5). */
static inline void file_proof_end(struct file_proof *s, void (*give_back)(void *ctx),
                                  void *ctx)
{
	file_proof_revoke(s);
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
