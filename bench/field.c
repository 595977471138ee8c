/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Fields of counters. Contract: bench/field.h. */
#include "bench/field.h"

#include <errno.h>

#include "bench/measure/shared.h"
#include "bench/private.h"
#include "host/random.h"

#define FILE_ID 1u
#define LINE_BYTES 64u
/* A walk is so long that a batch does not see the same piece twice, and so short that
 * reading it is cheap. Each object comes up about four times. */
#define STEPS_LEAST 16384u
#define STEPS_PER_OBJECT 4u

const char *field_walk_name(enum field_walk walk)
{
	static const char *const names[] = {
		[FIELD_HOT] = "hot",
		[FIELD_ROUND] = "round",
		[FIELD_RANDOM] = "random",
		[FIELD_QUERY] = "query",
	};

	return names[walk];
}

static u32 field_random_below(u64 *state, u32 n)
{
	return (u32)((random_next(state) >> 32) * n >> 32);
}

static struct frame *make_frames(u32 nr)
{
	struct frame *frames = shared_alloc(nr * sizeof(*frames), LINE_BYTES);

	for (u32 i = 0; frames && i < nr; i++) {
		frame_fill_begin(&frames[i]);
		frame_fill_end(&frames[i], block_id(FILE_ID, i));
	}
	return frames;
}

int field_ground_open(struct field_ground **ret, u32 nr_objects, u32 nr_workers,
                      u32 per_user, const int *cpus, u64 seed)
{
	struct field_ground *g = shared_alloc(sizeof(*g), LINE_BYTES);
	u64 nr_steps = STEPS_LEAST;

	if (!g)
		return -ENOMEM;
	while (nr_steps < (u64)nr_objects * STEPS_PER_OBJECT)
		nr_steps *= 2;
	*g = (struct field_ground){
		.frames = make_frames(nr_objects),
		.nr_objects = nr_objects,
		.mask = nr_steps - 1,
		.nr_workers = nr_workers,
		.per_user = per_user,
		.cpus = cpus,
	};
	for (u32 walk = 0; walk < FIELD_NR_WALKS; walk++) {
		u32 *steps = shared_alloc(nr_steps * sizeof(*steps), LINE_BYTES);

		if (!steps || !g->frames)
			return -ENOMEM;
		g->steps[walk] = steps;
		for (u64 i = 0; i < nr_steps; i++)
			steps[i] = walk == FIELD_RANDOM
			                   ? field_random_below(&seed, nr_objects)
			                   : (u32)(i % nr_objects);
	}
	*ret = g;
	return 0;
}

static u32 nr_users(const struct field_ground *g)
{
	u32 nr = (g->nr_workers + g->per_user - 1) / g->per_user;

	return nr < FIELD_LEAST_USERS ? FIELD_LEAST_USERS : nr;
}

/* The words of the control are for one thread each. */
static u32 workers_per_user(const struct field *f)
{
	return f->count.scheme == &private_control ? 1 : f->ground->per_user;
}

static u64 share_all(struct field *f, u32 user)
{
	u64 nr_failed = 0;

	for (u32 object = 0; object < f->count.nr_objects; object++)
		nr_failed += count_share(&f->count, user, object) != 0;
	return nr_failed;
}

/* Each user's first worker maps for it, so that its memory is near it. Worker 0 also maps for
 * the users that are only there to share. */
static u64 run_share(void *arg, u32 worker, u64 position, u64 nr)
{
	struct field *f = arg;
	u32 per_user = workers_per_user(f);
	u32 idle = (f->ground->nr_workers + per_user - 1) / per_user;
	u64 nr_failed = 0;

	(void)position;
	(void)nr;
	if (worker % per_user == 0)
		nr_failed += share_all(f, worker / per_user);
	for (; worker == 0 && idle < f->count.nr_users; idle++)
		nr_failed += share_all(f, idle);
	return nr_failed;
}

int field_open(struct field **ret, const struct count_scheme *scheme,
               const struct field_ground *ground, struct slots *slots)
{
	u64 before = shared_taken_bytes(), nr_failed;
	struct field *f = shared_alloc(sizeof(*f), LINE_BYTES);
	struct slots_work work = { .run = run_share, .arg = f };
	u32 users = scheme == &private_control ? ground->nr_workers : nr_users(ground);
	int error;

	if (!f)
		return -ENOMEM;
	f->ground = ground;
	error = count_init(&f->count, scheme, ground->frames, ground->nr_objects,
	                   users);
	if (error)
		return error;
	for (u32 object = 0; object < ground->nr_objects; object++)
		count_thaw(&f->count, object);
	error = slots_call(slots, ground->nr_workers, &work, &nr_failed);
	if (!error && nr_failed > 0)
		error = -ENOMEM;
	if (error) {
		count_fini(&f->count);
		return error;
	}
	f->taken_bytes = shared_taken_bytes() - before - sizeof(*f);
	*ret = f;
	return 0;
}

void field_close(struct field *f)
{
	count_fini(&f->count);
}

/* What a slot's functions need. It is in shared memory, since workers may be processes. */
struct walk {
	struct field *field;
	const u32 *steps;
	u64 mask;
};

static u64 run_pairs(void *arg, u32 worker, u64 position, u64 nr)
{
	struct walk w = *(struct walk *)arg;
	struct count *c = &w.field->count;
	u32 user = worker / workers_per_user(w.field);
	u64 nr_failed = 0, token;

	for (u64 i = position; i != position + nr; i++) {
		u32 object = w.steps[i & w.mask];

		if (likely(count_ref(c, object, user, &token)))
			count_unref(c, object, user, token);
		else
			nr_failed++;
	}
	return nr_failed;
}

static u64 run_queries(void *arg, u32 worker, u64 position, u64 nr)
{
	struct walk w = *(struct walk *)arg;
	struct count *c = &w.field->count;
	u64 nr_used = 0;

	(void)worker;
	for (u64 i = position; i != position + nr; i++)
		nr_used += count_query(c, w.steps[i & w.mask]);
	return c->scheme->counts ? nr_used : 0;
}

static void run_tick(void *arg, u32 worker)
{
	struct walk *w = arg;

	count_tick(&w->field->count, (u32)w->field->ground->cpus[worker]);
}

int field_measure(struct field *f, enum field_walk walk, u64 position,
                  struct slots *slots, u32 nr_workers, struct slots_result *ret)
{
	/* One slot runs at a time, so one walk is enough. */
	static struct walk *w;
	struct slots_work work = {
		.run = walk == FIELD_QUERY ? run_queries : run_pairs,
		.tick = f->count.scheme->tick ? run_tick : NULL,
		.position = position,
	};

	if (!w)
		w = shared_alloc(sizeof(*w), LINE_BYTES);
	if (!w)
		return -ENOMEM;
	*w = (struct walk){ f, f->ground->steps[walk], f->ground->mask };
	work.arg = w;
	return slots_measure(slots, nr_workers, &work, ret);
}

void field_check(struct field *f)
{
	struct count_held held = { .object = f->count.nr_objects - 1 };

	count_check(&f->count, NULL, 0);
	CHECK(count_ref(&f->count, held.object, held.user, &held.token),
	      "a live object at rest refuses nobody");
	count_check(&f->count, &held, 1);
	count_unref(&f->count, held.object, held.user, held.token);
	count_check(&f->count, NULL, 0);
}
