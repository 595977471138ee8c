/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* liblodic's cache on the simulated machine (sim/cache/): which line each way of counting
 * moves, and what an eviction looks at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim/cache/point.h"
#include "sim/keys.h"
#include "sim/machine.h"

#define WORK 292u /* cycles: what a copy of a block takes */

#define LONG_WORK 30000u /* more than a heavy fence */

static struct cache_result run_setup(const struct cache_setup *setup)
{
	struct cache_result result;
	struct machine m;

	assert_non_null(setup->way);
	assert_int_equal(machine_read("8x15", NULL, &m), 0);
	assert_int_equal(cache_run(&m.timing, 1, setup, &result), 0);
	assert_true(result.sim.ops > 0);
	return result;
}

static struct cache_result run(const char *way, enum cache_what what, u32 readers,
                               u32 blocks, u32 batch)
{
	struct cache_setup setup = { .way = cache_way_find(way),
		                     .what = what,
		                     .nr_readers = readers,
		                     .nr_blocks = blocks,
		                     .work = WORK,
		                     .batch = batch };

	return run_setup(&setup);
}

static u64 transfers_of(const struct cache_result *r, const char *name)
{
	for (u32 i = 0; i < r->sim.nr_lines; i++)
		if (strcmp(r->sim.lines[i].name, name) == 0)
			return r->sim.lines[i].transfers;
	fail_msg("no line is called %s", name);
	return 0;
}

static double lines_per_frame(const struct cache_result *r)
{
	assert_true(r->service.nr_taken > 0);
	return (double)r->service.lines / (double)r->service.nr_taken;
}

/* The promise: no line moves, and a pin costs hardly more than one that nobody looks at. */
static void lodic_on_all_cpus_moves_no_line(void **state)
{
	static const enum cache_what whats[] = { CACHE_READ, CACHE_PIN };
	static const u32 blocks[] = { 1, 64 };

	(void)state;
	for (u32 i = 0; i < 4; i++) {
		struct cache_result floor =
			run("private", whats[i / 2], 120, blocks[i % 2], 0);
		struct cache_result r =
			run("lodic", whats[i / 2], 120, blocks[i % 2], 0);
		double each;

		assert_true(r.sim.mops >= 0.95 * floor.sim.mops);
		assert_true(cache_transfers_per_op(&r) < 0.005);
		assert_null(cache_hottest(&r, &each));
	}
}

static void lodic_lock_moves_no_line_and_pays_for_its_exchange(void **state)
{
	struct cache_result light = run("lodic", CACHE_PAIR, 30, 1, 0);
	struct cache_result lock = run("lodic-lock", CACHE_PAIR, 30, 1, 0);

	(void)state;
	assert_true(cache_transfers_per_op(&lock) < 0.005);
	assert_true(lock.sim.mops < 0.7 * light.sim.mops);
}

static void shared_word_collapses_on_counter(void **state)
{
	static const char *const ways[] = { "atomic", "frozen" };

	(void)state;
	for (u32 i = 0; i < 2; i++) {
		struct cache_result few = run(ways[i], CACHE_PIN, 4, 1, 0);
		struct cache_result many = run(ways[i], CACHE_PIN, 60, 1, 0);
		double each;

		assert_true(many.sim.mops < few.sim.mops);
		assert_string_equal(cache_hottest(&many, &each), "counter");
		assert_true(each > 0.9);
	}
}

/* arena_check(), context_check() and reclaim_check() run at the end of each eviction. */
static void every_way_reads_pins_and_evicts(void **state)
{
	(void)state;
	for (u32 i = 0; i < cache_nr_ways; i++) {
		const char *name = cache_ways[i]->name;

		run(name, CACHE_READ, 8, 64, 0);
		run(name, CACHE_PIN, 8, 64, 0);
		assert_true(run(name, CACHE_EVICT, 8, 64, 8).service.nr_taken >= 8);
	}
}

static u64 nr_refused(const char *way)
{
	struct cache_setup setup = { .way = cache_way_find(way),
		                     .what = CACHE_EVICT,
		                     .nr_readers = 8,
		                     .nr_blocks = 4,
		                     .work = LONG_WORK,
		                     .batch = 4 };

	return run_setup(&setup).service.nr_refused;
}

/* Eight readers have two hot blocks pinned nearly always, and a batch takes all frames. */
static void eviction_refuses_what_is_pinned(void **state)
{
	(void)state;
	for (u32 i = 0; i < cache_nr_ways; i++) {
		bool looks = strcmp(cache_ways[i]->name, "private") != 0;

		assert_int_equal(nr_refused(cache_ways[i]->name) > 0, looks);
	}
}

/* What the page doc/scale.md says of the walk. */
static void eviction_looks_at_a_line_per_context(void **state)
{
	struct cache_result few = run("lodic", CACHE_EVICT, 8, 128, 16);
	struct cache_result many = run("lodic", CACHE_EVICT, 60, 128, 16);
	struct cache_result scan = run("hazard", CACHE_EVICT, 60, 128, 16);
	struct cache_result word = run("frozen", CACHE_EVICT, 60, 128, 16);

	(void)state;
	assert_in_range((u64)lines_per_frame(&few), 8, 24);
	assert_in_range((u64)lines_per_frame(&many), 60, 180);
	assert_in_range((u64)lines_per_frame(&scan), 3, 8);
	assert_in_range((u64)lines_per_frame(&word), 1, 2);
	assert_true(cache_frame_ns(&many.service) > 3 * cache_frame_ns(&few.service));
	assert_true(cache_frame_ns(&scan.service) < cache_frame_ns(&many.service) / 3);
	assert_true(transfers_of(&many, "ptes") > transfers_of(&many, "translation"));
}

static void eviction_fills_what_readers_hint(void **state)
{
	struct cache_result r = run("lodic", CACHE_EVICT, 30, 128, 16);

	(void)state;
	assert_true(r.service.nr_filled_hints > 0);
	assert_true(transfers_of(&r, "hint ring") > 0);
}

static void eviction_keeps_to_a_device_s_pace(void **state)
{
	struct cache_result r = run("frozen", CACHE_EVICT, 4, 128, 16);

	(void)state;
	assert_true(cache_frame_ns(&r.service) < 3000);
	assert_true(r.run_ns >= 3900 * r.service.nr_taken);
}

static void same_seed_gives_same_result(void **state)
{
	struct cache_result one = run("lodic", CACHE_EVICT, 15, 64, 8);
	struct cache_result two = run("lodic", CACHE_EVICT, 15, 64, 8);

	(void)state;
	assert_int_equal(one.sim.ops, two.sim.ops);
	assert_int_equal(one.sim.transfers, two.sim.transfers);
	assert_int_equal(one.service.walk_ns, two.service.walk_ns);
}

static int find_data(void **state)
{
	(void)state;
	return keys_look_in(LODIC_MODEL_DIR);
}

int main(void)
{
	const struct CMUnitTest model[] = {
		cmocka_unit_test(lodic_on_all_cpus_moves_no_line),
		cmocka_unit_test(lodic_lock_moves_no_line_and_pays_for_its_exchange),
		cmocka_unit_test(shared_word_collapses_on_counter),
		cmocka_unit_test(every_way_reads_pins_and_evicts),
		cmocka_unit_test(eviction_refuses_what_is_pinned),
		cmocka_unit_test(eviction_looks_at_a_line_per_context),
		cmocka_unit_test(eviction_fills_what_readers_hint),
		cmocka_unit_test(eviction_keeps_to_a_device_s_pace),
		cmocka_unit_test(same_seed_gives_same_result),
	};

	return cmocka_run_group_tests(model, find_data, NULL);
}
