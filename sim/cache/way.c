/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The ways of counting pins: sim/cache/way.h. */
#include <errno.h>
#include <string.h>

#include "sim/cache/way.h"

/* A line of a context's hazard slots: readers here hold one pin at a time. */
#define SLOTS 8u

/* ---- what all rivals share ---- */

/* The frame that the translation has for block. It may be wrong: rival_confirm(). */
static inline bool rival_find(const struct context *c, u64 block, u32 *ret_frame)
{
	u64 hash = block_hash(block);
	u64 word = translation_guess(&c->translation, hash);

	if (unlikely(!translation_leads(word, translation_tag(hash, block))) &&
	    !translation_find(&c->translation, block, &word))
		return false;
	*ret_frame = translation_frame(word);
	return context_has(c, *ret_frame);
}

/* After the count: does the frame take pins for block, and does somebody vouch for it? */
static inline bool rival_confirm(struct cache_reader *r, u32 frame, u64 block)
{
	struct context *c = &r->context;

	if (!context_look(c, frame, block))
		return false;
	context_visit(c, frame);
	return cache_vouch(c, &r->world->file);
}

static u64 *way_alloc(u64 bytes, const char *name)
{
	u64 *p = host_alloc(bytes, CACHE_LINE);

	if (p)
		sim_name(p, bytes, name);
	return p;
}

/* Words for each frame, once for each reader. */
static int way_make_words(struct cache_world *w)
{
	w->stride = (w->arena.nr_frames + 7u) & ~(u64)7;
	w->words = way_alloc(w->setup->nr_readers * w->stride * 8, "counter");
	return w->words ? 0 : -ENOMEM;
}

/* ---- lodic ---- */

static bool lodic_pin(struct cache_reader *r, u64 block, struct cache_pin *ret)
{
	struct context *c = &r->context;
	const struct cache_file *f = &r->world->file;

	return cache_pin_home(c, f, block, false, &ret->frame, &ret->word) ||
	       cache_pin(c, f, block, &ret->frame, &ret->word) == 0;
}

static void lodic_unpin(struct cache_reader *r, const struct cache_pin *pin)
{
	context_unpin_scanned(&r->context, pin->word);
}

static const struct cache_way way_lodic = {
	.name = "lodic",
	.scheme = ARENA_SCANNED,
	.barrier = ARENA_BARRIER_LIGHT,
	.reads_uncounted = true,
	.pin = lodic_pin,
	.unpin = lodic_unpin,
};

static const struct cache_way way_lodic_lock = {
	.name = "lodic-lock",
	.scheme = ARENA_SCANNED,
	.barrier = ARENA_BARRIER_LOCK,
	.reads_uncounted = true,
	.pin = lodic_pin,
	.unpin = lodic_unpin,
};

/* ---- hazard ---- */

static int hazard_make(struct cache_world *w)
{
	w->pinned = host_alloc(w->arena.nr_frames, CACHE_LINE);
	return w->pinned ? 0 : -ENOMEM;
}

static bool hazard_pin(struct cache_reader *r, u64 block, struct cache_pin *ret)
{
	u64 *slot = r->context.entries;
	u64 *end = slot + SLOTS;

	if (!rival_find(&r->context, block, &ret->frame))
		return false;
	while (unlikely(host_load_relaxed(slot) != 0))
		if (++slot == end)
			return false;
	count_hazard_word_ref_light(slot, ret->frame);
	ret->word = slot;
	if (likely(rival_confirm(r, ret->frame, block)))
		return true;
	count_hazard_word_unref(slot);
	return false;
}

static void hazard_unpin(struct cache_reader *r, const struct cache_pin *pin)
{
	(void)r;
	count_hazard_word_unref(pin->word);
}

/* All slots into the service's own table, which it then asks for each frame. A context's line
 * comes at once: by one load after another its owner would take it away in between. */
static u32 hazard_scan(struct cache_world *w)
{
	u64 slots[SLOTS];
	u32 place, i;

	memset(w->pinned, 0, w->arena.nr_frames);
	for (place = 0; place < w->arena.nr_contexts; place++) {
		host_copy(slots, w->walk[place].entries, sizeof(slots));
		for (i = 0; i < SLOTS; i++)
			if (slots[i])
				w->pinned[slots[i] - 1] = 1;
	}
	return w->arena.nr_contexts;
}

static u32 hazard_look(struct cache_world *w, u32 frame, bool *ret_pinned)
{
	*ret_pinned = w->pinned[frame];
	return 0;
}

static const struct cache_way way_hazard = {
	.name = "hazard",
	.scheme = ARENA_HAZARD,
	.barrier = ARENA_BARRIER_LIGHT,
	.make = hazard_make,
	.pin = hazard_pin,
	.unpin = hazard_unpin,
	.scan = hazard_scan,
	.look = hazard_look,
};

/* ---- percpu ---- */

static void percpu_add(struct cache_reader *r, u32 frame, u64 delta)
{
	host_percpu_add(&r->world->words[frame], (u32)r->world->stride, delta);
}

static bool percpu_pin(struct cache_reader *r, u64 block, struct cache_pin *ret)
{
	if (!rival_find(&r->context, block, &ret->frame))
		return false;
	percpu_add(r, ret->frame, 1);
	host_fence_light();
	if (likely(rival_confirm(r, ret->frame, block)))
		return true;
	percpu_add(r, ret->frame, -(u64)1);
	return false;
}

static void percpu_unpin(struct cache_reader *r, const struct cache_pin *pin)
{
	host_fence_release();
	percpu_add(r, pin->frame, -(u64)1);
}

static u32 percpu_look(struct cache_world *w, u32 frame, bool *ret_pinned)
{
	u64 sum = 0;
	u32 cpu;

	for (cpu = 0; cpu < w->setup->nr_readers; cpu++)
		sum += host_load_acquire(&w->words[cpu * w->stride + frame]);
	*ret_pinned = sum != 0;
	return cpu;
}

static const struct cache_way way_percpu = {
	.name = "percpu",
	.scheme = ARENA_SCANNED,
	.barrier = ARENA_BARRIER_LIGHT,
	.make = way_make_words,
	.pin = percpu_pin,
	.unpin = percpu_unpin,
	.look = percpu_look,
};

/* ---- paygo ---- */

/* Twice as many entries as frames, so that hardly any bucket is full of others' keys. */
static int paygo_make(struct cache_world *w)
{
	struct counter_domain *d = &w->domain;
	u32 buckets = 1;

	while (buckets * COUNTER_WAYS < 2 * w->arena.nr_frames)
		buckets *= 2;
	*d = (struct counter_domain){
		.stride = (u64)buckets * COUNTER_LINE,
		.nr_cpus = w->setup->nr_readers,
		.mask = (buckets - 1) * COUNTER_LINE,
		.scheme = COUNTER_PAYGO,
	};
	d->entries =
		(struct counter_entry *)way_alloc(d->nr_cpus * d->stride, "counter");
	w->words = way_alloc((u64)w->arena.nr_frames * 8, "object's word");
	return d->entries && w->words ? 0 : -ENOMEM;
}

static bool paygo_pin(struct cache_reader *r, u64 block, struct cache_pin *ret)
{
	struct cache_world *w = r->world;

	if (!rival_find(&r->context, block, &ret->frame))
		return false;
	ret->word = &w->words[ret->frame];
	if (counter_try_ref(&w->domain, ret->word, true, &ret->token) != COUNTER_TAKEN)
		return false;
	host_fence_light();
	if (likely(rival_confirm(r, ret->frame, block)))
		return true;
	counter_unref(&w->domain, ret->word, ret->token, true);
	return false;
}

static void paygo_unpin(struct cache_reader *r, const struct cache_pin *pin)
{
	counter_unref(&r->world->domain, pin->word, pin->token, true);
}

static u32 paygo_look(struct cache_world *w, u32 frame, bool *ret_pinned)
{
	*ret_pinned = counter_query(&w->domain, &w->words[frame]);
	return w->domain.nr_cpus;
}

static const struct cache_way way_paygo = {
	.name = "paygo",
	.scheme = ARENA_SCANNED,
	.barrier = ARENA_BARRIER_LIGHT,
	.make = paygo_make,
	.pin = paygo_pin,
	.unpin = paygo_unpin,
	.look = paygo_look,
};

/* ---- shared words ---- */

static bool word_pin(struct cache_reader *r, u64 block, struct cache_pin *ret)
{
	struct context *c = &r->context;

	if (!rival_find(c, block, &ret->frame))
		return false;
	ret->word = &c->counts[(u64)ret->frame * COUNT_STRIDE];
	if (c->scheme == ARENA_ATOMIC ? !count_atomic_word_ref(ret->word)
	                              : !count_frozen_word_ref(ret->word))
		return false;
	if (likely(rival_confirm(r, ret->frame, block)))
		return true;
	context_unpin_word(c, ret->word);
	return false;
}

static void word_unpin(struct cache_reader *r, const struct cache_pin *pin)
{
	context_unpin_word(&r->context, pin->word);
}

static const struct cache_way way_frozen = {
	.name = "frozen",
	.scheme = ARENA_FROZEN,
	.barrier = ARENA_BARRIER_LOCK,
	.pin = word_pin,
	.unpin = word_unpin,
};

static const struct cache_way way_atomic = {
	.name = "atomic",
	.scheme = ARENA_ATOMIC,
	.barrier = ARENA_BARRIER_LOCK,
	.pin = word_pin,
	.unpin = word_unpin,
};

/* ---- private: a pin is one store, as percpu's, and the service never looks ---- */

static u32 private_look(struct cache_world *w, u32 frame, bool *ret_pinned)
{
	(void)w;
	(void)frame;
	*ret_pinned = false;
	return 0;
}

static const struct cache_way way_private = {
	.name = "private",
	.scheme = ARENA_SCANNED,
	.barrier = ARENA_BARRIER_LIGHT,
	.make = way_make_words,
	.pin = percpu_pin,
	.unpin = percpu_unpin,
	.look = private_look,
};

/* ---- all of them ---- */

const struct cache_way *const cache_ways[] = {
	&way_lodic, &way_lodic_lock, &way_hazard, &way_percpu,
	&way_paygo, &way_frozen,     &way_atomic, &way_private,
};
const u32 cache_nr_ways = sizeof(cache_ways) / sizeof(cache_ways[0]);

const struct cache_way *cache_way_find(const char *name)
{
	u32 i;

	for (i = 0; i < cache_nr_ways; i++)
		if (strcmp(cache_ways[i]->name, name) == 0)
			return cache_ways[i];
	return NULL;
}
