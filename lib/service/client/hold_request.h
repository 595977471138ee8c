/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What clients ask about holds (lib/wire.h). */
#ifndef LODIC_LIB_SERVICE_CLIENT_HOLD_REQUEST_H
#define LODIC_LIB_SERVICE_CLIENT_HOLD_REQUEST_H

#include "lib/service/client/connection.h"
#include "lib/wire.h"

struct clients;

/* HOLD: 0: *ret_fd goes with the reply, and the caller closes it then. Otherwise it is -1.
 * -EINPROGRESS: the range is not ready; the reply has its number.
 * -EINVAL: the client does not have the file open. -ESTALE: the file has changed.
 * -ENODATA: the offset lies at or after the file's end. -EFBIG: more than all holds may have.
 * -ENOSPC: there is no room. -ENFILE, -ENOMEM. -EOPNOTSUPP: there is no /proc, or the
 * kernel has no leases.
 * -EAGAIN: the program has HOLDS_EACH ranges that are being read.
 *
 * HOLD_FD: the same. -ESTALE: there is no such hold, or this process never had it.
 *
 * HOLD_WAIT: -EINPROGRESS: the reply comes later (hold_table_settled()). -EBUSY: the connection
 * waits already. Another value is the reply's. */
int hold_request(struct clients *s, struct client *c,
                 const struct wire_request *request, struct wire_reply *reply,
                 int *ret_fd);

#endif
