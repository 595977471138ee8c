/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Shortening. A schedule is a list of the entities that were next; it is read as turns, of
 * one entity each. Candidates leave a turn out, or move one to its entity's turn before or
 * after. What a list does not say is made up: the running task goes on, and stores stay in
 * their buffers. A candidate that breaks the same rule with fewer turns, or with as many in
 * fewer steps, is the new list.
 */
#include "host/check/shorten.h"

#include <stdio.h>
#include <string.h>

#include "host/check/trace.h"

#define TRIES_MAX 3000u
#define STEPS_MAX ((u64)5 << 20) /* in all tries: a second or two */

struct list {
	u8 chosen[CHOICES_MAX];
	u32 nr, nr_turns;
};

static struct {
	const struct check_scenario *scenario;
	char what[sizeof(engine.what)];
	struct list best, tried;
	u32 at; /* in tried */
	/* What each entity drew, to draw again. */
	u32 numbers[ENTITY_MAX][NUMBERS_MAX];
	u32 nr_numbers[ENTITY_MAX], nr_drawn[ENTITY_MAX];
	u32 tries;
	u64 steps;
} job;

static u32 count_turns(const u8 *chosen, u32 nr)
{
	u32 n = nr > 0, i;

	for (i = 1; i < nr; i++)
		n += chosen[i] != chosen[i - 1];
	return n;
}

static bool is_in(const u32 *entities, u32 nr, u32 e)
{
	for (u32 i = 0; i < nr; i++)
		if (entities[i] == e)
			return true;
	return false;
}

static u32 choose(const u32 *entities, u32 nr)
{
	u32 i, e;

	/* A list that was cut may name an entity that cannot run now. */
	while (job.at < job.tried.nr) {
		e = job.tried.chosen[job.at++];
		if (is_in(entities, nr, e))
			return e;
	}
	/* The running task goes on; one that only waits gives way to the next after it. */
	if (is_in(entities, nr, engine.current) &&
	    engine.tasks[engine.current].state == TASK_READY)
		return engine.current;
	for (i = 0; i < nr; i++)
		if (entities[i] > engine.current && entities[i] < CHECK_MAX_TASKS)
			return entities[i];
	return entities[0];
}

static u32 choose_number(u32 entity, u32 n)
{
	u32 i = job.nr_drawn[entity]++;

	return i < job.nr_numbers[entity] ? job.numbers[entity][i] % n : 0;
}

/* What the schedule drew before its first step is part of what broke the rule. */
static u32 choose_draw(u32 drawn, u32 n)
{
	(void)n;
	return drawn;
}

/* Runs job.tried. true: the rule breaks. */
static bool try(void)
{
	job.tries++;
	job.at = 0;
	memset(job.nr_drawn, 0, sizeof(job.nr_drawn));
	engine.choose = choose;
	engine.choose_number = engine.choose_old = choose_number;
	engine.choose_draw = choose_draw;
	engine.stepped = NULL;
	engine_schedule(job.scenario);
	job.steps += engine.executed;
	return engine.failed && strcmp(engine.what, job.what) == 0;
}

static void keep(struct list *to)
{
	memcpy(to->chosen, engine.chosen, engine.nr_chosen);
	to->nr = engine.nr_chosen;
	to->nr_turns = count_turns(to->chosen, to->nr);
}

static bool try_better(void)
{
	u32 nr_turns;

	if (job.tries >= TRIES_MAX || job.steps >= STEPS_MAX || !try())
		return false;
	nr_turns = count_turns(engine.chosen, engine.nr_chosen);
	if (nr_turns > job.best.nr_turns ||
	    (nr_turns == job.best.nr_turns && engine.nr_chosen >= job.best.nr))
		return false;
	keep(&job.best);
	return true;
}

static void append(u32 from, u32 end)
{
	memcpy(job.tried.chosen + job.tried.nr, job.best.chosen + from, end - from);
	job.tried.nr += end - from;
}

static u32 turn_end(u32 from)
{
	u32 end = from + 1;

	while (end < job.best.nr && job.best.chosen[end] == job.best.chosen[from])
		end++;
	return end;
}

/* best without [from, end), which is put in again before place (place = nr: it is not). */
static bool try_move(u32 from, u32 end, u32 place)
{
	job.tried.nr = 0;
	if (place <= from) {
		append(0, place);
		append(from, end);
		append(place, from);
		append(end, job.best.nr);
	} else {
		append(0, from);
		append(end, place);
		if (place < job.best.nr)
			append(from, end);
		append(place, job.best.nr);
	}
	return try_better();
}

/* One turn, all ways. */
static bool shorten_turn(u32 from)
{
	u32 end = turn_end(from), before = from, after = end;
	u8 entity = job.best.chosen[from];

	if (try_move(from, end, job.best.nr))
		return true;
	while (before > 0 && job.best.chosen[before - 1] != entity)
		before--;
	if (before > 0 && try_move(from, end, before))
		return true;
	while (after < job.best.nr && job.best.chosen[after] != entity)
		after++;
	return after < job.best.nr && try_move(from, end, after);
}

static void shorten(void)
{
	bool better = true;
	u32 i;

	while (better) {
		better = false;
		for (i = 0; i < job.best.nr;) {
			/* On success there is another list, and its turn at i. */
			if (shorten_turn(i)) {
				better = true;
				while (i > 0 && i < job.best.nr &&
				       job.best.chosen[i] == job.best.chosen[i - 1])
					i--;
			} else {
				i = turn_end(i);
			}
		}
	}
}

void shorten_and_show(const struct check_scenario *s, FILE *out)
{
	u32 i, entity;

	job.scenario = s;
	job.tries = 0;
	job.steps = 0;
	memcpy(job.what, engine.what, sizeof(job.what));
	memset(job.nr_numbers, 0, sizeof(job.nr_numbers));
	for (i = 0; i < engine.nr_numbers; i++) {
		entity = engine.numbers[i].entity;
		job.numbers[entity][job.nr_numbers[entity]++] =
			engine.numbers[i].number;
	}
	keep(&job.best);
	job.tried = job.best;
	if (try())
		shorten();
	job.tried = job.best;
	trace_begin();
	try();
	trace_end(out);
}
