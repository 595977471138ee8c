/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lib/service/file/direct.c: how long a file keeps its second description, and which files do. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "lib/port.h"
#include "lib/service/file/direct.h"
#include "lib/service/file/state.h"
#include "tests/support/cache_fixture.h"

#define NR_FILES (NR_DIRECT_RESTING + 1)

static struct files files;
static struct held_file slots[NR_FILES];

/* All have just been read. */
static int files_begin(void **state)
{
	(void)state;
	files = (struct files){ .slots = slots };
	for (u32 i = 0; i < NR_FILES; i++) {
		slots[i] = (struct held_file){ .state = FILE_HELD, .direct_fd = port_event() };
		assert_true(slots[i].direct_fd >= 0);
	}
	return 0;
}

static int files_end(void **state)
{
	(void)state;
	for (u32 i = 0; i < NR_FILES; i++)
		if (slots[i].direct_fd >= 0)
			port_close(slots[i].direct_fd);
	return 0;
}

static u32 nr_open(void)
{
	u32 nr = 0;

	for (u32 i = 0; i < NR_FILES; i++)
		nr += slots[i].direct_fd >= 0;
	return nr;
}

static void rest_without_room_closes(void **state)
{
	(void)state;
	for (u32 i = 0; i < NR_FILES; i++)
		direct_rest(&files, &slots[i]);
	assert_int_equal(nr_open(), NR_DIRECT_RESTING);
	assert_int_equal(slots[NR_FILES - 1].direct_fd, -1);
	assert_int_equal(files.direct.nr_resting, NR_DIRECT_RESTING);
}

static void rest_again_takes_no_second_place(void **state)
{
	(void)state;
	direct_rest(&files, &slots[0]);
	direct_rest(&files, &slots[1]);
	files.direct.resting[0].since_ns = 0;
	direct_rest(&files, &slots[0]);
	assert_int_equal(files.direct.nr_resting, 2);
	assert_int_not_equal(files.direct.resting[0].since_ns, 0);
}

static void rest_of_a_retired_file_closes(void **state)
{
	(void)state;
	slots[0].state = FILE_RETIRING;
	direct_rest(&files, &slots[0]);
	assert_int_equal(slots[0].direct_fd, -1);
	assert_int_equal(files.direct.nr_resting, 0);
	direct_rest(&files, &slots[0]); /* it has none */
	assert_int_equal(files.direct.nr_resting, 0);
}

static void tick_closes_what_rests_for_long(void **state)
{
	(void)state;
	for (u32 i = 0; i < 3; i++)
		direct_rest(&files, &slots[i]);
	files.direct.resting[0].since_ns = 0;
	files.direct.resting[2].since_ns = 0;
	direct_tick(&files);
	assert_int_equal(slots[0].direct_fd, -1);
	assert_int_equal(slots[2].direct_fd, -1);
	assert_int_equal(files.direct.nr_resting, 1);
	assert_int_equal(files.direct.resting[0].slot, 1);
	direct_spare_descriptors(&files);
	assert_int_equal(slots[1].direct_fd, -1);
	assert_int_equal(files.direct.nr_resting, 0);
}

static void tick_keeps_what_is_read_again(void **state)
{
	(void)state;
	direct_rest(&files, &slots[0]);
	direct_rest(&files, &slots[1]);
	slots[0].nr_in_flight = 1;
	direct_spare_descriptors(&files);
	assert_true(slots[0].direct_fd >= 0);
	assert_int_equal(slots[1].direct_fd, -1);
	assert_int_equal(files.direct.nr_resting, 0); /* the read's end enters it again */
}

static void tick_forgets_what_was_closed(void **state)
{
	(void)state;
	direct_rest(&files, &slots[0]);
	port_close(slots[0].direct_fd);
	slots[0].direct_fd = -1;
	direct_tick(&files);
	assert_int_equal(files.direct.nr_resting, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rest_without_room_closes, files_begin, files_end),
		cmocka_unit_test_setup_teardown(rest_again_takes_no_second_place, files_begin,
		                                files_end),
		cmocka_unit_test_setup_teardown(rest_of_a_retired_file_closes, files_begin,
		                                files_end),
		cmocka_unit_test_setup_teardown(tick_closes_what_rests_for_long, files_begin,
		                                files_end),
		cmocka_unit_test_setup_teardown(tick_keeps_what_is_read_again, files_begin,
		                                files_end),
		cmocka_unit_test_setup_teardown(tick_forgets_what_was_closed, files_begin,
		                                files_end),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("direct", tests, NULL, NULL);
}
