/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Pins against a take of one frame, under every scheme and fence that an arena may have.
 *
 *   softmiss-reclaim  the reader's table has no entry for the block: a cold pin (C3, O5)
 *   pin-reclaim       it has one, with count 0: a warm pin (C1, C2, C5, C8)
 *   pin-two           two readers, so that a walk is refused half way
 *   pin-twin          two blocks whose ptes have the same home and the same tag (C6)
 *   pin-alias         two blocks whose words in the translation have one home and one tag (C6)
 *   entries-evict     two blocks of one home: each takes the other's entry when its count is
 *                     0; both ways of the set are in use
 *
 * These readers touch bytes only under a pin. So the service poisons a frame that it has
 * taken until it fills it: a reader that looks at it then had no right to.
 */
#include "check/arena_world.h"

#define TAKE_TURNS 2u

static void pin_take_and_fill(u32 frame, u64 block)
{
	if (!world_take(frame))
		return;
	check_poison(world_bytes(frame), WORLD_BYTES);
	host_relax();
	check_revive(world_bytes(frame), WORLD_BYTES);
	world_fill(frame, block);
}

/* All readers are done and hold nothing: nothing may be left behind. */
static void pin_finish(const void *arg)
{
	(void)arg;
	world_check();
	world_take_all();
}

/* ---- softmiss-reclaim ---- */

static void softmiss_service(void *arg)
{
	(void)arg;
	pin_take_and_fill(WORLD_FIRST, world->c);
	pin_take_and_fill(WORLD_FIRST, world->a);
}

static void softmiss_reader(void *arg)
{
	struct world_reader *r = arg;

	world_visit(r, world->a);
	world_visit(r, world->c);
}

static void softmiss_setup(const void *arg)
{
	world_setup(arg);
	check_task("service", 0, softmiss_service, NULL);
	check_task("reader", 1, softmiss_reader, &world->readers[0]);
}

/* ---- pin-reclaim, pin-two ---- */

static void pin_service(void *arg)
{
	u32 turn;

	(void)arg;
	for (turn = 0; turn < TAKE_TURNS; turn++)
		pin_take_and_fill(WORLD_FIRST, turn ? world->a : world->c);
}

static void pin_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *outer = world_pin(r, world->a);
	struct world_hold *inner;

	if (outer) {
		inner = world_pin(r, world->a);
		CHECK_ASSERT(r->context.scheme != ARENA_SCANNED || inner,
		             "C2: what is pinned can be pinned again");
		if (inner)
			world_unpin(r, inner);
		world_look(outer);
		world_unpin(r, outer);
	}
	world_visit(r, world->a);
}

static void pin_two_reader(void *arg)
{
	struct world_reader *r = arg;

	world_visit(r, world->a);
	world_visit(r, world->a);
}

static void pin_setup(const void *arg)
{
	const struct arena_case *c = arg;
	u32 i;

	world_setup(c);
	check_task("service", 0, pin_service, NULL);
	for (i = 0; i < c->nr_readers; i++) {
		/* An entry with count 0 for each: the pin is a warm one. */
		world_visit(&world->readers[i], world->a);
		check_task("reader", 1 + i,
		           c->nr_readers > 1 ? pin_two_reader : pin_reader,
		           &world->readers[i]);
	}
}

/* ---- pin-twin ---- */

static void twin_service(void *arg)
{
	(void)arg;
	pin_take_and_fill(WORLD_SECOND, world->twin);
	pin_take_and_fill(WORLD_FIRST, world->c);
}

static void twin_reader(void *arg)
{
	struct world_reader *r = arg;

	struct world_hold *a = world_pin(r, world->a);

	world_visit(r, world->twin); /* a's entry has a count, and the twin's tag */
	if (a) {
		world_look(a);
		world_unpin(r, a);
	}
	world_visit(r, world->twin);
	world_visit(r, world->a);
}

static void twin_setup(const void *arg)
{
	world_setup(arg);
	check_task("service", 0, twin_service, NULL);
	check_task("reader", 1, twin_reader, &world->readers[0]);
}

/* ---- pin-alias ---- */

static void alias_service(void *arg)
{
	(void)arg;
	pin_take_and_fill(WORLD_SECOND, world->aliased);
	pin_take_and_fill(WORLD_SECOND, world->alias);
	/* Both at once: the other one stands in its second bucket (T2, T3). */
	pin_take_and_fill(WORLD_FIRST, world->aliased);
}

static void alias_reader(void *arg)
{
	struct world_reader *r = arg;

	world_visit(r, world->alias);
	world_visit(r, world->aliased);
	world_read_drawn(r, world->alias, 0);
}

static void alias_setup(const void *arg)
{
	world_setup(arg);
	world_draw_ways();
	check_task("service", 0, alias_service, NULL);
	check_task("reader", 1, alias_reader, &world->readers[0]);
}

/* ---- entries-evict ---- */

static void evict_service(void *arg)
{
	(void)arg;
	pin_take_and_fill(WORLD_FIRST, world->c);
	pin_take_and_fill(WORLD_SECOND, world->d);
}

/* a and b have one home: each takes the other's entry when its count is 0. */
static void evict_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *a, *b;

	world_visit(r, world->a);
	b = world_pin(r, world->b);
	a = world_pin(r, world->a);
	if (b) {
		world_look(b);
		world_unpin(r, b);
	}
	if (a) {
		world_look(a);
		world_unpin(r, a);
	}
}

static void evict_setup(const void *arg)
{
	world_setup(arg);
	check_task("service", 0, evict_service, NULL);
	check_task("reader", 1, evict_reader, &world->readers[0]);
}

void arena_pin_cases(struct check_list *list)
{
	static const struct arena_case one[] = {
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, true },
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LOCK, true },
		{ ARENA_ATOMIC, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_FROZEN, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 1, 1, ARENA_BARRIER_LIGHT, false },
	};
	static const struct arena_case two[] = {
		{ ARENA_SCANNED, 2, 2, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 2, 2, ARENA_BARRIER_LOCK, false },
		{ ARENA_SCANNED, 2, 2, ARENA_BARRIER_LIGHT, true },
		{ ARENA_ATOMIC, 2, 2, ARENA_BARRIER_LOCK, false },
		{ ARENA_FROZEN, 2, 2, ARENA_BARRIER_LOCK, false },
	};
	u32 i;

	for (i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
		arena_add(list, "softmiss-reclaim", &one[i], 2, softmiss_setup,
		          pin_finish, false);
		arena_add(list, "pin-reclaim", &one[i], 2, pin_setup, pin_finish,
		          false);
		arena_add(list, "pin-alias", &one[i], 2, alias_setup, pin_finish,
		          false);
	}
	for (i = 0; i < sizeof(two) / sizeof(two[0]); i++)
		arena_add(list, "pin-two", &two[i], 3, pin_setup, pin_finish, true);
	for (i = 0; i < 4; i++) { /* the scanned gate, both fences and both texts */
		arena_add(list, "pin-twin", &one[i], 2, twin_setup, pin_finish, false);
		arena_add(list, "entries-evict", &one[i], 2, evict_setup, pin_finish,
		          false);
	}
}
