/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The search: which schedules are tried, and in what order.
 *
 * random      each step, any runnable entity, all alike.
 * PCT         entities get random priorities and the highest runs; at depth-1 moments drawn
 *             over the expected length, whoever runs falls to the bottom, to a place given
 *             by the moment's index and not by its time: bugs need either order.
 *             (Burckhardt et al., ASPLOS'10)
 * exhaustive  depth first over all choices, with at most so many preemptions.
 *
 * Schedule i of a seed depends on seed and i alone, so any one can be run again by itself.
 */
#include <stdio.h>

#include "host/check/engine.h"
#include "host/check/exhaustive.h"
#include "host/check/shorten.h"
#include "host/check/trace.h"

#define PILOTS 32u
#define MAX_POINTS 8u

static struct {
	u64 random, numbers; /* host_choose() has its own */
	u32 length;          /* steps that a schedule is expected to have */
	u64 priority[ENTITY_MAX];
	u32 points[MAX_POINTS];
	u32 nr_points;
} run;

static u64 draw(u64 *state)
{
	u64 z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static u64 next_random(void)
{
	return draw(&run.random);
}

static u32 number_random(u32 n)
{
	return (u32)((draw(&run.numbers) >> 32) * n >> 32);
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

	/* Whoever would run now falls: a store on its way to memory as well as a task. */
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

static void prepare(enum check_strategy strategy, u64 seed, u64 schedule)
{
	u32 i;

	run.random = mix(seed, schedule);
	run.numbers = ~run.random;
	engine.choose = choose_random;
	engine.choose_number = number_random;
	engine.stepped = NULL;
	memory_watch(false);
	if (strategy == CHECK_EXHAUSTIVE)
		exhaustive_prepare();
	else if (strategy != CHECK_RANDOM)
		prepare_pct(strategy == CHECK_PCT3 ? 3 : 4);
	for (i = 0; i < engine.nr_tasks; i++)
		engine.tasks[i].starts_at =
			engine.tasks[i].is_fault && strategy != CHECK_EXHAUSTIVE
				? below(run.length)
				: 0;
}

/* How long schedules are: a function of scenario and seed alone. */
static void pilot(const struct check_scenario *s, u64 seed)
{
	u64 steps = 0;

	run.length = 64;
	for (u32 i = 0; i < PILOTS; i++) {
		prepare(CHECK_RANDOM, seed, ~(u64)i);
		engine_schedule(s);
		steps += engine.executed;
	}
	run.length = (u32)(steps / PILOTS) + 1;
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
		trace_end();
	return good;
}

static void begin(const struct check_scenario *s, const struct check_options *o)
{
	engine.tso = o->memory == CHECK_TSO;
	engine.max_steps = o->max_steps;
	engine_setup(s);
	if (o->strategy == CHECK_EXHAUSTIVE)
		exhaustive_begin(o->preemption_bound, !o->every_order);
	else
		pilot(s, o->seed);
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
				shorten_and_show(s);
			break;
		}
		if (o->strategy == CHECK_EXHAUSTIVE && !exhaustive_next()) {
			r.complete = exhaustive_is_complete();
			break;
		}
	}
	*ret_result = r;
}
