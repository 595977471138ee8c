/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Optimistic reads, while the service changes the frame under them.
 *
 *   read-refill  two readers copy; the service takes the frame, fills it with another block
 *                and then with the first one again
 *   read-dma     the same with one reader, but a device writes the bytes, from a CPU of its
 *                own. Then the order of the service's own stores is not enough (O1)
 *   visits       three readers note visits while the service collects them
 */
#include "check/arena_world.h"

#define VISITS_READS 4u

/* ---- read-refill ---- */

static void refill_service(void *arg)
{
	(void)arg;
	world_refill(WORLD_FIRST, world->c);
	world_refill(WORLD_FIRST, world->a);
}

static void refill_reader(void *arg)
{
	struct world_reader *r = arg;

	world_read_drawn(r, world->a, 0);
	world_read_drawn(r, world->a, 1);
	world_read_drawn(r, world->c, 2);
}

static void refill_setup(const void *arg)
{
	const struct arena_case *c = arg;
	u32 i;

	world_setup(arg);
	world_draw_ways();
	check_task("service", 0, refill_service, NULL);
	for (i = 0; i < c->nr_readers; i++)
		check_task("reader", 1 + i, refill_reader, &world->readers[i]);
}

static void refill_finish(const void *arg)
{
	(void)arg;
	world_check();
	world_take_all();
}

/* ---- read-dma ---- */

static bool dma_is_asked(void *arg)
{
	(void)arg;
	return world->dma_frame != 0 || world->finished;
}

static bool dma_is_done(void *arg)
{
	(void)arg;
	return world->dma_frame == 0;
}

static void dma_device(void *arg)
{
	u32 i;

	(void)arg;
	check_wait(dma_is_asked, NULL);
	if (world->finished)
		return;
	host_fence_release(); /* who sees its bytes sees what was before it was asked */
	for (i = 0; i < WORLD_WORDS; i++)
		host_store_relaxed(&world_bytes(world->dma_frame)[i],
		                   world_truth(world->dma_block, i));
	/* It says that it is done when memory has the bytes. */
	host_fence_full();
	world->dma_frame = 0;
}

static void dma_service(void *arg)
{
	(void)arg;
	if (world_take(WORLD_FIRST)) {
		world_fill_begin(WORLD_FIRST, world->c);
		world->dma_block = world->c;
		world->dma_frame = WORLD_FIRST;
		check_wait(dma_is_done, NULL);
		CHECK_ASSERT(world_fill_end(WORLD_FIRST, world->c),
		             "a file that stands is cached");
	}
	world->finished = true;
}

static void dma_setup(const void *arg)
{
	world_setup(arg);
	world_draw_ways();
	check_task("service", 0, dma_service, NULL);
	check_task("reader", 1, refill_reader, &world->readers[0]);
	check_task("device", 2, dma_device, NULL);
}

/* ---- visits ---- */

static void visits_service(void *arg)
{
	u8 visits;

	(void)arg;
	for (u32 turn = 0; turn < 3; turn++) {
		arena_visits(&world->arena, WORLD_FIRST, 1, &visits);
		CHECK_ASSERT(visits <= FRAME_VISITS_MAX,
		             "R5: visits that count are three at most");
	}
}

static void visits_reader(void *arg)
{
	struct world_reader *r = arg;
	u32 turn;

	for (turn = 0; turn < VISITS_READS; turn++)
		CHECK_ASSERT(world_read(r, world->a, true),
		             "collecting visits disturbs no reader");
}

static void visits_setup(const void *arg)
{
	const struct arena_case *c = arg;
	u32 i;

	world_setup(arg);
	check_task("service", 0, visits_service, NULL);
	for (i = 0; i < c->nr_readers; i++)
		check_task("reader", 1 + i, visits_reader, &world->readers[i]);
}

/* Updates may be lost, in either direction; the byte never says more than three. */
static void visits_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->arena.visits[WORLD_FIRST] <= FRAME_VISITS_MAX,
	             "R5: readers note three visits at most");
	world_check();
	world_take_all();
}

void arena_read_cases(struct check_list *list)
{
	static const struct arena_case one = { ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT,
		                               false };
	static const struct arena_case two = { ARENA_SCANNED, 2, 2, ARENA_BARRIER_LIGHT,
		                               false };
	static const struct arena_case inlined = { ARENA_SCANNED, 2, 2,
		                                   ARENA_BARRIER_LIGHT, true };
	static const struct arena_case three = { ARENA_SCANNED, 3, 3,
		                                 ARENA_BARRIER_LIGHT, false };

	arena_add(list, "read-refill", &two, 3, refill_setup, refill_finish, false);
	arena_add(list, "read-refill", &inlined, 3, refill_setup, refill_finish, false);
	arena_add(list, "read-dma", &one, 3, dma_setup, refill_finish, false);
	arena_add(list, "visits", &three, 4, visits_setup, visits_finish, false);
}
