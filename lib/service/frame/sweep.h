/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Readers' visits, collected and counted. */
#ifndef LODIC_LIB_SERVICE_FRAME_SWEEP_H
#define LODIC_LIB_SERVICE_FRAME_SWEEP_H

#include "lib/service/base/base.h"

struct frames;

/* Cache lines that sweep_collect() touches for each frame: its name, and its file. */
#define SWEEP_FRAME_LINES 2u

/* Collects visits as arena_visits() does, and counts them as hits of the frames' files. */
void sweep_collect(struct frames *s, u32 first, u32 nr, u8 *ret_visits);
/* The main loop calls it at each tick. It passes some frames on. */
void sweep_tick(struct frames *s);

#endif
