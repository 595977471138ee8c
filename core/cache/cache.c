/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The compositions that need not be inline. Rules and calls: core/cache/cache.h. */
#include "core/cache/cache.h"

/* Reads [from, to) of the file, which was not cached. */
static bool cache_read_gap(const struct cache_read *r, u64 from, u64 to)
{
	return from == to ||
	       r->fill(r->ctx, r->to + (from - r->offset), to - from, from);
}

bool cache_read(struct context *c, const struct cache_read *r, u64 *ret_hits)
{
	u64 end = r->offset + r->n;
	u64 gap = r->offset; /* what is not there yet begins here */
	u64 first = block_id(r->file->id, 0);
	u64 at, hits = 0;
	u32 within, bytes;

	for (at = r->offset; at < end; at += bytes) {
		within = (u32)(at % BLOCK_BYTES);
		bytes = (u32)(BLOCK_BYTES - within);
		if (bytes > end - at)
			bytes = (u32)(end - at);
		if (!context_read(c, first + (at >> BLOCK_SHIFT), within,
		                  r->to + (at - r->offset), bytes))
			continue;
		hits++;
		if (!cache_read_gap(r, gap, at))
			return false;
		gap = at + bytes;
	}
	if (!cache_read_gap(r, gap, end))
		return false;
	/* O22: what fill() has read comes before the look, as a copy does by its own fence. */
	host_fence_acquire();
	if (!cache_vouch(c, r->file))
		return false;
	*ret_hits = hits;
	return true;
}

int cache_pin(struct context *c, const struct cache_file *f, u64 block, u32 *ret_frame,
              u64 **ret_word)
{
	int err;

	err = context_pin(c, block, ret_frame, ret_word);
	if (err)
		return err;
	if (likely(cache_vouch(c, f))) /* O22 */
		return 0;
	cache_unpin(c, *ret_word); /* O23 */
	return -EAGAIN;
}

void cache_fill_begin(struct arena *a, u32 frame)
{
	arena_fill_begin(a, frame);
}

bool cache_fill_end(struct arena *a, const struct cache_file *f, u32 frame, u64 block,
                    bool whole)
{
	/* O20, partner: the fence of file_proof_revoke(), by way of the writer whose byte the
	 * fill may have read. */
	host_fence_acquire();
	if (whole && file_proof_holds(f->proof, f->id))
		return arena_publish(a, frame, block);
	arena_fill_cancel(a, frame);
	return false;
}

u32 cache_join(struct arena *a, const struct context_table *t,
               void (*tell)(void *ctx, u32 place), void *ctx)
{
	u32 place;

	place = arena_join(a, t);
	if (place != FRAME_NONE)
		tell(ctx, place); /* O24 */
	return place;
}
