/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The owned gate (scheme lodic) and its variants lodic_file and lodic_flag. The cases ask
 * where a reference is counted, and what becomes of it when its pte is unmapped, moved,
 * forked or mapped anew. After each step count_check() compares every word with the list
 * of references that are held (I1-I4, J1, J2).
 */
#include "tests/support/owned_world.h"

static void ref_mapped_is_local(void **state)
{
	struct model *m = *state;
	u64 global;

	map(m, 0);
	global = count_owned_words(&m->count, 0)->global;
	assert_int_equal(hold(m, 0, 0), m->pages[0] + 1);
	assert_int_equal(hold(m, 0, 0), m->pages[0] + 1);
	assert_int_equal(local(m, 0, m->pages[0]), 2);
	assert_int_equal(count_owned_words(&m->count, 0)->global, global);
	assert_int_equal(count_sum(&m->count, 0), 2);
	assert_true(count_query(&m->count, 0));
}

static void ref_not_mapped_is_global(void **state)
{
	struct model *m = *state;

	map(m, 0);
	assert_int_equal(hold(m, 0, 1), COUNT_OWNED_GLOBAL); /* another process */
	assert_int_equal(hold(m, 1, 0), COUNT_OWNED_GLOBAL); /* not present */
	assert_int_equal(hold(m, 4, 0), COUNT_OWNED_GLOBAL); /* another file */
}

static void ref_below_share_min_is_global(void **state)
{
	struct model *m = *state;

	count_owned_set_share_min(&m->count, COUNT_OWNED_SHARE_MIN);
	for (u32 user = 0; user < COUNT_OWNED_SHARE_MIN; user++) {
		assert_int_equal(hold(m, 0, 0), COUNT_OWNED_GLOBAL);
		map(m, user);
	}
	assert_int_equal(hold(m, 0, 0), m->pages[0] + 1);
	/* With fewer sharers again, a local count stays local. */
	assert_int_equal(count_owned_unmap_block(&m->count, 3, m->pages[3]), 0);
	check(m);
	assert_int_equal(hold(m, 0, 0), COUNT_OWNED_GLOBAL);
	drop_all(m);
	assert_int_equal(local(m, 0, m->pages[0]), 0);
}

static void ref_count_full_is_global(void **state)
{
	struct model *m = *state;

	map(m, 0);
	for (u32 i = 0; i < PTE_COUNT_MAX; i++)
		assert_int_equal(hold(m, 0, 0), m->pages[0] + 1);
	for (u32 i = 0; i < 5; i++)
		assert_int_equal(hold(m, 0, 0), COUNT_OWNED_GLOBAL);
	assert_int_equal(local(m, 0, m->pages[0]), PTE_COUNT_MAX);
	assert_int_equal(count_sum(&m->count, 0), PTE_COUNT_MAX + 5);
	/* The full count folds as a whole. */
	assert_int_equal(count_owned_unmap_block(&m->count, 0, m->pages[0]), 0);
	check(m);
	assert_int_equal(count_sum(&m->count, 0), PTE_COUNT_MAX + 5);
}

static void unmap_live_count_folds(void **state)
{
	struct model *m = *state;

	map(m, 0);
	hold(m, 0, 0);
	hold(m, 0, 0);
	assert_int_equal(count_owned_unmap_block(&m->count, 0, m->pages[0]), 0);
	check(m);
	assert_int_equal(count_sum(&m->count, 0), 2);
	assert_false(count_freeze(&m->count, 0));
	assert_int_equal(count_owned_unmap_block(&m->count, 0, m->pages[0]), -EINVAL);
	drop_all(m);
	assert_true(count_freeze(&m->count, 0));
	check(m);
}

static void munmap_live_counts_fold(void **state)
{
	struct model *m = *state;

	map(m, 0);
	assert_int_equal(count_owned_map_block(&m->count, 0, m->pages[0] + 1, 1), 0);
	hold(m, 0, 0);
	hold(m, 1, 0);
	assert_int_equal(count_owned_munmap(&m->count, 0, m->pages[0] + 2), 0);
	check(m);
	assert_int_equal(count_owned_munmap(&m->count, 0, m->pages[0]), -EINVAL);
	assert_int_equal(count_sum(&m->count, 0), 1);
	assert_int_equal(count_sum(&m->count, 1), 1);
}

/* The slot of a token is mapped anew, with another frame: unref must not touch it. */
static void unref_slot_with_other_frame_is_global(void **state)
{
	struct model *m = *state;
	struct count_held *other = &m->held[1];
	u64 page;

	map(m, 0);
	assert_int_equal(hold(m, 0, 0), m->pages[0] + 1);
	assert_int_equal(count_owned_munmap(&m->count, 0, m->pages[0]), 0);
	assert_int_equal(
		count_owned_mmap(&m->count, 0, OTHER_FILE, 0, NR_BLOCKS, &page), 0);
	assert_int_equal(page, m->pages[0]);
	assert_int_equal(count_owned_map_block(&m->count, 0, page, 4), 0);
	assert_int_equal(hold(m, 4, 0),
	                 m->held[0].token); /* the same slot, another frame */
	count_unref(&m->count, 0, 0, m->held[0].token);
	m->held[0] = *other;
	m->nr_held = 1;
	check(m);
	assert_int_equal(local(m, 0, page), 1);
	assert_int_equal(count_sum(&m->count, 0), 0);
	assert_int_equal(count_sum(&m->count, 4), 1);
}

/* The slot is mapped anew with the same frame: the two references may swap places. */
static void unref_slot_mapped_again_keeps_sum(void **state)
{
	struct model *m = *state;

	map(m, 0);
	hold(m, 0, 0);
	assert_int_equal(count_owned_unmap_block(&m->count, 0, m->pages[0]), 0);
	assert_int_equal(count_owned_map_block(&m->count, 0, m->pages[0], 0), 0);
	check(m);
	hold(m, 0, 0);
	assert_int_equal(local(m, 0, m->pages[0]), 1);
	drop_all(m);
	assert_int_equal(count_sum(&m->count, 0), 0);
}

/* Another mapping of the block comes above the token's. */
static void unref_block_mapped_twice_uses_tokens_slot(void **state)
{
	struct model *m = *state;
	u64 first, second;

	map(m, 0);
	first = m->pages[0];
	assert_int_equal(count_owned_mmap(&m->count, 0, FILE_ID, 0, NR_BLOCKS, &second),
	                 0);
	assert_int_equal(count_owned_map_block(&m->count, 0, second, 0), 0);
	assert_int_equal(count_owned_munmap(&m->count, 0, first), 0);
	assert_int_equal(hold(m, 0, 0), second + 1);
	map(m, 0); /* takes the place above */
	assert_int_equal(m->pages[0], first);
	assert_int_equal(hold(m, 0, 0), first + 1);
	count_unref(&m->count, 0, 0, m->held[0].token);
	m->held[0] = m->held[1];
	m->nr_held = 1;
	check(m); /* I1 */
	assert_int_equal(local(m, 0, second), 0);
	assert_int_equal(local(m, 0, first), 1);
}

static void remap_live_count_folds(void **state)
{
	struct model *m = *state;
	u64 page;

	map(m, 0);
	hold(m, 0, 0);
	assert_int_equal(count_owned_remap(&m->count, 0, m->pages[0] + 1, &page), 0);
	assert_true(page != m->pages[0]);
	check(m);
	assert_int_equal(local(m, 0, page), 0);
	assert_int_equal(count_owned_share(&m->count, 0), 1);
	assert_int_equal(hold(m, 0, 0), page + 1); /* counts there from now on */
	count_unref(&m->count, 0, 0, m->held[0].token);
	m->held[0] = m->held[1];
	m->nr_held = 1;
	check(m);
	assert_int_equal(count_owned_remap(&m->count, 0, m->pages[0], &page), -EINVAL);
}

static void fork_counts_stay_with_parent(void **state)
{
	struct model *m = *state;

	map(m, 0);
	assert_int_equal(count_owned_map_block(&m->count, 0, m->pages[0] + 1, 1), 0);
	hold(m, 0, 0);
	hold(m, 0, 0);
	assert_int_equal(count_owned_fork(&m->count, 0, 1), 0);
	check(m);
	assert_int_equal(local(m, 0, m->pages[0]), 2);
	assert_int_equal(local(m, 1, m->pages[0]), 0);
	assert_int_equal(count_sum(&m->count, 0), 2);
	assert_int_equal(count_owned_share(&m->count, 0), 2);
	hold(m, 0, 1);
	hold(m, 1, 1);
	assert_int_equal(local(m, 1, m->pages[0]), 1);
	assert_int_equal(local(m, 1, m->pages[0] + 1), 1);
	assert_int_equal(count_owned_fork(&m->count, 0, 1), -EINVAL);
	assert_int_equal(count_owned_fork(&m->count, 0, 0), -EINVAL);
	/* The child exits, still reading. */
	assert_int_equal(count_owned_munmap(&m->count, 1, m->pages[0]), 0);
	check(m);
}

/* All of the file that is in memory, by its first block. */
static void share_maps_the_file_once(void **state)
{
	struct model *m = *state;

	assert_true(count_freeze(&m->count, 4));
	name(m, 4, FILE_ID, 2 * (u32)COUNT_OWNED_WINDOW);
	assert_int_equal(count_share(&m->count, 0, 0), 0);
	assert_int_equal(count_share(&m->count, 0, 4), 0);
	check(m);
	assert_int_equal(count_owned_space(&m->count, 0)->nr_vmas, 1);
}

/* No space has room for all between the two ends of such a file. */
static void share_far_blocks_maps_a_window_each(void **state)
{
	struct model *m = *state;
	struct process_space *space = count_owned_space(&m->count, 0);

	for (u32 frame = 4; frame < NR_FRAMES; frame++) {
		assert_true(count_freeze(&m->count, frame));
		name(m, frame, FILE_ID, (u32)(2 * SPACE_PAGES) + 5 - frame);
	}
	for (u32 i = 0; i < 3; i++) {
		static const u32 frames[] = { 0, 4, 5 };

		assert_int_equal(count_share(&m->count, 0, frames[i]), 0);
		check(m);
		assert_int_not_equal(hold(m, frames[i], 0), COUNT_OWNED_GLOBAL);
	}
	assert_int_equal(space->nr_vmas, 2); /* one for both of those far away */
}

static void freeze_mapped_unused_clears_every_pte(void **state)
{
	struct model *m = *state;

	for (u32 user = 0; user < NR_USERS; user++)
		map(m, user);
	assert_true(count_freeze(&m->count, 0));
	check(m);
	for (u32 user = 0; user < NR_USERS; user++) {
		assert_int_equal(*process_space_pte(count_owned_space(&m->count, user),
		                                    m->pages[user]),
		                 PTE_EMPTY);
		assert_int_equal(count_owned_map_block(&m->count, user, m->pages[user],
		                                       0),
		                 -EAGAIN);
	}
	count_thaw(&m->count, 0);
	assert_int_equal(count_owned_map_block(&m->count, 2, m->pages[2], 0), 0);
	check(m);
}

static void freeze_refused_leaves_every_pte(void **state)
{
	struct model *m = *state;

	for (u32 user = 0; user < NR_USERS; user++)
		map(m, user);
	for (u32 user = 0; user < NR_USERS; user++) {
		hold(m, 0, user);
		assert_false(count_freeze(&m->count, 0));
		check(m);
		assert_int_equal(count_owned_share(&m->count, 0), NR_USERS);
		drop_all(m);
	}
	hold(m, 4, 0); /* somewhere else */
	assert_true(count_freeze(&m->count, 0));
}

/* A frame goes to another block: no token and no pte is left, and the old name fails. */
static void freeze_reuse_for_other_block(void **state)
{
	struct model *m = *state;
	u64 token;

	map(m, 0);
	hold(m, 0, 0);
	drop_all(m);
	assert_true(count_freeze(&m->count, 0));
	frame_clear(&m->frames[0]);
	assert_false(count_ref(&m->count, 0, 0, &token));
	name(m, 0, FILE_ID, 100);
	check(m);
	assert_int_equal(hold(m, 0, 0), COUNT_OWNED_GLOBAL);
	/* The page still wants block 0. */
	assert_int_equal(count_owned_map_block(&m->count, 0, m->pages[0], 0), -EAGAIN);
	check(m);
}

static void map_block_bad_arguments(void **state)
{
	struct model *m = *state;
	u64 page = 1;

	map(m, 0);
	assert_int_equal(count_owned_map_block(&m->count, 0, m->pages[0], 0), -EEXIST);
	assert_int_equal(count_owned_map_block(&m->count, 0, m->pages[0] + 1, 0),
	                 -EAGAIN);
	assert_int_equal(count_owned_map_block(&m->count, 0, 0, 0), -EINVAL);
	assert_int_equal(count_owned_map_block(&m->count, 1, m->pages[0], 0), -EINVAL);
	assert_int_equal(count_owned_mmap(&m->count, 0, FILE_NONE, 0, 1, &page),
	                 -EINVAL);
	assert_int_equal(count_owned_mmap(&m->count, 0, FILE_ID, 0, 0, &page), -EINVAL);
	assert_int_equal(page, 1);
	check(m);
}

/* One thread has no races, and TSan makes its steps thirty times slower. */
#ifdef __SANITIZE_THREAD__
#define NR_RANDOM_STEPS 2000
#else
#define NR_RANDOM_STEPS 20000
#endif

static void random_step(struct model *m, u32 dice)
{
	u32 user = dice % NR_USERS;
	u32 frame = dice / 8 % NR_FRAMES;
	u32 op = dice / 64 % 36;
	u64 page = m->pages[user];

	if (op < 10 && m->nr_held < MAX_HELD) {
		hold(m, frame, user);
	} else if (op < 18 && m->nr_held > 0) {
		u32 i = dice / 4096 % m->nr_held;

		count_unref(&m->count, m->held[i].object, m->held[i].user,
		            m->held[i].token);
		m->held[i] = m->held[--m->nr_held];
	} else if (op < 23 && page) {
		count_owned_map_block(&m->count, user, page + frame, frame);
	} else if (op < 26 && page) {
		count_owned_unmap_block(&m->count, user, page + frame);
	} else if (op == 26 && !page) {
		count_owned_mmap(&m->count, user, FILE_ID, 0, NR_BLOCKS,
		                 &m->pages[user]);
	} else if (op == 27 && page) {
		assert_int_equal(count_owned_munmap(&m->count, user, page), 0);
		m->pages[user] = 0;
	} else if (op == 28 && page) {
		assert_int_equal(
			count_owned_remap(&m->count, user, page, &m->pages[user]), 0);
	} else if (op == 29 && page && m->pages[user ^ 1] == 0) {
		/* A share gave this user mappings, so it cannot be a child. */
		if (count_owned_fork(&m->count, user, user ^ 1) == 0)
			m->pages[user ^ 1] = page;
	} else if (op == 30) {
		assert_int_equal(count_share(&m->count, user, frame), 0);
	} else if (op == 31) {
		count_unshare(&m->count, user, frame);
	} else if (op == 32) {
		count_owned_unmap_frame(&m->count, frame);
	} else if (op > 32) {
		bool frozen = count_freeze(&m->count, frame);

		assert_int_equal(frozen,
		                 count_held_on(m->held, m->nr_held, frame) == 0);
		check(m);
		if (frozen)
			count_thaw(&m->count, frame);
	}
}

static void random_steps_keep_invariants(void **state)
{
	struct model *m = *state;
	u64 random = 4711;

	print_message("seed=4711\n");
	for (u32 step = 0; step < NR_RANDOM_STEPS; step++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		random_step(m, (u32)(random >> 32));
		if (step % 8 == 0)
			check(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(ref_mapped_is_local),
		CASE(ref_not_mapped_is_global),
		CASE(ref_below_share_min_is_global),
		CASE(ref_count_full_is_global),
		CASE(unmap_live_count_folds),
		CASE(munmap_live_counts_fold),
		CASE(unref_slot_with_other_frame_is_global),
		CASE(unref_slot_mapped_again_keeps_sum),
		CASE(unref_block_mapped_twice_uses_tokens_slot),
		CASE(remap_live_count_folds),
		CASE(fork_counts_stay_with_parent),
		CASE(share_maps_the_file_once),
		CASE(share_far_blocks_maps_a_window_each),
		CASE(freeze_mapped_unused_clears_every_pte),
		CASE(freeze_refused_leaves_every_pte),
		CASE(freeze_reuse_for_other_block),
		CASE(map_block_bad_arguments),
		CASE(random_steps_keep_invariants),
	};

	return model_run(tests, sizeof(tests) / sizeof(tests[0]));
}
