/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What sets the policies of core/kloc apart from one another, a case each. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/kloc_rig.h"

#define PAGE 100u

static struct kloc_rig rig;

static struct kloc_rig *start(enum kloc_policy_id policy, u64 fast, u64 slow)
{
	struct kloc_shape s = kloc_rig_shape(policy, fast, slow);

	kloc_rig_start(&rig, &s);
	return &rig;
}

static void all_fast_has_no_limit(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_ALL_FAST, 100, 100);

	(void)state;
	for (u32 i = 0; i < 9; i++)
		assert_int_equal(
			kloc_rig_tier(r, kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE)),
			KLOC_FAST);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_rig_stop(r);
}

/* Kinds are of policies that group. */
static void all_slow_places_slow(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_ALL_SLOW, 1000, 1000);
	u32 file;

	(void)state;
	s.parameters.kinds = 0;
	kloc_rig_start(&rig, &s);
	file = kloc_rig_file(&rig, 1);
	assert_int_equal(kloc_rig_tier(&rig,
	                               kloc_rig_add(&rig, file, KLOC_FRAME, PAGE)),
	                 KLOC_SLOW);
	kloc_rig_stop(&rig);
}

/* First come, first served; what leaves makes room (KLOCs table 5). */
static void naive_moves_nothing(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_NAIVE, 200, 1000);
	u32 file = kloc_rig_file(r, 1), first = kloc_rig_add(r, file, KLOC_FRAME, PAGE);

	(void)state;
	kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, file, KLOC_FRAME, PAGE)),
	                 KLOC_SLOW);
	kloc_close(r->k, file, 0);
	kloc_tick(r->k);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_remove(r->k, first);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE)),
	                 KLOC_FAST);
	kloc_rig_stop(r);
}

/* A page is hot when two scans in a row find it used; then a cold one makes room. */
static void nimble_swaps_hot_and_cold(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_NIMBLE, 200, 1000);
	struct kloc_rig *r = &rig;
	u32 cold, hot;

	(void)state;
	for (; s.nr_tiers <= KLOC_MAX_TIERS; s.nr_tiers++) {
		kloc_rig_start(r, &s);
		cold = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
		kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
		hot = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
		assert_int_equal(kloc_rig_tier(r, hot), KLOC_SLOW);
		kloc_touch(r->k, hot, 0);
		kloc_tick(r->k);
		assert_int_equal(kloc_rig_drain(r), 0);
		kloc_touch(r->k, hot, 0);
		kloc_tick(r->k);
		assert_int_equal(kloc_rig_drain(r), 2);
		assert_int_equal(kloc_rig_tier(r, hot), KLOC_FAST);
		assert_int_equal(kloc_rig_tier(r, cold), KLOC_SLOW);
		kloc_rig_stop(r);
	}
}

/* The first look at the pages of fast memory finds both used, and leaves no inactive one. So the
 * next one looks at them again, and does not wait for a tick. */
static void nimble_active_pages_make_room(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_NIMBLE, 200, 1000);
	u32 pages[2], hot;

	(void)state;
	for (u32 i = 0; i < 2; i++)
		pages[i] = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	hot = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	for (u32 i = 0; i < 2; i++) {
		kloc_touch(r->k, pages[i], 0);
		kloc_touch(r->k, hot, 0);
		kloc_tick(r->k);
		kloc_touch(r->k, hot, 0);
	}
	assert_int_equal(kloc_rig_drain(r), 0);
	assert_int_equal(kloc_rig_drain(r), 2);
	assert_int_equal(kloc_rig_tier(r, hot), KLOC_FAST);
	assert_int_equal(kloc_rig_tier(r, pages[0]), KLOC_SLOW);
	kloc_rig_stop(r);
}

/* In a tick a busy page is asked once, however long the caller has been there. */
static void nimble_busy_page_waits_for_tick(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_NIMBLE, 200, 1000);
	struct kloc_move m;
	u32 page;

	(void)state;
	page = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	for (u32 i = 0; i < 300; i++)
		kloc_tick(r->k);
	kloc_touch(r->k, page, 0); /* a limit takes what is used, too */
	assert_int_equal(kloc_memsize(r->k, KLOC_FAST, 0), 0);
	for (u32 i = 0; i < 2; i++) {
		assert_true(kloc_next(r->k, &m));
		assert_int_equal(m.object, page);
		kloc_moved(r->k, page, KLOC_BUSY);
		assert_false(kloc_next(r->k, &m));
		kloc_tick(r->k);
	}
	kloc_rig_stop(r);
}

/* A tick looks at so many objects of each list of slow memory. */
static void nimble_tick_scans_so_many_of_a_list(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_NIMBLE, 0, 1000);
	struct kloc_stat stat;
	u32 pages[4];

	(void)state;
	s.parameters.scan = 1;
	kloc_rig_start(&rig, &s);
	for (u32 i = 0; i < 4; i++)
		pages[i] = kloc_rig_add(&rig, KLOC_NONE, KLOC_APP, PAGE);
	/* One becomes active in each tick, and is active from then on. */
	for (u32 tick = 0; tick < 4; tick++) {
		for (u32 i = 0; i < 4; i++)
			kloc_touch(rig.k, pages[i], 0);
		kloc_tick(rig.k);
		kloc_stat(rig.k, &stat);
		assert_int_equal(stat.scanned, 2 * tick + 1);
	}
	kloc_rig_stop(&rig);
}

/* nimble never moves a kernel object, and nimble++ does. The paper says both of their start. */
static void nimble_kernel_objects_by_parameter(void **state)
{
	(void)state;
	for (u32 plus = 0; plus < 2; plus++)
		for (u32 slow = 0; slow < 2; slow++) {
			struct kloc_shape s = kloc_rig_shape(
				plus ? KLOC_POLICY_NIMBLE_PP : KLOC_POLICY_NIMBLE, 1000,
				1000);
			u32 file, frame;

			s.parameters.kernel_place =
				slow ? KLOC_KERNEL_SLOW : KLOC_KERNEL_FAST;
			kloc_rig_start(&rig, &s);
			file = kloc_rig_file(&rig, 1);
			frame = kloc_rig_add(&rig, file, KLOC_FRAME, PAGE);
			assert_int_equal(kloc_rig_tier(&rig, frame), slow);
			for (u32 i = 0; i < 3; i++) {
				kloc_touch(rig.k, frame, 0);
				kloc_tick(rig.k);
			}
			kloc_rig_drain(&rig);
			assert_int_equal(kloc_rig_tier(&rig, frame),
			                 plus ? KLOC_FAST : slow);
			kloc_close(rig.k, file, 0);
			assert_int_equal(kloc_rig_drain(&rig), 0);
			kloc_rig_stop(&rig);
		}
}

/* KLOCs s.7.1: placement by state, and what is inactive stays. */
static void no_migration_places_only(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_NO_MIGRATION, 300, 1000);
	u32 file = kloc_rig_file(r, 1), frame = kloc_rig_add(r, file, KLOC_FRAME, PAGE);

	(void)state;
	kloc_close(r->k, file, 0);
	assert_int_equal(kloc_rig_drain(r), 0);
	assert_int_equal(kloc_rig_tier(r, frame), KLOC_FAST);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, file, KLOC_FRAME, PAGE)),
	                 KLOC_SLOW);
	kloc_rig_stop(r);
}

/* Linux 6.12 promotes a mapped page at its second use, and unmapped page cache never. */
static void tpp_second_use_promotes(void **state)
{
	(void)state;
	for (u32 file_too = 0; file_too < 2; file_too++) {
		struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_TPP, 200, 1000);
		u32 file, frame, app;

		s.parameters.promote_file = file_too;
		kloc_rig_start(&rig, &s);
		file = kloc_rig_file(&rig, 1);
		kloc_rig_add(&rig, KLOC_NONE, KLOC_APP, 200);
		frame = kloc_rig_add(&rig, file, KLOC_FRAME, PAGE);
		app = kloc_rig_add(&rig, KLOC_NONE, KLOC_APP, PAGE);
		for (u32 i = 0; i < 2; i++) {
			kloc_touch(rig.k, frame, 0);
			kloc_touch(rig.k, app, 0);
			kloc_touch(rig.k, app, 0);
			if (!i)
				kloc_tick(rig.k);
		}
		kloc_rig_drain(&rig);
		assert_int_equal(kloc_rig_tier(&rig, app), KLOC_FAST);
		assert_int_equal(kloc_rig_tier(&rig, frame),
		                 file_too ? KLOC_FAST : KLOC_SLOW);
		kloc_rig_stop(&rig);
	}
}

/* A page follows the second use in a row from another node; a file's objects never. */
static void autonuma_page_follows(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_AUTONUMA, 1000, 1000);
	u32 file = kloc_rig_file(r, 1), frame = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	u32 page = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);

	(void)state;
	assert_int_equal(kloc_rig_tier(r, page), 0);
	for (u32 i = 0; i < 3; i++) {
		kloc_touch(r->k, page, i == 1 ? 1 : 2); /* nodes 1, 0, 1 */
		kloc_touch(r->k, frame, 2);
		kloc_tick(r->k);
	}
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_touch(r->k, page, 3);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, page), 1);
	assert_int_equal(kloc_rig_tier(r, frame), 0);
	kloc_rig_stop(r);
}

/* KLOCs s.4.5: a file's objects follow the task, as soon as it has moved. */
static void kloc_numa_objects_follow_task(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_KLOC_NUMA, 1000, 1000);
	u32 file = kloc_rig_file(r, 1), other = kloc_rig_file(r, 2), frame, mine;

	(void)state;
	frame = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_rig_add(r, file, KLOC_JOURNAL, PAGE);
	mine = kloc_rig_add(r, other, KLOC_FRAME, PAGE);
	kloc_touch(r->k, mine, 1);
	assert_int_equal(kloc_last_cpu(r->k, file), 0);
	kloc_task_moved(r->k, 0, 2);
	assert_int_equal(kloc_last_cpu(r->k, file), 2);
	assert_int_equal(kloc_last_cpu(r->k, other), 1);
	assert_int_equal(kloc_rig_drain(r), 2);
	assert_int_equal(kloc_rig_tier(r, frame), 1);
	assert_int_equal(kloc_rig_tier(r, mine), 0);
	/* An interrupt on CPU 0 does not bring the socket there. */
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, file, KLOC_SOCKET, PAGE)), 1);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_rig_stop(r);
}

/* The task's node, not the next one that has room. */
static void kloc_numa_objects_go_to_their_home(void **state)
{
	static const u8 node[] = { 0, 1, 2, 3 };
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC_NUMA, 1000, 1000);
	u32 file, frame;

	(void)state;
	s.nr_tiers = KLOC_MAX_TIERS;
	s.capacity[2] = s.capacity[3] = 1000;
	s.cpu_tier = node;
	kloc_rig_start(&rig, &s);
	file = kloc_rig_file(&rig, 1);
	frame = kloc_rig_add(&rig, file, KLOC_FRAME, PAGE);
	kloc_task_moved(rig.k, 0, 2);
	assert_int_equal(kloc_rig_drain(&rig), 1);
	assert_int_equal(kloc_rig_tier(&rig, frame), 2);
	kloc_rig_stop(&rig);
}

/* Until a user comes, a file is where its first object came from. */
static void kloc_numa_first_object_sets_home(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_KLOC_NUMA, 1000, 1000);
	struct kloc_new n = { .kind = KLOC_FRAME, .bytes = PAGE };
	u32 object, tier;

	(void)state;
	assert_int_equal(kloc_map(r->k, 1, 0, &n.knode), 0);
	for (n.cpu = 2; n.cpu < 4; n.cpu++) {
		assert_int_equal(kloc_add(r->k, &n, &object, &tier), 0);
		assert_int_equal(kloc_last_cpu(r->k, n.knode), 2);
	}
	kloc_rig_stop(r);
}

/* What a tick finds remote follows, too: the task went on by itself (find_cpu). */
static void kloc_numa_tick_brings_rest(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_KLOC_NUMA, 100, 1000);
	u32 file = kloc_rig_file(r, 1), frame, block;

	(void)state;
	block = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	frame = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	assert_int_equal(kloc_rig_tier(r, frame), 1); /* node 0 is full */
	kloc_remove(r->k, block);
	kloc_tick(r->k);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, frame), 0);
	kloc_rig_stop(r);
}

static void replicate_second_use_copies(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_REPLICATE, 1000, 250);
	u32 file, other, frame, single;
	struct kloc_object_stat stat;
	struct kloc_move m;

	(void)state;
	s.parameters.low_permille = s.parameters.high_permille = 200;
	kloc_rig_start(&rig, &s);
	assert_int_equal(kloc_map(rig.k, 1, KLOC_MAP_REPLICATE, &file), 0);
	kloc_open(rig.k, file, 0);
	other = kloc_rig_file(&rig, 2);
	frame = kloc_rig_add(&rig, file, KLOC_FRAME, PAGE);
	single = kloc_rig_add(&rig, other, KLOC_FRAME, PAGE);
	for (u32 i = 0; i < 2; i++) {
		assert_int_equal(kloc_touch(rig.k, frame, 2), 0);
		assert_int_equal(kloc_touch(rig.k, single, 2), 0);
	}
	assert_true(kloc_next(rig.k, &m));
	assert_int_equal(m.what, KLOC_COPY);
	assert_int_equal(m.to, 1);
	kloc_moved(rig.k, m.object, KLOC_MOVED);
	assert_false(kloc_next(rig.k, &m));
	assert_int_equal(kloc_touch(rig.k, frame, 2), 1);
	assert_int_equal(kloc_touch(rig.k, frame, 0), 0);
	/* Node 1 fills: the copy goes. */
	kloc_touch(rig.k, frame, 2);
	{
		struct kloc_new n = { .knode = KLOC_NONE, .bytes = 120, .cpu = 2 };
		u32 object, tier;

		assert_int_equal(kloc_add(rig.k, &n, &object, &tier), 0);
		assert_int_equal(tier, 1);
	}
	assert_true(kloc_next(rig.k, &m));
	assert_int_equal(m.what, KLOC_DROP);
	assert_int_equal(m.object, frame);
	kloc_moved(rig.k, m.object, KLOC_MOVED);
	kloc_object_stat(rig.k, frame, &stat);
	assert_int_equal(stat.copies, 0);
	kloc_rig_stop(&rig);
}

static u64 key_is_next_use(u32 object, u64 key)
{
	(void)object;
	return key;
}

static u32 add_used_next_at(struct kloc_rig *r, u64 when)
{
	struct kloc_new n = { .key = when, .knode = KLOC_NONE, .bytes = PAGE };
	u32 object, tier;

	assert_int_equal(kloc_add(r->k, &n, &object, &tier), 0);
	return object;
}

static void oracle_keeps_what_is_next(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_ORACLE, 200, 1000);
	u32 far, near, sooner, never;

	(void)state;
	r->next_use = key_is_next_use;
	near = add_used_next_at(r, 10);
	far = add_used_next_at(r, 90);
	sooner = add_used_next_at(r, 50);
	never = add_used_next_at(r, KLOC_NEVER);
	assert_int_equal(kloc_rig_tier(r, sooner), KLOC_SLOW);
	kloc_touch(r->k, never, 0);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_touch(r->k, sooner, 0);
	assert_int_equal(kloc_rig_drain(r), 2);
	assert_int_equal(kloc_rig_tier(r, sooner), KLOC_FAST);
	assert_int_equal(kloc_rig_tier(r, near), KLOC_FAST);
	assert_int_equal(kloc_rig_tier(r, far), KLOC_SLOW);
	kloc_touch(r->k, far, 0);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_rig_stop(r);
}

/* It needs no more room than its bytes, and then nothing that is needed sooner leaves. */
static void oracle_fills_last_room(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_ORACLE, 200, 1000);
	u32 far, slow;

	(void)state;
	r->next_use = key_is_next_use;
	add_used_next_at(r, 10);
	far = add_used_next_at(r, 90);
	slow = add_used_next_at(r, 50);
	kloc_remove(r->k, far);
	kloc_touch(r->k, slow, 0);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, slow), KLOC_FAST);
	kloc_rig_stop(r);
}

static u64 when_used[64];

static u64 told_next_use(u32 object, u64 key)
{
	(void)key;
	return when_used[object];
}

/* A use in fast memory may make an object the one that is needed last. */
static void oracle_use_changes_order(void **state)
{
	struct kloc_rig *r = start(KLOC_POLICY_ORACLE, 200, 1000);
	u32 a, b, slow;

	(void)state;
	r->next_use = told_next_use;
	a = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	when_used[a + 1] = 20;
	b = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	slow = kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE);
	when_used[a] = 90;
	kloc_touch(r->k, a, 0);
	when_used[slow] = 50;
	kloc_touch(r->k, slow, 0);
	assert_int_equal(kloc_rig_drain(r), 2);
	assert_int_equal(kloc_rig_tier(r, a), KLOC_SLOW);
	assert_int_equal(kloc_rig_tier(r, b), KLOC_FAST);
	assert_int_equal(kloc_rig_tier(r, slow), KLOC_FAST);
	kloc_rig_stop(r);
}

/* kloc: pages of programs go by the LRU lists as under nimble, and outlive cold files. */
static void kloc_need_takes_cold_file_first(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	u32 file, app;

	(void)state;
	s.parameters.low_permille = 100;
	s.parameters.high_permille = 200;
	s.parameters.age_limit = 0;
	kloc_rig_start(&rig, &s);
	file = kloc_rig_file(&rig, 1);
	for (u32 i = 0; i < 3; i++)
		kloc_rig_add(&rig, file, KLOC_FRAME, PAGE);
	for (u32 i = 0; i < 7; i++)
		app = kloc_rig_add(&rig, KLOC_NONE, KLOC_APP, PAGE);
	kloc_tick(rig.k);
	kloc_tick(rig.k);
	assert_int_equal(kloc_rig_drain(&rig), 3);
	assert_int_equal(rig.nr[KLOC_DEMOTE][KLOC_BY_NEED], 3);
	assert_int_equal(kloc_rig_state(&rig, file), KLOC_INACTIVE);
	assert_int_equal(kloc_rig_tier(&rig, app), KLOC_FAST);
	kloc_rig_stop(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_fast_has_no_limit),
		cmocka_unit_test(all_slow_places_slow),
		cmocka_unit_test(naive_moves_nothing),
		cmocka_unit_test(nimble_swaps_hot_and_cold),
		cmocka_unit_test(nimble_active_pages_make_room),
		cmocka_unit_test(nimble_busy_page_waits_for_tick),
		cmocka_unit_test(nimble_tick_scans_so_many_of_a_list),
		cmocka_unit_test(nimble_kernel_objects_by_parameter),
		cmocka_unit_test(no_migration_places_only),
		cmocka_unit_test(tpp_second_use_promotes),
		cmocka_unit_test(autonuma_page_follows),
		cmocka_unit_test(kloc_numa_objects_follow_task),
		cmocka_unit_test(kloc_numa_objects_go_to_their_home),
		cmocka_unit_test(kloc_numa_first_object_sets_home),
		cmocka_unit_test(kloc_numa_tick_brings_rest),
		cmocka_unit_test(replicate_second_use_copies),
		cmocka_unit_test(oracle_keeps_what_is_next),
		cmocka_unit_test(oracle_fills_last_room),
		cmocka_unit_test(oracle_use_changes_order),
		cmocka_unit_test(kloc_need_takes_cold_file_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
