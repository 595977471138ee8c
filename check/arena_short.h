/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A reader's short ways: those of core/cache, or (inlined) those that include/lodic/inline.h
 * compiles into programs. Both have the same contracts, which core/cache/cache.h and view.h
 * state. So the scenarios search the one text and the other.
 */
#ifndef LODIC_CHECK_ARENA_SHORT_H
#define LODIC_CHECK_ARENA_SHORT_H

#define LODIC_INLINE_HOST "check/inline_host.h"

#include "check/arena_world.h"
#include "core/cache/view.h"
#include "lodic/inline.h"

/* lib/client/layout.h compares the layout of both structs. */
static inline const struct lodic_inline_core *arena_short_core(const struct context *c)
{
	return (const struct lodic_inline_core *)c;
}

static inline struct lodic_inline_claim arena_short_claim(const struct cache_file *f)
{
	return (struct lodic_inline_claim){ .live = &f->proof->live, .id = f->id };
}

static inline bool arena_short_read(struct context *c, const struct cache_file *f,
                                    u64 block, void *to, u32 n)
{
	struct lodic_inline_claim claim = arena_short_claim(f);

	return world->inlined
	               ? lodic_inline_copy(arena_short_core(c), &claim, block, 0, to, n)
	               : cache_read_home(c, f, block, 0, to, n);
}

static inline bool arena_short_pin(struct context *c, const struct cache_file *f,
                                   u64 block, u32 *ret_frame, u64 **ret_word)
{
	struct lodic_inline_claim claim = arena_short_claim(f);

	return world->inlined ? lodic_inline_pin(arena_short_core(c), &claim, block,
	                                         ret_frame, ret_word)
	                      : cache_pin_home(c, f, block, c->scheme != ARENA_SCANNED,
	                                       ret_frame, ret_word);
}

static inline void arena_short_unpin(struct context *c, u64 *word)
{
	if (world->inlined)
		lodic_inline_uncount(arena_short_core(c), word);
	else
		cache_unpin(c, word);
}

static inline bool arena_short_view(struct context *c, u64 block, struct view *ret_view)
{
	const struct lodic_inline_frame *f;

	if (!world->inlined)
		return view_begin_home(c, block, ret_view);
	if (!lodic_inline_begin(arena_short_core(c), block, &f, &ret_view->data,
	                        &ret_view->seq))
		return false;
	ret_view->frame = (const struct frame *)f;
	return true;
}

static inline bool arena_short_holds(const struct context *c,
                                     const struct cache_file *f, const struct view *v)
{
	struct lodic_inline_claim claim = arena_short_claim(f);

	return world->inlined
	               ? lodic_inline_holds(arena_short_core(c), &claim,
	                                    (const struct lodic_inline_frame *)v->frame,
	                                    v->seq)
	               : view_holds(c, f, v);
}

#endif
