/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A view: the bytes of a block, read where they lie, while nothing keeps them there. It is the
 * optimistic read of context.h with the copy left to the caller. The service may refill the
 * frame at any moment, so the caller must ask afterwards whether its bytes were the block's.
 *
 * Rules
 * C20 a view begins with an even seq, and then the block's name (O2).
 * C21 what was read through a view counts only if seq is the same afterwards (O1). Then the
 *    file's proof and the service must still live (O22).
 *
 * A view writes a visit at most, and holds nothing. So no view has an end, and a reader that
 * dies leaves nothing behind.
 */
#ifndef LODIC_CORE_CACHE_VIEW_H
#define LODIC_CORE_CACHE_VIEW_H

#include "core/cache/cache.h"

struct view {
	const u8 *data; /* the block's bytes */
	const struct frame *frame;
	u64 seq;
};

/* Begins a view of block in frame, where the translation leads. false: the frame holds another
 * block by now, or is being filled. */
CACHE_INLINE bool view_begin_at(struct context *c, u64 block, u32 frame,
                                struct view *ret_view)
{
	const struct frame *f = &c->frames[frame];
	u64 seq;

	if (unlikely(!context_has(c, frame)))
		return false;
	seq = host_load_acquire(&f->seq); /* O2 */
	/* C20 */
	if (unlikely(host_load_relaxed(&f->block) != block || seq & 1))
		return false;
	context_visit(c, frame);
	ret_view->data = c->data + ((u64)frame << BLOCK_SHIFT);
	ret_view->frame = f;
	ret_view->seq = seq;
	return true;
}

/* The same, but it looks only where most blocks are, and calls nothing. false may also mean
 * that the block stands elsewhere: fall back on view_begin(). */
CACHE_INLINE bool view_begin_home(struct context *c, u64 block, struct view *ret_view)
{
	u64 word = translation_guess(&c->translation, block_hash(block));

	return view_begin_at(c, block, translation_frame(word), ret_view);
}

/* Begins a view of block, wherever it stands. false: it is not cached. */
static inline bool view_begin(struct context *c, u64 block, struct view *ret_view)
{
	u64 word;

	return translation_find(&c->translation, block, &word) &&
	       view_begin_at(c, block, translation_frame(word), ret_view);
}

/* Were all bytes that the caller has read through v the block's, which is of file? It may go on
 * reading, and ask again. Once false, it stays false. */
CACHE_INLINE bool view_holds(const struct context *c, const struct cache_file *file,
                             const struct view *v)
{
	/* O1: if any byte came from a later fill, its odd seq is seen now. */
	host_fence_acquire();
	return likely(host_load_relaxed(&v->frame->seq) == v->seq) &&
	       likely(cache_vouch(c, file)); /* C21 */
}

#endif
