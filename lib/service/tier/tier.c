/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See tier.h. Without two nodes the tiers are two parts of the same memory. All else is the same,
 * and so tests on any machine run what two nodes run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "lib/huge.h"
#include "lib/service/memory/nodes.h"
#include "lib/service/tier/tier.h"

/* A huge page lies in one tier as a whole. A smaller cache has none. */
#define WHOLE_FRAMES ((u32)(HUGE_PAGE_BYTES >> BLOCK_SHIFT))
#define WHOLE_MIN_FRAMES 4096u
#define KIB_SHIFT 10
#define MIB_SHIFT 20

int tier_shape(struct service *s, const char **ret_why)
{
	struct tiers *t = &s->tiers;
	u32 nr = s->shape.nr_frames;
	u64 fast = s->options.fast_bytes >> BLOCK_SHIFT;

	t->of[TIER_FAST].node = t->of[TIER_SLOW].node = -1;
	t->slow_from = nr;
	if (s->options.fast_bytes == 0)
		return 0;
	if (fast + FRAME_FIRST >= nr) {
		*ret_why = "the fast tier is as large as the whole cache; leave that "
			   "setting out, or give the cache more memory";
		return -EINVAL;
	}
	t->two = true;
	t->slow_from = (u32)fast + FRAME_FIRST;
	if (nr < WHOLE_MIN_FRAMES || s->options.small_pages)
		return 0;
	t->slow_from = (t->slow_from + WHOLE_FRAMES / 2) / WHOLE_FRAMES * WHOLE_FRAMES;
	if (t->slow_from == 0)
		t->slow_from = WHOLE_FRAMES;
	if (t->slow_from + WHOLE_FRAMES > nr)
		t->slow_from = nr / WHOLE_FRAMES * WHOLE_FRAMES - WHOLE_FRAMES;
	return 0;
}

u64 tier_fast_of(const struct service_options *o, u64 cache_bytes)
{
	u64 most = SERVICE_FAST_MOST(cache_bytes);

	return o->fast_bytes < most ? o->fast_bytes : most;
}

void tier_bind(struct service *s, void *data)
{
	const struct nodes *n = &s->nodes;
	struct tiers *t = &s->tiers;
	u64 fast = (u64)t->slow_from << BLOCK_SHIFT;
	u64 all = (u64)s->shape.nr_frames << BLOCK_SHIFT;

	if (!t->two || n->fast < 0 || n->slow < 0 ||
	    nodes_bind(n, data, fast, (u32)n->fast) != 0 ||
	    nodes_bind(n, (u8 *)data + fast, all - fast, (u32)n->slow) != 0)
		return;
	t->of[TIER_FAST].node = n->fast;
	t->of[TIER_SLOW].node = n->slow;
}

void tier_say(const struct service *s)
{
	const struct tiers *t = &s->tiers;
	u64 fast_bytes = (u64)t->slow_from << BLOCK_SHIFT;
	u64 slow_bytes = (u64)(s->shape.nr_frames - t->slow_from) << BLOCK_SHIFT;
	bool small = (fast_bytes < slow_bytes ? fast_bytes : slow_bytes) >> MIB_SHIFT == 0;
	unsigned long long fast = fast_bytes >> (small ? KIB_SHIFT : MIB_SHIFT);
	unsigned long long slow = slow_bytes >> (small ? KIB_SHIFT : MIB_SHIFT);
	const char *unit = small ? "KiB" : "MiB";

	if (!t->two)
		return;
	if (t->of[TIER_FAST].node >= 0)
		service_say(s, SERVICE_INFO, "tiers",
		            "two tiers: %llu %s fast on node %d, %llu %s slow on "
		            "node %d",
		            fast, unit, t->of[TIER_FAST].node, slow, unit,
		            t->of[TIER_SLOW].node);
	else
		service_say(s, SERVICE_INFO, "tiers",
		            "two tiers: %llu %s fast, %llu %s slow; both lie "
		            "anywhere, because there are no two nodes of memory, or "
		            "mbind(2) is refused",
		            fast, unit, slow, unit);
}

int tier_init(struct service *s)
{
	struct tiers *t = &s->tiers;
	u32 nr = s->shape.nr_frames;

	if (!t->two) /* memory_make() may have added some */
		t->slow_from = nr;
	t->of[TIER_FAST].nr_frames = t->slow_from - FRAME_FIRST;
	t->of[TIER_SLOW].nr_frames = nr - t->slow_from;
	for (u32 i = 0; i < NR_TIERS; i++) {
		t->of[i].free = calloc((u64)t->of[i].nr_frames + 1, sizeof(u32));
		if (!t->of[i].free)
			return -ENOMEM;
	}
	while (nr-- > FRAME_FIRST) /* low ones first out */
		tier_push(s, nr);
	return 0;
}

void tier_fini(struct service *s)
{
	for (u32 i = 0; i < NR_TIERS; i++)
		free(s->tiers.of[i].free);
}

const char *tier_name(enum tier tier)
{
	return tier == TIER_FAST ? "fast" : "slow";
}

void tier_push(struct service *s, u32 frame)
{
	struct tiers *t = &s->tiers;
	u32 tier = tier_of(s, frame);

	t->of[tier].free[t->of[tier].nr_free++] = frame;
	t->nr_free++;
}

u32 tier_pop_exact(struct service *s, enum tier tier)
{
	struct tiers *t = &s->tiers;

	if (t->of[tier].nr_free == 0)
		return FRAME_NONE;
	t->nr_free--;
	return t->of[tier].free[--t->of[tier].nr_free];
}

u32 tier_pop(struct service *s, enum tier wanted)
{
	u32 frame = tier_pop_exact(s, wanted);

	s->tiers.of[wanted].asked++;
	if (frame != FRAME_NONE)
		return frame;
	s->tiers.of[wanted].missed++;
	return tier_pop_exact(s, wanted == TIER_FAST ? TIER_SLOW : TIER_FAST);
}

u32 tier_pop_nth(struct service *s, u32 i)
{
	struct tiers *t = &s->tiers;
	enum tier tier = i < t->of[TIER_FAST].nr_free ? TIER_FAST : TIER_SLOW;
	u32 *free_frames = t->of[tier].free;
	u32 last = t->of[tier].nr_free - 1, frame;

	i -= tier == TIER_SLOW ? t->of[TIER_FAST].nr_free : 0;
	frame = free_frames[i];
	free_frames[i] = free_frames[last];
	free_frames[last] = frame;
	return tier_pop_exact(s, tier);
}

static bool tier_matches(const char *const *globs, const char *path)
{
	for (; globs && *globs; globs++)
		if (fnmatch(*globs, path, FNM_PATHNAME) == 0)
			return true;
	return false;
}

bool tier_replicates(const struct service *s, const char *path)
{
	return tier_matches(s->options.replicate, path);
}

enum tier tier_wanted(const struct service *s, const char *path, bool *ret_said)
{
	bool fast = tier_matches(s->options.fast, path);
	bool slow = !fast && tier_matches(s->options.slow, path);

	*ret_said = fast || slow;
	return slow ? TIER_SLOW : TIER_FAST;
}
