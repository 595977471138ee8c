/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The oracle: fast memory holds what is used next, as the caller tells it (Belady). A simulator can
 * tell; a running cache cannot. An object in slow memory is promoted at a use if something in fast
 * memory is needed later than it. The oracle does not know what a move costs. A caller that wants
 * moves to pay may tell of an object's third next use, say, instead of its next.
 *
 * Invariant
 * KL18 The heap holds the objects on the LRU lists of tier 0, each once; none is needed later than
 *      the one above it.
 */
#include "core/kloc/policy.h"

struct oracle {
	u64 *when; /* by object: its next use */
	u32 *at;   /* by object: its place in the heap */
	u32 *heap;
	u32 nr;
};

static u64 ask(const struct kloc *k, u32 object)
{
	const struct kloc_ops *ops = &k->shape.ops;

	return ops->next_use ? ops->next_use(ops->arg, object, k->objects[object].key)
	                     : KLOC_NEVER;
}

static void put(struct oracle *h, u32 place, u32 object)
{
	h->heap[place] = object;
	h->at[object] = place;
}

/* Finds the object's place, upwards or downwards from the one that is free. */
static void sift(struct oracle *h, u32 place, u32 object)
{
	u64 when = h->when[object];

	while (place > 0 && h->when[h->heap[(place - 1) / 2]] < when) {
		put(h, place, h->heap[(place - 1) / 2]);
		place = (place - 1) / 2;
	}
	for (;;) {
		u32 child = 2 * place + 1;

		if (child + 1 < h->nr &&
		    h->when[h->heap[child + 1]] > h->when[h->heap[child]])
			child++;
		if (child >= h->nr || h->when[h->heap[child]] <= when)
			break;
		put(h, place, h->heap[child]);
		place = child;
	}
	put(h, place, object);
}

static void listed(struct kloc *k, u32 object)
{
	struct oracle *h = k->oracle;

	if (k->objects[object].tier != KLOC_FAST)
		return;
	h->when[object] = ask(k, object);
	h->nr++;
	sift(h, h->nr - 1, object);
}

static void unlisted(struct kloc *k, u32 object)
{
	struct oracle *h = k->oracle;
	u32 last;

	if (k->objects[object].tier != KLOC_FAST)
		return;
	last = h->heap[--h->nr];
	if (last != object)
		sift(h, h->at[object], last);
}

static struct kloc_wish place_oracle(struct kloc *k, const struct kloc_object *o,
                                     u32 cpu)
{
	(void)o;
	(void)cpu;
	return (struct kloc_wish){ KLOC_FAST, KLOC_BY_FUTURE,
		                   kloc_watermark(k, KLOC_FAST, k->p.low_permille) };
}

static void touched_oracle(struct kloc *k, u32 object, u32 cpu)
{
	struct oracle *h = k->oracle;
	const struct kloc_object *o = &k->objects[object];
	u64 high = kloc_watermark(k, KLOC_FAST, k->p.high_permille);

	(void)cpu;
	if (!kloc_is_idle(o) || o->list != LIST_LRU)
		return;
	h->when[object] = ask(k, object);
	if (o->tier == KLOC_FAST)
		sift(h, h->at[object], object);
	else if (h->when[object] != KLOC_NEVER &&
	         (kloc_headroom_soon(k, KLOC_FAST) >= high + o->bytes ||
	          (h->nr && h->when[h->heap[0]] > h->when[object])))
		kloc_want(k, object, KLOC_PROMOTE, KLOC_FAST, KLOC_BY_FUTURE);
}

static bool relieve_oracle(struct kloc *k, u32 tier, enum kloc_why why)
{
	struct oracle *h = k->oracle;
	u32 next = k->wanted[KLOC_PROMOTE][KLOC_FAST], object, to;

	if (!h->nr)
		return false;
	object = h->heap[0];
	/* For the sake of a promotion only what is needed later than that. */
	if (why != KLOC_BY_LIMIT && !k->tiers[tier].is_low &&
	    (next == KLOC_NONE || h->when[object] <= h->when[next]))
		return false;
	to = kloc_nearest(k, tier, k->objects[object].bytes);
	if (to == KLOC_NO_TIER || k->objects[object].pass == k->now % 255 + 1)
		return false;
	kloc_want(k, object, KLOC_DEMOTE, to,
	          why == KLOC_BY_LIMIT ? why : KLOC_BY_FUTURE);
	return true;
}

static void fini_oracle(struct kloc *k)
{
	struct oracle *h = k->oracle;
	size_t n = k->shape.nr_objects;

	if (!h)
		return;
	if (h->when)
		host_free(h->when, n * sizeof(*h->when));
	if (h->at)
		host_free(h->at, n * sizeof(*h->at));
	if (h->heap)
		host_free(h->heap, n * sizeof(*h->heap));
	host_free(h, sizeof(*h));
	k->oracle = NULL;
}

static int init_oracle(struct kloc *k)
{
	size_t n = k->shape.nr_objects;
	struct oracle *h = host_alloc(sizeof(*h), 64);

	k->oracle = h;
	if (!h)
		return -ENOMEM;
	h->when = host_alloc(n * sizeof(*h->when), 64);
	h->at = host_alloc(n * sizeof(*h->at), 64);
	h->heap = host_alloc(n * sizeof(*h->heap), 64);
	return h->when && h->at && h->heap ? 0 : -ENOMEM;
}

static void defaults_oracle(struct kloc_parameters *p)
{
	p->knode_tier = KLOC_NO_TIER;
	p->ping_pong = 255;
}

static void check_oracle(const struct kloc *k)
{
	const struct oracle *h = k->oracle;
	u32 i, nr = k->tiers[KLOC_FAST].nr_lru[0] + k->tiers[KLOC_FAST].nr_lru[1];

	CHECK(h->nr == nr, "KL18: all of fast memory is in the heap");
	for (i = 0; i < h->nr; i++) {
		CHECK(h->at[h->heap[i]] == i, "KL18: once");
		CHECK(!i || h->when[h->heap[(i - 1) / 2]] >= h->when[h->heap[i]],
		      "KL18: a heap");
	}
}

const struct kloc_policy kloc_oracle = { .name = "oracle",
	                                 .lru_kinds = KLOC_ALL_KINDS,
	                                 .place = place_oracle,
	                                 .touched = touched_oracle,
	                                 .listed = listed,
	                                 .unlisted = unlisted,
	                                 .relieve = relieve_oracle,
	                                 .defaults = defaults_oracle,
	                                 .init = init_oracle,
	                                 .fini = fini_oracle,
	                                 .check = check_oracle };
