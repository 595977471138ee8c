/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The slow half of a context: blocks away from their home, and the rival schemes that an arena
 * may be made with for comparison. Protocol and rules: core/cache/context.h.
 */
#include "core/cache/context.h"

#include "core/cache/context_rival.h"

void context_init(struct context *c, const struct arena *a, void *memory,
                  u64 alive_value, u32 quota)
{
	struct context_table t;
	u32 log = 0;

	arena_context_table(&t, memory);
	while ((u32)1 << log < arena_context_entries(a->nr_entries, quota))
		log++;
	c->frames = a->frames;
	c->data = a->data;
	c->translation = a->translation;
	c->entries = t.entries;
	c->visits = a->visits;
	c->counts = a->counts;
	c->memory = t.memory;
	c->alive = &a->header->alive;
	c->alive_value = alive_value;
	c->home_shift = 64 - log;
	c->scheme = a->scheme;
	c->quota = quota;
	c->light = a->header->barrier == ARENA_BARRIER_LIGHT;
}

bool context_read(struct context *c, u64 block, u32 offset, void *to, u32 n)
{
	const struct frame *f;
	u64 word, seq;

	/* O50, partner: move_block(). A look before this one may have failed because the block
	 * moves: this one comes after what it saw. */
	host_fence_acquire();
	if (!translation_find(&c->translation, block, &word) ||
	    !context_has(c, translation_frame(word)))
		return false;
	f = &c->frames[translation_frame(word)];
	seq = host_load_acquire(&f->seq); /* O2 */
	if (seq & 1)
		return false;
	if (host_load_relaxed(&f->block) != block)
		return false;
	if (context_copy(c, f, translation_frame(word), seq, offset, to, n))
		return true;
	context_bump(c, CONTEXT_RETRIES);
	return false;
}

/* Chooses an entry of home's set for a new pte. The first choice is home unless it is
 * pinned, because the fast path looks nowhere else. The second is an empty entry, the third
 * any that is not pinned. FRAME_NONE: all are pinned. */
static u32 context_choose(const struct context *c, u32 home)
{
	u32 first = home / CONTEXT_WAYS * CONTEXT_WAYS;
	u32 found = FRAME_NONE;
	u32 i;

	for (i = 0; i < CONTEXT_WAYS; i++) {
		u32 at = first + (home + i) % CONTEXT_WAYS;
		u64 v = host_load_relaxed(&c->entries[at]);

		if (pte_count(v) > 0 || (v != PTE_EMPTY && found != FRAME_NONE))
			continue;
		found = at;
		if (v == PTE_EMPTY || i == 0)
			break; /* home itself, or as good */
	}
	return found;
}

/* Takes one more reference where this context has block pinned already. 0, or why not;
 * -EAGAIN: it has not. */
static int context_pin_again(struct context *c, u64 block, u32 home, u32 *ret_frame,
                             u64 **ret_word)
{
	u32 first = home / CONTEXT_WAYS * CONTEXT_WAYS;
	u64 tag = context_tag(block_hash(block));
	u32 at;

	for (at = first; at < first + CONTEXT_WAYS; at++) {
		u64 v = host_load_relaxed(&c->entries[at]);

		/* C6. The frame is pinned, so its name stands still, hidden or not. */
		if (pte_count(v) == 0 || (v & (PTE_PRESENT | PTE_TAG_MASK)) != tag ||
		    !context_has(c, pte_frame(v)) ||
		    host_load_dep(&c->frames[pte_frame(v)].block) != block)
			continue;
		if (pte_count(v) == PTE_COUNT_MAX) {
			context_bump(c, CONTEXT_FULL);
			return -EOVERFLOW;
		}
		host_store_relaxed(&c->entries[at], v + PTE_COUNT_ONE); /* C2 */
		*ret_frame = pte_frame(v);
		*ret_word = &c->entries[at];
		context_visit(c, *ret_frame);
		return 0;
	}
	return -EAGAIN;
}

/* Pins block for the first time in this context, wherever it stands. */
static int context_pin_first(struct context *c, u64 block, u32 home, u32 *ret_frame,
                             u64 **ret_word)
{
	u64 word, last = 0;
	u32 frame, chosen, tries;

	/* Another try is worth it only if the block has moved meanwhile. Where the frame is
	 * hidden, the service must be asked. A pin does not promise to find a block that moves.
	 * Its frame was hidden before, and a caller asks the service in either case. */
	for (tries = 0; tries < CONTEXT_PIN_TRIES; tries++) {
		if (!translation_find(&c->translation, block, &word) || word == last)
			break;
		chosen = context_choose(c, home);
		if (chosen == FRAME_NONE) {
			context_bump(c, CONTEXT_FULL);
			return -ENOBUFS;
		}
		frame = translation_frame(word);
		if (context_pin_at(c, &c->entries[chosen],
		                   pte_make(frame) | context_tag(block_hash(block)),
		                   block)) {
			context_bump(c, CONTEXT_SOFT);
			context_visit(c, frame);
			*ret_frame = frame;
			*ret_word = &c->entries[chosen];
			return 0;
		}
		last = word;
	}
	context_bump(c, CONTEXT_MISSES);
	return -EAGAIN;
}

static int context_pin_scanned(struct context *c, u64 block, u32 *ret_frame,
                               u64 **ret_word)
{
	u32 home = context_home(c, block_hash(block));
	int err = context_pin_again(c, block, home, ret_frame, ret_word);

	if (err != -EAGAIN)
		return err;
	if (context_pinned(c) >= c->quota) { /* C9 */
		context_bump(c, CONTEXT_FULL);
		return c->quota ? -ENOBUFS : -EDQUOT;
	}
	return context_pin_first(c, block, home, ret_frame, ret_word);
}

/* Are all hazard slots taken? */
static bool context_slots_full(const struct context *c)
{
	u32 i = 0;

	while (i < ARENA_HAZARD_SLOTS && host_load_relaxed(&c->entries[i]) != 0)
		i++;
	return c->scheme == ARENA_HAZARD && i == ARENA_HAZARD_SLOTS;
}

static int context_pin_rival(struct context *c, u64 block, u32 *ret_frame,
                             u64 **ret_word)
{
	u64 word;
	const u64 *at = translation_find(&c->translation, block, &word);

	if (c->quota == 0) {
		context_bump(c, CONTEXT_FULL);
		return -EDQUOT;
	}
	if (!at) {
		context_bump(c, CONTEXT_MISSES);
		return -EAGAIN;
	}
	*ret_frame = translation_frame(word);
	if (context_pin_word(c, *ret_frame, block, ret_word))
		return 0;
	context_bump(c, CONTEXT_FULL);
	return context_slots_full(c) ? -ENOBUFS : -EAGAIN;
}

int context_pin(struct context *c, u64 block, u32 *ret_frame, u64 **ret_word)
{
	if (c->scheme == ARENA_SCANNED)
		return context_pin_scanned(c, block, ret_frame, ret_word);
	return context_pin_rival(c, block, ret_frame, ret_word);
}

static u32 context_nr_entries(const struct context *c)
{
	return (u32)((u64)1 << (64 - c->home_shift));
}

u32 context_nr_pinned(const struct context *c)
{
	u32 nr = 0;
	u32 i;

	if (c->scheme == ARENA_SCANNED)
		return (u32)context_pinned(c);
	for (i = 0; c->scheme == ARENA_HAZARD && i < context_nr_entries(c); i++)
		nr += host_load_relaxed(&c->entries[i]) != 0;
	return nr;
}

void context_check(const struct context *c)
{
	u32 i, nr = 0;

	for (i = 0; c->scheme == ARENA_SCANNED && i < context_nr_entries(c); i++) {
		u64 v = host_load_relaxed(&c->entries[i]);

		CHECK(pte_present(v) || v == PTE_EMPTY, "C2: present or empty");
		if (pte_count(v) == 0)
			continue;
		nr++;
		CHECK(host_load_relaxed(&c->frames[pte_frame(v)].state) == FRAME_CACHED,
		      "C1: what is pinned is cached");
	}
	if (c->scheme == ARENA_SCANNED)
		CHECK(context_pinned(c) == nr,
		      "C8: as many entries have a count as it says");
}
