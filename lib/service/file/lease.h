/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Leases on files and watches beside them, as the main thread takes and drops them. lease.c says
 * who answers breaks. */
#ifndef LODIC_LIB_SERVICE_FILE_LEASE_H
#define LODIC_LIB_SERVICE_FILE_LEASE_H

#include "lib/service/base/base.h"

struct files;

/* Starts the thread, which marks the service alive. -ENOMEM. -EAGAIN: no more threads are allowed.
 * -ENOSYS, -EPERM: its death would not be marked (mark.h); ret_why says so. */
int lease_start(struct files *s, const char **ret_why);
/* The thread marks the service dead, gives all leases back and ends. Each of the two
 * functions returns when that is done. */
void lease_stop(struct files *s);
/* Takes a lease on fd and, under it, begins to vouch for file id in slot.
 * ret_size is the file's size under the lease. The lease thread answers its break.
 * -EACCES: this is not the owner's process, and it has no CAP_LEASE.
 * -ETXTBSY: a writer has the file open.
 * -ENODATA: the file is empty.
 * -EOPNOTSUPP: its file system has no leases.
 * -ENOLCK: the kernel grants no further watch.
 * -ENOMEM: there is no memory.
 * It waits for the lease thread's answer to a break at most. */
int lease_take(struct files *s, int fd, u32 slot, u32 id, u64 *ret_size);
/* Begins to vouch for a file that has another proof, and to watch it. fd must be of a local file.
 * -ENOLCK, -ENOMEM: as lease_take() says. */
int lease_watch(struct files *s, int fd, u32 slot, u32 id, u64 size);
/* Stops vouching for the file in slot, if the lease thread has not done so before. When the
 * function returns, the service has no lease on the descriptor and no watch, and it may be closed.
 * It waits as lease_take() does. */
void lease_drop(struct files *s, u32 slot);
/* Calls each() for slots of files that the lease thread has revoked since the last call. It does so
 * for most of them at most; the others wait. A slot may have another file by now. Returns for how
 * many. */
u32 lease_each_broken(struct files *s, u32 most, void (*each)(void *ctx, u32 slot));
/* Makes lease_broken_event() readable: there may be more. */
void lease_broken_again(const struct files *s);
/* Why; only for a file in slot that the lease thread has revoked. */
enum lease_end {
	LEASE_WRITTEN, /* a writer has come */
	LEASE_RIGHTS,  /* in a group: its mode, owner or path has changed */
	LEASE_LOST     /* any of these may be: L6 */
};
enum lease_end lease_why(const struct files *s, u32 slot);
/* The same as lease_each_broken() for files whose attributes have changed, and that it vouches for
 * as before: a name may have gone. It calls it for most of them at most; the others wait.
 * Returns for how many. */
u32 lease_each_touched(struct files *s, u32 most, void (*each)(void *ctx, u32 slot));
/* An event: readable when there is something for one of these two since it was last read. */
int lease_broken_event(const struct files *s);

#endif
