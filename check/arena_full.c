/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What has no more room, while the service takes frames.
 *
 *   pin-full      both ways of a set are pinned, or all hazard slots: a third pin is refused, and
 *                 comes when one of the two has gone
 *   pin-most      an entry counts as many pins as it can: one more is refused
 *   publish-full  both buckets of a block are full: its frame stays the service's, and is published
 *                 when a block of the first bucket has gone
 */
#include "check/arena_world.h"

static void full_finish(const void *arg)
{
	(void)arg;
	world_check();
	world_check_unpinned(&world->readers[0]);
	world_take_all();
}

static void full_service(void *arg)
{
	(void)arg;
	world_refill(WORLD_FIRST, world->c);
	world_refill(WORLD_SECOND, world->d);
}

/* ---- pin-full ---- */

static void full_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *a = &r->holds[0], *b = &r->holds[1];

	CHECK_ASSERT(world_refused(r, world->twin) == -ENOBUFS,
	             "a full set or full slots say so");
	world_look(a);
	world_look(b);
	world_unpin(r, b);
	b = world_pin(r, world->twin);
	CHECK_ASSERT(b, "what one pin has left takes another one");
	world_look(a);
	world_unpin(r, a);
	world_unpin(r, b);
}

/* Nobody takes the twin's frame. */
static void full_setup(const void *arg)
{
	struct world_reader *r;

	world_setup(arg);
	r = &world->readers[0];
	world_fill(WORLD_THIRD, world->twin);
	CHECK_ASSERT(world_pin(r, world->a) && world_pin(r, world->b),
	             "there is room for two");
	check_task("service", 0, full_service, NULL);
	check_task("reader", 1, full_reader, r);
}

/* ---- pin-most ---- */

static void most_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *last = world_pin(r, world->a);

	CHECK_ASSERT(last, "there is room for one more");
	CHECK_ASSERT(world_refused(r, world->a) == -EOVERFLOW, "a full count says so");
	world_look(last);
	world_unpin(r, last);
	world_visit(r, world->a);
	world_look(&r->holds[0]);
}

static void most_setup(const void *arg)
{
	struct world_reader *r;
	u32 i;

	world_setup(arg);
	r = &world->readers[0];
	CHECK_ASSERT(world_pin(r, world->a), "there is room for many");
	/* By one hold of the oracle's: the others are of the same entry. */
	for (i = 2; i < PTE_COUNT_MAX; i++) {
		struct world_hold *h = world_pin(r, world->a);

		CHECK_ASSERT(h && h->word == r->holds[0].word, "in one entry");
		h->held = false;
	}
	check_task("service", 0, full_service, NULL);
	check_task("reader", 1, most_reader, r);
}

static void most_finish(const void *arg)
{
	struct world_reader *r = &world->readers[0];
	u32 i;

	for (i = 1; i < PTE_COUNT_MAX; i++)
		world_unpin(r, &r->holds[0]);
	full_finish(arg);
}

/* ---- publish-full ---- */

/* A third block of a's and b's bucket; and two that stand in its second one. */
static u64 publish_block, publish_others[BUCKET_WAYS];

static u64 bucket_of(u64 hash)
{
	return (hash >> world->arena.translation.shift) / BUCKET_WAYS;
}

static u64 tag_of(u64 block)
{
	return translation_tag(block_hash(block), block);
}

static void find_blocks(void)
{
	u64 first = bucket_of(block_hash(world->a)), second;
	u32 i = 0, index;

	for (publish_block = world->b + 1;; publish_block++) {
		second = bucket_of(translation_second_hash(publish_block));
		if (bucket_of(block_hash(publish_block)) == first && second != first)
			break;
	}
	for (index = 0; i < BUCKET_WAYS; index++) {
		u64 block = block_id(WORLD_OTHER, index);

		if (bucket_of(block_hash(block)) == second &&
		    tag_of(block) != tag_of(publish_block))
			publish_others[i++] = block;
	}
}

static void publish_service(void *arg)
{
	(void)arg;
	world_fill_begin(WORLD_THIRD, publish_block);
	world_write(WORLD_THIRD, publish_block);
	CHECK_ASSERT(!world_fill_end(WORLD_THIRD, publish_block),
	             "T2: there is no place to lead from");
	CHECK_ASSERT(!world_leads(publish_block, WORLD_THIRD), "T1: not led to");
	if (world_take(WORLD_SECOND))
		world_fill(WORLD_THIRD, publish_block);
}

static void publish_reader(void *arg)
{
	struct world_reader *r = arg;

	world_visit(r, publish_block);
	CHECK_ASSERT(world_read(r, world->a, false),
	             "what stands in a full bucket is found");
	world_visit(r, world->b);
	world_visit(r, publish_block);
}

static void publish_setup(const void *arg)
{
	struct translation *t;
	u32 i;

	world_setup(arg);
	t = &world->arena.translation;
	find_blocks();
	/* They lead to a frame that is never theirs. */
	for (i = 0; i < BUCKET_WAYS; i++)
		CHECK_ASSERT(translation_set(t, publish_others[i], WORLD_THIRD),
		             "room in the second bucket");
	check_task("service", 0, publish_service, NULL);
	check_task("reader", 1, publish_reader, &world->readers[0]);
}

static void publish_finish(const void *arg)
{
	u32 i;

	for (i = 0; i < BUCKET_WAYS; i++)
		translation_clear(&world->arena.translation, publish_others[i],
		                  WORLD_THIRD);
	full_finish(arg);
}

void arena_full_cases(struct check_list *list)
{
	/* All ways to pin; the last two have slots, and no entries. */
	static const struct arena_case cases[] = {
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, true },
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LOCK, true },
		{ ARENA_HAZARD, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 1, 1, ARENA_BARRIER_LIGHT, false },
	};
	static const struct arena_case published[] = {
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, false },
		{ ARENA_ATOMIC, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_FROZEN, 1, 1, ARENA_BARRIER_LOCK, false },
	};
	u32 i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		arena_add(list, "pin-full", &cases[i], 2, full_setup, full_finish,
		          false);
		if (cases[i].scheme == ARENA_SCANNED)
			arena_add(list, "pin-most", &cases[i], 2, most_setup,
			          most_finish, false);
	}
	for (i = 0; i < sizeof(published) / sizeof(published[0]); i++)
		arena_add(list, "publish-full", &published[i], 2, publish_setup,
		          publish_finish, false);
}
