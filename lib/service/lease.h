/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Leases on files, as the main thread takes and drops them. lease.c says who answers breaks. */
#ifndef LODIC_LIB_SERVICE_LEASE_H
#define LODIC_LIB_SERVICE_LEASE_H

#include "lib/service/state.h"

/* Starts the thread, which marks the service alive. 0 or -errno. */
int lease_start(struct service *s);
/* The thread marks the service dead, gives all leases back and ends. Each of the two
 * functions returns when that is done. */
void lease_stop(struct service *s);
/* Takes a lease on fd and, under it, begins to vouch for file id in slot.
 * ret_size is the file's size under the lease. The lease thread answers its break.
 * -EACCES: this is not the owner's process, and it has no CAP_LEASE.
 * -ETXTBSY: a writer has the file open.
 * -ENODATA: the file is empty.
 * -EOPNOTSUPP: its file system has no leases.
 * -ENOMEM: there is no memory.
 * It waits for the lease thread's answer to a break at most. */
int lease_take(struct service *s, int fd, u32 slot, u32 id, u64 *ret_size);
/* Stops vouching for the file in slot, if a writer has not made the lease thread stop before.
 * When the function returns, the service has no lease on the descriptor, and it may be closed.
 * It waits as lease_take() does. */
void lease_drop(struct service *s, u32 slot);
/* Calls each() for the slots of files that the lease thread has revoked because of a writer,
 * since the last call. A slot may have another file by now. */
void lease_each_broken(struct service *s, void (*each)(struct service *s, u32 slot));
/* An eventfd: readable when the thread has revoked a file since it was last read. */
int lease_broken_event(const struct service *s);

#endif
