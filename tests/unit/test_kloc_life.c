/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A knode's life (core/kloc/life.h) by itself, as a kernel includes it: each state, each event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "host/host.h"

#include "core/kloc/life.h"

#define NOW 100u
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

_Static_assert(sizeof(struct knode_life) == 16, "a quarter of a cache line");

static const struct life_rules rules = { .age_limit = 16,
	                                 .ping_pong = 4,
	                                 .forgive = 64,
	                                 .mover = MOVER_STATE,
	                                 .eager = true,
	                                 .promote_whole = true };

enum event { OPEN, CLOSE, USE, UNLINK, TICK };

/* What one call does, as both includers make it: a change, and then what it asks for. */
static enum life_change happen(struct knode_life *l, enum event event)
{
	enum life_change change = LIFE_SAME;

	switch (event) {
	case OPEN: life_open(l); return life_use(l, l->nr_opens > 0, NOW);
	case USE: return life_use(l, l->nr_opens > 0, NOW);
	case CLOSE: change = life_close(l); break;
	case UNLINK: change = life_unlink(l); break;
	case TICK:
		return life_is_old(l, &rules, NOW) ? life_deactivate(l, KLOC_BY_AGE)
		                                   : LIFE_SAME;
	}
	if (change == LIFE_CLOSED)
		return life_deactivate(l, KLOC_BY_STATE);
	if (change == LIFE_ENDED)
		life_end(l);
	return change;
}

struct row {
	u8 state;
	u32 opens;
	bool is_doomed;
	enum event event;
	enum life_change change;
	u8 new_state;
	u32 new_opens;
	bool new_doomed;
};

/* A life is 20 ticks old here, and age_limit is 16. */
static const struct row rows[] = {
#define I KLOC_INACTIVE
#define A KLOC_ACTIVE
#define U KLOC_UNLINKED
	{ I, 0, false, OPEN, LIFE_ACTIVATED, A, 1, false },
	{ I, 0, false, USE, LIFE_SAME, I, 0, false },
	{ I, 0, false, UNLINK, LIFE_ENDED, U, 0, false },
	{ I, 0, false, TICK, LIFE_SAME, I, 0, false },
	/* Open and inactive: it has aged. */
	{ I, 1, false, OPEN, LIFE_ACTIVATED, A, 2, false },
	{ I, 1, false, USE, LIFE_ACTIVATED, A, 1, false },
	{ I, 1, false, CLOSE, LIFE_SAME, I, 0, false },
	{ I, 2, false, CLOSE, LIFE_SAME, I, 1, false },
	{ I, 1, false, UNLINK, LIFE_SAME, I, 1, true },
	{ I, 1, true, CLOSE, LIFE_ENDED, U, 0, true },
	{ I, 1, true, USE, LIFE_ACTIVATED, A, 1, true },
	{ A, 1, false, OPEN, LIFE_SAME, A, 2, false },
	{ A, 1, false, USE, LIFE_SAME, A, 1, false },
	{ A, 2, false, CLOSE, LIFE_SAME, A, 1, false },
	{ A, 1, false, CLOSE, LIFE_DEACTIVATED, I, 0, false },
	{ A, 1, false, UNLINK, LIFE_SAME, A, 1, true },
	{ A, 1, false, TICK, LIFE_DEACTIVATED, I, 1, false },
	{ A, 2, true, CLOSE, LIFE_SAME, A, 1, true },
	{ A, 1, true, CLOSE, LIFE_ENDED, U, 0, true },
	{ A, 1, true, TICK, LIFE_DEACTIVATED, I, 1, true },
	/* Ended: no use wakes it. */
	{ U, 0, false, USE, LIFE_SAME, U, 0, false },
	{ U, 0, false, TICK, LIFE_SAME, U, 0, false },
	{ U, 1, false, USE, LIFE_SAME, U, 1, false },
	{ U, 1, false, CLOSE, LIFE_SAME, U, 0, false },
};

static void each_state_each_event(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(rows); i++) {
		const struct row *r = &rows[i];
		struct knode_life l = { .nr_opens = r->opens,
			                .last_use = NOW - 20,
			                .state = r->state,
			                .why = r->opens ? KLOC_BY_AGE : 0,
			                .is_doomed = r->is_doomed };
		bool is_use = r->event == OPEN || r->event == USE;

		if (happen(&l, r->event) != r->change || l.state != r->new_state ||
		    l.nr_opens != r->new_opens || l.is_doomed != r->new_doomed)
			fail_msg("row %zu: it is now %u, opens %u, doomed %d", i,
			         l.state, l.nr_opens, l.is_doomed);
		assert_int_equal(l.last_use, is_use ? NOW : NOW - 20);
		/* KL40: by whatever way. */
		assert_true(l.state != KLOC_ACTIVE || l.nr_opens > 0);
	}
}

static void begin_is_inactive(void **state)
{
	struct knode_life l = { .flags = KLOC_MAP_SLOW };

	(void)state;
	assert_int_equal(life_state(&l), KLOC_INACTIVE);
	assert_int_equal(l.state, KLOC_FREE);
	life_begin(&l);
	assert_int_equal(l.state, KLOC_INACTIVE);
}

static void is_old_after_age_limit(void **state)
{
	struct life_rules never = rules;
	struct knode_life l = { .state = KLOC_ACTIVE, .last_use = NOW };

	(void)state;
	never.age_limit = 0;
	assert_false(life_is_old(&l, &rules, NOW + 16));
	assert_true(life_is_old(&l, &rules, NOW + 17));
	assert_false(life_is_old(&l, &never, NOW + 1000000));
	l.state = KLOC_INACTIVE;
	assert_false(life_is_old(&l, &rules, NOW + 17));
	/* Ticks begin again at 0. */
	l = (struct knode_life){ .state = KLOC_ACTIVE, .last_use = ~0u };
	assert_false(life_is_old(&l, &rules, 15));
	assert_true(life_is_old(&l, &rules, 16));
}

static void is_news_if_later_than_known(void **state)
{
	struct knode_life l = { .last_use = 10 };

	(void)state;
	assert_false(life_is_news(&l, 12, 2));
	assert_true(life_is_news(&l, 12, 1));
	assert_false(life_is_news(&l, 12, 3));
	assert_false(life_is_news(&l, 12, 13)); /* before there was time */
}

static void deactivate_keeps_last_reason(void **state)
{
	struct knode_life l = { .state = KLOC_ACTIVE, .nr_opens = 1 };

	(void)state;
	assert_int_equal(life_deactivate(&l, KLOC_BY_AGE), LIFE_DEACTIVATED);
	assert_int_equal(l.why, KLOC_BY_AGE);
	assert_int_equal(life_deactivate(&l, KLOC_BY_NEED), LIFE_SAME);
	assert_int_equal(life_why(&l, WORK_DEMOTE), KLOC_BY_NEED);
	assert_int_equal(life_use(&l, true, NOW), LIFE_ACTIVATED);
	assert_int_equal(l.why, KLOC_BY_STATE);
	assert_int_equal(life_why(&l, WORK_PROMOTE), KLOC_BY_STATE);
	assert_int_equal(life_why(&l, WORK_FOLLOW), KLOC_BY_USE);
}

static void take_once_a_tick(void **state)
{
	struct knode_life l = { .state = KLOC_ACTIVE, .last_use = NOW };

	(void)state;
	assert_false(life_may_give(&l, KLOC_BY_NEED, NOW + 1));
	assert_true(life_may_give(&l, KLOC_BY_LIMIT, NOW));
	assert_true(life_may_give(&l, KLOC_BY_NEED, NOW + 2));
	assert_true(life_take(&l, 0));
	assert_false(life_take(&l, 0));
	assert_true(life_take(&l, 1));
	l.state = KLOC_INACTIVE;
	assert_true(life_may_give(&l, KLOC_BY_NEED, NOW));
	l.flags = KLOC_MAP_FAST;
	assert_false(life_take(&l, 2));
}

/* State, flags, reason, bytes at home and elsewhere, and what they ask for. */
static const struct {
	u8 state, flags, why;
	u64 at_home, elsewhere;
	enum kloc_work eager, lazy, piecemeal, by_cpu;
} works[] = {
#define N WORK_NONE
#define D WORK_DEMOTE
#define P WORK_PROMOTE
#define F WORK_FOLLOW
	{ I, 0, KLOC_BY_STATE, 0, 0, N, N, N, N },
	{ I, 0, KLOC_BY_STATE, 1, 0, D, N, D, N },
	{ I, 0, KLOC_BY_AGE, 1, 1, D, N, D, N },
	{ I, 0, KLOC_BY_NEED, 1, 1, D, D, D, N },
	{ I, 0, KLOC_BY_LIMIT, 1, 0, D, D, D, N },
	{ I, 0, KLOC_BY_STATE, 0, 1, N, N, N, N },
	{ I, KLOC_MAP_FAST, KLOC_BY_STATE, 1, 0, N, N, N, N },
	{ I, KLOC_MAP_FAST, KLOC_BY_STATE, 1, 1, P, P, N, N },
	{ A, 0, KLOC_BY_STATE, 0, 0, N, N, N, N },
	{ A, 0, KLOC_BY_STATE, 1, 0, N, N, N, N },
	{ A, 0, KLOC_BY_STATE, 1, 1, P, P, N, F },
	{ A, 0, KLOC_BY_STATE, 0, 1, P, P, N, F },
	{ A, KLOC_MAP_SLOW, KLOC_BY_STATE, 1, 1, D, N, D, F },
	{ A, KLOC_MAP_SLOW, KLOC_BY_NEED, 1, 0, D, D, D, N },
	/* KL41, whatever a file was told. */
	{ U, 0, KLOC_BY_STATE, 1, 1, N, N, N, N },
	{ U, KLOC_MAP_FAST, KLOC_BY_STATE, 1, 1, N, N, N, N },
	{ U, KLOC_MAP_SLOW, KLOC_BY_LIMIT, 1, 1, N, N, N, N },
	{ KLOC_FREE, KLOC_MAP_FAST, KLOC_BY_LIMIT, 1, 1, N, N, N, N },
};

static void work_by_state_and_rules(void **state)
{
	struct life_rules lazy = rules, piecemeal = rules, by_cpu = rules, none = rules;

	(void)state;
	lazy.eager = false;
	piecemeal.promote_whole = false;
	by_cpu.mover = MOVER_CPU;
	none.mover = MOVER_NONE;
	for (size_t i = 0; i < LENGTH(works); i++) {
		struct knode_life l = { .nr_opens = works[i].state == KLOC_ACTIVE,
			                .state = works[i].state,
			                .flags = works[i].flags,
			                .why = works[i].why };
		u64 at_home = works[i].at_home, elsewhere = works[i].elsewhere;

		if (life_work(&l, &rules, at_home, elsewhere) != works[i].eager ||
		    life_work(&l, &lazy, at_home, elsewhere) != works[i].lazy ||
		    life_work(&l, &piecemeal, at_home, elsewhere) !=
		            works[i].piecemeal ||
		    life_work(&l, &by_cpu, at_home, elsewhere) != works[i].by_cpu)
			fail_msg("work %zu", i);
		assert_int_equal(life_work(&l, &none, at_home, elsewhere), WORK_NONE);
	}
}

static void place_fast_while_active(void **state)
{
	struct knode_life l = { .state = KLOC_ACTIVE, .nr_opens = 1 };
	enum kloc_why why = KLOC_NR_WHYS;

	(void)state;
	assert_true(life_place(NULL, &why));
	assert_int_equal(why, KLOC_BY_USE);
	assert_true(life_place(&l, &why));
	assert_int_equal(why, KLOC_BY_STATE);
	l.flags = KLOC_MAP_SLOW;
	assert_false(life_place(&l, &why));
	l = (struct knode_life){ .state = KLOC_INACTIVE };
	assert_false(life_place(&l, &why));
	l.flags = KLOC_MAP_FAST;
	assert_true(life_place(&l, &why));
	life_end(&l);
	assert_false(life_place(&l, &why));
}

static void moved_often_is_retained(void **state)
{
	u8 nr_moves = 0;

	(void)state;
	for (u32 i = 1; i <= 300; i++) {
		assert_int_equal(life_moved(&nr_moves, &rules), i == 4);
		assert_int_equal(life_is_retained(nr_moves, &rules), i >= 4);
	}
	assert_int_equal(nr_moves, 255);
	/* Once, also with the largest counter. */
	nr_moves = 254;
	assert_true(life_moved(&nr_moves, &(struct life_rules){ .ping_pong = 255 }));
	assert_false(life_moved(&nr_moves, &(struct life_rules){ .ping_pong = 255 }));
}

static void stay_until_forgiven(void **state)
{
	struct life_rules never = rules;
	u8 nr_moves = 3;

	(void)state;
	never.forgive = 0;
	assert_int_equal(life_stay(&nr_moves, &rules, 0, KLOC_BY_STATE), LIFE_GOES);
	nr_moves = 4;
	assert_int_equal(life_stay(&nr_moves, &rules, 64, KLOC_BY_NEED), LIFE_STAYS);
	assert_int_equal(life_stay(&nr_moves, &rules, 64, KLOC_BY_LIMIT), LIFE_GOES);
	assert_int_equal(life_stay(&nr_moves, &never, 1000, KLOC_BY_AGE), LIFE_STAYS);
	assert_int_equal(nr_moves, 4);
	assert_int_equal(life_stay(&nr_moves, &rules, 65, KLOC_BY_STATE),
	                 LIFE_FORGIVEN);
	assert_int_equal(nr_moves, 0);
	assert_int_equal(life_stay(&nr_moves, &rules, 65, KLOC_BY_STATE), LIFE_GOES);
}

/* Two looks in a row decide, and what lacks no room demotes nothing. */
static void look_twice(void **state)
{
	static const enum lru_change want[2][2][2][2] = {
		/* [slow][active][used][lacks room] */
		{ { { LRU_SAME, LRU_DEMOTE }, { LRU_ACTIVATE, LRU_ACTIVATE } },
		  { { LRU_DEACTIVATE, LRU_DEACTIVATE }, { LRU_SAME, LRU_SAME } } },
		{ { { LRU_SAME, LRU_SAME }, { LRU_ACTIVATE, LRU_ACTIVATE } },
		  { { LRU_DEACTIVATE, LRU_DEACTIVATE },
		    { LRU_PROMOTE, LRU_PROMOTE } } },
	};

	(void)state;
	for (u32 i = 0; i < 16; i++) {
		bool slow = i & 8, active = i & 4, used = i & 2, lacks = i & 1;

		assert_int_equal(life_look(slow, active, used, lacks),
		                 want[slow][active][used][lacks]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_state_each_event),
		cmocka_unit_test(begin_is_inactive),
		cmocka_unit_test(is_old_after_age_limit),
		cmocka_unit_test(is_news_if_later_than_known),
		cmocka_unit_test(deactivate_keeps_last_reason),
		cmocka_unit_test(take_once_a_tick),
		cmocka_unit_test(work_by_state_and_rules),
		cmocka_unit_test(place_fast_while_active),
		cmocka_unit_test(moved_often_is_retained),
		cmocka_unit_test(stay_until_forgiven),
		cmocka_unit_test(look_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
