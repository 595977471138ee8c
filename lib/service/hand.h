/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a successor in another process is given, request by request (takeover.h has the rules). Only
 * the main thread calls these. None changes what the service does, but for the last one (HO3).
 */
#ifndef LODIC_LIB_SERVICE_HAND_H
#define LODIC_LIB_SERVICE_HAND_H

#include "lib/service/client.h"
#include "lib/wire.h"

/* The file in slot, and the service's own descriptor of it in fds. -ENOENT: there is none.
 * -EBUSY: a resize is under way. */
int hand_file(struct service *s, u64 slot, struct wire_reply *reply, int *fds,
              u32 *ret_nr);
/* A byte for each frame from cursor on, as many as a page has. */
void hand_frames(const struct service *s, u64 cursor, struct wire_page *page);
/* The listening socket and the lock. Both stay this service's, too. -EBUSY: another successor has
 * them, or a resize is under way. */
int hand_over(struct service *s, struct client *c, struct wire_reply *reply, int *fds,
              u32 *ret_nr);
/* The successor serves from now on, and this service ends. -EINVAL: c is not the successor. */
int hand_end(struct service *s, struct client *c);

#endif
