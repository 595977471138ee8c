/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Blocks from frame to frame. Rules: core/cache/move.h. */
#include "core/cache/move.h"

/* Fills the target with the source's block (MV2). */
static void move_fill(struct arena *a, u64 block, u32 source, u32 target)
{
	arena_fill_begin(a, target);
	host_copy(arena_frame_bytes(a, target), arena_frame_bytes(a, source),
	          BLOCK_BYTES);
	frame_fill_end(&a->frames[target], block);
	arena_thaw(a, target);
}

/* Nobody has the source pinned, or can pin it (MV1). */
static void move_block(struct arena *a, u32 source, u32 target)
{
	u64 block = host_load_relaxed(&a->frames[source].block);

	CHECK(host_load_relaxed(&a->frames[target].state) == FRAME_FREE,
	      "MV2: the target is nobody's");
	move_fill(a, block, source, target);
	translation_move(&a->translation, block, source, target); /* MV3 */
	/* O50, partner: the acquire fence in context_read(). */
	host_fence_release();
	frame_clear(&a->frames[source]); /* MV4 */
}

enum batch_end move_next(struct arena *a, struct batch *b, u32 target, u32 *ret_frame)
{
	enum batch_end end = batch_look(a, b, ret_frame);

	if (end == BATCH_TAKEN)
		move_block(a, *ret_frame, target);
	return end;
}

bool move_word(struct arena *a, u32 source, u32 target)
{
	if (!arena_freeze(a, source))
		return false;
	move_block(a, source, target);
	return true;
}
