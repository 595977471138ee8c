/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The lease thread, as the main thread sees it. */
#ifndef LODIC_LIB_SERVICE_LEASE_H
#define LODIC_LIB_SERVICE_LEASE_H

#include "lib/service/state.h"

/* Starts the thread, which marks the service alive. 0 or -errno. */
int lease_start(struct service *s);
/* The thread marks the service dead, gives all leases back and ends. Each of the two
 * functions returns when that is done. */
void lease_stop(struct service *s);
/* The thread takes a lease on fd and, under it, begins to vouch for file id in slot.
 * ret_size is the file's size under the lease.
 * -EACCES: this is not the owner's process, and it has no CAP_LEASE.
 * -ETXTBSY: a writer has the file open.
 * -ENODATA: the file is empty.
 * -EOPNOTSUPP: its file system has no leases.
 * -ENOMEM: there is no memory. */
int lease_take(struct service *s, int fd, u32 slot, u32 id, u64 *ret_size);
/* The thread stops vouching for the files in nr slots, if a writer has not made it stop before.
 * When the function returns the thread has forgotten the files' descriptors. An order costs two
 * changes of thread, so one should be for several files. */
#define LEASE_DROPS 16u
void lease_drop(struct service *s, const u32 *slots, u32 nr);
/* Calls each() for the slots of files that the thread has revoked because of a writer, since
 * the last call. A slot may have another file by now. */
void lease_each_broken(struct service *s, void (*each)(struct service *s, u32 slot));
/* An eventfd: readable when the thread has revoked a file since it was last read. */
int lease_broken_event(const struct service *s);

#endif
