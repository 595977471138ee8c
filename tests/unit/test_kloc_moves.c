/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* core/kloc under the policy kloc: which objects move, when, and how a move ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/kloc_rig.h"

#define PAGE 100u

static struct kloc_rig *start(const struct kloc_shape *shape)
{
	static struct kloc_rig rig;

	kloc_rig_start(&rig, shape);
	return &rig;
}

static struct kloc_rig *start_kloc(u64 fast, u64 slow)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, fast, slow);

	return start(&s);
}

static u64 used(const struct kloc_rig *r, u32 tier)
{
	struct kloc_tier_stat stat;

	kloc_tier_stat(r->k, tier, &stat);
	return stat.used;
}

static struct kloc_stat stat_of(const struct kloc_rig *r)
{
	struct kloc_stat stat;

	kloc_stat(r->k, &stat);
	return stat;
}

static void ticks(struct kloc_rig *r, u32 nr)
{
	for (; nr > 0; nr--)
		kloc_tick(r->k);
}

/* KLOCs s.4.4: all of a knode leaves together, at once, large objects first. */
static void close_last_demotes_all(void **state)
{
	struct kloc_rig *r = start_kloc(2000, 2000);
	u32 file = kloc_rig_file(r, 1), other = kloc_rig_file(r, 2), i;
	struct kloc_move m;

	(void)state;
	kloc_rig_add(r, file, KLOC_JOURNAL, PAGE);
	for (i = 0; i < 3; i++)
		kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_rig_add(r, other, KLOC_FRAME, PAGE);
	assert_false(kloc_next(r->k, &m));
	kloc_close(r->k, file, 0);
	assert_true(kloc_next(r->k, &m));
	assert_int_equal(m.object, 1);
	assert_int_equal(m.what, KLOC_DEMOTE);
	assert_int_equal(m.why, KLOC_BY_STATE);
	kloc_moved(r->k, m.object, KLOC_MOVED);
	assert_int_equal(kloc_rig_drain(r), 3);
	assert_int_equal(used(r, KLOC_FAST), PAGE);
	assert_int_equal(used(r, KLOC_SLOW), 4 * PAGE);
	assert_int_equal(r->last.kind, KLOC_JOURNAL);
	kloc_rig_stop(r);
}

static void close_first_of_two_stays_active(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 file = kloc_rig_file(r, 1);

	(void)state;
	kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_open(r->k, file, 1);
	kloc_close(r->k, file, 0);
	assert_int_equal(kloc_rig_state(r, file), KLOC_ACTIVE);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_close(r->k, file, 1);
	assert_int_equal(kloc_rig_drain(r), 1);
	kloc_rig_stop(r);
}

/* Only in need (KLOCs s.4.1), instead of at once (KLOCs s.4.5). */
static void close_not_eager_waits_for_need(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_rig *r;
	u32 file;

	(void)state;
	s.parameters.eager = false;
	s.parameters.low_permille = 100;
	s.parameters.high_permille = 200;
	r = start(&s);
	file = kloc_rig_file(r, 1);
	for (u32 i = 0; i < 4; i++)
		kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_close(r->k, file, 0);
	assert_int_equal(kloc_rig_drain(r), 0);
	for (u32 i = 0; i < 6; i++)
		kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	assert_int_equal(used(r, KLOC_FAST), 1000);
	assert_int_equal(kloc_rig_drain(r), 4);
	assert_int_equal(r->nr[KLOC_DEMOTE][KLOC_BY_NEED], 4);
	kloc_rig_stop(r);
}

/* Promotion is mainly of page cache (KLOCs s.4.4): small objects stay, unless asked for. */
static void open_again_promotes_large(void **state)
{
	for (u32 small = 0; small < 2; small++) {
		struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
		struct kloc_rig *r;
		u32 file;

		(void)state;
		s.parameters.promote_small = small;
		r = start(&s);
		file = kloc_rig_file(r, 1);
		kloc_rig_add(r, file, KLOC_FRAME, PAGE);
		kloc_rig_add(r, file, KLOC_SLAB, PAGE);
		kloc_close(r->k, file, 0);
		assert_int_equal(kloc_rig_drain(r), 2);
		kloc_open(r->k, file, 0);
		assert_int_equal(kloc_rig_drain(r), 1 + small);
		assert_int_equal(r->last.what, KLOC_PROMOTE);
		assert_int_equal(used(r, KLOC_FAST), (1 + small) * PAGE);
		kloc_rig_stop(r);
	}
}

static void touch_not_whole_promotes_one(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_rig *r;
	u32 file, first;

	(void)state;
	s.parameters.promote_whole = false;
	r = start(&s);
	file = kloc_rig_file(r, 1);
	first = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_close(r->k, file, 0);
	assert_int_equal(kloc_rig_drain(r), 2);
	kloc_open(r->k, file, 0);
	assert_int_equal(kloc_rig_drain(r), 0);
	assert_int_equal(kloc_touch(r->k, first, 0), KLOC_SLOW);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_touch(r->k, first, 0), KLOC_FAST);
	kloc_rig_stop(r);
}

/* KL3: neither the object's number nor its knode's comes free while the bytes are copied. */
static void remove_moving_number_waits(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 file = kloc_rig_file(r, 1), object, other;
	struct kloc_move m;

	(void)state;
	object = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_close(r->k, file, 0);
	assert_true(kloc_next(r->k, &m));
	assert_int_equal(used(r, KLOC_FAST) + used(r, KLOC_SLOW), 2 * PAGE);
	kloc_remove(r->k, object);
	kloc_unlink(r->k, file, 0);
	kloc_check(r->k);
	assert_int_equal(kloc_rig_state(r, file), KLOC_UNLINKED);
	assert_int_equal(used(r, KLOC_FAST) + used(r, KLOC_SLOW), 2 * PAGE);
	other = kloc_rig_add(r, kloc_rig_file(r, 2), KLOC_FRAME, PAGE);
	assert_int_not_equal(other, object);
	kloc_moved(r->k, object, KLOC_MOVED);
	assert_int_equal(kloc_rig_state(r, file), KLOC_FREE);
	assert_int_equal(used(r, KLOC_FAST) + used(r, KLOC_SLOW), PAGE);
	assert_int_equal(stat_of(r).abandoned, 1);
	kloc_rig_stop(r);
}

/* What comes late to the tier that its file has left, goes back. */
static void moved_late_goes_back(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 file = kloc_rig_file(r, 1), object;
	struct kloc_move m;

	(void)state;
	object = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_close(r->k, file, 0);
	assert_true(kloc_next(r->k, &m));
	kloc_open(r->k, file, 0);
	kloc_moved(r->k, m.object, KLOC_MOVED);
	assert_int_equal(kloc_rig_tier(r, object), KLOC_SLOW);
	assert_true(kloc_next(r->k, &m));
	assert_int_equal(m.what, KLOC_PROMOTE);
	kloc_close(r->k, file, 0);
	kloc_moved(r->k, m.object, KLOC_MOVED);
	assert_int_equal(kloc_rig_tier(r, object), KLOC_FAST);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, object), KLOC_SLOW);
	kloc_rig_stop(r);
}

static void moved_busy_next_tick_again(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 file = kloc_rig_file(r, 1), pinned;
	struct kloc_move m;

	(void)state;
	pinned = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_close(r->k, file, 0);
	assert_true(kloc_next(r->k, &m));
	assert_int_equal(m.object, pinned);
	kloc_moved(r->k, pinned, KLOC_BUSY);
	assert_int_equal(r->last.why, KLOC_WAS_BUSY);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, pinned), KLOC_FAST);
	kloc_tick(r->k);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, pinned), KLOC_SLOW);
	assert_int_equal(stat_of(r).busy, 1);
	kloc_rig_stop(r);
}

/* What was wanted and had no room is asked for anew in the next tick, or not at all. */
static void wanted_not_given_is_forgotten(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, PAGE, 1000);
	struct kloc_rig *r;
	u32 file, app, object;

	(void)state;
	s.parameters.promote_whole = false;
	r = start(&s);
	file = kloc_rig_file(r, 1);
	app = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	object = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	assert_int_equal(kloc_rig_tier(r, app), KLOC_FAST);
	assert_int_equal(kloc_rig_tier(r, object), KLOC_SLOW);
	assert_int_equal(kloc_touch(r->k, object, 0), KLOC_SLOW);
	kloc_tick(r->k);
	kloc_remove(r->k, app);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_touch(r->k, object, 0);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, object), KLOC_FAST);
	kloc_rig_stop(r);
}

/* KL5. */
static void moved_often_is_retained(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_rig *r;
	u32 file, object;

	(void)state;
	s.parameters.ping_pong = 4;
	r = start(&s);
	file = kloc_rig_file(r, 1);
	object = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	for (u32 i = 0; i < 2; i++) {
		kloc_close(r->k, file, 0);
		assert_int_equal(kloc_rig_drain(r), 1);
		kloc_open(r->k, file, 0);
		assert_int_equal(kloc_rig_drain(r), 1);
	}
	assert_int_equal(stat_of(r).retained, 1);
	kloc_close(r->k, file, 0);
	assert_int_equal(kloc_rig_drain(r), 0);
	assert_int_equal(r->last.why, KLOC_BY_COUNTER);
	assert_int_equal(kloc_rig_tier(r, object), KLOC_FAST);
	assert_int_equal(stat_of(r).kept, 1);
	/* A limit outranks it. */
	assert_int_equal(kloc_memsize(r->k, KLOC_FAST, 50), 0);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, object), KLOC_SLOW);
	kloc_rig_stop(r);
}

static void memsize_lowered_moves_the_rest(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 file = kloc_rig_file(r, 1);

	(void)state;
	for (u32 i = 0; i < 4; i++) {
		kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
		kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	}
	assert_int_equal(kloc_memsize(r->k, KLOC_FAST, 250), 0);
	kloc_rig_drain(r);
	assert_true(used(r, KLOC_FAST) <= 250);
	assert_true(r->nr[KLOC_DEMOTE][KLOC_BY_LIMIT] > 0);
	assert_int_equal(kloc_memsize(r->k, KLOC_FAST, 5000), 0);
	assert_int_equal(kloc_memsize(r->k, 2, 1), -EINVAL);
	kloc_rig_stop(r);
}

/* The last page of a program stays where there is need, but not above a limit. */
static void memsize_lowered_last_page_leaves(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 page = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);

	(void)state;
	kloc_touch(r->k, page, 0);
	assert_int_equal(kloc_memsize(r->k, KLOC_FAST, PAGE / 2), 0);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, page), KLOC_SLOW);
	kloc_rig_stop(r);
}

/* KL2: an object under way has its room in both tiers. */
static void next_full_tier_waits(void **state)
{
	struct kloc_rig *r = start_kloc(300, 300);
	u32 file = kloc_rig_file(r, 1), app;
	struct kloc_move m;

	(void)state;
	for (u32 i = 0; i < 3; i++)
		kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	for (u32 i = 0; i < 2; i++)
		app = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	assert_int_equal(kloc_rig_tier(r, app), KLOC_SLOW);
	kloc_close(r->k, file, 0);
	assert_true(kloc_next(r->k, &m));
	assert_int_equal(used(r, KLOC_SLOW), 300);
	assert_false(kloc_next(r->k, &m)); /* both are full now */
	assert_int_equal(r->last.what, KLOC_KEEP);
	assert_int_equal(r->last.why, KLOC_FULL);
	kloc_moved(r->k, m.object, KLOC_MOVED);
	kloc_remove(r->k, app);
	kloc_tick(r->k);
	assert_int_equal(kloc_rig_drain(r), 1);
	kloc_rig_stop(r);
}

static void next_many_in_flight_waits(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_move m[3];
	struct kloc_rig *r;
	u32 file;

	(void)state;
	s.parameters.max_in_flight = 2;
	r = start(&s);
	file = kloc_rig_file(r, 1);
	for (u32 i = 0; i < 3; i++)
		kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_close(r->k, file, 0);
	assert_true(kloc_next(r->k, &m[0]));
	assert_true(kloc_next(r->k, &m[1]));
	assert_false(kloc_next(r->k, &m[2]));
	kloc_moved(r->k, m[1].object, KLOC_MOVED);
	assert_true(kloc_next(r->k, &m[2]));
	kloc_moved(r->k, m[0].object, KLOC_MOVED);
	kloc_moved(r->k, m[2].object, KLOC_NO_ROOM);
	assert_int_equal(stat_of(r).no_room, 1);
	kloc_rig_stop(r);
}

static void close_unmovable_kind_stays(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_rig *r;
	u32 file, slab;

	(void)state;
	s.parameters.movable = KLOC_BIT(KLOC_FRAME);
	r = start(&s);
	file = kloc_rig_file(r, 1);
	slab = kloc_rig_add(r, file, KLOC_SLAB, PAGE);
	kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_close(r->k, file, 0);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, slab), KLOC_FAST);
	ticks(r, 3);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_rig_stop(r);
}

/* A prefetched object that nobody uses is cold before its file is (KLOCs s.4.4). */
static void prefetched_unused_leaves_early(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_new n = { .kind = KLOC_FRAME, .bytes = PAGE, .prefetch = true };
	struct kloc_rig *r;
	u32 good, bad, tier;

	(void)state;
	s.parameters.prefetch_age = 2;
	r = start(&s);
	n.knode = kloc_rig_file(r, 1);
	assert_int_equal(kloc_add(r->k, &n, &good, &tier), 0);
	assert_int_equal(kloc_add(r->k, &n, &bad, &tier), 0);
	kloc_touch(r->k, good, 0);
	ticks(r, 3);
	assert_int_equal(kloc_rig_state(r, n.knode), KLOC_ACTIVE);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(r->last.why, KLOC_BY_PREFETCH);
	assert_int_equal(kloc_rig_tier(r, bad), KLOC_SLOW);
	assert_int_equal(kloc_rig_tier(r, good), KLOC_FAST);
	assert_int_equal(stat_of(r).prefetch_used, 1);
	assert_int_equal(stat_of(r).prefetch_cold, 1);
	/* Readahead comes back to it. */
	assert_true(kloc_prefetch(r->k, bad, 0));
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, bad), KLOC_FAST);
	kloc_close(r->k, n.knode, 0);
	kloc_rig_drain(r);
	assert_false(kloc_prefetch(r->k, bad, 0));
	kloc_rig_stop(r);
}

/* What was retained begins anew when nobody has used it for long. */
static void moved_often_unused_is_forgiven(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_rig *r;
	u32 file, object, page;

	(void)state;
	s.parameters.ping_pong = 2;
	s.parameters.forgive = 3;
	s.parameters.low_permille = 100;
	s.parameters.high_permille = 200;
	r = start(&s);
	file = kloc_rig_file(r, 1);
	object = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_close(r->k, file, 0);
	assert_int_equal(kloc_rig_drain(r), 1);
	kloc_open(r->k, file, 0);
	assert_int_equal(kloc_rig_drain(r), 1);
	kloc_close(r->k, file, 0);
	page = kloc_rig_add(r, KLOC_NONE, KLOC_APP, 850);
	ticks(r, 3);
	kloc_touch(r->k, page, 0);
	assert_int_equal(kloc_rig_drain(r), 0);
	assert_int_equal(kloc_rig_tier(r, object), KLOC_FAST);
	ticks(r, 1);
	kloc_touch(r->k, page, 0);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, object), KLOC_SLOW);
	assert_int_equal(stat_of(r).forgiven, 1);
	kloc_rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(close_last_demotes_all),
		cmocka_unit_test(close_first_of_two_stays_active),
		cmocka_unit_test(close_not_eager_waits_for_need),
		cmocka_unit_test(open_again_promotes_large),
		cmocka_unit_test(touch_not_whole_promotes_one),
		cmocka_unit_test(remove_moving_number_waits),
		cmocka_unit_test(moved_late_goes_back),
		cmocka_unit_test(moved_busy_next_tick_again),
		cmocka_unit_test(wanted_not_given_is_forgotten),
		cmocka_unit_test(moved_often_is_retained),
		cmocka_unit_test(moved_often_unused_is_forgiven),
		cmocka_unit_test(memsize_lowered_moves_the_rest),
		cmocka_unit_test(memsize_lowered_last_page_leaves),
		cmocka_unit_test(next_full_tier_waits),
		cmocka_unit_test(next_many_in_flight_waits),
		cmocka_unit_test(close_unmovable_kind_stays),
		cmocka_unit_test(prefetched_unused_leaves_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
