/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Frames out of the cache: victims, orphans, and a stock of free frames. Only the main thread
 * comes here.
 */
#ifndef LODIC_LIB_SERVICE_FRAME_EVICT_H
#define LODIC_LIB_SERVICE_FRAME_EVICT_H

#include "core/cache/reclaim.h"
#include "lib/service/base/base.h"

struct frames;

/* What evict_get() says. */
enum evict_next {
	EVICT_GOT,   /* there is a free frame at least */
	EVICT_SPENT, /* the next turn goes on */
	EVICT_FENCE, /* a fence or a read is under way; frames may be free when it is over */
	EVICT_NONE, /* all frames are pinned */
};

/* What needs the arena: after memory_make(). */
int evict_init(struct frames *s);
void evict_fini(struct frames *s);
/* A fence may be over. */
void evict_fenced(struct frames *s);

/* Are frames on their way out? */
bool evict_is_busy(const struct frames *s);

/* One turn: keeps the stock, and ends what is under way. true: there is more to do at once. */
bool evict_run(struct frames *s);
/* Now and then: adapts the stock to what fills have needed. */
void evict_tick(struct frames *s);

/* Makes up to nr frames free, of whatever tier, if it can be done in this turn. */
enum evict_next evict_get(struct frames *s, u32 nr);
/* Free frames that no fill needs to wait for, and that are not kept in stock. 0: what comes in
 * pushes something out. */
u32 evict_nr_spare(const struct frames *s);

/* What eviction thinks of the frame: its queue, and how often readers came by, up to
 * FRAME_VISITS_MAX. */
enum reclaim_queue evict_queue(const struct frames *s, u32 frame);
u32 evict_visits(const struct frames *s, u32 frame);
/* Somebody asks for the block in frame: it stays, if it is still there. */
void evict_rescue(struct frames *s, u32 frame);

#endif
