/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What a load may return under weak memory. Contract: host/check/history.h. */
#include "host/check/history.h"

#include <string.h>

#include "host/check/engine.h"

/* Values of a word that a load may return: the newest one, and those before it. */
#define HISTORY 4u
#define WORDS \
	8192u /* that are stored to in a schedule; a power of two, most stay free */
#define NEVER 0xffffu

struct value {
	u64 v;              /* of the newest one memory has it */
	u32 task;           /* that stored it */
	struct clock known; /* by task: its first access that stored or returned it */
	struct clock carries;
};

struct word {
	const u64 *p;
	u64 schedule; /* else the place is free */
	u32 nr;
	struct value values[HISTORY]; /* oldest first */
	struct clock held;            /* by task: its last load of what it held */
};

static struct {
	u64 schedule;
	struct clock now[CHECK_MAX_TASKS];
	struct clock loaded[CHECK_MAX_TASKS];   /* kept for an acquire fence */
	struct clock released[CHECK_MAX_TASKS]; /* at the last release fence */
	struct clock light[CHECK_MAX_TASKS];    /* at the last light fence */
	struct clock fenced;                    /* by all full fences so far */
	struct clock heavy;                     /* the same, at the last heavy fence */
	struct clock stored;                    /* all stores that are in memory */
	struct word words[WORDS];
	u32 nr_words;
} history;

static void join(struct clock *a, const struct clock *b)
{
	for (u32 i = 0; i < CHECK_MAX_TASKS; i++)
		a->at[i] = a->at[i] > b->at[i] ? a->at[i] : b->at[i];
}

void history_reset(void)
{
	history.schedule++;
	history.nr_words = 0;
	memset(history.now, 0, sizeof(history.now));
	memset(history.loaded, 0, sizeof(history.loaded));
	memset(history.released, 0, sizeof(history.released));
	memset(history.light, 0, sizeof(history.light));
	memset(&history.fenced, 0, sizeof(history.fenced));
	memset(&history.heavy, 0, sizeof(history.heavy));
	memset(&history.stored, 0, sizeof(history.stored));
}

/* Its place, or the free one where it may be. */
static struct word *place_of(const u64 *p)
{
	u64 h = (uintptr_t)p / 8 * 0x9e3779b97f4a7c15u;
	u32 i = (u32)(h >> 40) % WORDS;

	while (history.words[i].schedule == history.schedule && history.words[i].p != p)
		i = (i + 1) % WORDS;
	return &history.words[i];
}

/* NULL: nobody has stored to it, so all know its value. */
static struct word *word_of(const u64 *p)
{
	struct word *w = place_of(p);

	return w->schedule == history.schedule ? w : NULL;
}

/* This access' number. */
static u16 access_of(u32 task)
{
	if (history.now[task].at[task] == NEVER - 1)
		engine_fail("more accesses of a task than a clock can count");
	return ++history.now[task].at[task];
}

static bool is_known(const struct value *value, const struct clock *clock)
{
	u32 known = 0;

	for (u32 i = 0; i < CHECK_MAX_TASKS; i++)
		known |= value->known.at[i] <= clock->at[i];
	return known;
}

void history_mark(u32 task, enum step_order order, struct mark *ret_mark)
{
	ret_mark->task = task;
	ret_mark->at = access_of(task);
	ret_mark->carries =
		order == ORDER_RELEASE ? history.now[task] : history.released[task];
}

static struct word *word_make(const u64 *p)
{
	struct word *w = place_of(p);

	if (w->schedule == history.schedule)
		return w;
	if (++history.nr_words > WORDS / 2)
		engine_fail("more words are stored to than the history has room for");
	w->p = p;
	w->schedule = history.schedule;
	w->nr = 1;
	w->values[0].task = CHECK_MAX_TASKS;
	memset(&w->values[0].known, 0, sizeof(w->values[0].known));
	memset(&w->values[0].carries, 0, sizeof(w->values[0].carries));
	memset(&w->held, 0, sizeof(w->held));
	return w;
}

void history_stored(const u64 *p, const struct mark *mark)
{
	struct word *w = word_make(p);
	struct value *value;

	w->values[w->nr - 1].v = *p;
	if (w->nr == HISTORY)
		memmove(&w->values[0], &w->values[1], --w->nr * sizeof(w->values[0]));
	value = &w->values[w->nr++];
	memset(&value->known, 0xff, sizeof(value->known));
	value->known.at[mark->task] = mark->at;
	value->carries = mark->carries;
	value->task = mark->task;
	for (u32 i = 0; i + 1 < w->nr; i++)
		if (w->values[i].task == mark->task)
			join(&value->carries, &w->values[i].carries);
	if (history.stored.at[mark->task] < mark->at)
		history.stored.at[mark->task] = mark->at;
}

/* How many newer values than this one there may be: 0 for the newest. */
static u32 oldest_of(const struct word *w, u32 task, enum step_order order)
{
	struct clock clock = history.now[task];
	u32 newer = 0;

	if (order == ORDER_DEP)
		join(&clock, &history.loaded[task]);
	while (newer + 1 < w->nr && !is_known(&w->values[w->nr - 1 - newer], &clock))
		newer++;
	return newer;
}

static u64 value_of(const struct word *w, u32 newer)
{
	return newer == 0 ? *w->p : w->values[w->nr - 1 - newer].v;
}

static void take(struct word *w, u32 task, enum step_order order, u32 newer)
{
	struct value *value = &w->values[w->nr - 1 - newer];
	u16 at = history.now[task].at[task];

	if (value->known.at[task] > at)
		value->known.at[task] = at;
	join(&history.loaded[task], &value->carries);
	if (order == ORDER_ACQUIRE)
		join(&history.now[task], &value->carries);
}

u64 history_load(u32 task, const u64 *p, enum step_order order, u32 *ret_newer)
{
	struct word *w = word_of(p);
	u64 v;

	*ret_newer = 0;
	access_of(task);
	if (!w)
		return *p;
	*ret_newer = access_choose_old(oldest_of(w, task, order) + 1);
	v = value_of(w, *ret_newer);
	take(w, task, order, *ret_newer);
	return v;
}

bool history_cas(u32 task, const u64 *p, u64 expected, u64 *ret_value, u32 *ret_newer)
{
	struct word *w = word_of(p);

	*ret_newer = 0;
	*ret_value = *p;
	access_of(task);
	if (w) {
		*ret_newer = access_choose_old(oldest_of(w, task, ORDER_RELAXED) + 1);
		/* An old value that is the expected one does not let it succeed. */
		if (value_of(w, *ret_newer) == expected)
			*ret_newer = 0;
		*ret_value = value_of(w, *ret_newer);
		if (*ret_value != expected)
			take(w, task, ORDER_RELAXED, *ret_newer);
	}
	return *ret_value == expected;
}

void history_held(u32 task, const u64 *p)
{
	word_make(p)->held.at[task] = history.now[task].at[task];
}

bool history_knows_held(u32 task, const u64 *p)
{
	const struct word *w = word_of(p);
	u32 unknown = 0;

	for (u32 i = 0; w && i < CHECK_MAX_TASKS; i++)
		unknown |= w->held.at[i] > history.now[task].at[i];
	return !unknown;
}

void history_take_newest(u32 task, const u64 *p)
{
	struct word *w = word_of(p);

	access_of(task);
	if (w)
		take(w, task, ORDER_ACQUIRE, 0);
}

void history_fence_acquire(u32 task)
{
	join(&history.now[task], &history.loaded[task]);
}

void history_fence_release(u32 task)
{
	history.released[task] = history.now[task];
}

void history_fence_full(u32 task)
{
	history_fence_acquire(task);
	join(&history.now[task], &history.heavy);
	join(&history.fenced, &history.now[task]);
	history.now[task] = history.fenced;
	history.released[task] = history.light[task] = history.now[task];
}

void history_fence_light(u32 task)
{
	join(&history.now[task], &history.heavy);
	history.light[task] = history.now[task];
}

void history_fence_heavy(u32 task)
{
	for (u32 i = 0; i < engine.nr_tasks; i++)
		join(&history.fenced, &history.light[i]);
	history_fence_full(task);
	history.heavy = history.fenced;
}

void history_told(u32 task)
{
	join(&history.now[task], &history.stored);
	join(&history.now[task], &history.fenced);
}
