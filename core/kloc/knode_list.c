/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Per-CPU lists of knodes. The rules are in knode_list.h. */
#include "core/kloc/knode_list.h"

#define KNODE_SHIFT 40
#define GENERATION_SHIFT 16
#define LINE_WORDS 8u

_Static_assert(KNODE_LIST_MAX_KNODES == 1u << (64 - KNODE_SHIFT), "a knode's bits");

static u64 entry_of(u32 knode, u64 generation, u64 tick)
{
	return (u64)knode << KNODE_SHIFT |
	       (generation & KNODE_LIST_GENERATIONS) << GENERATION_SHIFT |
	       (tick & KNODE_LIST_STAMPS);
}

static u32 entry_knode(u64 entry)
{
	return (u32)(entry >> KNODE_SHIFT);
}

static u32 entry_generation(u64 entry)
{
	return (u32)(entry >> GENERATION_SHIFT & KNODE_LIST_GENERATIONS);
}

static u32 generation_of(const struct knode_lists *l, u32 knode)
{
	return (u32)(host_load_relaxed(&l->names[knode].generation) &
	             KNODE_LIST_GENERATIONS);
}

static u64 *list_of(const struct knode_lists *l, u32 cpu)
{
	return l->entries + (size_t)cpu * l->stride;
}

struct knode_token knode_list_find(struct knode_lists *l, u32 cpu, u64 inode,
                                   u64 *nr_stale)
{
	struct knode_token none = { .knode = KNODE_NONE };
	u64 *list = list_of(l, cpu);
	u32 i;

	for (i = 0; i < l->length; i++) {
		u64 entry = host_load_relaxed(&list[i]);
		u32 knode = entry_knode(entry);

		/* Acquire: the generation is looked at after the inode (KL20). */
		if (!entry || host_load_acquire(&l->names[knode].inode) != inode)
			continue;
		if (generation_of(l, knode) == entry_generation(entry))
			return (struct knode_token){ knode, entry_generation(entry) };
		if (nr_stale)
			(*nr_stale)++;
	}
	return none;
}

/* The place of a new entry: an empty or a stale one, otherwise one that was not hit since the
 * hand came by. */
static u32 place_for(struct knode_lists *l, const u64 *list, u64 *turn, bool *ret_stale)
{
	u64 hits = host_load_relaxed(turn) & 0xffffffff;
	u32 hand = (u32)(host_load_relaxed(turn) >> 32), i, place;

	for (i = 0; i < l->length; i++) {
		u64 entry = host_load_relaxed(&list[i]);

		*ret_stale = entry && generation_of(l, entry_knode(entry)) !=
		                              entry_generation(entry);
		if (!entry || *ret_stale)
			return i;
	}
	/* One turn clears all hits, so the second one ends. */
	for (i = 0; i < l->length && hits >> hand & 1; i++) {
		hits &= ~((u64)1 << hand);
		hand = (hand + 1) % l->length;
	}
	place = hand;
	host_store_relaxed(turn, (u64)((hand + 1) % l->length) << 32 | hits);
	return place;
}

enum knode_found knode_list_use(struct knode_lists *l, u32 cpu,
                                struct knode_token token)
{
	u64 *list = list_of(l, cpu), *turn = &list[l->length];
	u64 now = host_load_relaxed(&l->tick), mine;
	bool is_stale = false;
	u32 i;

	mine = entry_of(token.knode, token.generation, now);
	for (i = 0; i < l->length; i++) {
		u64 entry = host_load_relaxed(&list[i]);

		if ((entry ^ mine) >> GENERATION_SHIFT || !entry)
			continue;
		host_store_relaxed(&list[i], mine);
		host_store_relaxed(turn, host_load_relaxed(turn) | (u64)1 << i);
		return KNODE_HIT;
	}
	if (generation_of(l, token.knode) != token.generation)
		return KNODE_STALE; /* dead on arrival: it would only take up a place */
	i = place_for(l, list, turn, &is_stale);
	host_store_relaxed(&list[i], mine);
	return is_stale ? KNODE_STALE : KNODE_MISS;
}

void knode_list_name(struct knode_lists *l, u32 knode, u64 inode)
{
	/* Nothing hangs on its order: forget raised the generation long before, as a full
	 * fence. */
	host_store_relaxed(&l->names[knode].inode, inode);
}

void knode_list_forget(struct knode_lists *l, u32 knode)
{
	u64 *generation = &l->names[knode].generation;

	host_fetch_add(generation, 1); /* KL21 */
}

struct knode_token knode_list_token(const struct knode_lists *l, u32 knode)
{
	return (struct knode_token){ knode, generation_of(l, knode) };
}

u32 knode_list_collect(const struct knode_lists *l, u32 cpu, u32 i, u32 *ret_age)
{
	u64 entry = host_load_relaxed(&list_of(l, cpu)[i]);
	u32 knode = entry_knode(entry);
	u32 age = (u32)((host_load_relaxed(&l->tick) - entry) & KNODE_LIST_STAMPS);

	if (!entry)
		return KNODE_NONE;
	if (generation_of(l, knode) != entry_generation(entry))
		return KNODE_NONE;
	*ret_age = age;
	return knode;
}

void knode_list_tick(struct knode_lists *l)
{
	host_store_relaxed(&l->tick, l->tick + 1);
}

bool knode_list_init(struct knode_lists *l, u32 nr_knodes, u32 nr_cpus, u32 length)
{
	u32 i;

	*l = (struct knode_lists){ .nr_knodes = nr_knodes,
		                   .nr_cpus = nr_cpus,
		                   .length = length };
	l->stride = (length + LINE_WORDS) / LINE_WORDS * LINE_WORDS;
	l->names = host_alloc(nr_knodes * sizeof(*l->names), 64);
	l->entries = host_alloc((size_t)nr_cpus * l->stride * sizeof(u64), 64);
	if (!l->names || !l->entries) {
		knode_list_fini(l);
		return false;
	}
	for (i = 0; i < nr_knodes; i++)
		l->names[i].generation = 1; /* so that no entry is 0 */
	return true;
}

void knode_list_fini(struct knode_lists *l)
{
	if (l->names)
		host_free(l->names, l->nr_knodes * sizeof(*l->names));
	if (l->entries)
		host_free(l->entries, (size_t)l->nr_cpus * l->stride * sizeof(u64));
	l->names = NULL;
	l->entries = NULL;
}
