/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Views. Both functions look at the context's seat as it is, and never move it. So what a
 * program views stays mapped from one of these calls to the next.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "core/cache/view.h"
#include "lib/client/file.h"

static inline void view_fill(struct lodic_view *view, const struct claim *claim,
                             const struct view *core, off_t offset)
{
	u32 within = (u32)offset % BLOCK_BYTES;
	u64 left = claim->size - (u64)offset;

	view->data = core->data + within;
	view->bytes = left < BLOCK_BYTES - within ? left : BLOCK_BYTES - within;
	view->claim = claim;
	view->frame = core->frame;
	view->seq = core->seq;
}

/* All that lodic_view_begin() does, wherever the block stands. */
static __attribute__((noinline)) int view_slow(struct lodic_context *context,
                                               struct lodic_file *file, off_t offset,
                                               struct lodic_view *ret_view)
{
	const struct claim *claim = file_claim(file);
	struct seat *seat = context->seat;
	struct view core;
	u64 block;

	if (offset < 0)
		return -EINVAL;
	if (claim->generation != seat->generation)
		return -ESTALE;
	if ((u64)offset >= claim->size)
		return -ENODATA;
	block = claim->first + ((u64)offset >> BLOCK_SHIFT);
	if (!view_begin(&seat->core, block, &core)) {
		context_bump(&seat->core, CONTEXT_MISSES);
		seat_hint(seat, block, 1);
		return -EAGAIN;
	}
	context_bump(&seat->core, CONTEXT_HITS);
	view_fill(ret_view, claim, &core, offset);
	return 0;
}

/* The fast path calls nothing. A negative offset is a huge one here. */
static inline __attribute__((always_inline)) int
view_fast(struct lodic_context *context, struct lodic_file *file, off_t offset,
          struct lodic_view *ret_view)
{
	struct seat *seat = context->seat;
	const struct claim *claim = file_claim(file);
	struct view core;

	if (unlikely(claim->generation != seat->generation ||
	             (u64)offset >= claim->size ||
	             !view_begin_home(&seat->core,
	                              claim->first + ((u64)offset >> BLOCK_SHIFT),
	                              &core)))
		return view_slow(context, file, offset, ret_view);
	context_bump(&seat->core, CONTEXT_HITS);
	view_fill(ret_view, claim, &core, offset);
	return 0;
}

EXPORT int lodic_view_begin(struct lodic_context *context, struct lodic_file *file,
                            off_t offset, struct lodic_view *ret_view)
{
	int err;

	misuse_context_enter(&context->misuse);
	misuse_file(&file->misuse);
	err = view_fast(context, file, offset, ret_view);
	misuse_context_leave(&context->misuse);
	return err;
}

EXPORT int lodic_view_valid(struct lodic_context *context,
                            const struct lodic_view *view)
{
	const struct view core = { view->data, view->frame, view->seq };
	const struct claim *claim = view->claim;
	const struct seat *seat = context->seat;
	bool valid;

	misuse_context_enter(&context->misuse);
	/* The memory of another seat may be gone. */
	valid = likely(claim->generation == seat->generation) &&
	        view_holds(&seat->core, &claim->core, &core);
	misuse_context_leave(&context->misuse);
	return valid;
}
