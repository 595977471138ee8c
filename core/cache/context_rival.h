/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Pins under the schemes that an arena may be made with for comparison. Atomic and frozen
 * count in one shared word per frame; hazard names the frame in a slot of the context's own.
 * core/count_word.h has the word protocols; this file applies them to an arena. They are as
 * fast as we know how to make them, because a comparison with a slow rival proves nothing.
 */
#ifndef LODIC_CORE_CACHE_CONTEXT_RIVAL_H
#define LODIC_CORE_CACHE_CONTEXT_RIVAL_H

#include "core/cache/context.h"
#include "core/count_word.h"

/* Names the frame in a slot, fence, looks whether it takes pins for block: C1's shape, with a
 * slot for a pte. The fence is as heavy as lodic's own. */
static inline bool context_pin_hazard(struct context *c, u32 frame, u64 block,
                                      u64 **ret_word)
{
	u64 *slot = c->entries;
	u64 *end = c->entries + ARENA_HAZARD_SLOTS;

	while (unlikely(host_load_relaxed(slot) != 0))
		if (++slot == end)
			return false;
	if (c->light)
		count_hazard_word_ref_light(slot, frame);
	else
		count_hazard_word_ref(slot, frame);
	if (unlikely(!context_look(c, frame, block))) {
		count_hazard_word_unref(slot);
		return false;
	}
	*ret_word = slot;
	return true;
}

static inline void context_unpin_word(const struct context *c, u64 *word)
{
	if (c->scheme == ARENA_ATOMIC)
		count_atomic_word_unref(word);
	else if (c->scheme == ARENA_FROZEN)
		count_frozen_word_unref(word);
	else
		count_hazard_word_unref(word);
}

/* Pins frame, if it holds block. A frozen word refuses. The reader looks at the frame's name
 * once it holds the reference. */
static inline bool context_pin_word(struct context *c, u32 frame, u64 block,
                                    u64 **ret_word)
{
	u64 *count;

	if (unlikely(c->quota == 0 || !context_has(c, frame)))
		return false;
	context_visit(c, frame);
	if (c->scheme == ARENA_HAZARD)
		return context_pin_hazard(c, frame, block, ret_word);
	count = &c->counts[(u64)frame * COUNT_STRIDE];
	if (unlikely(c->scheme == ARENA_ATOMIC ? !count_atomic_word_ref(count)
	                                       : !count_frozen_word_ref(count)))
		return false;
	*ret_word = count;
	/* Relaxed: the reference was a full fence. */
	if (likely(host_load_relaxed(&c->frames[frame].block) == block))
		return true;
	context_unpin_word(c, count);
	return false;
}

/* context_pin_home()'s counterpart. */
static inline bool context_pin_word_home(struct context *c, u64 block, u32 *ret_frame,
                                         u64 **ret_word)
{
	*ret_frame = translation_frame(
		translation_guess(&c->translation, block_hash(block)));
	if (unlikely(!context_has(c, *ret_frame) ||
	             host_load_dep(&c->frames[*ret_frame].block) != block))
		return false;
	return likely(context_pin_word(c, *ret_frame, block, ret_word));
}

#endif
