/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Hints: rings from readers to the service, and its sleep (core/cache/hint.h).
 *
 *   hint-ring  two readers post; the service takes all hints and sleeps in between. A hint
 *              that is there while the service sleeps for ever is a lost wake-up. The
 *              checker reports it as a deadlock.
 *   hint-full  the ring is full: no reader may write over what the service has not read.
 *   hint-kept  the ring is full, and the reader keeps ranges beside it. The service takes them,
 *              whole, and misses none.
 *   hint-forged  one ring says that it holds more hints than it can. The service ignores it,
 *              takes the other one's, and sleeps.
 *
 * Hint number n of a ring wants n + 1 blocks from block n on, so that each can be told from
 * all others.
 */
#include "check/arena_world.h"

#define HINTS_EACH 2u
#define FULL_TAKES 3u
#define FULL_POSTS 2u

static u64 hint_block(u64 number)
{
	return block_id(WORLD_FILE, (u32)number);
}

static void ring_post(struct world_reader *r)
{
	u64 number = r->nr_posted;
	struct hint_ring *ring = &r->table.memory->ring;

	if (hint_full(ring))
		return;
	r->nr_posted++; /* before anybody can take it */
	if (hint_post(ring, &r->table.memory->kept, &world->arena.posted[r->place],
	              &world->arena.header->sleeping, hint_block(number), number + 1))
		host_fetch_add(&world->wake, 1); /* write(eventfd) */
}

/* Takes one hint and looks whether it is whole. */
static bool ring_take(struct world_reader *r)
{
	const struct hint_ring *ring = &r->table.memory->ring;
	u64 number = r->nr_taken;
	u64 block, nr;

	/* H2: the next post there must know that the service has read this hint. */
	if (number < ring->head)
		for (u32 i = 0; i < 2; i++)
			(void)check_load_held(&ring->slots[number % HINT_MAX][i]);
	if (!arena_hint(&world->arena, r->place, &block, &nr))
		return false;
	CHECK_ASSERT(number < r->nr_posted, "only what was posted is taken");
	CHECK_ASSERT(block == hint_block(number) && nr == number + 1,
	             "a hint arrives as it was posted, once and in order");
	r->nr_taken++;
	return true;
}

/* ---- hint-ring ---- */

static bool hint_is_woken(void *arg)
{
	(void)arg;
	return world->wake != 0;
}

static void ring_service(void *arg)
{
	u32 left = 0;
	u32 i;

	(void)arg;
	for (i = 0; i < world->nr_readers; i++)
		left += HINTS_EACH - (u32)world->readers[i].nr_taken;
	while (left > 0) {
		for (i = 0; i < world->nr_readers; i++)
			if (arena_posted(&world->arena, world->readers[i].place))
				while (left > 0 && ring_take(&world->readers[i]))
					left--;
		if (left == 0 || !arena_sleep(&world->arena))
			continue;
		check_wait(hint_is_woken, NULL); /* epoll_wait(): edge-triggered */
		host_xchg(&world->wake, 0);
		arena_wake(&world->arena);
	}
}

static void ring_reader(void *arg)
{
	u32 i;

	for (i = 0; i < HINTS_EACH; i++)
		ring_post(arg);
}

static void ring_setup(const void *arg)
{
	const struct arena_case *c = arg;
	u32 i;

	world_setup(c);
	check_task("service", 0, ring_service, NULL);
	for (i = 0; i < c->nr_readers; i++)
		check_task("reader", 1 + i, ring_reader, &world->readers[i]);
}

static void ring_finish(const void *arg)
{
	const struct arena_case *c = arg;
	u32 i;

	for (i = 0; i < c->nr_readers; i++)
		CHECK_ASSERT(!ring_take(&world->readers[i]), "no hint comes twice");
	world_check();
}

/* ---- hint-forged ---- */

static void forged_service(void *arg)
{
	u64 block, nr;
	u32 i, tries;

	ring_service(arg);
	/* The other reader may mark its ring after its hint was taken, once for each hint. */
	for (tries = 0; !arena_sleep(&world->arena); tries++) {
		CHECK_ASSERT(tries <= HINTS_EACH,
		             "a ring that lies keeps nobody awake");
		for (i = 0; i < world->nr_readers; i++)
			if (arena_posted(&world->arena, world->readers[i].place))
				CHECK_ASSERT(!arena_hint(&world->arena,
				                         world->readers[i].place,
				                         &block, &nr),
				             "a ring that lies gives nothing");
	}
}

static void forged_setup(const void *arg)
{
	world_setup(arg);
	world->readers[0].table.memory->ring.head = HINT_MAX + 1;
	world->arena.posted[world->readers[0].place] = 1;
	/* Its hints count as taken, so that the service waits for the other one's. */
	world->readers[0].nr_taken = HINTS_EACH;
	check_task("service", 0, forged_service, NULL);
	check_task("reader", 1, ring_reader, &world->readers[1]);
}

static void forged_finish(const void *arg)
{
	(void)arg;
	world_check();
}

/* ---- hint-full ---- */

static void full_service(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i < FULL_TAKES; i++)
		CHECK_ASSERT(ring_take(&world->readers[0]), "a full ring has hints");
}

static void full_reader(void *arg)
{
	u32 i;

	for (i = 0; i < FULL_POSTS; i++)
		ring_post(arg);
}

static void full_setup(const void *arg)
{
	struct context_memory *m;
	u32 i;

	world_setup(arg);
	m = world->readers[0].table.memory;
	for (i = 0; i < HINT_MAX; i++) {
		m->ring.slots[i][0] = hint_block(i);
		m->ring.slots[i][1] = i + 1;
	}
	m->ring.head = HINT_MAX;
	world->readers[0].nr_posted = HINT_MAX;
	check_task("service", 0, full_service, NULL);
	check_task("reader", 1, full_reader, &world->readers[0]);
}

static void full_finish(const void *arg)
{
	struct world_reader *r = &world->readers[0];

	(void)arg;
	while (ring_take(r))
		;
	CHECK_ASSERT(r->nr_taken == r->nr_posted, "what was posted arrives");
}

/* ---- hint-kept ---- */

/* The reader misses these blocks, one by one. The first two make one range. */
#define KEPT_POSTS 3u
static const u32 kept_posts[KEPT_POSTS] = { 20, 21, 30 };

/* Notes what was taken: each range must be made of what was posted. */
static void kept_take(struct world_reader *r)
{
	u64 ranges[HINT_KEPT][2];
	u32 nr = arena_kept(&world->arena, r->place, ranges);

	for (u32 i = 0; i < nr; i++) {
		bool gaps = ranges[i][1] & HINT_GAPS;
		u64 blocks = ranges[i][1] & ~HINT_BITS;
		u32 known = 0;

		for (u32 k = 0; k < r->nr_posted; k++) {
			u64 block = hint_block(kept_posts[k]);

			if (block - ranges[i][0] >= blocks)
				continue;
			known++;
			r->nr_taken |= (u64)1 << k;
		}
		CHECK_ASSERT(gaps || known == blocks,
		             "a range has what was posted, and nothing else");
	}
}

static bool kept_has_all(const struct world_reader *r)
{
	return r->nr_taken == ((u64)1 << KEPT_POSTS) - 1;
}

static void kept_service(void *arg)
{
	struct world_reader *r = &world->readers[0];

	(void)arg;
	while (!kept_has_all(r)) {
		if (arena_posted(&world->arena, r->place))
			kept_take(r);
		if (kept_has_all(r) || !arena_sleep(&world->arena))
			continue;
		check_wait(hint_is_woken, NULL);
		host_xchg(&world->wake, 0);
		arena_wake(&world->arena);
	}
}

static void kept_reader(void *arg)
{
	struct world_reader *r = arg;
	struct context_memory *m = r->table.memory;

	for (u32 i = 0; i < KEPT_POSTS; i++) {
		r->nr_posted++; /* before anybody can take it */
		if (hint_post(&m->ring, &m->kept, &world->arena.posted[r->place],
		              &world->arena.header->sleeping, hint_block(kept_posts[i]),
		              1))
			host_fetch_add(&world->wake, 1);
	}
}

static void kept_setup(const void *arg)
{
	world_setup(arg);
	world->readers[0].table.memory->ring.head = HINT_MAX;
	check_task("service", 0, kept_service, NULL);
	check_task("reader", 1, kept_reader, &world->readers[0]);
}

void arena_hint_cases(struct check_list *list)
{
	static const struct arena_case two = { ARENA_SCANNED, 2, 2, ARENA_BARRIER_LIGHT,
		                               false };
	static const struct arena_case one = { ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT,
		                               false };

	arena_add(list, "hint-ring", &two, 3, ring_setup, ring_finish, false);
	arena_add(list, "hint-forged", &two, 2, forged_setup, forged_finish, false);
	arena_add(list, "hint-kept", &one, 2, kept_setup, forged_finish, false);
	arena_add(list, "hint-full", &one, 2, full_setup, full_finish, false);
}
