/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * count_share() and count_unshare() of the owned gate and its variants: a page fault and its
 * undoing. A share makes a mapping when there is none. Then unmapping a frame from all its
 * users, as migration does.
 */
#include "tests/support/owned_world.h"

static u64 nr_vmas(struct model *m, u32 user)
{
	return count_owned_space(&m->count, user)->nr_vmas;
}

static void share_then_ref_is_local(void **state)
{
	struct model *m = *state;

	assert_int_equal(count_share(&m->count, 2, 1), 0);
	check(m);
	assert_int_equal(count_owned_share(&m->count, 1), 1);
	assert_int_not_equal(hold(m, 1, 2), COUNT_OWNED_GLOBAL);
	assert_int_equal(hold(m, 1, 3), COUNT_OWNED_GLOBAL); /* another process */
	assert_int_equal(hold(m, 0, 2), COUNT_OWNED_GLOBAL); /* another block */
}

/* However many blocks there are, one or two mappings hold them. */
static void share_one_mapping_per_file(void **state)
{
	struct model *m = *state;

	for (u32 twice = 0; twice < 2; twice++)
		for (u32 i = 0; i < NR_FRAMES; i++)
			assert_int_equal(count_share(&m->count, 0, i), 0);
	check(m);
	assert_int_equal(nr_vmas(m, 0), 2);
	assert_int_equal(nr_vmas(m, 1), 0);
	for (u32 i = 0; i < NR_FRAMES; i++) {
		assert_int_equal(count_owned_share(&m->count, i), 1);
		assert_int_not_equal(hold(m, i, 0), COUNT_OWNED_GLOBAL);
	}
}

/* A block of the file that lies far away comes later: it gets a second mapping, once. */
static void share_beyond_mapping_adds_one(void **state)
{
	struct model *m = *state;

	assert_int_equal(count_share(&m->count, 0, 0), 0);
	assert_true(count_freeze(&m->count, 1));
	name(m, 1, FILE_ID, 3 * COUNT_OWNED_WINDOW);
	assert_int_equal(count_share(&m->count, 0, 1), 0);
	check(m);
	assert_int_equal(nr_vmas(m, 0), 2);
	assert_int_not_equal(hold(m, 1, 0), COUNT_OWNED_GLOBAL);
	assert_int_not_equal(hold(m, 0, 0), COUNT_OWNED_GLOBAL);
	assert_int_equal(count_share(&m->count, 0, 2), 0);
	assert_int_equal(nr_vmas(m, 0), 2);
	check(m);
}

/* A file with blocks too far apart for one mapping. */
static void share_file_too_large_maps_window(void **state)
{
	struct model *m = *state;

	assert_true(count_freeze(&m->count, 1));
	name(m, 1, FILE_ID, 0xffffffffu);
	assert_int_equal(count_share(&m->count, 0, 0), 0);
	assert_int_equal(count_share(&m->count, 0, 1), 0);
	check(m);
	assert_int_equal(nr_vmas(m, 0), 2);
	assert_int_not_equal(hold(m, 1, 0), COUNT_OWNED_GLOBAL);
	assert_int_not_equal(hold(m, 0, 0), COUNT_OWNED_GLOBAL);
}

static void share_frozen_eagain(void **state)
{
	struct model *m = *state;

	assert_true(count_freeze(&m->count, 0));
	assert_int_equal(count_share(&m->count, 0, 0), -EAGAIN);
	frame_clear(&m->frames[0]);
	assert_int_equal(count_share(&m->count, 0, 0), -EAGAIN);
	count_unshare(&m->count, 0, 0); /* nothing to take back */
	check(m);
}

static void share_no_place_enomem(void **state)
{
	struct model *m = *state;
	u64 page;

	while (count_owned_mmap(&m->count, 0, OTHER_FILE, 0, 1, &page) == 0)
		;
	assert_int_equal(count_share(&m->count, 0, 0), -ENOMEM);
	check(m);
	assert_int_equal(hold(m, 0, 0), COUNT_OWNED_GLOBAL);
}

static void unshare_live_count_folds(void **state)
{
	struct model *m = *state;

	assert_int_equal(count_share(&m->count, 0, 0), 0);
	assert_int_equal(count_share(&m->count, 0, 1), 0);
	hold(m, 0, 0);
	hold(m, 1, 0);
	count_unshare(&m->count, 0, 0);
	check(m);
	assert_int_equal(count_owned_share(&m->count, 0), 0);
	assert_int_equal(count_owned_share(&m->count, 1), 1);
	assert_false(count_freeze(&m->count, 0));
	count_unshare(&m->count, 0, 0);
	check(m);
	drop_all(m);
	assert_true(count_freeze(&m->count, 0));
}

static void unmap_frame_all_counts_fold(void **state)
{
	struct model *m = *state;

	for (u32 user = 0; user < NR_USERS; user++) {
		map(m, user);
		hold(m, 0, user);
	}
	count_owned_unmap_frame(&m->count, 0);
	check(m);
	assert_int_equal(count_owned_share(&m->count, 0), 0);
	assert_int_equal(count_owned_words(&m->count, 0)->global,
	                 COUNT_BASE + NR_USERS);
	for (u32 user = 0; user < NR_USERS; user++)
		assert_int_equal(local(m, user, m->pages[user]), 0);
}

/* Migration: unmap, freeze, copy, name the other frame, thaw it, and fault it in. */
static void unmap_freeze_name_moves_block(void **state)
{
	struct model *m = *state;
	u64 token;

	for (u32 user = 0; user < NR_USERS; user++)
		map(m, user);
	assert_true(count_freeze(&m->count, 5)); /* where it goes */
	frame_clear(&m->frames[5]);

	hold(m, 0, 1);
	count_owned_unmap_frame(&m->count, 0);
	assert_false(count_freeze(&m->count, 0)); /* held: it stays where it is */
	check(m);
	drop_all(m);
	assert_true(count_freeze(&m->count, 0));
	frame_clear(&m->frames[0]);
	name(m, 5, FILE_ID, 0);
	check(m);

	assert_false(count_ref(&m->count, 0, 1, &token)); /* an old lookup */
	for (u32 user = 0; user < NR_USERS; user++)
		assert_int_equal(count_share(&m->count, user, 5), 0);
	assert_int_equal(hold(m, 5, 1), m->pages[1] + 1);
	assert_int_equal(local(m, 1, m->pages[1]), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(share_then_ref_is_local),
		CASE(share_one_mapping_per_file),
		CASE(share_beyond_mapping_adds_one),
		CASE(share_file_too_large_maps_window),
		CASE(share_frozen_eagain),
		CASE(share_no_place_enomem),
		CASE(unshare_live_count_folds),
		CASE(unmap_frame_all_counts_fold),
		CASE(unmap_freeze_name_moves_block),
	};

	return model_run(tests, sizeof(tests) / sizeof(tests[0]));
}
