/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Readers that come and go.
 *
 *   reap       two readers; one hangs up, goes on reading, and is killed at any step. When
 *              nobody has its memory any more its context leaves the walk list. The other
 *              one's pins hold all the while, and in the end every frame can be taken
 *   join       a context comes while the service takes frames: it is on the walk list before
 *              its reader has its memory (K2)
 *   join-hole  one of two contexts leaves and a third one gets its place, while the second
 *              one's reader pins
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
	world->hung_up = true; /* it closes all its descriptors, and goes on */
	h = world_pin(r, world->b);
	world_visit(r, world->a);
	if (h)
		world_look(h); /* and never given back */
}

static void reap_other(void *arg)
{
	struct world_reader *r = arg;

	world_visit(r, world->a);
	world_visit(r, world->b);
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
	u8 visits;

	(void)arg;
	world_refill(WORLD_FIRST, world->c);
	check_wait(world_is_set, &world->hung_up);
	if (!cache_may_leave(true))
		/* Then nobody has its memory. */
		check_wait(world_is_set, &world->dead[0]);
	world_leave(&world->readers[0], false);
	world_refill(WORLD_SECOND, world->d);
	world_take(WORLD_FIRST);
	arena_visits(&world->arena, WORLD_SECOND, 1, &visits);
}

static void reap_setup(const void *arg)
{
	const struct arena_case *c = arg;
	struct world_reader *r;

	world_setup(arg);
	r = &world->readers[0];
	check_task("service", 0, reap_service, NULL);
	r->task = check_task("reader", 1, reap_reader, r);
	if (c->nr_readers > 1)
		check_task("other", 2, reap_other, &world->readers[1]);
	check_fault("kernel", reap_kernel, NULL);
}

static void reap_finish(const void *arg)
{
	const struct arena_case *c = arg;

	CHECK_ASSERT(world->arena.nr_contexts ==
	                     (c->nr_readers > 1 ? world->readers[1].place + 1 : 0),
	             "K2: the walk ends at the last context");
	world_check();
	world_take_all(); /* what the dead reader had pinned, too */
}

/* ---- join ---- */

static void join_service(void *arg)
{
	struct world_reader *late = &world->readers[1];

	(void)arg;
	world_refill(WORLD_FIRST, world->c);
	world_join(late);
	world_refill(WORLD_FIRST, world->a);
}

static void join_reader(void *arg)
{
	struct world_reader *r = arg;

	check_wait(world_is_set, &r->told);
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

/* ---- join-hole ---- */

static void hole_service(void *arg)
{
	struct world_reader *gone = &world->readers[0];
	struct world_reader *late = &world->readers[2];

	(void)arg;
	world->dead[gone->number] = true; /* it has said CONTEXT_CLOSE */
	world_leave(gone, true);
	world_refill(WORLD_FIRST, world->c);
	world_join(late);
	CHECK_ASSERT(late->place == gone->place, "a place is used again");
	world_refill(WORLD_SECOND, world->d);
	world_refill(WORLD_FIRST, world->a);
}

static void hole_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *h = world_pin(r, world->b);

	world_visit(r, world->a);
	if (h) {
		world_look(h);
		world_unpin(r, h);
	}
}

static void hole_setup(const void *arg)
{
	world_setup(arg);
	check_task("service", 0, hole_service, NULL);
	check_task("reader", 1, hole_reader, &world->readers[1]);
	check_task("late", 2, join_reader, &world->readers[2]);
}

void arena_life_cases(struct check_list *list)
{
	static const struct arena_case reap[] = {
		{ ARENA_SCANNED, 2, 2, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 2, 2, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 2, 2, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 2, 2, ARENA_BARRIER_LIGHT, false },
	};
	static const struct arena_case join[] = {
		{ ARENA_SCANNED, 2, 1, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 2, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 2, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 2, 1, ARENA_BARRIER_LIGHT, false },
	};
	static const struct arena_case hole[] = {
		{ ARENA_SCANNED, 3, 2, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 3, 2, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 3, 2, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 3, 2, ARENA_BARRIER_LIGHT, false },
	};
	u32 i;

	for (i = 0; i < sizeof(reap) / sizeof(reap[0]); i++) {
		arena_add(list, "reap", &reap[i], 3, reap_setup, reap_finish, false);
		arena_add(list, "join", &join[i], 2, join_setup, join_finish, false);
		arena_add(list, "join-hole", &hole[i], 3, hole_setup, join_finish,
		          false);
	}
}
