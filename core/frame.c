/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How a frame's four words move. See core/frame.h for the states and rules F1-F4; the
 * reader's half of the protocol is context_read() in core/cache/context.h.
 */
#include "core/frame.h"

void frame_fill_begin(struct frame *f)
{
	u64 seq = host_load_relaxed(&f->seq);

	CHECK(!(seq & 1), "F1: fill begins once");
	host_store_relaxed(&f->state, FRAME_FILLING);
	host_store_relaxed(&f->seq, seq + 1);
	/*
	 * O1, partner of the acquire fence in context_read(). seq must be odd before
	 * the first byte changes. Otherwise a reader could copy new bytes and find the
	 * old seq twice. Full, not release: the bytes may come by DMA, which a store
	 * fence between a processor's own stores does not order.
	 */
	host_fence_full();
	host_store_relaxed(&f->block, BLOCK_NONE);
	host_store_relaxed(&f->pins, BLOCK_NONE);
}

static void frame_settle(struct frame *f, u64 block, enum frame_state state)
{
	u64 seq = host_load_relaxed(&f->seq);

	host_store_relaxed(&f->block, block);
	host_store_relaxed(&f->state, state);
	/* O2, partner of the acquire load of seq in context_read(). A reader that sees
	 * this even seq sees the block's name and every byte of it. */
	host_store_release(&f->seq, seq + 1);
	/* O30, partner of the acquire load in context_look(). */
	host_store_release(&f->pins, block);
}

void frame_fill_end(struct frame *f, u64 block)
{
	CHECK(host_load_relaxed(&f->state) == FRAME_FILLING, "F1: fill ends once");
	frame_settle(f, block, FRAME_CACHED);
}

void frame_fill_cancel(struct frame *f)
{
	CHECK(host_load_relaxed(&f->state) == FRAME_FILLING, "F1: fill ends once");
	frame_settle(f, BLOCK_NONE, FRAME_FREE);
}

void frame_clear(struct frame *f)
{
	frame_fill_begin(f);
	frame_fill_cancel(f);
}

void frame_hide(struct frame *f, u32 number)
{
	/* Readers who copy go on: seq and the block's name stand. */
	host_store_relaxed(&f->pins, number);
}

void frame_show(struct frame *f)
{
	/* Release, as when it was filled (O30): the bytes are what they were. */
	host_store_release(&f->pins, host_load_relaxed(&f->block));
}

void frame_check(const struct frame *f)
{
	u64 seq = host_load_relaxed(&f->seq);
	u64 block = host_load_relaxed(&f->block);
	u64 state = host_load_relaxed(&f->state);
	u64 pins = host_load_relaxed(&f->pins);

	CHECK(state <= FRAME_CACHED, "F1: a known state");
	CHECK((seq & 1) == (state == FRAME_FILLING), "F1: odd only in a fill");
	CHECK((block != BLOCK_NONE) == (state == FRAME_CACHED),
	      "F3: named when cached");
	CHECK(pins == block || (block != BLOCK_NONE && block_file(pins) == FILE_NONE),
	      "F4: pins of the frame's block, or none");
}
