/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The mover: it brings cached blocks from tier to tier while readers go on. Core says how
 * (core/cache/move.h). Only the main thread comes here.
 *
 * A policy names frames one by one, and a user files. Frames go in batches, each with one fence. A
 * turn touches TURN_LINES cache lines at most. A frame that is pinned, or on its way out of the
 * cache, stays where it is, and nobody waits for it.
 */
#ifndef LODIC_LIB_SERVICE_FRAME_MOVER_H
#define LODIC_LIB_SERVICE_FRAME_MOVER_H

#include "lib/service/base/base.h"
#include "lib/service/tier/tier.h"

struct frames;

/* 0 at once where there is one tier. -ENOMEM. */
int mover_init(struct frames *s);
void mover_fini(struct frames *s);

/* Moves all frames of a held file that lie elsewhere, as far as there is room. The file's new
 * blocks go there, too. -ENOTSUP: there is one tier. -EPERM: a policy decides.
 * -EAGAIN: too many files wait. */
int mover_file(struct frames *s, u32 slot, enum tier to);

/* The same at a user's wish, for the held file (dev, ino). -ENOENT: there is none.
 * -EINVAL: there is no such tier. */
int mover_request(struct frames *s, u64 to, u64 dev, u64 ino);

/* One turn. true: there is more to do at once. */
bool mover_run(struct frames *s);
/* Is nothing under way, and does no file wait? */
bool mover_is_idle(const struct frames *s);

#endif
