/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A planned restart: this process takes the place of the service that listens at its socket, and
 * what that has cached along (ADR-0027). It does so before it has a client of its own.
 *
 *   successor                                   the old service
 *   SUCCEED, with the lock file ------------->  a channel of its own (hand.h)
 *   HAND_ARENA ------------------------------>  maps the arena, like a reader
 *   makes an arena and a lease thread           serves
 *   HAND_FILE, for each file ---------------->  its path, as a descriptor
 *   opens it again, takes a lease               has a lease, too
 *   HAND_FRAMES, for each page -------------->  what eviction thinks of the frames
 *   copies the blocks, as a reader              serves, fills, evicts
 *   HAND_STAY, each second ------------------>  knows that it is at work
 *     -- files and blocks once more, for what came meanwhile --
 *   HAND_OVER ------------------------------->  listening socket, lock
 *   tells its manager
 *   HANDED ---------------------------------->  hears nobody new; is dead; gives its leases back
 *   serves                                      ends
 *
 * Programs see that the old one is dead, and attach again by the same path (lib/client/attach.h).
 *
 * Invariants.
 * HO1 before the successor publishes a block, it looks at the old proof of the file and at the old
 *     alive mark. Both must hold after the copy. Its own proof of the file began before that look.
 *     So the bytes are those that the file had when its own proof held. If that still holds at
 *     the publication (O20), no writer has come between. Shape as RS1 in carry.h.
 * HO2 each file has a lease of either service until the old one is dead. A writer waits for both,
 *     and each revokes its own arena's file first (L1). No lease changes its owner. So there is no
 *     moment at which nobody answers.
 * HO3 what a successor asks for changes nothing in the old service, up to HANDED. If the successor
 *     dies before that, the old one goes on, and has nothing to undo.
 * HO4 the lock is one open file that both have. It is free when neither lives. The old service
 *     leaves lock file and path in place from HANDED on.
 * HO5 the old service ends only after HANDED. The successor sends that when it has the socket, the
 *     lock, and a lease for all that it has cached.
 * HO6 if the old service dies, at any moment, the successor takes the lock as any service does. It
 *     keeps what it has copied so far: that stands on its own leases. If the old one ends in order
 *     before HANDED, nobody serves: an administrator stops all that serves at a path. The old one
 *     says so in a farewell, and removes lock and path. Before that it looks once at what has
 *     come from a successor that has the socket: HANDED may wait there. Then the successor
 *     serves, and the answer to a request to stop says so. If the farewell cannot be sent, the
 *     successor may go on: then lock and path stay, too.
 *
 * HO7 one successor at a time has the place. A hang-up gives it back at once. One that says
 *     nothing for SERVICE_SUCCESSOR_MS loses it to the next that announces itself. The old
 *     service writes it a farewell before it hangs up. One that has the socket keeps its place
 *     until that is sent. A successor that finds it does not serve, even if it has
 *     socket and lock, and the old service has died meanwhile. Nor does one that could not send
 *     HANDED, or that meets a reset while the old arena is alive. The kernel marks a dead one's
 *     arena before it closes anything. So of two that have them one serves. While one has them,
 *     no other arena takes the old one's place.
 *
 * What is not here: holds and refused files. Holds stay with those that have them.
 */
#ifndef LODIC_LIB_SERVICE_SUCCESSION_TAKEOVER_H
#define LODIC_LIB_SERVICE_SUCCESSION_TAKEOVER_H

#include "lib/service/base/base.h"

struct service;

struct takeover;

/* Finds the service at base.socket_path. *ret_takeover is NULL if there is none. The errors are
 * those of service_run(). takeover_end() may be called in any case, and leaves the old service as
 * it is. */
int takeover_begin(struct service *s, struct takeover **ret_takeover,
                   const char **ret_why);
/* The size of the other one's arena. */
u64 takeover_cache_bytes(const struct takeover *t);
/* Takes files and blocks along. The arena of s is there, and empty. -EINTR: a signal has come. */
int takeover_cache(struct service *s, struct takeover *t, const char **ret_why);
/* Takes the old one's place. When it returns 0, s listens. -ECONNRESET: the old one has died, and s
 * must listen by itself. */
int takeover_place(struct service *s, struct takeover *t, const char **ret_why);
void takeover_end(struct takeover *t);

#endif
