/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Readers that come and go.
 *
 *   reap  a reader is killed at any step; when that is certain its context leaves the walk
 *         list, and every frame can be taken
 *   join  a context comes while the service takes frames: it is on the walk list before
 *         its reader has its memory (I2)
 *
 * Not for atomic and frozen: under them a dead reader's pins stay (core/cache/arena.h).
 */
#include "check/arena_world.h"

/* ---- reap ---- */

static void reap_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *h;

	world_visit(r, world->a);
	h = world_pin(r, world->b);
	world_visit(r, world->a);
	if (h)
		world_look(h); /* and never given back */
}

static void reap_kernel(void *arg)
{
	(void)arg;
	check_kill(world->readers[0].task);
	world->dead[0] = true;
	world->hung_up = true;
}

static void reap_service(void *arg)
{
	(void)arg;
	world_refill(WORLD_FIRST, world->c);
	/* A hang-up is no proof; the pidfd is. */
	if (!MUTANT(LEAVE_BEFORE_DEATH))
		check_wait(world_is_set, &world->hung_up);
	arena_leave(&world->arena, world->readers[0].place);
	world_refill(WORLD_SECOND, world->d);
	CHECK_ASSERT(world_take(WORLD_FIRST), "what a dead reader had pinned is free");
	CHECK_ASSERT(world_take(WORLD_SECOND), "what a dead reader had pinned is free");
}

static void reap_setup(const void *arg)
{
	struct world_reader *r;

	world_setup(arg);
	r = &world->readers[0];
	check_task("service", 0, reap_service, NULL);
	r->task = check_task("reader", 1, reap_reader, r);
	check_fault("kernel", reap_kernel, NULL);
}

static void reap_finish(const void *arg)
{
	(void)arg;
	arena_check(&world->arena);
	CHECK_ASSERT(world->arena.nr_contexts == 0, "the walk list is empty");
}

/* ---- join ---- */

static void join_service(void *arg)
{
	struct world_reader *late = &world->readers[1];

	(void)arg;
	if (MUTANT(JOIN_AFTER_TOLD))
		world->told = true;
	world_refill(WORLD_FIRST, world->c);
	world_join(late);
	world->told = true; /* the reply, with the descriptor of its memory */
	world_refill(WORLD_FIRST, world->a);
}

static void join_reader(void *arg)
{
	struct world_reader *r = arg;

	check_wait(world_is_set, &world->told);
	world_visit(r, world->a);
	world_visit(r, world->c);
}

static void join_setup(const void *arg)
{
	world_setup(arg);
	/* Another context, at rest, with an entry that the walk finds first. */
	world_visit(&world->readers[0], world->a);
	check_task("service", 0, join_service, NULL);
	check_task("reader", 1, join_reader, &world->readers[1]);
}

static void join_finish(const void *arg)
{
	(void)arg;
	CHECK_ASSERT(world->arena.nr_contexts == 2, "both are on the walk list");
	world_check();
	world_take_all();
}

void arena_life_cases(struct check_list *list)
{
	static const struct arena_case one[] = {
		{ ARENA_SCANNED, 1, 1 },
		{ ARENA_HAZARD, 1, 1 },
	};
	/* Not under hazard: a take looks at 64 slots of each context, and the walk list is
	 * the same one. */
	static const struct arena_case two = { ARENA_SCANNED, 2, 1 };
	u32 i;

	for (i = 0; i < 2; i++)
		arena_add(list, "reap", &one[i], 2, reap_setup, reap_finish, false);
	arena_add(list, "join", &two, 2, join_setup, join_finish, false);
}
