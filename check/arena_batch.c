/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Frames on their way out in batches, with a fence that another thread makes (batch.h).
 *
 *   batch-two     the service hides a frame for the second batch while the first one's fence
 *                 is under way; a reader pins both (B2, B3).
 *   batch-rescue  a frame is rescued and hidden again, by another batch, whose fence has not
 *                 been made yet (B1)
 *   batch-read    a frame is hidden and shown again: no read misses it (F4)
 *   stale-count   a reader counts, in vain, on an entry whose frame has another block of the
 *                 same set by now. It is stopped there for as long as the checker likes, and
 *                 killed. The frame can be taken all the same (K5)
 *   quota         a reader may pin one entry, and tries more: one that is in the way of the
 *                 first, and one whose home is free (C9)
 */
#include "check/arena_world.h"

/* ---- the thread that makes the fence ---- */

static bool fence_is_asked(void *arg)
{
	(void)arg;
	return world->fence_asked || world->finished;
}

static void fence_thread(void *arg)
{
	(void)arg;
	while (!world->finished) {
		check_wait(fence_is_asked, NULL);
		if (!world->fence_asked)
			break;
		world->fence_asked = false;
		batch_fence(&world->arena);
		world->fence_done = true;
	}
}

static void fence_ask(struct batch *b)
{
	bool own = world->arena.header->barrier == ARENA_BARRIER_LOCK;

	batch_close(&world->arena, b);
	if (own)
		batch_fence(&world->arena);
	world->fence_done = own;
	check_tell();
	world->fence_asked = !own;
}

static void fence_wait(struct batch *b)
{
	check_wait(world_is_set, &world->fence_done);
	batch_fenced(&world->arena, b);
}

/* Walks for all frames of a batch, and fills what is taken with other blocks. */
static void batch_walk(struct batch *b)
{
	enum batch_end end;
	u32 frame;

	while ((end = world_next(b, &frame)) != BATCH_DONE) {
		if (end != BATCH_TAKEN)
			continue;
		check_poison(world_bytes(frame), WORLD_BYTES);
		host_relax();
		check_revive(world_bytes(frame), WORLD_BYTES);
		world_fill(frame, frame == WORLD_FIRST ? world->c : world->d);
	}
}

static void batch_setup(void (*service)(void *arg), void (*reader)(void *arg),
                        const struct arena_case *c)
{
	world_setup(c);
	check_task("service", 0, service, NULL);
	check_task("fence", 1, fence_thread, NULL);
	check_task("reader", 2, reader, &world->readers[0]);
}

static void batch_finish(const void *arg)
{
	(void)arg;
	world_check();
	world_take_all();
}

/* ---- batch-two ---- */

static void two_service(void *arg)
{
	struct arena *a = &world->arena;
	struct batch *first = &world->batches[0];
	struct batch *second = &world->batches[1];

	(void)arg;
	batch_add(a, first, NULL, WORLD_FIRST);
	fence_ask(first);
	batch_add(a, second, NULL, WORLD_SECOND);
	fence_wait(first);
	batch_walk(first);
	fence_ask(second);
	fence_wait(second);
	batch_walk(second);
	world->finished = true;
}

static void two_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *b = world_pin(r, world->b);
	struct world_hold *a = world_pin(r, world->a);

	if (b) {
		world_look(b);
		world_unpin(r, b);
	}
	if (a) {
		world_look(a);
		world_unpin(r, a);
	}
}

static void two_setup(const void *arg)
{
	batch_setup(two_service, two_reader, arg);
}

/* ---- batch-rescue ---- */

static void rescue_service(void *arg)
{
	struct arena *a = &world->arena;
	struct batch *first = &world->batches[0];
	struct batch *second = &world->batches[1];

	(void)arg;
	batch_add(a, first, NULL, WORLD_FIRST);
	fence_ask(first);
	check_wait(world_is_set, &world->fence_done);
	batch_rescue(a, WORLD_FIRST);
	CHECK_ASSERT(!batch_is_hidden(a, WORLD_FIRST), "K7: rescued, so not hidden");
	batch_add(a, second, NULL, WORLD_FIRST);
	batch_fenced(a, first);
	batch_walk(first);
	if (!world->owned[WORLD_FIRST]) {
		fence_ask(second);
		fence_wait(second);
		batch_walk(second);
	}
	world->finished = true;
}

static void rescue_reader(void *arg)
{
	struct world_reader *r = arg;

	world_visit(r, world->a);
	world_visit(r, world->a);
}

static void rescue_setup(const void *arg)
{
	batch_setup(rescue_service, rescue_reader, arg);
}

/* ---- batch-read ---- */

static void read_service(void *arg)
{
	struct arena *a = &world->arena;
	struct batch *b = &world->batches[0];
	u32 frame;

	(void)arg;
	batch_add(a, b, NULL, WORLD_FIRST);
	fence_ask(b);
	fence_wait(b);
	batch_rescue(a, WORLD_FIRST);
	CHECK_ASSERT(world_next(b, &frame) == BATCH_RESCUED, "B1: a rescue is final");
	CHECK_ASSERT(world_next(b, &frame) == BATCH_DONE, "that was all");
	world->finished = true;
}

static void read_reader(void *arg)
{
	struct world_reader *r = arg;

	for (u32 i = 0; i < WORLD_LOOKS; i++)
		CHECK_ASSERT(world_read_drawn(r, world->a, i),
		             "F4: reads of a hidden frame go on");
}

static void read_setup(const void *arg)
{
	batch_setup(read_service, read_reader, arg);
	world_draw_ways();
}

/* ---- stale-count ---- */

static void stale_service(void *arg)
{
	struct arena *a = &world->arena;

	(void)arg;
	/* b moves to the frame that the reader's entry leads to. Nobody pins b. */
	CHECK_ASSERT(world_take(WORLD_SECOND), "K5: nobody has b pinned");
	check_wait(world_is_set, &world->hung_up);
	if (!world_take(WORLD_FIRST))
		return; /* the reader's count on a came first */
	world_fill(WORLD_FIRST, world->b);
	CHECK_ASSERT(world_take(WORLD_FIRST), "K5: a count for a holds up nobody else");
	world_fill(WORLD_FIRST, world->a);
	(void)a;
}

static void stale_reader(void *arg)
{
	struct world_reader *r = arg;

	world->hung_up = true; /* it says that it begins */
	world_visit(r, world->a);
	world_visit(r, world->a);
}

static void stale_kernel(void *arg)
{
	(void)arg;
	check_kill(world->readers[0].task);
	world->dead[0] = true;
	world->hung_up = true;
}

static void stale_setup(const void *arg)
{
	world_setup(arg);
	world_visit(&world->readers[0], world->a); /* a warm entry */
	check_task("service", 0, stale_service, NULL);
	world->readers[0].task =
		check_task("reader", 1, stale_reader, &world->readers[0]);
	check_fault("kernel", stale_kernel, NULL);
}

static void stale_finish(const void *arg)
{
	(void)arg;
	if (!world->dead[0])
		world_check();
}

/* ---- quota ---- */

static void quota_service(void *arg)
{
	(void)arg;
	world_refill(WORLD_FIRST, world->d);
}

static void quota_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *a = world_pin(r, world->a);
	struct world_hold *b = world_pin(r, world->b);
	struct world_hold *again = a ? world_pin(r, world->a) : NULL;

	CHECK_ASSERT(!a || again, "C9: another pin of the same entry is free");
	CHECK_ASSERT(!world_pin(r, world->c), "C9: the quota is used up");
	if (again)
		world_unpin(r, again);
	if (a)
		world_unpin(r, a);
	if (!b)
		b = world_pin(r, world->b);
	CHECK_ASSERT(b, "C9: what was given back can be used again");
	world_look(b);
	world_unpin(r, b);
}

static void quota_setup(const void *arg)
{
	world_setup(arg);
	world_fill(WORLD_THIRD, world->c);
	world->readers[0].context.quota = 1;
	check_task("service", 0, quota_service, NULL);
	check_task("reader", 1, quota_reader, &world->readers[0]);
}

static void quota_finish(const void *arg)
{
	(void)arg;
	world_check_unpinned(&world->readers[0]);
	world_check();
	world_take_all();
}

void arena_batch_cases(struct check_list *list)
{
	static const struct arena_case cases[] = {
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 1, 1, ARENA_BARRIER_LIGHT, false },
	};

	for (u32 i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		arena_add(list, "batch-two", &cases[i], 3, two_setup, batch_finish,
		          true);
		arena_add(list, "batch-rescue", &cases[i], 3, rescue_setup,
		          batch_finish, false);
	}
	for (u32 i = 0; i < 2; i++) {
		arena_add(list, "batch-read", &cases[i], 3, read_setup, batch_finish,
		          false);
		arena_add(list, "stale-count", &cases[i], 2, stale_setup, stale_finish,
		          false);
		arena_add(list, "quota", &cases[i], 2, quota_setup, quota_finish,
		          false);
	}
}
