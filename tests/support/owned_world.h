/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A small world for the owned gate and its variants: two files in six frames, and six
 * processes. It keeps the list of all references that are held, and checks every step
 * against it.
 */
#ifndef LODIC_TESTS_SUPPORT_OWNED_WORLD_H
#define LODIC_TESTS_SUPPORT_OWNED_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/owned/count_owned.h"

#define NR_FRAMES 6u
#define NR_USERS 6u
#define FILE_ID 3u
#define OTHER_FILE 4u
#define NR_BLOCKS 4u
#define MAX_HELD 200u

/* The variant that runs. */
static const struct count_scheme *model_scheme;

struct model {
	struct count count;
	struct frame frames[NR_FRAMES];
	u64 pages[NR_USERS];
	struct count_held held[MAX_HELD];
	u32 nr_held;
};

static inline void name(struct model *m, u32 frame, u32 file, u32 index)
{
	frame_fill_begin(&m->frames[frame]);
	frame_fill_end(&m->frames[frame], block_id(file, index));
	count_thaw(&m->count, frame);
}

static inline void check(struct model *m)
{
	count_check(&m->count, m->held, m->nr_held);
}

/* Frames 0..3 hold FILE_ID's blocks, 4 and 5 those of OTHER_FILE. Nothing is mapped. */
static inline int model_start(void **state)
{
	struct model *m = calloc(1, sizeof(*m));

	assert_int_equal(
		count_init(&m->count, model_scheme, m->frames, NR_FRAMES, NR_USERS), 0);
	for (u32 i = 0; i < NR_FRAMES; i++)
		name(m, i, i < NR_BLOCKS ? FILE_ID : OTHER_FILE, i % NR_BLOCKS);
	count_owned_set_share_min(&m->count, 1);
	check(m);
	*state = m;
	return 0;
}

static inline u64 hold(struct model *m, u32 frame, u32 user)
{
	struct count_held *held = &m->held[m->nr_held++];

	assert_true(m->nr_held <= MAX_HELD);
	*held = (struct count_held){ .object = frame, .user = user };
	assert_true(count_ref(&m->count, frame, user, &held->token));
	check(m);
	return held->token;
}

static inline void drop_all(struct model *m)
{
	while (m->nr_held > 0) {
		struct count_held *held = &m->held[--m->nr_held];

		count_unref(&m->count, held->object, held->user, held->token);
		check(m);
	}
}

static inline int model_stop(void **state)
{
	struct model *m = *state;

	drop_all(m);
	count_fini(&m->count);
	free(m);
	return 0;
}

/* Maps FILE_ID for user and makes block 0 present. */
static inline void map(struct model *m, u32 user)
{
	assert_int_equal(count_owned_mmap(&m->count, user, FILE_ID, 0, NR_BLOCKS,
	                                  &m->pages[user]),
	                 0);
	assert_int_equal(count_owned_map_block(&m->count, user, m->pages[user], 0), 0);
	check(m);
}

static inline u64 local(struct model *m, u32 user, u64 page)
{
	return pte_count(*process_space_pte(count_owned_space(&m->count, user), page));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, model_start, model_stop)

/* Runs the cases for each variant; returns how many failed. */
static inline int model_run(const struct CMUnitTest *tests, size_t nr)
{
	static const struct count_scheme *const schemes[] = {
		&count_owned,
		&count_owned_file,
		&count_owned_flag,
	};
	int failed = 0;

	for (u32 i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		model_scheme = schemes[i];
		failed += _cmocka_run_group_tests(model_scheme->name, tests, nr, NULL,
		                                  NULL);
	}
	return failed;
}

#endif
