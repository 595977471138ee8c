/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The service's walk over the contexts' tables. See core/cache/walk.h. */
#include "core/cache/walk.h"

#include "core/cache/context.h"

static bool walk_has_pins(const struct arena *a, const struct context_table *t)
{
	/* K4: nobody pins without entries. A hazard context has few slots, and no number. */
	return t->memory && t->entries &&
	       (a->scheme == ARENA_HAZARD ||
	        /* Acquire, partner: the release store of an unpin, as below. */
	        host_load_acquire(&t->memory->nr_pinned) > 0);
}

void walk_list(const struct arena *a, struct walk_list *ret)
{
	u32 nr = a->nr_contexts;

	ret->nr = 0;
	for (u32 place = 0; place < nr; place++)
		if (walk_has_pins(a, &a->contexts[place]))
			ret->places[ret->nr++] = (u16)place;
}

static bool walk_slots(const u64 *entries, u32 frame)
{
	for (u32 i = 0; i < ARENA_HAZARD_SLOTS; i++)
		/* Acquire, partner: the release store of an unpin. The reader's last look
		 * at the bytes comes before whatever the service does to them. */
		if (host_load_acquire(&entries[i]) == (u64)frame + 1)
			return true;
	return false;
}

/* Does an entry count that looks like wanted (K5)? Only the set of the block's home can have
 * it. Its index is the high bits of the hash, as in context_home(): nr_entries is a power of
 * two. */
static bool walk_set(const struct arena *a, const u64 *entries, u64 block, u64 wanted)
{
	u64 hash = block_hash(block);

	entries += ((hash >> 32) * a->nr_entries >> 32) / CONTEXT_WAYS * CONTEXT_WAYS;
	for (u32 i = 0; i < CONTEXT_WAYS; i++) {
		u64 v = host_load_acquire(&entries[i]); /* as above */

		if (pte_count(v) > 0 && !((v ^ wanted) & ~PTE_COUNT_MASK))
			return true;
	}
	return false;
}

/* Has the context at place pinned frame, which holds block? */
static bool walk_query_one(const struct arena *a, u32 place, u32 frame, u64 block)
{
	const struct context_table *t = &a->contexts[place];

	if (!t->memory || !t->entries)
		return false; /* it has left, or may not pin */
	if (a->scheme == ARENA_HAZARD)
		return walk_slots(t->entries, frame);
	return walk_set(a, t->entries, block,
	                pte_make(frame) | context_tag(block_hash(block)));
}

bool walk_query(const struct arena *a, const struct walk_list *list, u32 frame)
{
	u64 block = host_load_relaxed(&a->frames[frame].block);

	for (u32 i = 0; i < list->nr; i++)
		if (walk_query_one(a, list->places[i], frame, block))
			return true;
	return false;
}

bool walk_query_all(const struct arena *a, u32 frame)
{
	u64 block = host_load_relaxed(&a->frames[frame].block);

	for (u32 place = 0; place < a->nr_contexts; place++)
		if (walk_query_one(a, place, frame, block))
			return true;
	return false;
}

u32 walk_lines(const struct arena *a, const struct walk_list *list)
{
	u32 ways = a->scheme == ARENA_HAZARD ? ARENA_HAZARD_SLOTS : CONTEXT_WAYS;

	return list->nr * ((ways * 8 + 63) / 64);
}
