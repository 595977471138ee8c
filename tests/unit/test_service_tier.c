/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A service with two tiers, as its users see it. Where do blocks come in? Which of them move when a
 * user asks, and which stay, because they are pinned or because there is no room? What has moved is
 * read, and evicted, as before.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/look.h"
#include "tests/support/cache_fixture.h"

#define CACHE_BLOCKS 200u
#define FAST_BLOCKS 80u

static struct test_bed bed;
static struct look *look;
static struct stat st;

static void make_begin(void)
{
	test_bed_init(&bed, LODIC_LODIC);
	bed.service.options.sizes.cache_bytes = CACHE_BLOCKS * LODIC_BLOCK_BYTES;
	bed.service.options.sizes.fast_bytes = FAST_BLOCKS * LODIC_BLOCK_BYTES;
	bed.service.options.tables.quota = 16;
}

static void make_end(u64 blocks)
{
	int pid;

	test_bed_make(&bed, blocks * LODIC_BLOCK_BYTES);
	assert_int_equal(look_open(bed.service.socket, &look, &pid), 0);
	assert_int_equal(stat(bed.path, &st), 0);
}

static void make(u64 blocks)
{
	make_begin();
	make_end(blocks);
}

static void end(void)
{
	look_close(look);
	test_bed_free(&bed);
}

static int keep_tier(void *ctx, const void *record)
{
	struct look_tier *tiers = ctx;
	const struct look_tier *r = record;

	assert_in_range(r->tier, 0, LOOK_NR_TIERS - 1);
	tiers[r->tier] = *r;
	return 0;
}

/* Both tiers, once nothing moves any more. */
static void settled(struct look_tier tiers[LOOK_NR_TIERS])
{
	assert_true(WAIT_UNTIL(look_list(look, LOOK_TIERS, keep_tier, tiers) == 0 &&
	                       !tiers[0].busy));
}

static int keep_file(void *ctx, const void *record)
{
	const struct look_file *r = record;

	if (r->state == LOOK_HELD && r->ino == st.st_ino)
		memcpy(ctx, r, sizeof(*r));
	return 0;
}

static u64 nr_fast(void)
{
	struct look_file f = { 0 };

	assert_int_equal(look_list(look, LOOK_FILES, keep_file, &f), 0);
	return f.fast;
}

static int move_to(enum look_tier_kind to)
{
	return look_move(look, st.st_dev, st.st_ino, to);
}

static void read_all_hits(u64 blocks)
{
	for (u64 i = 0; i < blocks; i++)
		assert_true(test_bed_reads_hit(&bed, i));
}

static void fill_fast_first_then_slow(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];

	(void)state;
	make(100);
	test_bed_fill(&bed);
	settled(tiers);
	assert_int_equal(tiers[LOOK_TIER_FAST].frames + tiers[LOOK_TIER_SLOW].frames,
	                 CACHE_BLOCKS);
	assert_int_equal(tiers[LOOK_TIER_FAST].frames, FAST_BLOCKS);
	assert_int_equal(nr_fast(), FAST_BLOCKS);
	assert_int_equal(tiers[LOOK_TIER_FAST].free_frames, 0);
	assert_int_equal(tiers[LOOK_TIER_FAST].missed, 100 - FAST_BLOCKS);
	read_all_hits(100);
	end();
}

static void move_file_there_and_back_reads_hit(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];

	(void)state;
	make(60);
	test_bed_fill(&bed);
	assert_int_equal(nr_fast(), 60);
	for (u32 round = 0; round < 3; round++) {
		assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
		settled(tiers);
		assert_int_equal(nr_fast(), 0);
		assert_int_equal(tiers[LOOK_TIER_FAST].free_frames, FAST_BLOCKS);
		read_all_hits(60);
		assert_int_equal(move_to(LOOK_TIER_FAST), 0);
		settled(tiers);
		assert_int_equal(nr_fast(), 60);
		read_all_hits(60);
	}
	assert_int_equal(tiers[LOOK_TIER_SLOW].moved, 3 * 60);
	assert_int_equal(tiers[LOOK_TIER_FAST].moved, 3 * 60);
	assert_int_equal(tiers[LOOK_TIER_FAST].refused, 0);
	end();
}

static void move_pinned_block_stays_until_unpinned(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];
	struct lodic_pin pin;
	const void *before;

	(void)state;
	make(60);
	test_bed_fill(&bed);
	assert_int_equal(lodic_pin(bed.context, bed.file, 7 * LODIC_BLOCK_BYTES, &pin),
	                 0);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	settled(tiers);
	assert_int_equal(nr_fast(), 1);
	assert_true(pattern_holds(pin.data, 1, 1, 7 * LODIC_BLOCK_BYTES, pin.bytes));
	read_all_hits(60);
	before = pin.data;
	lodic_unpin(bed.context, &pin);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	settled(tiers);
	assert_int_equal(nr_fast(), 0);
	assert_int_equal(lodic_pin(bed.context, bed.file, 7 * LODIC_BLOCK_BYTES, &pin),
	                 0);
	assert_ptr_not_equal(pin.data, before);
	assert_true(pattern_holds(pin.data, 1, 1, 7 * LODIC_BLOCK_BYTES, pin.bytes));
	lodic_unpin(bed.context, &pin);
	end();
}

static void move_view_of_before_is_not_valid(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];
	struct lodic_view view;

	(void)state;
	make(60);
	test_bed_fill(&bed);
	assert_int_equal(lodic_view_begin(bed.context, bed.file, 0, &view), 0);
	assert_int_equal(lodic_view_valid(bed.context, &view), 1);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	settled(tiers);
	assert_int_equal(lodic_view_valid(bed.context, &view), 0);
	assert_int_equal(lodic_view_begin(bed.context, bed.file, 0, &view), 0);
	assert_true(pattern_holds(view.data, 1, 1, 0, view.bytes));
	assert_int_equal(lodic_view_valid(bed.context, &view), 1);
	end();
}

/* A cache full of one file: nothing can move, and nothing breaks. */
static void move_both_tiers_full_no_room(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];

	(void)state;
	make(CACHE_BLOCKS);
	test_bed_fill(&bed);
	settled(tiers);
	assert_int_equal(tiers[0].free_frames + tiers[1].free_frames, 0);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	settled(tiers);
	assert_int_equal(tiers[LOOK_TIER_SLOW].moved, 0);
	assert_true(tiers[LOOK_TIER_SLOW].no_room > 0);
	assert_int_equal(nr_fast(), FAST_BLOCKS);
	read_all_hits(CACHE_BLOCKS);
	end();
}

/* The frame that a move has set aside is free again when the move ends, or the other one is. So
 * a move alone pushes nothing out of a full cache. */
static void move_in_full_cache_evicts_nothing(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];
	u64 evicted;

	(void)state;
	make_begin();
	/* Then some frames are kept free. */
	bed.service.options.tables.barrier = SERVICE_BARRIER_LIGHT;
	make_end(CACHE_BLOCKS);
	test_bed_fill(&bed);
	/* And no more are on their way: a fence takes 16 ms. */
	assert_true(WAIT_UNTIL(({
		evicted = test_service_stat(bed.lodic).evicted;
		fixture_pause_us(100000);
		settled(tiers);
		tiers[0].free_frames + tiers[1].free_frames > 0 &&
			test_service_stat(bed.lodic).evicted == evicted;
	})));
	for (u32 round = 0; round < 20; round++) {
		assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
		settled(tiers);
		assert_int_equal(move_to(LOOK_TIER_FAST), 0);
		settled(tiers);
	}
	assert_true(tiers[0].moved + tiers[1].moved > 0);
	assert_int_equal(test_service_stat(bed.lodic).evicted, evicted);
	end();
}

/* More than fits moves as far as there is room. */
static void move_larger_than_tier_fills_it(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];

	(void)state;
	make(110);
	assert_int_equal(lodic_prefetch(bed.context, bed.file, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	settled(tiers);
	assert_int_equal(nr_fast(), 0);
	assert_int_equal(move_to(LOOK_TIER_FAST), 0);
	settled(tiers);
	assert_int_equal(nr_fast(), FAST_BLOCKS);
	assert_true(tiers[LOOK_TIER_FAST].no_room > 0);
	read_all_hits(110);
	end();
}

static void move_file_revoked_frees_both_tiers(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];
	u64 nr_free = 0;

	(void)state;
	make(100);
	test_bed_fill(&bed);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	close(fixture_open(bed.path, O_WRONLY));
	assert_true(WAIT_UNTIL((settled(tiers), nr_free = tiers[0].free_frames +
	                                                  tiers[1].free_frames) ==
	                       CACHE_BLOCKS));
	assert_int_equal(nr_free, CACHE_BLOCKS);
	end();
}

static void open_path_matches_slow_glob_comes_in_slow(void **state)
{
	const char *globs[] = { NULL, NULL };
	struct look_tier tiers[LOOK_NR_TIERS];
	char folder[FIXTURE_PATH_BYTES];
	int pid;

	(void)state;
	fixture_path(folder, "*");
	globs[0] = folder;
	test_bed_init(&bed, LODIC_LODIC);
	bed.service.options.sizes.cache_bytes = CACHE_BLOCKS * LODIC_BLOCK_BYTES;
	bed.service.options.sizes.fast_bytes = FAST_BLOCKS * LODIC_BLOCK_BYTES;
	bed.service.options.placing.slow = globs;
	test_bed_make(&bed, 50 * LODIC_BLOCK_BYTES);
	assert_int_equal(look_open(bed.service.socket, &look, &pid), 0);
	assert_int_equal(stat(bed.path, &st), 0);
	test_bed_fill(&bed);
	settled(tiers);
	assert_int_equal(nr_fast(), 0);
	assert_int_equal(tiers[LOOK_TIER_SLOW].asked, 50);
	end();
}

static bool resize_is_over(struct look_resize *now)
{
	assert_int_equal(look_resize(look, 0, now), 0);
	return now->state != LOOK_RESIZE_RUNS;
}

/* A larger cache has as much fast memory as before, a smaller one less. Both have two tiers. */
static void resize_blocks_come_along_and_still_move(void **state)
{
	static const u64 sizes[] = { 2 * CACHE_BLOCKS, FAST_BLOCKS };
	struct look_tier tiers[LOOK_NR_TIERS];
	struct look_resize now;
	enum look_tier_kind to;
	u64 moved;

	(void)state;
	make(60);
	test_bed_fill(&bed);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	for (u32 i = 0; i < 2; i++) {
		assert_int_equal(look_resize(look, sizes[i] * LODIC_BLOCK_BYTES, &now),
		                 0);
		assert_true(WAIT_UNTIL(resize_is_over(&now)));
		assert_int_equal(now.state, LOOK_RESIZE_DONE);
		assert_int_equal(now.taken, 60);
		test_bed_come_back(&bed);
		settled(tiers);
		assert_int_equal(tiers[0].frames + tiers[1].frames, sizes[i]);
		assert_int_equal(tiers[0].frames,
		                 i ? FAST_BLOCKS / 8 * 7 : FAST_BLOCKS);
		read_all_hits(60);
		to = i ? LOOK_TIER_SLOW : LOOK_TIER_FAST;
		moved = tiers[to].moved;
		assert_int_equal(move_to(to), 0);
		settled(tiers);
		assert_true(tiers[to].moved > moved);
		read_all_hits(60);
	}
	end();
}

static u32 tier_of_new(void)
{
	struct look_file f = { 0 };

	assert_int_equal(look_list(look, LOOK_FILES, keep_file, &f), 0);
	return f.tier;
}

/* What a user has moved stays there, and so do the numbers of moves. */
static void resize_users_tier_and_numbers_stay(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];
	struct look_resize now;

	(void)state;
	make(60);
	test_bed_fill(&bed);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	settled(tiers);
	for (u32 i = 0; i < 2; i++) {
		assert_int_equal(look_resize(look,
		                             (2 + i) * CACHE_BLOCKS * LODIC_BLOCK_BYTES,
		                             &now),
		                 0);
		assert_true(WAIT_UNTIL(resize_is_over(&now)));
		test_bed_come_back(&bed);
		settled(tiers);
		assert_int_equal(nr_fast(), 0);
		assert_int_equal(tier_of_new(), LOOK_TIER_SLOW);
		assert_int_equal(tiers[LOOK_TIER_SLOW].moved, 60);
		assert_int_equal(tiers[LOOK_TIER_SLOW].begun, 60);
		assert_int_equal(tiers[LOOK_TIER_FAST].asked, 60);
		read_all_hits(60);
	}
	end();
}

static void successor_users_tier_stays(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];
	int pid;

	(void)state;
	make(60);
	test_bed_fill(&bed);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	settled(tiers);
	look_close(look);
	for (u32 round = 0; round < 2; round++)
		test_bed_succeed(&bed);
	assert_int_equal(look_open(bed.service.socket, &look, &pid), 0);
	test_bed_come_back(&bed);
	assert_int_equal(nr_fast(), 0);
	assert_int_equal(tier_of_new(), LOOK_TIER_SLOW);
	read_all_hits(60);
	end();
}

static void successor_takes_blocks_of_both_tiers(void **state)
{
	struct look_tier tiers[LOOK_NR_TIERS];
	int pid;

	(void)state;
	make(100); /* some in each */
	test_bed_fill(&bed);
	look_close(look);
	test_bed_succeed(&bed);
	assert_int_equal(look_open(bed.service.socket, &look, &pid), 0);
	test_bed_come_back(&bed);
	settled(tiers);
	assert_int_equal(nr_fast(), FAST_BLOCKS);
	read_all_hits(100);
	assert_int_equal(move_to(LOOK_TIER_SLOW), 0);
	settled(tiers);
	assert_int_equal(nr_fast(), 0);
	read_all_hits(100);
	end();
}

static void move_errors_named(void **state)
{
	int pid;

	(void)state;
	make(10);
	assert_int_equal(look_move(look, st.st_dev, st.st_ino + 1, LOOK_TIER_SLOW),
	                 -ENOENT);
	assert_int_equal(look_move(look, st.st_dev, st.st_ino, LOOK_NR_TIERS), -EINVAL);
	end();
	test_bed_make_blocks(&bed, CACHE_BLOCKS * LODIC_BLOCK_BYTES, 10);
	assert_int_equal(look_open(bed.service.socket, &look, &pid), 0);
	assert_int_equal(stat(bed.path, &st), 0);
	assert_int_equal(move_to(LOOK_TIER_SLOW), -ENOTSUP);
	end();
}

int main(int argc, char **argv)
{
	const struct fixture_option options[] = { { 0 } };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fill_fast_first_then_slow),
		cmocka_unit_test(move_file_there_and_back_reads_hit),
		cmocka_unit_test(move_pinned_block_stays_until_unpinned),
		cmocka_unit_test(move_view_of_before_is_not_valid),
		cmocka_unit_test(move_both_tiers_full_no_room),
		cmocka_unit_test(move_in_full_cache_evicts_nothing),
		cmocka_unit_test(move_larger_than_tier_fills_it),
		cmocka_unit_test(move_file_revoked_frees_both_tiers),
		cmocka_unit_test(open_path_matches_slow_glob_comes_in_slow),
		cmocka_unit_test(resize_blocks_come_along_and_still_move),
		cmocka_unit_test(resize_users_tier_and_numbers_stay),
		cmocka_unit_test(successor_users_tier_stays),
		cmocka_unit_test(successor_takes_blocks_of_both_tiers),
		cmocka_unit_test(move_errors_named),
	};

	fixture_begin(argc, argv, options);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("tier", tests, NULL, NULL);
}
