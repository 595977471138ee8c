/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Views. Both functions look at the context's seat as it is, and never move it. So what a
 * program views stays mapped from one of these calls to the next.
 */
#define _GNU_SOURCE
#include <errno.h>

#include "core/cache/view.h"
#include "lib/client/file.h"

/* left: bytes from offset to the end of its block, or of the file. */
static inline void view_fill(struct lodic_view *view, const struct claim *claim,
                             const struct view *core, off_t offset, u64 left)
{
	view->data = core->data + (u32)offset % BLOCK_BYTES;
	view->bytes = left;
	view->claim = claim;
	view->frame = core->frame;
	view->seq = core->seq;
}

static inline u64 view_left_in_block(off_t offset)
{
	return BLOCK_BYTES - (u32)offset % BLOCK_BYTES;
}

static inline u64 view_left(u64 size, off_t offset)
{
	u64 in_block = view_left_in_block(offset), in_file = size - (u64)offset;

	return in_file < in_block ? in_file : in_block;
}

/* All that lodic_view_begin() does, wherever the block stands. */
static __attribute__((noinline)) int view_slow(struct lodic_context *context,
                                               struct lodic_file *file, off_t offset,
                                               struct lodic_view *ret_view)
{
	const struct claim *claim = file_claim(file);
	struct seat *seat = context->seat;
	struct view core;
	u64 first, size, block;

	if (offset < 0)
		return file_fails(file, context, -EINVAL);
	if (claim->generation != seat->generation)
		return file_fails(file, context, -ESTALE);
	first = claim_first(claim);
	size = claim_size(claim);
	if ((u64)offset >= size)
		return file_fails(file, context, -ENODATA);
	block = first + ((u64)offset >> BLOCK_SHIFT);
	if (!view_begin(&seat->core, block, &core)) {
		context_bump(&seat->core, CONTEXT_MISSES);
		seat_hint(seat, block, 1);
		return file_fails(file, context, -EAGAIN);
	}
	context_bump(&seat->core, CONTEXT_HITS);
	view_fill(ret_view, claim, &core, offset, view_left(size, offset));
	return 0;
}

/* The block that the file ends in, where it stands at its home. */
static __attribute__((noinline)) int view_tail(struct lodic_context *context,
                                               struct lodic_file *file, off_t offset,
                                               struct lodic_view *ret_view)
{
	struct seat *seat = context->seat;
	const struct claim *claim = file_claim(file);
	struct view core;
	u64 first = claim_first(claim), size = claim_size(claim);

	if (unlikely(claim->generation != seat->generation || (u64)offset >= size ||
	             !view_begin_home(&seat->core, first + ((u64)offset >> BLOCK_SHIFT),
	                              &core)))
		return view_slow(context, file, offset, ret_view);
	context_bump(&seat->core, CONTEXT_HITS);
	view_fill(ret_view, claim, &core, offset, view_left(size, offset));
	return 0;
}

/*
 * The fast path calls nothing. After its first lines it uses seat and claim alone, so that it
 * needs few registers and saves none. It serves blocks that lie in the file as a whole: their
 * end needs no look at the file's. A negative offset is a huge one here.
 */
static inline __attribute__((always_inline)) int
view_fast(struct lodic_context *context, struct lodic_file *file, off_t offset,
          struct lodic_view *ret_view)
{
	struct seat *seat = context->seat;
	const struct claim *claim = file_claim(file);
	struct view core;
	u64 first;

	if (unlikely(claim->generation != seat->generation))
		return view_slow(context, file, offset, ret_view);
	first = claim_first(claim);
	if (unlikely(((u64)offset | (BLOCK_BYTES - 1)) >= claim_size(claim)))
		return view_tail(context, file, offset, ret_view);
	if (unlikely(!view_begin_home(&seat->core, first + ((u64)offset >> BLOCK_SHIFT),
	                              &core)))
		return view_slow(seat->context, claim->file, offset, ret_view);
	context_bump(&seat->core, CONTEXT_HITS);
	view_fill(ret_view, claim, &core, offset, view_left_in_block(offset));
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
	struct cache_file file;
	bool valid = false;
	u64 block;

	misuse_context_enter(&context->misuse);
	/* The memory of another seat may be gone. */
	if (likely(claim->generation == seat->generation)) {
		/* CL3: the claim may be of a later id than the view. Before seq. */
		block = host_load_relaxed(&core.frame->block);
		file = claim_core(claim, block);
		valid = view_holds(&seat->core, &file, &core);
	}
	misuse_context_leave(&context->misuse);
	return valid;
}
