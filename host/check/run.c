/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The search: which schedules are tried, and in what order.
 *
 * random      At each step any runnable entity may be next, all with the same chance.
 * PCT         Entities get random priorities and the highest runs. At depth-1 moments,
 *             drawn over the expected length, the running entity falls to the bottom. Its
 *             place there is given by the moment's index and not by its time, because bugs
 *             need either order. (Burckhardt et al., ASPLOS'10)
 * exhaustive  Depth first over all choices, with at most so many preemptions.
 *
 * The expected length is that of the longest of some pilots: schedules of the same strategy
 * that are run first. A mean would leave the tail of long schedules without change points
 * and without faults. Strategies differ in how often they make tasks retry.
 *
 * Schedule i of a seed depends on seed and i alone, so any one can be run again by itself.
 * The length is therefore fixed once the pilots are done.
 */
#include <stdio.h>

#include "host/check/engine.h"
#include "host/check/exhaustive.h"
#include "host/check/shorten.h"
#include "host/check/trace.h"
#include "host/random.h"

#define PILOTS 64u
#define LENGTH_FIRST 64u /* what the first pilot believes */
#define MAX_POINTS 8u

static struct {
	u64 random, numbers, draws; /* host_choose() and check_draw() have their own */
	u32 length;                 /* steps that a schedule may be expected to have */
	u64 priority[ENTITY_MAX];
	u32 points[MAX_POINTS];
	u32 nr_points;
	u32 old_in; /* weak memory: one load in so many may be old */
} run;

u32 check_tries_now = 1;

static u64 next_random(void)
{
	return random_next(&run.random);
}

static u32 number_random(u32 entity, u32 n)
{
	(void)entity;
	return (u32)((random_next(&run.numbers) >> 32) * n >> 32);
}

static u32 draw_random(u32 drawn, u32 n)
{
	(void)drawn;
	return (u32)((random_next(&run.draws) >> 32) * n >> 32);
}

/* A few old values, well placed, show some bugs; many at once show others. */
static u32 old_random(u32 entity, u32 n)
{
	return number_random(entity, run.old_in) ? 0 : 1 + number_random(entity, n - 1);
}

static u32 below(u32 n)
{
	return (u32)((next_random() >> 32) * n >> 32);
}

static u32 choose_random(const u32 *entities, u32 nr)
{
	return entities[below(nr)];
}

static u32 highest(const u32 *entities, u32 nr)
{
	u32 best = 0, i;

	for (i = 1; i < nr; i++)
		if (run.priority[entities[i]] > run.priority[entities[best]])
			best = i;
	return entities[best];
}

static u32 choose_pct(const u32 *entities, u32 nr)
{
	u32 best = highest(entities, nr);

	/* The entity that would run now falls, be it a task or a store on its way. */
	for (u32 i = 0; i < run.nr_points; i++) {
		if (run.points[i] == engine.executed) {
			run.priority[best] = i; /* below all first ones */
			best = highest(entities, nr);
		}
	}
	return best;
}

static u64 mix(u64 seed, u64 schedule)
{
	return (seed + 1) * 0x9e3779b97f4a7c15u ^ (schedule + 1) * 0xc2b2ae3d27d4eb4fu;
}

static void prepare_pct(u32 depth)
{
	u32 i;

	engine.choose = choose_pct;
	run.nr_points = depth - 1;
	for (i = 0; i < ENTITY_MAX; i++)
		run.priority[i] = MAX_POINTS + (next_random() >> 8);
	for (i = 0; i < run.nr_points; i++)
		run.points[i] = below(run.length);
}

/* Where faults begin: anywhere in the schedule, or, when late, after all else. */
static void prepare_faults(enum check_strategy strategy, bool late)
{
	for (u32 i = 0; i < engine.nr_tasks; i++) {
		struct task *t = &engine.tasks[i];

		t->starts_at = 0;
		if (t->is_fault && strategy != CHECK_EXHAUSTIVE)
			t->starts_at = late ? ~(u32)0 : below(run.length);
	}
}

static void prepare(enum check_strategy strategy, u64 seed, u64 schedule)
{
	run.random = mix(seed, schedule);
	run.numbers = ~run.random;
	run.draws = mix(~seed, schedule);
	/* Not drawn, so that a schedule's other numbers stay as they are. */
	check_tries_now =
		strategy == CHECK_EXHAUSTIVE ? 1 : 1 + (u32)(run.random >> 40 & 1);
	engine.choose = choose_random;
	engine.choose_number = number_random;
	engine.choose_draw = draw_random;
	engine.choose_old = old_random;
	if (engine.memory == CHECK_WEAK)
		run.old_in = 2u << number_random(0, 4);
	engine.stepped = NULL;
	memory_watch(false);
	if (strategy == CHECK_EXHAUSTIVE)
		exhaustive_prepare();
	else if (strategy != CHECK_RANDOM)
		prepare_pct(strategy == CHECK_PCT3 ? 3 : 4);
	prepare_faults(strategy, false);
}

/* How long schedules get: a function of scenario, strategy and seed alone. Each pilot draws
 * its moments over the longest one before it. In every second one the faults are late: a
 * task that a fault kills would otherwise hide how long it can run. */
static void pilot(const struct check_scenario *s, enum check_strategy strategy,
                  u64 seed)
{
	u32 longest = 0;

	run.length = LENGTH_FIRST;
	for (u32 i = 0; i < PILOTS; i++) {
		prepare(strategy, seed, ~(u64)i);
		if (i % 2)
			prepare_faults(strategy, true);
		engine_schedule(s);
		if (engine.executed >= longest)
			longest = (u32)engine.executed;
		run.length = longest + 1;
	}
}

static FILE *out_of(const struct check_options *o)
{
	return o->out ? o->out : stderr;
}

static bool run_one(const struct check_scenario *s, const struct check_options *o,
                    u64 schedule)
{
	bool good;

	prepare(o->strategy, o->seed, schedule);
	if (o->trace && schedule + 1 == o->only)
		trace_begin();
	good = engine_schedule(s);
	if (o->trace && schedule + 1 == o->only)
		trace_end(out_of(o));
	return good;
}

static void begin(const struct check_scenario *s, const struct check_options *o)
{
	engine.memory = o->memory;
	engine.max_steps = o->max_steps;
	engine.flip = o->flip;
	engine.movers = o->movers && o->strategy != CHECK_EXHAUSTIVE;
	engine_setup(s);
	if (o->strategy == CHECK_EXHAUSTIVE)
		exhaustive_begin(o->preemption_bound, !o->every_order);
	else
		pilot(s, o->strategy, o->seed);
}

void check_run(const struct check_scenario *s, const struct check_options *o,
               bool quiet, struct check_result *ret_result)
{
	/* An exhaustive search knows its n-th schedule by having made those before. */
	bool alone = o->only && o->strategy != CHECK_EXHAUSTIVE;
	u64 first = alone ? o->only - 1 : 0;
	u64 nr = alone ? 1 : o->only ? o->only : o->nr_schedules;
	struct check_result r = { 0 };
	u64 i;

	begin(s, o);
	for (i = first; i < first + nr; i++) {
		bool good = run_one(s, o, i);

		r.schedules++;
		r.steps += engine.executed;
		r.cut += engine.cut;
		if (!good) {
			r.violations = 1;
			r.schedule = i;
			snprintf(r.what, sizeof(r.what), "%s", engine.what);
			if (!quiet)
				shorten_and_show(s, out_of(o));
			break;
		}
		if (o->strategy == CHECK_EXHAUSTIVE && !exhaustive_next()) {
			r.complete = exhaustive_is_complete();
			break;
		}
	}
	*ret_result = r;
}
