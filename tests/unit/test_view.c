/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Views: right bytes as long as they hold, and a plain no in every case in which they do not. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define NR_BLOCKS 64u
#define TAIL 100u /* bytes of the file's last block */
#define LOOKS 1000u

/* A bed whose file is cached. */
static void bed_make(struct test_bed *b, u64 cache_blocks, u64 file_bytes)
{
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.cache_bytes = cache_blocks * BLOCK;
	test_bed_make(b, file_bytes);
	assert_int_equal(lodic_prefetch(b->context, b->file, 0, 0, LODIC_WAIT), 0);
}

static struct lodic_view view_first(struct test_bed *b)
{
	struct lodic_view view;

	assert_int_equal(lodic_view_begin(b->context, b->file, 0, &view), 0);
	assert_int_equal(lodic_view_valid(b->context, &view), 1);
	return view;
}

static void begin_cached_right_bytes_and_valid_again(void **state)
{
	const u64 bytes = (u64)(NR_BLOCKS - 1) * BLOCK + TAIL;
	struct lodic_view views[NR_BLOCKS];
	struct test_bed b;

	bed_make(&b, 2 * NR_BLOCKS, bytes);
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		u64 within = i % 2 * 24, at = (u64)i * BLOCK + within;
		u64 n = (i < NR_BLOCKS - 1 ? BLOCK : TAIL) - within;

		assert_int_equal(
			lodic_view_begin(b.context, b.file, (off_t)at, &views[i]), 0);
		assert_int_equal(views[i].bytes, n);
		assert_true(pattern_holds(views[i].data, 1, 1, at, n));
	}
	for (u32 i = 0; i < NR_BLOCKS; i++)
		assert_int_equal(lodic_view_valid(b.context, &views[i]), 1);
	assert_true(test_context_stat(b.context).hits >= NR_BLOCKS);
	test_bed_free(&b);
	(void)state;
}

/* Blocks that the file fills, and one that it ends in, take different ways. */
static void begin_near_file_end_bytes_up_to_it(void **state)
{
	static const u64 sizes[] = { 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		const u64 size = sizes[i];
		const u64 at[] = { 0, size / 2, (size - 1) / BLOCK * BLOCK, size - 1 };
		struct lodic_view view;
		struct test_bed b;

		bed_make(&b, NR_BLOCKS, size);
		for (size_t j = 0; j < sizeof(at) / sizeof(*at); j++) {
			u64 block_end = (at[j] / BLOCK + 1) * BLOCK;
			u64 n = (size < block_end ? size : block_end) - at[j];
			u64 hits = test_context_stat(b.context).hits;

			assert_int_equal(lodic_view_begin(b.context, b.file,
			                                  (off_t)at[j], &view),
			                 0);
			assert_int_equal(view.bytes, n);
			assert_true(pattern_holds(view.data, 1, 1, at[j], n));
			assert_int_equal(lodic_view_valid(b.context, &view), 1);
			assert_int_equal(test_context_stat(b.context).hits, hits + 1);
		}
		assert_int_equal(lodic_view_begin(b.context, b.file, (off_t)size,
		                                  &view),
		                 -ENODATA);
		test_bed_free(&b);
	}
	(void)state;
}

static void begin_refused_with_reason(void **state)
{
	struct lodic_view view = { .bytes = 7 };
	struct lodic_file *written;
	struct test_bed b;
	int writer;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, 2 * BLOCK);
	assert_int_equal(lodic_view_begin(b.context, b.file, -1, &view), -EINVAL);
	assert_int_equal(lodic_view_begin(b.context, b.file, 2 * BLOCK, &view),
	                 -ENODATA);
	/* A miss asks for the block. */
	assert_int_equal(lodic_view_begin(b.context, b.file, BLOCK, &view), -EAGAIN);
	assert_int_equal(view.bytes, 7);
	assert_true(WAIT_UNTIL(lodic_view_begin(b.context, b.file, BLOCK, &view) == 0));
	assert_int_equal(lodic_view_valid(b.context, &view), 1);
	writer = fixture_open(b.path, O_WRONLY);
	assert_int_equal(lodic_open(b.lodic, b.fd, &written), 0);
	assert_int_equal(lodic_view_begin(b.context, written, 0, &view), -ESTALE);
	lodic_close(written);
	close(writer);
	test_bed_free(&b);
	(void)state;
}

/* Another file goes through the cache until the block's frame holds one of its blocks. */
static void valid_frame_refilled_no_more(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_view view;
	struct lodic_file *other;
	struct test_bed b;
	int fd;

	bed_make(&b, NR_BLOCKS, BLOCK);
	view = view_first(&b);
	pattern_file_make(path, "other", 2, 1, (u64)4 * NR_BLOCKS * BLOCK);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &other), 0);
	assert_true(
		WAIT_UNTIL(lodic_prefetch(b.context, other, 0, 0, LODIC_WAIT) == 0 &&
	                   !pattern_holds(view.data, 1, 1, 0, BLOCK)));
	assert_int_equal(lodic_view_valid(b.context, &view), 0);
	/* Also when the block is back. */
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	view_first(&b);
	assert_int_equal(lodic_view_valid(b.context, &view), 0);
	lodic_close(other);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

static void valid_writer_came_no_more(void **state)
{
	struct lodic_view view;
	struct test_bed b;
	int writer;

	bed_make(&b, NR_BLOCKS, BLOCK);
	view = view_first(&b);
	writer = fixture_open(b.path, O_WRONLY);
	assert_int_equal(lodic_view_valid(b.context, &view), 0);
	assert_true(pattern_holds(view.data, 1, 1, 0, BLOCK)); /* though they stand */
	close(writer);
	test_bed_free(&b);
	(void)state;
}

/* The old segment goes when the context moves; the view must not lead there. */
static void valid_service_died_and_successor_came_no_more(void **state)
{
	struct lodic_view view, next;
	struct test_bed b;
	u8 byte;

	bed_make(&b, NR_BLOCKS, BLOCK);
	view = view_first(&b);
	test_service_kill(&b.service);
	assert_int_equal(lodic_view_valid(b.context, &view), 0);
	b.service.inherits = true;
	assert_int_equal(test_service_start(&b.service), 0);
	assert_true(WAIT_UNTIL(lodic_read(b.context, b.file, &byte, 1, 0) == 1 &&
	                       lodic_view_begin(b.context, b.file, 0, &next) == 0 &&
	                       lodic_view_valid(b.context, &next) == 1));
	assert_int_equal(lodic_view_valid(b.context, &view), 0);
	test_bed_free(&b);
	(void)state;
}

static void valid_in_forked_child_no(void **state)
{
	struct lodic_view view;
	struct test_bed b;
	pid_t pid;

	bed_make(&b, NR_BLOCKS, BLOCK);
	view = view_first(&b);
	pid = fixture_fork();
	if (pid == 0)
		_exit(lodic_view_valid(b.context, &view) != 0 ||
		      lodic_view_begin(b.context, b.file, 0, &view) != -ESTALE);
	assert_int_equal(fixture_wait(pid), 0);
	assert_int_equal(lodic_view_valid(b.context, &view), 1);
	test_bed_free(&b);
	(void)state;
}

/* Views of a file of four times the cache, while another process pushes it through. */
static void views_under_eviction_valid_ones_right(void **state)
{
	const u64 nr = 4 * NR_BLOCKS;
	u64 stream = random_stream(1), nr_valid = 0, nr_late = 0;
	static u8 copy[BLOCK];
	struct test_bed b;
	pid_t pid;

	bed_make(&b, NR_BLOCKS, nr * BLOCK);
	pid = fixture_fork();
	if (pid == 0) {
		struct lodic_context *context;
		struct lodic_file *file;
		struct lodic *lodic;
		int fd = fixture_open(b.path, O_RDONLY);

		REQUIRE(test_service_attach(&b.service, &lodic) == 0 &&
		                lodic_context_open(lodic, &context) == 0 &&
		                lodic_open(lodic, fd, &file) == 0,
		        "no reader");
		for (;;)
			lodic_prefetch(context, file, 0, 0, LODIC_WAIT);
	}
	for (u64 i = 0; nr_valid < LOOKS || nr_late == 0; i++) {
		u64 at = random_below(&stream, nr) * BLOCK;
		struct lodic_view view;

		if (lodic_view_begin(b.context, b.file, (off_t)at, &view) != 0)
			continue;
		for (u64 from = 0; from < BLOCK; from += 64) {
			memcpy(copy + from, (const u8 *)view.data + from, 64);
			if (i % 16 == 0)
				fixture_pause_us(1); /* so that some are late */
		}
		if (!lodic_view_valid(b.context, &view)) {
			nr_late++;
			continue;
		}
		nr_valid++;
		assert_true(pattern_holds(copy, 1, 1, at, BLOCK));
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	test_bed_free(&b);
	(void)state;
}

/* The file's claim is good again, and of another id than the views. The frame of a pinned block
 * is as it was, and nothing but its id says that the file has changed. */
static void valid_file_claimed_anew_no(void **state)
{
	struct lodic_view views[NR_BLOCKS], now;
	struct lodic_pin pin;
	struct test_bed b;

	bed_make(&b, 4 * NR_BLOCKS, (u64)NR_BLOCKS * BLOCK);
	for (u32 i = 0; i < NR_BLOCKS; i++)
		assert_int_equal(lodic_view_begin(b.context, b.file, (off_t)i * BLOCK,
		                                  &views[i]),
		                 0);
	assert_int_equal(lodic_pin(b.context, b.file, BLOCK, &pin), 0);
	close(fixture_open(b.path, O_WRONLY));
	assert_true(WAIT_UNTIL(
		lodic_prefetch(b.context, b.file, 0, BLOCK, LODIC_WAIT) == 0 &&
		lodic_view_begin(b.context, b.file, 0, &now) == 0));
	assert_int_equal(lodic_view_valid(b.context, &now), 1);
	for (u32 i = 0; i < NR_BLOCKS; i++)
		assert_int_equal(lodic_view_valid(b.context, &views[i]), 0);
	lodic_unpin(b.context, &pin);
	test_bed_free(&b);
	(void)state;
}

static int guard_set(void **state)
{
	(void)state;
	alarm(TEST_SECONDS);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, guard_set)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(begin_cached_right_bytes_and_valid_again),
		TEST(begin_near_file_end_bytes_up_to_it),
		TEST(begin_refused_with_reason),
		TEST(valid_frame_refilled_no_more),
		TEST(valid_writer_came_no_more),
		TEST(valid_file_claimed_anew_no),
		TEST(valid_service_died_and_successor_came_no_more),
		TEST(valid_in_forked_child_no),
		TEST(views_under_eviction_valid_ones_right),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
