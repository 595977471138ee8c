/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Reads that are stuck: they take so long that nobody waits for them any more, nor for their
 * frames. */
#ifndef LODIC_LIB_SERVICE_FRAME_STUCK_H
#define LODIC_LIB_SERVICE_FRAME_STUCK_H

#include "lib/service/base/base.h"

struct fill_op;
struct frames;

/* now: host_now_ns(). */
bool stuck_is(const struct fill_op *op, u64 now);
/* How many reads are; far: only of files that may not answer. */
u32 stuck_nr(const struct frames *s, bool far);
/* Is no read under way, or none that is not stuck? */
bool stuck_all(const struct frames *s);

#endif
