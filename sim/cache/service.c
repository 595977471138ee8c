/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The service of sim/cache/world.h: turns as lib/service/frame/evict.c makes them, without its
 * stock, its rescues and its turns' budgets.
 *
 *   take hints -> choose and hide a batch -> the heavy fence -> look for pins -> fill
 *
 * The fence is the service's own call here, so it waits for it. liblodic's light fence runs
 * in a thread of its own meanwhile.
 */
#include <errno.h>

#include "sim/cache/way.h"

/* A look of the hand touches some 16 lines of the service's own (LOOK_LINES in
 * core/cache/reclaim.c). That memory is not the simulated machine's, so it is charged here:
 * assumed, as hits in the second level. */
#define LOOK_CYCLES 192u
/* No device gives more: a frame each 4 us, 1 GB/s. Assumed. A service that is through earlier
 * sleeps. */
#define PACE_NS 4000u
#define LINES_ENOUGH ((u32)1 << 30)

static void service_visits(void *ctx, u32 first, u32 nr, u8 *ret_visits)
{
	struct cache_world *w = ctx;

	sim_work(LOOK_CYCLES);
	arena_visits(&w->arena, first, nr, ret_visits);
}

/* Does core/cache itself look for pins? */
static bool service_walks(const struct cache_world *w)
{
	return w->arena.scheme == ARENA_SCANNED && !w->setup->way->look;
}

/* Hides a victim, or takes it where a word of the frame counts. */
static bool service_take(void *ctx, u32 frame)
{
	struct cache_world *w = ctx;
	struct arena *a = &w->arena;

	if (a->counts) {
		w->service.lines++;
		if (!arena_take(a, frame)) {
			w->service.nr_refused++;
			return false;
		}
		w->free[w->nr_free++] = frame;
		return true;
	}
	if (service_walks(w)) {
		w->service.lines += walk_lines(a, &w->list);
		if (!batch_add(a, &w->batch, &w->list, frame)) {
			w->service.nr_refused++;
			return false;
		}
	} else {
		frame_hide(&a->frames[frame], w->batch.number);
	}
	w->victims[w->nr_victims++] = frame;
	return true;
}

int cache_service_make(struct cache_world *w)
{
	u32 i;

	if (reclaim_init(&w->reclaim, w->arena.nr_frames) != 0)
		return -ENOMEM;
	batch_init(&w->batch, 1);
	w->ops = (struct reclaim_ops){ .visits = service_visits,
		                       .take = service_take,
		                       .ctx = w,
		                       .visits_lines = 1 };
	for (i = 0; i < w->setup->nr_blocks; i++)
		reclaim_insert(&w->reclaim, FRAME_FIRST + i, cache_block(w, i));
	return 0;
}

static void service_hints(struct cache_world *w)
{
	struct arena *a = &w->arena;
	u64 block, nr;
	u32 place;

	for (place = 0; place < a->nr_contexts; place++) {
		if (!arena_posted(a, place))
			continue;
		while (arena_hint(a, place, &block, &nr))
			if (w->nr_hints < w->setup->batch)
				w->hints[w->nr_hints++] = block;
	}
}

static void service_choose(struct cache_world *w)
{
	while (w->nr_victims + w->nr_free < w->setup->batch) {
		u32 lines = LINES_ENOUGH;

		if (reclaim_evict(&w->reclaim, &w->ops, &lines) >= RECLAIM_MORE)
			return;
	}
}

static void service_refused(struct cache_world *w, u32 frame)
{
	w->service.nr_refused++;
	reclaim_insert(&w->reclaim, frame,
	               host_load_relaxed(&w->arena.frames[frame].block));
}

static void service_walk(struct cache_world *w)
{
	enum batch_end end;
	u32 frame;

	while ((end = batch_next(&w->arena, &w->batch, &frame)) != BATCH_DONE) {
		w->service.lines += walk_lines(&w->arena, &w->batch.list);
		if (end == BATCH_TAKEN)
			w->free[w->nr_free++] = frame;
		else
			service_refused(w, frame);
	}
	w->list = w->batch.list;
}

static void service_look(struct cache_world *w)
{
	const struct cache_way *way = w->setup->way;
	struct arena *a = &w->arena;
	u32 i;

	if (way->scan)
		w->service.lines += way->scan(w);
	for (i = 0; i < w->nr_victims; i++) {
		u32 frame = w->victims[i];
		bool pinned;

		w->service.lines += way->look(w, frame, &pinned);
		if (pinned) {
			frame_show(&a->frames[frame]);
			service_refused(w, frame);
		} else {
			arena_clear(a, frame);
			w->free[w->nr_free++] = frame;
		}
	}
}

/* Which block comes next: one that was hinted and is not here yet, or a new one. */
static u32 service_next(struct cache_world *w)
{
	while (w->nr_hints > 0) {
		u64 block = w->hints[--w->nr_hints], word;

		if (translation_find(&w->arena.translation, block, &word))
			continue;
		w->service.nr_filled_hints++;
		return block_index(block);
	}
	return w->next_block++;
}

static void service_fill(struct cache_world *w)
{
	while (w->nr_free > 0) {
		u32 frame = w->free[--w->nr_free];
		u32 block = service_next(w);

		cache_world_fill(w, frame, block);
		reclaim_insert(&w->reclaim, frame, cache_block(w, block));
		w->service.nr_taken++;
	}
}

static void service_turn(struct cache_world *w)
{
	struct cache_service *s = &w->service;
	u64 times[5];

	times[0] = host_now_ns();
	service_hints(w);
	service_choose(w);
	times[1] = host_now_ns();
	if (!w->arena.counts) {
		if (service_walks(w))
			batch_close(&w->arena, &w->batch);
		batch_fence(&w->arena);
	}
	times[2] = host_now_ns();
	if (service_walks(w)) {
		batch_fenced(&w->arena, &w->batch);
		s->lines += w->arena.nr_contexts;
		service_walk(w);
	} else if (!w->arena.counts) {
		service_look(w);
	}
	w->nr_victims = 0;
	times[3] = host_now_ns();
	service_fill(w);
	times[4] = host_now_ns();
	s->choose_ns += times[1] - times[0];
	s->fence_ns += times[2] - times[1];
	s->walk_ns += times[3] - times[2];
	s->fill_ns += times[4] - times[3];
	s->nr_turns++;
}

void cache_service_run(void *world)
{
	struct cache_world *w = world;
	u64 looks = w->reclaim.nr_looks, next_ns;

	w->service = (struct cache_service){ 0 };
	while (!sim_stopping() && !w->over) {
		next_ns = host_now_ns() + (u64)PACE_NS * w->setup->batch;
		service_turn(w);
		if (host_now_ns() < next_ns)
			sim_sleep(next_ns - host_now_ns());
		w->end_ns = host_now_ns();
		w->over = w->end_ns - w->begin_ns >= w->least_ns;
	}
	w->service.nr_looks = w->reclaim.nr_looks - looks;
}
