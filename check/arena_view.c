/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Views: bytes read in place, while the service refills the frame or a writer opens the file.
 *
 *   view-refill  two readers view. The service fills the frame with another block, and then
 *                with the first one again
 *   view-revoke  a reader views. The service revokes the file, and its writer goes on
 */
#include "check/arena_short.h"

/* Reads through v, and asks; a block's bytes are the same for ever. */
static bool view_look(const struct world_reader *r, const struct view *v, u64 block)
{
	const struct cache_file file = { world->space, block_file(block) };
	const u64 *bytes = (const u64 *)v->data;
	u64 got[WORLD_WORDS];
	u32 i;

	for (i = 0; i < WORLD_WORDS; i++)
		got[i] = host_load_relaxed(&bytes[i]);
	if (!arena_short_holds(&r->context, &file, v))
		return false;
	for (i = 0; i < WORLD_WORDS; i++)
		CHECK_ASSERT(
			got[i] == world_truth(block, i),
			"C21: a view that holds gave other bytes than the block's");
	return true;
}

/* Begins a view, and looks through it twice. */
static void view_twice(struct world_reader *r, u64 block, u32 look)
{
	bool late = world_writer_came();
	struct view v;

	if (!(world_is_short(r, look) ? arena_short_view(&r->context, block, &v)
	                              : view_begin(&r->context, block, &v)) ||
	    !view_look(r, &v, block))
		return;
	CHECK_ASSERT(!late, "S1: a view begun after the writer came holds");
	view_look(r, &v, block);
}

/* ---- view-refill ---- */

static void refill_service(void *arg)
{
	(void)arg;
	world_refill(WORLD_FIRST, world->c);
	world_refill(WORLD_FIRST, world->a);
}

static void refill_reader(void *arg)
{
	struct world_reader *r = arg;

	view_twice(r, world->a, 0);
	view_twice(r, world->c, 1);
	view_twice(r, world->a, 2);
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

static void view_finish(const void *arg)
{
	(void)arg;
	world_check();
	world_take_all();
}

/* ---- view-revoke ---- */

static void revoke_service(void *arg)
{
	(void)arg;
	file_proof_revoke(world->space);
	world->writer_open = true;
	check_note("has let the writer go on");
}

static void revoke_reader(void *arg)
{
	view_twice(arg, world->a, 0);
	view_twice(arg, world->b, 1);
}

static void revoke_setup(const void *arg)
{
	world_setup(arg);
	world_draw_ways();
	check_task("service", 0, revoke_service, NULL);
	check_task("reader", 1, revoke_reader, &world->readers[0]);
}

void arena_view_cases(struct check_list *list)
{
	static const struct arena_case one[] = {
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, true },
	};
	static const struct arena_case two[] = {
		{ ARENA_SCANNED, 2, 2, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 2, 2, ARENA_BARRIER_LIGHT, true },
	};
	u32 i;

	for (i = 0; i < 2; i++) {
		arena_add(list, "view-refill", &two[i], 3, refill_setup, view_finish,
		          false);
		arena_add(list, "view-revoke", &one[i], 2, revoke_setup, view_finish,
		          false);
	}
}
