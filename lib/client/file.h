/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* An open file: a descriptor of its own, and the claim on the service's cached copy. */
#ifndef LODIC_LIB_CLIENT_FILE_H
#define LODIC_LIB_CLIENT_FILE_H

#include "lib/client/claim.h"
#include "lib/client/context.h"

struct lodic_file {
	struct claim
		*claim; /* never NULL; atomic: acquire to read, release to replace */
	struct lodic *lodic;
	int fd;
	/* Both live until the file is closed, and so do those before claimed. */
	struct claim *none;    /* on nothing; claim is one of the two */
	struct claim *claimed; /* of the last segment where it was cached, or NULL */
	struct retry retry;    /* under lodic.lock; at_ns may be looked at without */
	struct misuse misuse;
};

static inline const struct claim *file_claim(const struct lodic_file *file)
{
	return (const struct claim *)host_load_acquire((const u64 *)&file->claim);
}

/* The file's claim, if it is good now. If not, the function asks for a new one first. It may
 * wait for the service, and starts one if none is there. lodic.lock is held.
 * -ESTALE: the file is not cached, or the service is away. -ETIMEDOUT, -ECONNRESET, -EPROTO,
 * -EPERM, -ENOMEM, -EMFILE: why there is no service. */
int file_claim_wait(struct lodic_file *file, const struct claim **ret_claim);
/* Asks for a new claim, though the old one looks good. The service has hung up once, and does
 * not know any more that this process has the file open. lodic.lock is held. */
void file_claim_anew(struct lodic_file *file);
/* There is no claim: tells the end of the file (-ENODATA) from a file that is not cached
 * (-ESTALE). */
int file_uncached(const struct lodic_file *file, off_t offset);

/* Why the file is not cached, with its reason. there: the service that it was cached by is there
 * still. It takes no lock: a reader must not wait. */
int file_why(const struct lodic_file *file, bool there);
/* A function that needs the file cached fails by err: notes the reason, and returns err. -ESTALE
 * gets the reason why the file is not cached. It never waits. */
int file_fails(const struct lodic_file *file, const struct lodic_context *context,
               int err);

/* Goes on towards a new claim, if the old one is bad and it is time to try. Never waits. */
void file_reclaim(struct lodic_file *file);

/* The file's claim, if it agrees with the context's seat and both are good. If not, the
 * function goes one step towards that. NULL: the caller must go to the kernel (no service,
 * not cached, forked). Never waits. */
const struct claim *file_tie(struct lodic_context *context, struct lodic_file *file);
/* The same, but waits for the service, and starts one if none is there. */
const struct claim *file_tie_wait(struct lodic_context *context,
                                  struct lodic_file *file);

#endif
