/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The slow half of a context: soft misses, and the rival schemes that an arena may be made
 * with for comparison. Protocol and rules: core/cache/context.h.
 */
#include "core/cache/context.h"

#include "core/cache/context_rival.h"

void context_init(struct context *c, const struct arena *a, void *memory,
                  u64 alive_value, bool may_pin)
{
	struct context_table t;
	u32 log = 0;

	arena_context_table(&t, memory, a->nr_entries);
	while ((u32)1 << log < a->nr_entries)
		log++;
	c->frames = a->frames;
	c->data = a->data;
	c->translation = a->translation;
	c->entries = t.entries;
	c->visits = t.visits;
	c->counts = a->counts;
	c->memory = t.memory;
	c->alive = &a->header->alive;
	c->alive_value = alive_value;
	c->home_shift = 64 - log;
	c->scheme = a->scheme;
	c->may_pin = may_pin;
}

bool context_read(struct context *c, u64 block, u32 offset, void *to, u32 n)
{
	const struct frame *f;
	u64 word, seq;

	if (!translation_find(&c->translation, block, &word))
		return false;
	f = &c->frames[translation_frame(word)];
	MUTANT_WINDOW(NO_IDENTITY_CHECK);
	if (MUTANT(NAME_BEFORE_SEQ) && host_load_relaxed(&f->block) != block)
		return false;
	seq = host_load_acquire(&f->seq); /* O2 */
	if (seq & 1)
		return false;
	if (!MUTANT(NO_IDENTITY_CHECK) && !MUTANT(NAME_BEFORE_SEQ) &&
	    host_load_relaxed(&f->block) != block)
		return false;
	if (context_copy(c, f, translation_frame(word), seq, offset, to, n))
		return true;
	context_bump(c, CONTEXT_RETRIES);
	return false;
}

/* Chooses an entry of home's set for a new pte. The first choice is home unless it is
 * pinned, because the fast paths look nowhere else. The second is an empty entry, the third
 * any that is not pinned. ret_old says what stands there. FRAME_NONE: all are pinned. */
static u32 context_choose(const struct context *c, u32 home, u64 *ret_old)
{
	u32 first = home / CONTEXT_WAYS * CONTEXT_WAYS;
	u32 found = FRAME_NONE;
	u32 i;

	for (i = 0; i < CONTEXT_WAYS; i++) {
		u32 at = first + (home + i) % CONTEXT_WAYS;
		u64 v = host_load_relaxed(&c->entries[at]);

		if ((pte_count(v) > 0 && !MUTANT(CHOOSE_PINNED)) ||
		    (v != PTE_EMPTY && found != FRAME_NONE))
			continue;
		*ret_old = v;
		found = at;
		if (v == PTE_EMPTY || i == 0)
			break; /* home itself, or as good */
	}
	return found;
}

static bool context_soft_set(u64 *pte, u64 old, u64 new_pte)
{
	if (MUTANT(NO_PIN) || MUTANT(SOFT_WITHOUT_FENCE)) {
		host_store_relaxed(pte,
		                   MUTANT(NO_PIN) ? new_pte - PTE_COUNT_ONE : new_pte);
		return true;
	}
	/* Fails when the service has just emptied the entry. A full fence: C3, and what
	 * context_vouch() loads comes after. */
	return host_cas(pte, old, new_pte);
}

/* A soft miss: block is cached, but this context has no pte for it. */
static int context_pin_soft(struct context *c, u64 block, u32 home, u32 *ret_frame,
                            u64 **ret_word)
{
	u64 word, old;
	u64 *at;
	u32 frame, chosen, tries;

	if (!c->may_pin) {
		context_bump(c, CONTEXT_FULL);
		return -CONTEXT_EDQUOT;
	}
	/* A try fails only because the service emptied the very entry meanwhile. */
	for (tries = 0; tries < CONTEXT_PIN_TRIES; tries++) {
		at = translation_find(&c->translation, block, &word);
		if (!at) {
			context_bump(c, CONTEXT_MISSES);
			return -CONTEXT_EAGAIN;
		}
		frame = translation_frame(word);
		chosen = context_choose(c, home, &old);
		if (chosen == FRAME_NONE) {
			context_bump(c, CONTEXT_FULL);
			return -CONTEXT_ENOBUFS;
		}
		MUTANT_WINDOW(NO_RECHECK);
		if (!context_soft_set(&c->entries[chosen], old,
		                      pte_make(frame) | context_tag(block_hash(block)) |
		                              PTE_COUNT_ONE))
			continue;
		/* C3. Acquire, partner O3: the bytes that belong to the translation. */
		if (!MUTANT(NO_RECHECK) &&
		    (host_load_acquire(at) != word ||
		     (host_load_relaxed(&c->frames[frame].block) != block && /* C6 */
		      !MUTANT(SOFT_BY_WORD)))) {
			host_store_release(&c->entries[chosen], PTE_EMPTY); /* C2 */
			continue;
		}
		context_bump(c, CONTEXT_SOFT);
		context_visit(c, frame);
		*ret_frame = frame;
		*ret_word = &c->entries[chosen];
		return 0;
	}
	context_bump(c, CONTEXT_MISSES);
	return -CONTEXT_EAGAIN;
}

static int context_pin_scanned(struct context *c, u64 block, u32 *ret_frame,
                               u64 **ret_word)
{
	u64 hash = block_hash(block);
	u32 home = context_home(c, hash);
	u32 first = home / CONTEXT_WAYS * CONTEXT_WAYS;
	u32 at;

	for (at = first; at < first + CONTEXT_WAYS; at++) {
		u64 v = host_load_relaxed(&c->entries[at]);

		if (!context_maps(c, v, hash, block))
			continue;
		if (context_pin_at(c, &c->entries[at], v)) {
			*ret_frame = pte_frame(v);
			*ret_word = &c->entries[at];
			return 0;
		}
		if (pte_count(v) == PTE_COUNT_MAX) {
			context_bump(c, CONTEXT_FULL);
			return -CONTEXT_EOVERFLOW;
		}
	}
	return context_pin_soft(c, block, home, ret_frame, ret_word);
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
	u64 *at = translation_find(&c->translation, block, &word);

	if (!c->may_pin) {
		context_bump(c, CONTEXT_FULL);
		return -CONTEXT_EDQUOT;
	}
	if (!at) {
		context_bump(c, CONTEXT_MISSES);
		return -CONTEXT_EAGAIN;
	}
	*ret_frame = translation_frame(word);
	if (context_pin_word(c, at, word, block, ret_word))
		return 0;
	context_bump(c, CONTEXT_FULL);
	return context_slots_full(c) ? -CONTEXT_ENOBUFS : -CONTEXT_EAGAIN;
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

	if (c->counts)
		return 0;
	for (i = 0; i < context_nr_entries(c); i++) {
		u64 v = host_load_relaxed(&c->entries[i]);

		nr += c->scheme == ARENA_HAZARD ? v != 0 : pte_count(v) > 0;
	}
	return nr;
}

void context_check(const struct context *c)
{
	u32 i;

	for (i = 0; c->scheme == ARENA_SCANNED && i < context_nr_entries(c); i++) {
		u64 v = host_load_relaxed(&c->entries[i]);

		CHECK(pte_present(v) || v == PTE_EMPTY, "C2: present or empty");
		if (pte_count(v) > 0)
			CHECK(host_load_relaxed(&c->frames[pte_frame(v)].state) ==
			              FRAME_CACHED,
			      "C1: what is pinned is cached");
	}
}
