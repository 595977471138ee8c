/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* An open file: a descriptor of its own, and the claim on the service's cached copy. */
#ifndef LODIC_LIB_CLIENT_FILE_H
#define LODIC_LIB_CLIENT_FILE_H

#include "lib/client/claim.h"
#include "lib/client/context.h"

/* How often one open file may be cached anew after somebody wrote to it. Claims live until
 * the file is closed, because other threads may be looking at them. A file that is
 * written so often is not worth caching. */
#define MAX_CLAIMS 4096u

struct lodic_file {
	struct claim
		*claim; /* never NULL; atomic: acquire to read, release to replace */
	struct lodic *lodic;
	int fd;
	u32 nr_claims;
	struct retry retry; /* under lodic.lock; at_ns may be looked at without */
	struct misuse misuse;
};

static inline const struct claim *file_claim(const struct lodic_file *file)
{
	return (const struct claim *)host_load_acquire((const u64 *)&file->claim);
}

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
