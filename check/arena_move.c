/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Blocks that move from frame to frame under readers (core/cache/move.h).
 *
 *   move-pin     a block moves, and its old frame is refilled; then it moves back. Readers pin
 *                it (MV1, MV2)
 *   move-read    a block moves once. A reader that looks twice always finds it (O50)
 *   move-view    readers view a block that moves, and what comes into its old frame (MV4)
 *   move-evict   a frame is hidden for a move, rescued, and hidden by an eviction, whose fence
 *                has not been made yet (B1)
 *   move-revoke  a writer comes while a block moves (MV5)
 *   move-full    no frame is free: one block is evicted for the other one's move
 *   move-alias   a block that stands in its second bucket moves, and so does the one whose tag
 *                keeps it there (T3)
 *   move-kill    a reader is killed at any step, with a pin or without
 */
#include "check/arena_short.h"

/* The service was just told that the block in source has moved. */
static void world_moved(u64 block, u32 source, u32 target)
{
	const struct frame *f = &world->arena.frames[source];

	check_note("has moved from frame %u to %u", source, target);
	CHECK_ASSERT(!world_is_held(source), "MV1: a pinned block was moved");
	CHECK_ASSERT(!world->owned[source], "a frame is taken once");
	CHECK_ASSERT(host_load_relaxed(&f->block) == BLOCK_NONE &&
	                     host_load_relaxed(&f->state) == FRAME_FREE,
	             "MV4: a source is free and has no name");
	CHECK_ASSERT(world_leads(block, target) && !world_leads(block, source),
	             "MV3: moved, so led to the target");
	CHECK_ASSERT(host_load_relaxed(&world->arena.frames[target].pins) == block,
	             "MV2: moved, so the target takes pins");
	world->owned[source] = true;
}

static enum batch_end world_move_end(struct batch *b, u32 source, u32 target,
                                     enum batch_end (*move)(struct batch *, u32, u32))
{
	u64 block = host_load_relaxed(&world->arena.frames[source].block);
	enum batch_end end;

	/* From somewhere in the move on, readers may pin the target. */
	world->owned[target] = false;
	end = move(b, source, target);
	if (end == BATCH_TAKEN) {
		world_moved(block, source, target);
		return end;
	}
	CHECK_ASSERT(!world_is_held(target), "MV2: no pin on a target that is free");
	CHECK_ASSERT(world_leads(block, source), "MV1: refused, so led to as before");
	world->owned[target] = true;
	return end;
}

static enum batch_end world_move_by_batch(struct batch *b, u32 source, u32 target)
{
	u32 frame;
	enum batch_end end = move_next(&world->arena, b, target, &frame);

	CHECK_ASSERT(frame == source, "B1: frames come in their order");
	return end;
}

static enum batch_end world_move_by_word(struct batch *b, u32 source, u32 target)
{
	(void)b;
	return move_word(&world->arena, source, target) ? BATCH_TAKEN : BATCH_REFUSED;
}

/* move_next(), and the oracle's word on it. The target is owned. BATCH_TAKEN: the source is. */
static enum batch_end world_move_next(struct batch *b, u32 target)
{
	return world_move_end(b, b->frames[b->at], target, world_move_by_batch);
}

/* All of it for one frame, at once. true: its block is in target now. */
static bool world_move(u32 source, u32 target)
{
	struct arena *a = &world->arena;
	struct batch *b = &world->batches[0];
	enum batch_end end;
	u32 frame;

	if (a->counts)
		return world_move_end(b, source, target, world_move_by_word) ==
		       BATCH_TAKEN;
	walk_list(a, &b->list);
	if (!batch_add(a, b, &b->list, source))
		return false;
	batch_close(a, b);
	batch_fence(a);
	batch_fenced(a, b);
	end = world_move_next(b, target);
	batch_next(a, b, &frame); /* open again */
	return end == BATCH_TAKEN;
}

/* Somebody else's memory for a while: nobody may look. */
static void move_reuse(u32 frame, u64 block)
{
	check_poison(world_bytes(frame), WORLD_BYTES);
	host_relax();
	check_revive(world_bytes(frame), WORLD_BYTES);
	world_fill(frame, block);
}

static void move_finish(const void *arg)
{
	(void)arg;
	world_check();
	world_take_all();
}

static void move_setup_readers(const struct arena_case *c, void (*service)(void *arg),
                               void (*reader)(void *arg))
{
	world_setup(c);
	check_task("service", 0, service, NULL);
	for (u32 i = 0; i < c->nr_readers; i++)
		world->readers[i].task =
			check_task("reader", 1 + i, reader, &world->readers[i]);
}

/* ---- move-pin ---- */

static void pin_service(void *arg)
{
	(void)arg;
	if (!world_move(WORLD_FIRST, WORLD_THIRD))
		return;
	move_reuse(WORLD_FIRST, world->c);
	if (world_take(WORLD_FIRST))
		world_move(WORLD_THIRD, WORLD_FIRST);
}

static void pin_reader(void *arg)
{
	struct world_reader *r = arg;

	world_visit(r, world->a);
	world_visit(r, world->a);
}

static void pin_setup(const void *arg)
{
	move_setup_readers(arg, pin_service, pin_reader);
}

/* ---- move-read ---- */

static void read_service(void *arg)
{
	(void)arg;
	if (world_move(WORLD_FIRST, WORLD_THIRD))
		world_fill(WORLD_FIRST,
		           world->c); /* a copy may begin there all the same */
}

static void read_reader(void *arg)
{
	struct world_reader *r = arg;

	for (u32 i = 0; i < 3; i++)
		CHECK_ASSERT(world_read(r, world->a, true) ||
		                     world_read(r, world->a, false),
		             "O50: a block that moves is found at the second look");
}

static void read_setup(const void *arg)
{
	move_setup_readers(arg, read_service, read_reader);
}

/* ---- move-view ---- */

static void view_look(struct world_reader *r, u64 block, u32 look)
{
	struct cache_file file = { world->space, block_file(block) };
	u64 got[WORLD_WORDS];
	struct view v;

	if (!(world_is_short(r, look) ? arena_short_view(&r->context, block, &v)
	                              : view_begin(&r->context, block, &v)))
		return;
	for (u32 again = 0; again < 2; again++) {
		for (u32 i = 0; i < WORLD_WORDS; i++)
			got[i] = host_load_relaxed(&((const u64 *)v.data)[i]);
		if (!arena_short_holds(&r->context, &file, &v))
			return;
		for (u32 i = 0; i < WORLD_WORDS; i++)
			CHECK_ASSERT(got[i] == world_truth(block, i),
			             "C21: a view that holds gave other bytes");
	}
}

static void view_service(void *arg)
{
	(void)arg;
	if (!world_move(WORLD_FIRST, WORLD_THIRD))
		return;
	world_fill(WORLD_FIRST, world->c);
	if (world_take(WORLD_FIRST))
		world_move(WORLD_THIRD, WORLD_FIRST);
}

static void view_reader(void *arg)
{
	struct world_reader *r = arg;

	view_look(r, world->a, 0);
	view_look(r, world->c, 1);
	view_look(r, world->a, 2);
}

static void view_setup(const void *arg)
{
	move_setup_readers(arg, view_service, view_reader);
	world_draw_ways();
}

/* ---- move-evict ---- */

static void evict_service(void *arg)
{
	struct arena *a = &world->arena;
	struct batch *move = &world->batches[0], *evict = &world->batches[1];
	enum batch_end end;
	u32 frame;

	(void)arg;
	batch_add(a, move, NULL, WORLD_FIRST);
	batch_close(a, move);
	batch_fence(a);
	batch_rescue(a, WORLD_FIRST);
	batch_add(a, evict, NULL, WORLD_FIRST);
	batch_fenced(a, move);
	end = world_move_next(move, WORLD_THIRD);
	CHECK_ASSERT(end == BATCH_RESCUED, "B1: another batch has the frame");
	batch_next(a, move, &frame);
	batch_close(a, evict);
	batch_fence(a);
	batch_fenced(a, evict);
	if (world_next(evict, &frame) == BATCH_TAKEN)
		move_reuse(WORLD_FIRST, world->c);
	batch_next(a, evict, &frame);
}

static void evict_setup(const void *arg)
{
	move_setup_readers(arg, evict_service, pin_reader);
}

/* ---- move-revoke ---- */

static void revoke_service(void *arg)
{
	(void)arg;
	if (world_move(WORLD_FIRST, WORLD_THIRD))
		world_move(WORLD_THIRD, WORLD_FIRST);
}

static void revoke_lease(void *arg)
{
	(void)arg;
	file_proof_revoke(world->space);
	world->writer_open = true;
	check_note("has let the writer go on");
}

static void revoke_reader(void *arg)
{
	struct world_reader *r = arg;

	world_read_drawn(r, world->a, 0);
	world_visit(r, world->a);
	world_read_drawn(r, world->a, 1);
}

static void revoke_setup(const void *arg)
{
	move_setup_readers(arg, revoke_service, revoke_reader);
	world_draw_ways();
	check_task("lease", 2, revoke_lease, NULL);
}

/* ---- move-full ---- */

static void full_service(void *arg)
{
	(void)arg;
	if (!world_take(WORLD_SECOND))
		return;
	if (world_move(WORLD_FIRST, WORLD_SECOND))
		move_reuse(WORLD_FIRST, world->b);
	else
		world_fill(WORLD_SECOND, world->b);
}

static void full_reader(void *arg)
{
	struct world_reader *r = arg;
	struct world_hold *b = world_pin(r, world->b);

	world_visit(r, world->a);
	if (b) {
		world_look(b);
		world_unpin(r, b);
	}
	world_visit(r, world->b);
}

static void full_setup(const void *arg)
{
	move_setup_readers(arg, full_service, full_reader);
}

/* ---- move-alias ---- */

static void alias_service(void *arg)
{
	(void)arg;
	if (world_move(WORLD_FIRST, WORLD_THIRD))
		world_move(WORLD_SECOND, WORLD_FIRST);
}

static void alias_reader(void *arg)
{
	struct world_reader *r = arg;

	world_visit(r, world->alias);
	world_visit(r, world->aliased);
	world_read_drawn(r, world->alias, 0);
	world_read_drawn(r, world->aliased, 1);
}

static void alias_setup(const void *arg)
{
	world_setup(arg);
	CHECK_ASSERT(world_take(WORLD_FIRST) && world_take(WORLD_SECOND),
	             "nobody has them");
	world_fill(WORLD_FIRST, world->aliased);
	world_fill(WORLD_SECOND, world->alias);
	world_draw_ways();
	check_task("service", 0, alias_service, NULL);
	check_task("reader", 1, alias_reader, &world->readers[0]);
}

/* ---- move-kill ---- */

static void kill_service(void *arg)
{
	struct world_reader *r = &world->readers[0];

	(void)arg;
	world_move(WORLD_FIRST, WORLD_THIRD);
	check_wait(world_is_set, &world->hung_up);
	world_leave(r, false);
	/* What it had pinned, wherever that is, is nobody's now. */
	for (u32 frame = WORLD_FIRST; frame < WORLD_FRAMES; frame++)
		if (!world->owned[frame])
			CHECK_ASSERT(world_take(frame), "K2: the dead pin nothing");
}

static void kill_kernel(void *arg)
{
	(void)arg;
	check_kill(world->readers[0].task);
	world->dead[0] = true;
	world->hung_up = true;
}

static void kill_reader(void *arg)
{
	pin_reader(arg);
	check_wait(world_is_set, &world->hung_up); /* it lives until it is killed */
}

static void kill_setup(const void *arg)
{
	move_setup_readers(arg, kill_service, kill_reader);
	check_fault("kernel", kill_kernel, NULL);
}

static void kill_finish(const void *arg)
{
	(void)arg;
	arena_check(&world->arena);
}

void arena_move_cases(struct check_list *list)
{
	static const struct arena_case one[] = {
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LIGHT, true },
		{ ARENA_SCANNED, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_HAZARD, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_ATOMIC, 1, 1, ARENA_BARRIER_LOCK, false },
		{ ARENA_FROZEN, 1, 1, ARENA_BARRIER_LOCK, false },
	};
	static const struct arena_case two[] = {
		{ ARENA_SCANNED, 2, 2, ARENA_BARRIER_LIGHT, false },
		{ ARENA_SCANNED, 2, 2, ARENA_BARRIER_LIGHT, true },
		{ ARENA_SCANNED, 2, 2, ARENA_BARRIER_LOCK, false },
	};

	for (u32 i = 0; i < sizeof(two) / sizeof(two[0]); i++) {
		arena_add(list, "move-pin", &two[i], 3, pin_setup, move_finish, true);
		arena_add(list, "move-view", &two[i], 3, view_setup, move_finish,
		          false);
		arena_add(list, "move-evict", &one[i], 2, evict_setup, move_finish,
		          false);
		arena_add(list, "move-kill", &one[i], 2, kill_setup, kill_finish,
		          false);
	}
	for (u32 i = 0; i < sizeof(one) / sizeof(one[0]); i++) {
		arena_add(list, "move-read", &one[i], 2, read_setup, move_finish,
		          false);
		arena_add(list, "move-revoke", &one[i], 3, revoke_setup, move_finish,
		          false);
		arena_add(list, "move-full", &one[i], 2, full_setup, move_finish,
		          false);
		arena_add(list, "move-alias", &one[i], 2, alias_setup, move_finish,
		          false);
	}
}
