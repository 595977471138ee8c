/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See tier.h. Without two nodes the tiers are two parts of the same memory. All else is the same,
 * and so tests on any machine run what two nodes run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "lib/huge.h"
#include "core/block.h"
#include "core/frame.h"
#include "lib/look.h"
#include "lib/port.h"
#include "lib/service/memory/nodes.h"
#include "lib/service/tier/tier.h"
#include "lib/service/tier/state.h"

/* A huge page lies in one tier as a whole. A smaller cache has none. */
#define WHOLE_FRAMES ((u32)(HUGE_PAGE_BYTES >> BLOCK_SHIFT))
#define WHOLE_MIN_FRAMES 4096u
#define KIB_SHIFT 10
#define MIB_SHIFT 20

int tier_shape(struct tiers *s, const char **ret_why)
{
	struct tiers *t = s;
	u32 nr = s->shape->nr_frames;
	u64 fast = s->sizes->fast_bytes >> BLOCK_SHIFT;

	t->of[TIER_FAST].node = t->of[TIER_SLOW].node = -1;
	t->slow_from = nr;
	if (s->sizes->fast_bytes == 0)
		return 0;
	if (fast + FRAME_FIRST >= nr) {
		*ret_why = "the fast tier is as large as the whole cache; leave that "
			   "setting out, or give the cache more memory";
		return -EINVAL;
	}
	t->two = true;
	t->slow_from = (u32)fast + FRAME_FIRST;
	if (nr < WHOLE_MIN_FRAMES || s->tables->small_pages)
		return 0;
	t->slow_from = (t->slow_from + WHOLE_FRAMES / 2) / WHOLE_FRAMES * WHOLE_FRAMES;
	if (t->slow_from == 0)
		t->slow_from = WHOLE_FRAMES;
	if (t->slow_from + WHOLE_FRAMES > nr)
		t->slow_from = nr / WHOLE_FRAMES * WHOLE_FRAMES - WHOLE_FRAMES;
	return 0;
}

u64 tier_fast_of(const struct service_sizes *sizes, u64 cache_bytes)
{
	u64 most = SERVICE_FAST_MOST(cache_bytes);

	return sizes->fast_bytes < most ? sizes->fast_bytes : most;
}

void tier_bind(struct tiers *s, void *data)
{
	const struct nodes *n = s->nodes;
	struct tiers *t = s;
	u64 fast = (u64)t->slow_from << BLOCK_SHIFT;
	u64 all = (u64)s->shape->nr_frames << BLOCK_SHIFT;

	if (!t->two || n->fast < 0 || n->slow < 0 ||
	    nodes_bind(n, data, fast, (u32)n->fast) != 0 ||
	    nodes_bind(n, (u8 *)data + fast, all - fast, (u32)n->slow) != 0)
		return;
	t->of[TIER_FAST].node = n->fast;
	t->of[TIER_SLOW].node = n->slow;
}

void tier_say(const struct tiers *s)
{
	const struct tiers *t = s;
	u64 fast_bytes = (u64)t->slow_from << BLOCK_SHIFT;
	u64 slow_bytes = (u64)(s->shape->nr_frames - t->slow_from) << BLOCK_SHIFT;
	bool small =
		(fast_bytes < slow_bytes ? fast_bytes : slow_bytes) >> MIB_SHIFT == 0;
	unsigned long long fast = fast_bytes >> (small ? KIB_SHIFT : MIB_SHIFT);
	unsigned long long slow = slow_bytes >> (small ? KIB_SHIFT : MIB_SHIFT);
	const char *unit = small ? "KiB" : "MiB";

	if (!t->two)
		return;
	if (t->of[TIER_FAST].node >= 0)
		service_say(s->base, SERVICE_INFO, "tiers",
		            "two tiers: %llu %s fast on node %d, %llu %s slow on "
		            "node %d",
		            fast, unit, t->of[TIER_FAST].node, slow, unit,
		            t->of[TIER_SLOW].node);
	else
		service_say(s->base, SERVICE_INFO, "tiers",
		            "two tiers: %llu %s fast, %llu %s slow; both lie "
		            "anywhere, because there are no two nodes of memory, or "
		            "mbind(2) is refused",
		            fast, unit, slow, unit);
}

int tier_init(struct tiers *s)
{
	struct tiers *t = s;
	u32 nr = s->shape->nr_frames;

	if (!t->two) /* memory_make() may have added some */
		t->slow_from = nr;
	t->of[TIER_FAST].nr_frames = t->slow_from - FRAME_FIRST;
	t->of[TIER_SLOW].nr_frames = nr - t->slow_from;
	for (u32 i = 0; i < NR_TIERS; i++) {
		t->of[i].free_frames =
			port_alloc(((u64)t->of[i].nr_frames + 1) * sizeof(u32));
		if (!t->of[i].free_frames)
			return -ENOMEM;
	}
	while (nr-- > FRAME_FIRST) /* low ones first out */
		tier_push(s, nr);
	return 0;
}

void tier_fini(struct tiers *s)
{
	for (u32 i = 0; i < NR_TIERS; i++)
		port_free(s->of[i].free_frames);
}

enum tier tier_of(const struct tiers *s, u32 frame)
{
	return frame < s->slow_from ? TIER_FAST : TIER_SLOW;
}

u32 tier_nr_free(const struct tiers *s)
{
	return s->nr_free;
}

u32 tier_nr_aside(const struct tiers *s)
{
	return s->nr_aside;
}

void tier_look(const struct tiers *s, enum tier tier, struct look_tier *ret)
{
	ret->node = s->of[tier].node;
	ret->frames = s->of[tier].nr_frames;
	ret->free_frames = s->of[tier].nr_free;
	ret->moved = s->of[tier].moved;
	ret->begun = s->of[tier].begun;
	ret->refused = s->of[tier].refused;
	ret->no_room = s->of[tier].no_room;
	ret->asked = s->of[tier].asked;
	ret->missed = s->of[tier].missed;
}

int tier_node(const struct tiers *s, enum tier tier)
{
	return s->of[tier].node;
}

bool tier_are_two(const struct tiers *s)
{
	return s->two;
}

bool tier_has_policy(const struct tiers *s)
{
	return s->policy != NULL;
}

void tier_push(struct tiers *s, u32 frame)
{
	struct tiers *t = s;
	u32 tier = tier_of(s, frame);

	t->of[tier].free_frames[t->of[tier].nr_free++] = frame;
	t->nr_free++;
}

u32 tier_pop_exact(struct tiers *s, enum tier tier)
{
	struct tiers *t = s;

	if (t->of[tier].nr_free == 0)
		return FRAME_NONE;
	t->nr_free--;
	return t->of[tier].free_frames[--t->of[tier].nr_free];
}

u32 tier_pop(struct tiers *s, enum tier wanted)
{
	u32 frame = tier_pop_exact(s, wanted);

	s->of[wanted].asked++;
	if (frame != FRAME_NONE)
		return frame;
	s->of[wanted].missed++;
	return tier_pop_exact(s, wanted == TIER_FAST ? TIER_SLOW : TIER_FAST);
}

u32 tier_pop_nth(struct tiers *s, u32 i)
{
	struct tiers *t = s;
	enum tier tier = i < t->of[TIER_FAST].nr_free ? TIER_FAST : TIER_SLOW;
	u32 *free_frames = t->of[tier].free_frames;
	u32 last = t->of[tier].nr_free - 1, frame;

	i -= tier == TIER_SLOW ? t->of[TIER_FAST].nr_free : 0;
	frame = free_frames[i];
	free_frames[i] = free_frames[last];
	free_frames[last] = frame;
	return tier_pop_exact(s, tier);
}

u32 tier_set_aside(struct tiers *s, enum tier to)
{
	u32 target = tier_pop_exact(s, to);

	if (target == FRAME_NONE)
		s->of[to].no_room++;
	else
		s->nr_aside++;
	return target;
}

void tier_put_back(struct tiers *s, u32 target)
{
	s->nr_aside--;
	tier_push(s, target);
}

void tier_move_begun(struct tiers *s, u32 target)
{
	s->of[tier_of(s, target)].begun++;
}

void tier_move_ended(struct tiers *s, u32 target, bool moved)
{
	enum tier to = tier_of(s, target);

	s->of[to].moved += moved;
	s->of[to].refused += !moved;
	if (moved)
		s->nr_aside--;
	else
		tier_put_back(s, target);
}

static bool tier_matches(const char *const *globs, const char *path)
{
	for (; globs && *globs; globs++)
		if (fnmatch(*globs, path, FNM_PATHNAME) == 0)
			return true;
	return false;
}

bool tier_replicates(const struct tiers *s, const char *path)
{
	return tier_matches(s->placing->replicate, path);
}

enum tier tier_wanted(const struct tiers *s, const char *path, bool *ret_said)
{
	bool fast = tier_matches(s->placing->fast, path);
	bool slow = !fast && tier_matches(s->placing->slow, path);

	*ret_said = fast || slow;
	return slow ? TIER_SLOW : TIER_FAST;
}
