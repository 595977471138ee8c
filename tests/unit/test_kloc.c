/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* core/kloc under the policy kloc: states of knodes, groups, placement, what a file is told. */
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
	struct kloc_tier_stat stat[2] = { 0 };

	kloc_tier_stat(r->k, tier, &stat[0]);
	assert_int_equal(stat[1].capacity, 0); /* nothing is written past the first */
	return stat[0].used;
}

static struct kloc_stat stat_of(const struct kloc_rig *r)
{
	struct kloc_stat stat;

	kloc_stat(r->k, &stat);
	return stat;
}

static void init_bad_shape_einval(void **state)
{
	struct kloc_shape good = kloc_rig_shape(KLOC_POLICY_KLOC, 1, 1), s;
	static const u8 bad_tier[] = { 0, 0, 0, 2 };
	struct kloc *k = NULL;

	(void)state;
#define REFUSED(member, value) \
	do { \
		s = good; \
		s.member = value; \
		assert_int_equal(kloc_init(&s, &k), -EINVAL); \
	} while (0)
	REFUSED(nr_tiers, 1);
	REFUSED(nr_tiers, KLOC_MAX_TIERS + 1);
	REFUSED(nr_objects, 0);
	REFUSED(nr_knodes, 0);
	REFUSED(nr_knodes, 0x1000001);
	REFUSED(nr_cpus, 0);
	REFUSED(list_length, 0);
	REFUSED(list_length, 33);
	REFUSED(cpu_tier, bad_tier);
	REFUSED(policy, KLOC_NR_POLICIES);
	REFUSED(parameters.ping_pong, 0);
	REFUSED(parameters.ping_pong, 256);
	REFUSED(parameters.low_permille, 1);
	REFUSED(parameters.high_permille, 1001);
	REFUSED(parameters.max_in_flight, 0);
	REFUSED(parameters.knode_tier, 2);
	REFUSED(parameters.prefetch_age, 255);
	REFUSED(parameters.forgive, 255);
	assert_null(k);
	s = good;
	s.parameters.prefetch_age = s.parameters.forgive = 254;
	s.parameters.ping_pong = 255;
	assert_int_equal(kloc_init(&s, &k), 0);
	kloc_fini(k);
}

static void names_are_found_again(void **state)
{
	(void)state;
	for (u32 i = 0; i < KLOC_NR_POLICIES; i++)
		assert_int_equal(kloc_policy_named(kloc_policy_name(i)), i);
	assert_int_equal(kloc_policy_named("kloc-"), KLOC_NR_POLICIES);
	assert_int_equal(kloc_policy_named(""), KLOC_NR_POLICIES);
	assert_string_equal(kloc_kind_name(KLOC_RMAP), "rmap");
	assert_string_equal(kloc_what_name(KLOC_KEEP), "keep");
	assert_string_equal(kloc_why_name(KLOC_WAS_BUSY), "busy");
}

/* KLOCs s.4.2.2. */
static void add_by_state_places(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 active = kloc_rig_file(r, 7), inactive;

	(void)state;
	assert_int_equal(kloc_map(r->k, 8, 0, &inactive), 0);
	assert_int_equal(kloc_rig_state(r, active), KLOC_ACTIVE);
	assert_int_equal(kloc_rig_state(r, inactive), KLOC_INACTIVE);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, active, KLOC_FRAME, PAGE)),
	                 KLOC_FAST);
	assert_int_equal(r->last.why, KLOC_BY_STATE);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, active, KLOC_SLAB, PAGE)),
	                 KLOC_FAST);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, inactive, KLOC_FRAME, PAGE)),
	                 KLOC_SLOW);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, KLOC_NONE, KLOC_APP, PAGE)),
	                 KLOC_FAST);
	assert_int_equal(kloc_rig_tier(r,
	                               kloc_rig_add(r, KLOC_NONE, KLOC_SOCKET, PAGE)),
	                 KLOC_FAST);
	kloc_rig_stop(r);
}

/* Pages of programs come first: kernel objects leave them the last of it (KLOCs s.4.2.2). */
static void add_low_memory_prefers_programs(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_rig *r;
	u32 file;

	(void)state;
	s.parameters.low_permille = s.parameters.high_permille = 200;
	r = start(&s);
	file = kloc_rig_file(r, 1);
	kloc_rig_add(r, file, KLOC_FRAME, 800);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, file, KLOC_FRAME, PAGE)),
	                 KLOC_SLOW);
	assert_int_equal(r->last.why, KLOC_FULL);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, KLOC_NONE, KLOC_APP, 200)),
	                 KLOC_FAST);
	assert_int_equal(used(r, KLOC_FAST), 1000);
	kloc_rig_stop(r);
}

/* The last of it is still better than nothing. */
static void add_low_memory_and_no_other_takes_it(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, PAGE, 0);
	struct kloc_rig *r;

	(void)state;
	s.parameters.low_permille = s.parameters.high_permille = 200;
	r = start(&s);
	kloc_rig_add(r, kloc_rig_file(r, 1), KLOC_FRAME, PAGE);
	assert_int_equal(used(r, KLOC_FAST), PAGE);
	kloc_rig_stop(r);
}

static void add_no_room_enospc(void **state)
{
	struct kloc_rig *r = start_kloc(100, 100);
	struct kloc_new n = { .knode = KLOC_NONE, .kind = KLOC_APP, .bytes = 60 };
	u32 object = 77, tier = 77, i;

	(void)state;
	kloc_rig_add(r, KLOC_NONE, KLOC_APP, 60);
	kloc_rig_add(r, KLOC_NONE, KLOC_APP, 60);
	assert_int_equal(kloc_add(r->k, &n, &object, &tier), -ENOSPC);
	assert_int_equal(object, 77);
	assert_int_equal(tier, 77);
	kloc_rig_stop(r);
	r = start_kloc(1000, 1000);
	n.bytes = 1;
	for (i = 0; i < 64; i++)
		kloc_rig_add(r, KLOC_NONE, KLOC_APP, 1);
	assert_int_equal(kloc_add(r->k, &n, &object, &tier), -ENOSPC);
	kloc_rig_stop(r);
}

/* An open file that nobody uses is cold, too (KLOCs s.3.2, s.4.3); a use wakes it. */
static void tick_unused_knode_ages(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_rig *r;
	u32 file, used_file, object, first;

	(void)state;
	s.parameters.age_limit = 3;
	r = start(&s);
	file = kloc_rig_file(r, 1);
	used_file = kloc_rig_file(r, 2);
	object = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	first = kloc_rig_add(r, used_file, KLOC_FRAME, PAGE);
	for (u32 i = 0; i < 3; i++) {
		kloc_tick(r->k);
		kloc_touch(r->k, first, 0);
	}
	assert_int_equal(kloc_next_coldest(r->k, KLOC_NONE), file);
	assert_int_equal(kloc_next_coldest(r->k, file), used_file);
	assert_int_equal(kloc_next_coldest(r->k, used_file), KLOC_NONE);
	kloc_tick(r->k);
	assert_int_equal(kloc_rig_state(r, file), KLOC_INACTIVE);
	assert_int_equal(kloc_rig_state(r, used_file), KLOC_ACTIVE);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(r->nr[KLOC_DEMOTE][KLOC_BY_AGE], 1);
	assert_int_equal(stat_of(r).aged, 1);
	assert_int_equal(kloc_touch(r->k, object, 0), KLOC_SLOW);
	assert_int_equal(kloc_rig_state(r, file), KLOC_ACTIVE);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, object), KLOC_FAST);
	kloc_rig_stop(r);
}

/* Objects of a deleted file are freed, not moved (KLOCs s.3.2). */
static void unlink_closed_moves_nothing(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 file = kloc_rig_file(r, 1), object, again;

	(void)state;
	object = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_close(r->k, file, 0);
	kloc_unlink(r->k, file, 0);
	assert_int_equal(kloc_rig_state(r, file), KLOC_UNLINKED);
	assert_int_equal(kloc_find(r->k, 1, 0), KLOC_NONE);
	assert_int_equal(kloc_rig_drain(r), 0);
	/* Another file gets the inode before the last object of the old one is gone. */
	assert_int_equal(kloc_map(r->k, 1, 0, &again), 0);
	assert_int_not_equal(again, file);
	assert_int_equal(kloc_find(r->k, 1, 0), again);
	kloc_remove(r->k, object);
	assert_int_equal(kloc_rig_state(r, file), KLOC_FREE);
	assert_int_equal(used(r, KLOC_FAST) + used(r, KLOC_SLOW), 0);
	kloc_rig_stop(r);
}

static void unlink_open_lives_until_close(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 file = kloc_rig_file(r, 1), object;

	(void)state;
	object = kloc_rig_add(r, file, KLOC_FRAME, PAGE);
	kloc_unlink(r->k, file, 0);
	assert_int_equal(kloc_rig_state(r, file), KLOC_ACTIVE);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, file, KLOC_FRAME, PAGE)),
	                 KLOC_FAST);
	kloc_close(r->k, file, 0);
	assert_int_equal(kloc_rig_state(r, file), KLOC_UNLINKED);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_remove(r->k, object);
	assert_int_equal(kloc_rig_state(r, file), KLOC_UNLINKED);
	kloc_remove(r->k, object + 1);
	assert_int_equal(kloc_rig_state(r, file), KLOC_FREE);
	kloc_rig_stop(r);
}

/* KLOCs s.7.3: kinds that are not in the groups stay in fast memory. */
static void add_excluded_kind_stays_fast(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 1000, 1000);
	struct kloc_rig *r;
	u32 file, journal;

	(void)state;
	s.parameters.kinds &= ~KLOC_BIT(KLOC_JOURNAL);
	r = start(&s);
	assert_int_equal(kloc_map(r->k, 1, 0, &file), 0);
	journal = kloc_rig_add(r, file, KLOC_JOURNAL, PAGE);
	assert_int_equal(kloc_rig_tier(r, journal), KLOC_FAST);
	kloc_open(r->k, file, 0);
	kloc_close(r->k, file, 0);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_rig_stop(r);
}

static void map_flags_overrule_state(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 fast, slow;

	(void)state;
	assert_int_equal(kloc_map(r->k, 1, KLOC_MAP_FAST, &fast), 0);
	assert_int_equal(kloc_map(r->k, 2, KLOC_MAP_SLOW, &slow), 0);
	kloc_open(r->k, slow, 0);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, fast, KLOC_FRAME, PAGE)),
	                 KLOC_FAST);
	assert_int_equal(kloc_rig_tier(r, kloc_rig_add(r, slow, KLOC_FRAME, PAGE)),
	                 KLOC_SLOW);
	kloc_open(r->k, fast, 0);
	kloc_close(r->k, fast, 0);
	assert_int_equal(kloc_rig_drain(r), 0);
	kloc_rig_stop(r);
}

/* A packet whose socket is found out later (KLOCs s.4.2.3). */
static void adopt_joins_its_group(void **state)
{
	struct kloc_rig *r = start_kloc(1000, 1000);
	u32 socket = kloc_rig_file(r, 1), packet;

	(void)state;
	packet = kloc_rig_add(r, KLOC_NONE, KLOC_SOCKET, PAGE);
	kloc_adopt(r->k, packet, socket, 2);
	kloc_check(r->k);
	kloc_close(r->k, socket, 0);
	assert_int_equal(kloc_rig_drain(r), 1);
	assert_int_equal(kloc_rig_tier(r, packet), KLOC_SLOW);
	kloc_rig_stop(r);
}

/* KLOCs s.4.4, future work: a giant file of which one part is hot. */
static void segments_age_apart(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 2000, 2000);
	struct kloc_new n = { .kind = KLOC_FRAME, .bytes = PAGE };
	struct kloc_knode_stat stat;
	u32 objects[4], tier, file, at = KLOC_NONE, object = KLOC_NONE, nr = 0;
	struct kloc_rig *r;

	(void)state;
	s.parameters.segment_bytes = 1000;
	s.parameters.age_limit = 2;
	r = start(&s);
	n.knode = file = kloc_rig_file(r, 1);
	for (u32 i = 0; i < 4; i++) {
		n.key = i * 1000;
		assert_int_equal(kloc_add(r->k, &n, &objects[i], &tier), 0);
		assert_int_equal(tier, KLOC_FAST);
	}
	for (u32 i = 0; i < 3; i++) {
		kloc_tick(r->k);
		kloc_touch(r->k, objects[2], 1);
	}
	assert_int_equal(kloc_rig_drain(r), 2);
	assert_int_equal(kloc_rig_tier(r, objects[1]), KLOC_SLOW);
	assert_int_equal(kloc_rig_tier(r, objects[2]), KLOC_FAST);
	assert_int_equal(kloc_rig_tier(r, objects[3]), KLOC_SLOW);
	assert_true(kloc_next_knode(r->k, &at, &stat));
	assert_int_equal(stat.nr_segments, 4);
	assert_int_equal(stat.nr_objects, 4);
	assert_int_equal(stat.bytes[KLOC_FAST], 2 * PAGE);
	assert_int_equal(kloc_find(r->k, 1, 1), file);
	assert_int_equal(kloc_last_cpu(r->k, file), 1);
	while ((object = kloc_next_object(r->k, file, KLOC_LARGE, object)) != KLOC_NONE)
		nr++;
	assert_int_equal(nr, 4);
	kloc_close(r->k, file, 0);
	assert_int_equal(kloc_rig_drain(r), 2);
	kloc_unlink(r->k, file, 0);
	for (u32 i = 0; i < 4; i++)
		kloc_remove(r->k, objects[i]);
	assert_int_equal(stat_of(r).nr_knodes, 0);
	kloc_rig_stop(r);
}

/* KLOCs s.4.2.2: knodes are in fast memory. */
static void map_charges_fast_memory(void **state)
{
	struct kloc_shape s = kloc_rig_shape(KLOC_POLICY_KLOC, 0, 0);
	struct kloc_cost cost;
	struct kloc_rig *r;
	u32 a, b, c;

	(void)state;
	kloc_parameters_default(s.policy, &s.parameters);
	s.capacity[0] = s.capacity[1] = 200;
	r = start(&s);
	kloc_cost(r->k, &cost);
	assert_true(cost.knode_bytes > 100 && cost.knode_bytes <= 200);
	assert_int_equal(kloc_map(r->k, 1, 0, &a), 0);
	assert_int_equal(used(r, KLOC_FAST), cost.knode_bytes);
	assert_int_equal(kloc_map(r->k, 2, 0, &b), 0); /* no room: in the next tier */
	assert_int_equal(used(r, KLOC_SLOW), cost.knode_bytes);
	assert_int_equal(kloc_map(r->k, 3, 0, &c), -ENOSPC);
	assert_int_equal(kloc_map(r->k, 1, 0, &c), 0);
	assert_int_equal(c, a);
	kloc_unlink(r->k, a, 0);
	assert_int_equal(used(r, KLOC_FAST), 0);
	kloc_rig_stop(r);
}

/* itr_knode_cache(), itr_knode_slab() (KLOCs table 2). */
static void next_object_iterates_class(void **state)
{
	struct kloc_rig *r = start_kloc(250, 1000);
	u32 file = kloc_rig_file(r, 1), object = KLOC_NONE, nr[KLOC_NR_CLASSES] = { 0 };

	(void)state;
	for (u32 i = 0; i < 5; i++)
		kloc_rig_add(r, file, i % 2 ? KLOC_SLAB : KLOC_FRAME, PAGE);
	for (u32 class_ = 0; class_ < KLOC_NR_CLASSES; class_++)
		while ((object = kloc_next_object(r->k, file, class_, object)) !=
		       KLOC_NONE)
			nr[class_]++;
	assert_int_equal(nr[KLOC_LARGE], 3);
	assert_int_equal(nr[KLOC_SMALL], 2);
	kloc_rig_stop(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init_bad_shape_einval),
		cmocka_unit_test(names_are_found_again),
		cmocka_unit_test(add_by_state_places),
		cmocka_unit_test(add_low_memory_prefers_programs),
		cmocka_unit_test(add_low_memory_and_no_other_takes_it),
		cmocka_unit_test(add_no_room_enospc),
		cmocka_unit_test(tick_unused_knode_ages),
		cmocka_unit_test(unlink_closed_moves_nothing),
		cmocka_unit_test(unlink_open_lives_until_close),
		cmocka_unit_test(add_excluded_kind_stays_fast),
		cmocka_unit_test(map_flags_overrule_state),
		cmocka_unit_test(adopt_joins_its_group),
		cmocka_unit_test(segments_age_apart),
		cmocka_unit_test(map_charges_fast_memory),
		cmocka_unit_test(next_object_iterates_class),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
