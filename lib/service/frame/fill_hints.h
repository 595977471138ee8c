/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The queue between readers' hints and the reads that they lead to, for fill.c. */
/* The two call each other: the other half is fill.h. */
#ifndef LODIC_LIB_SERVICE_FRAME_FILL_HINTS_H
#define LODIC_LIB_SERVICE_FRAME_FILL_HINTS_H

#include "lib/service/base/base.h"

struct fill_queue;
struct fill_range;
struct frames;

/* Behind the others; there is room. */
void fill_queue_push(struct fill_queue *queue, const struct fill_range *range);
/* The same, or it makes the last one longer. A full queue drops it. */
void fill_queue_add(struct fill_queue *queue, const struct fill_range *range);
/* To the front; there is room, because it was popped just now. */
void fill_queue_put_back(struct fill_queue *queue, const struct fill_range *range);
struct fill_range fill_queue_pop(struct fill_queue *queue);
/* The frame that holds block, FRAME_NONE: there is none. */
u32 fill_frame(const struct frames *s, u64 block);
/* Is the file's block being read? */
bool fill_is_under_way(const struct frames *s, u32 id, u64 index);

#endif
