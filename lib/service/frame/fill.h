/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* From a hint to a cached block. */
/* The two call each other: the other half is fill_hints.h. */
#ifndef LODIC_LIB_SERVICE_FRAME_FILL_H
#define LODIC_LIB_SERVICE_FRAME_FILL_H

#include "lib/service/base/base.h"
#include "core/cache/reclaim.h"

struct fill_sync;

struct frames;

int fill_init(struct frames *s);
void fill_fini(struct frames *s);
/* Takes hints out of the contexts' rings, as many as a turn may. */
void fill_take_hints(struct frames *s);
/* Takes all of them, as far as the queue has room: the arena ends. */
void fill_take_all(struct frames *s);
/* Takes what the context at place has left behind. Its reader has gone. */
void fill_take_last(struct frames *s, u32 place);
/* A reader has missed nr blocks of the file. 0: none. */
void fill_want(struct frames *s, u32 id, u64 block, u64 nr);
/* Ends the fill of frame, begun by cache_fill_begin(), with block of the file in slot: the bytes
 * are whole, or they are not. true: it is cached. false: the frame is free. */
bool fill_publish(struct frames *s, u32 slot, u32 frame, u64 block, bool whole);
/* The same for a block that comes along from another service of this process. Its bytes are there,
 * and its place among the others is known. It does not count as brought in. */
bool fill_adopt(struct frames *s, u32 slot, u32 frame, u64 block,
                enum reclaim_queue queue, u32 visits);
/* Is the block cached? */
bool fill_has(const struct frames *s, u64 block);
/* Takes over what waits in old's queue, and how long its reads took. new_id(): a file's id here;
 * FILE_NONE: it has none. */
void fill_take_over(struct frames *s, const struct frames *old,
                    u32 (*new_id)(const void *arg, u32 id), const void *arg);
/* Begins reads. true: there is more to do at once. */
bool fill_run(struct frames *s);
/* From here on, fill_sync_is_done() says whether all is done that readers asked for before. */
void fill_sync_begin(const struct frames *s, struct fill_sync *sync);
bool fill_sync_is_done(const struct frames *s, struct fill_sync *sync, u64 oldest);
/* The ticket of the oldest hint that is not done, but for reads that are stuck; UINT64_MAX:
 * there is none. */
u64 fill_oldest(const struct frames *s);
/* How long reads and misses took: enum look_times_kind. */
const struct look_times *fill_times(const struct frames *s, u32 kind);
/* Are files read by io_uring? */
bool fill_has_ring(const struct frames *s);
/* Is a read under way? */
bool fill_is_busy(const struct frames *s);
/* Have readers posted a hint in the last so many ns, before this turn took them? */
bool fill_heard_within(const struct frames *s, u64 ns);
/* Asserts what must hold while no read is under way. */
void fill_check(struct frames *s);

#endif
