/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files read by lent descriptors: the library's half of the shim of `lodic run`. The shim runs
 * inside a program that knows nothing of it. So these functions never wait, keep no descriptor
 * of a file, and serve a read wholly from the cache or not at all. The program's own pread(2)
 * does the rest.
 *
 * Why no descriptor. A close() in this process drops the program's fcntl() locks on the file,
 * also the close of a duplicate. And a duplicate that somebody has closed would lead elsewhere.
 * So the caller lends a descriptor for one call, and the service says which file it was.
 *
 * A lent file is a place in the caller's table. The caller may use the place for another file
 * at any time, while other threads read there.
 *
 * D11 name says which file the place is for. It is never 0 for a file, and never used again. A
 *    read gives the name that it means, and is refused if the place has another.
 * D12 a writer makes version odd, release fence, stores; then it makes version even, with release
 *    order. A reader copies the words between two looks at version (acquire). So its copy is of
 *    one time, or it throws it away. Such a copy proves itself. Its id is good for one file
 *    only, and the read looks last whether the service still vouches for it (O22).
 * D13 an answer of the service counts only if the place still has the name that was asked for.
 *    Also, the file that was sent must be (dev, ino). Otherwise the service gets it back.
 * D14 a hold is taken only by the call that has asked for it, in one of its later steps. If
 *    another thread meets the answer, the memory goes, and the call asks once more. For a moment
 *    after the question other calls for holds leave the answer alone, unless it yields.
 *
 * A program that gives up rights leaves the service: lent_leave() for the attachment, for each
 * context and for each place. Other threads may be in lent_read(): rules LV1 and LV2 of segment.h.
 */
#ifndef LODIC_LIB_CLIENT_LENT_H
#define LODIC_LIB_CLIENT_LENT_H

#include "core/cache/cache.h"
#include "lib/client/context.h"

/* Zeroed: for no file, with nothing at the service. */
struct lent_file {
	/* D12: readers copy these. */
	u64 version;
	u64 name;
	u64 generation; /* of the segment where it is cached; GENERATION_NONE: nowhere */
	u64 id;
	u64 size;
	u64 proof; /* a struct file_proof's address */

	/* Under the caller's lock. */
	struct lodic *lodic; /* to which it was last asked */
	u64 slot;
	u64 dev, ino;
	u64 asked;      /* the name for which an answer is on its way; 0: none */
	u64 hold_turn;  /* how often its hold was asked for */
	u64 hold_asked; /* the turn for which an answer is on its way; 0: none */
	bool hold_yields; /* that question does */
	struct lent_wish *wish; /* of the thread that looks for answers now; or NULL */
	bool told;              /* the service has it back */
	/* Why it is not cached: an errno with its reason (RE1), but positive; atomic, relaxed. */
	u64 reason;
	struct retry retry;
};

#define LENT_SOCKET_BYTES \
	108 /* a socket's path, with its end: an address holds no more */

/* Where that user's service listens, or would. false: no folder there is that user's alone. */
bool lent_socket_of(u32 user, char path[LENT_SOCKET_BYTES]);
/* An attachment that is not connected yet: lent_step() does that. trusted: the user whose service
 * is believed beside the own one, as the settings say. They are not read here, because a user's
 * home may not answer. -ENOMEM, -EPERM: as lodic_attach(). */
#define LENT_NO_USER UINT32_MAX
int lent_attach(const char *socket, u32 trusted, struct lodic **ret_lodic);
/* A context that has no seat yet. It only reads. -ENOMEM. */
int lent_context(struct lodic *lodic, struct lodic_context **ret_context);
/* Connects, as far as that goes without waiting. */
void lent_connect(struct lodic *lodic);

/* One thread at a time may call the functions from here to lent_reason(), but for lent_map(). The
 * caller has a lock for that. */

/* The place is for this file from now on. Its old file must have gone (lent_give_back()). */
void lent_begin(struct lent_file *file, u64 name, u64 dev, u64 ino);
/* Goes one step towards the file's being cached. fd leads to the file, as far as the caller
 * knows. The kernel has just read the bytes at offset: the service will bring in their blocks when
 * it opens the file. Only the context's owner may call it. */
void lent_step(struct lodic_context *context, struct lent_file *file, int fd,
               u64 offset, u64 bytes);
/* What lent_hold() gives. */
struct lent_take {
	u64 bytes; /* what the file must have */
	/* The memory begins with the file's first byte, and has whole pages. Nobody can change
	 * it. fd is closed afterwards. */
	void (*take)(void *ctx, int fd);
	void *ctx;
	/* Where lent_hold() notes the turn that it has asked in. 0 before the first step. */
	u64 *turn;
	/* Nobody waits for the answer. Other calls may take its turn, and then it asks again. */
	bool yields;
};
/* Goes one step towards the file's hold, and calls take() if it is there. It never waits. fd leads
 * to the file, as far as the caller knows. Rules: HD2, D13, D14.
 * 0: take() was called. The bytes are those that the file had at one moment after the call.
 * -EINPROGRESS: the service must answer something first; ask again.
 * -EALREADY: the service reads the file; ask again.
 * -ENOTCONN: there is no service, or it does not answer.
 * -EFBIG, -ENOSPC: there is no room.
 * Other errors are those of lodic_hold() and lodic_file_cached(). They may have a reason (RE1). */
int lent_hold(struct lodic *lodic, struct lent_file *file, int fd,
              const struct lent_take *take);
/* For take(): maps bytes from offset on where huge pages fit. protection, flags, and what it
 * returns, are as for mmap(2), but 0 or -errno. */
int lent_map(int fd, u64 offset, u64 bytes, int protection, int flags, void **ret_at);
/* Does the service that is there now still vouch for the file by this id? Then nobody has opened it
 * for writing since the service gave the id. No system call; an acquire fence must come before if
 * bytes were looked at. */
bool lent_vouches(const struct lodic *lodic, const struct lent_file *file, u64 id);
/* Nobody has the file open any more: tells the service. false: not now, try again later. */
bool lent_give_back(struct lent_file *file);
/* Nobody reads by the context for a while: gives its seat back. It may be used again. false: not
 * all is given back yet, try again later. */
bool lent_park(struct lodic_context *context);
/* Is the context's seat of a service that has gone? */
bool lent_is_dead(const struct lodic_context *context);
/* The service's generation; another one: the service has changed. */
u64 lent_generation(const struct lodic *lodic);
/* Hangs up, and lets go of the arena's memory at once. The service takes back all that this process
 * has there. Each context and each place needs its own call before the next lent_step(), which
 * would connect again. */
void lent_leave(struct lodic *lodic);
void lent_leave_context(struct lodic_context *context);
void lent_leave_file(struct lent_file *file);
/* After lent_leave(): the next service is the one at socket, from at_ns on. trusted: as for
 * lent_attach(), and the process may be another user's by now. false: there is no memory. */
bool lent_move(struct lodic *lodic, const char *socket, u32 trusted, u64 at_ns);
/* Does nobody listen at the socket, as far as the last try says? */
bool lent_is_alone(const struct lodic *lodic);
/* Why is the file not cached? An errno with its reason; 0: it is, or nobody knows yet. */
int lent_reason(const struct lodic_context *context, const struct lent_file *file);

/* Has the service said all that a read by this context needs to know, or is there none? Then nobody
 * need wait. The context's owner may call it. */
bool lent_is_answered(const struct lodic_context *context,
                      const struct lent_file *file);
/* Is it time for lent_step()? Any thread; a hint. */
bool lent_due(const struct lodic_context *context, const struct lent_file *file);

/*
 * Reads like preadv(2), with one to IOV_MAX vectors of at most SSIZE_MAX bytes together, from an
 * offset that is not negative. The context's owner alone calls it.
 * -EAGAIN: not all of it is cached. The service knows now that it is wanted.
 * -ESTALE: the file is not cached, or the place is not for name any more.
 * After an error the buffers may hold rubbish.
 */
ssize_t lent_read(struct lodic_context *context, const struct lent_file *file, u64 name,
                  const struct iovec *to, int nr, u64 offset);

#endif
