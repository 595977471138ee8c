/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A frame is a piece of memory that can hold a block. Four words say what it holds, whether
 * its bytes stand still, and whether readers may pin it. The service alone writes them;
 * readers load them.
 *
 *   FREE --fill_begin--> FILLING --fill_end--> CACHED --frame_clear--> FREE
 *                                               |  ^
 *                                   frame_hide  v  |  frame_show
 *                                        CACHED, hidden: reads, but no new pins
 *
 * Rules
 * F1 seq is odd from before the first byte of a fill changes until after the last. So a
 *    reader that saw an even seq, copied, and sees it again has whole bytes.
 * F2 seq only grows, so the same value never stands for two fillings (no ABA).
 * F3 block is BLOCK_NONE unless the frame is CACHED; it changes only while seq is odd.
 * F4 pins is the frame's block, or no block's name; then no new pin of the frame holds. While
 *    the frame is not CACHED, that is BLOCK_NONE. While it is CACHED, and hidden, it is a
 *    hide's number: one that names no file.
 * Order
 * O1 seq odd, full fence, then bytes. A reader's acquire fence stands between its copy and
 *    its second look at seq. If the reader copied one new byte, it sees the odd seq.
 * O2 name and bytes, then the even seq by a release store. A reader's first look at seq
 *    is an acquire load: the reader sees the name and the bytes that belong to it.
 * O30 bytes, then pins by a release store. A reader that pins loads pins with acquire: it
 *    sees the bytes that belong to the name.
 */
#ifndef LODIC_CORE_FRAME_H
#define LODIC_CORE_FRAME_H

#include "core/block.h"

/* Visits that count between two looks of the service: two bits (Yang et al., s.4.1;
 * ADR-0003). Readers note no more, and eviction counts no more. */
#define FRAME_VISITS_MAX 3u

enum frame_state { FRAME_FREE, FRAME_FILLING, FRAME_CACHED };

struct frame {
	u64 seq;   /* odd while the bytes change; service writes, everybody reads */
	u64 block; /* whose bytes these are; service writes, everybody reads */
	u64 pins; /* the same for those who would pin it; service writes, everybody reads */
	u64 state; /* enum frame_state; the service's own, readers may print it */
};
_Static_assert(sizeof(struct frame) == 32, "two frames a cache line, none split");

/* frame_fill_begin() makes the frame's bytes unreadable, before they change.
 * The caller has made sure that nobody has the frame pinned and that no translation
 * leads to it. State FREE -> FILLING. */
void frame_fill_begin(struct frame *f);

/* frame_fill_end() declares the bytes whole: they are block's. FILLING -> CACHED.
 * Publish the translation afterwards, not before. */
void frame_fill_end(struct frame *f, u64 block);

/* frame_fill_cancel() gives up a fill, after an I/O error. FILLING -> FREE. */
void frame_fill_cancel(struct frame *f);

/* frame_clear() forgets the contents. Same duties as frame_fill_begin(). -> FREE. */
void frame_clear(struct frame *f);

/* From frame_hide() until frame_show() a CACHED frame takes no new pins; reads go on. What
 * was pinned before stays pinned, and the caller must find that out (core/cache/batch.h).
 * number, not 0, says who has hidden it. Neither orders anything after it. */
void frame_hide(struct frame *f, u32 number);
void frame_show(struct frame *f);
static inline bool frame_is_hidden(const struct frame *f, u32 number)
{
	return host_load_relaxed(&f->pins) == number;
}

/* Asserts F1-F4 for a frame at rest (no fill begins or ends meanwhile). */
void frame_check(const struct frame *f);

#endif
