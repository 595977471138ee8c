/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The service lets a file alone for a while after somebody has written to it. A writer that may not
 * wait then gets EAGAIN once, and not at each of its opens.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/look.h"
#include "lib/service/file/pause.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define SECOND ((u64)1000000000)
#define FIRST (10 * SECOND)
#define PAUSE_MS 500u
#define MANY_FILES 100000u

static void pause_doubles_and_begins_again(void **state)
{
	struct pauses *p = pause_make();
	u64 now = 100 * SECOND, step = FIRST;

	assert_non_null(p);
	assert_int_equal(pause_left_at(p, 1, 2, now), 0);
	for (u32 i = 0; i < 10; i++) {
		pause_begin_at(p, FIRST, 1, 2, now);
		assert_int_equal(pause_left_at(p, 1, 2, now), step);
		assert_int_equal(pause_left_at(p, 1, 2, now + step - 1), 1);
		assert_int_equal(pause_left_at(p, 1, 2, now + step), 0);
		/* Neither of these numbers alone says which file it is. */
		assert_int_equal(pause_left_at(p, 2, 2, now), 0);
		assert_int_equal(pause_left_at(p, 1, 1, now), 0);
		/* Again before it was quiet for as long as the pause. */
		now += 2 * step - 1;
		step = 2 * step < PAUSE_MOST * FIRST ? 2 * step : PAUSE_MOST * FIRST;
	}
	assert_int_equal(step, 300 * SECOND);
	now += 2 * step;
	pause_begin_at(p, FIRST, 1, 2, now);
	assert_int_equal(pause_left_at(p, 1, 2, now), FIRST);
	free(p);
	(void)state;
}

/* However many files are written to, the newest are known, and old ones are forgotten. */
static void list_is_bounded(void **state)
{
	struct pauses *p = pause_make();
	u32 nr_known = 0;

	assert_non_null(p);
	for (u64 i = 1; i <= MANY_FILES; i++) {
		pause_begin_at(p, FIRST, 1, i, i);
		assert_int_equal(pause_left_at(p, 1, i, i), FIRST);
	}
	for (u64 i = 1; i <= MANY_FILES; i++)
		nr_known += pause_left_at(p, 1, i, MANY_FILES) > 0;
	assert_true(nr_known > PAUSE_FILES / 2 && nr_known <= PAUSE_FILES);
	free(p);
	(void)state;
}

/* As GNU truncate does it. */
static int open_at_once(const char *path)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static void bed_make(struct test_bed *b)
{
	test_bed_init(b, LODIC_LODIC);
	b->service.options.keeping.lease_pause_ms = PAUSE_MS;
	test_bed_make(b, BLOCK);
	test_bed_fill(b);
}

/* A reader asks for the file all the time, and the writer comes again and again. */
static void writer_that_may_not_wait_refused_once(void **state)
{
	struct test_bed b;
	u64 start_ns, nr_again = 0;

	bed_make(&b);
	start_ns = host_now_ns();
	assert_int_equal(open_at_once(b.path), -EAGAIN);
	assert_true(WAIT_UNTIL(open_at_once(b.path) == 0));
	for (;; nr_again++) {
		int err;

		test_bed_reads_hit(&b, 0);
		err = open_at_once(b.path);
		if (host_now_ns() - start_ns >= PAUSE_MS * NS_PER_MS)
			break;
		assert_int_equal(err, 0);
		fixture_pause_us(1000);
	}
	printf("%llu opens in the pause\n", (unsigned long long)nr_again);
	test_bed_come_back(&b); /* and then it is cached again */
	test_bed_free(&b);
	(void)state;
}

static int take_why(void *ctx, const void *record)
{
	const struct look_file *f = record;

	if (f->state != LOOK_HELD)
		snprintf(ctx, 256, "%s", look_file_why(f));
	return 0;
}

/* A program that asks within the pause hears the reason, and `lodic files` says when it ends. */
static void reason_is_told(void **state)
{
	struct lodic_file *file;
	struct look *look;
	struct test_bed b;
	char why[256] = "", *again;
	unsigned int seconds;
	int pid;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.keeping.lease_pause_ms = 1000 * PAUSE_MS;
	test_bed_make(&b, BLOCK);
	test_bed_fill(&b);
	close(fixture_open(b.path, O_WRONLY));
	assert_true(WAIT_UNTIL(lodic_file_cached(b.file) != 0));
	assert_int_equal(lodic_open(b.lodic, b.fd, &file), 0);
	assert_int_equal(lodic_file_cached(file), -EALREADY);
	assert_int_equal(look_open(b.service.socket, &look, &pid), 0);
	assert_int_equal(look_list(look, LOOK_FILES, take_why, why), 0);
	look_close(look);
	assert_non_null(strstr(why, "has written to it lately"));
	again = strstr(why, "; again in ");
	assert_non_null(again);
	assert_int_equal(sscanf(again, "; again in %u s", &seconds), 1);
	assert_in_range(seconds, 1, PAUSE_MS);
	lodic_close(file);
	test_bed_free(&b);
	(void)state;
}

/* A resize is no end of a pause. */
static void resize_keeps_pause(void **state)
{
	struct look_resize resize;
	struct lodic_file *file;
	struct look *look;
	struct test_bed b;
	int pid;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.keeping.lease_pause_ms = 1000 * PAUSE_MS;
	test_bed_make(&b, BLOCK);
	test_bed_fill(&b);
	close(fixture_open(b.path, O_WRONLY));
	assert_int_equal(look_open(b.service.socket, &look, &pid), 0);
	assert_int_equal(look_resize(look, (u64)2 << 20, &resize), 0);
	assert_true(WAIT_UNTIL(look_resize(look, 0, &resize) == 0 &&
	                       resize.state == LOOK_RESIZE_DONE));
	look_close(look);
	test_bed_reads_hit(&b, 0); /* it sees that the old one has gone */
	assert_int_equal(lodic_open(b.lodic, b.fd, &file), 0);
	assert_int_equal(lodic_file_cached(file), -EALREADY);
	lodic_close(file);
	test_bed_free(&b);
	(void)state;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pause_doubles_and_begins_again),
		cmocka_unit_test(list_is_bounded),
		cmocka_unit_test(writer_that_may_not_wait_refused_once),
		cmocka_unit_test(reason_is_told),
		cmocka_unit_test(resize_keeps_pause),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("pause", tests, NULL, NULL);
}
