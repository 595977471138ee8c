/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The calls of lodic/inline.h. Some go the short way, the others to the library. A struct
 * lodic_inline that was right may be so no more. The cases of lodic.h's calls that apply
 * here run once more with these (tests/unit/meson.build).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "lodic/lodic.h"

/* What inline.h hands to the library goes by these. */
static unsigned int nr_calls;

static ssize_t counted_read(struct lodic_context *context, struct lodic_file *file,
                            void *buffer, size_t n, off_t offset)
{
	nr_calls++;
	return lodic_read(context, file, buffer, n, offset);
}

static int counted_pin(struct lodic_context *context, struct lodic_file *file,
                       off_t offset, struct lodic_pin *ret_pin)
{
	nr_calls++;
	return lodic_pin(context, file, offset, ret_pin);
}

static void counted_unpin(struct lodic_context *context, struct lodic_pin *pin)
{
	nr_calls++;
	lodic_unpin(context, pin);
}

static int counted_view_begin(struct lodic_context *context, struct lodic_file *file,
                              off_t offset, struct lodic_view *ret_view)
{
	nr_calls++;
	return lodic_view_begin(context, file, offset, ret_view);
}

static int counted_view_valid(struct lodic_context *context,
                              const struct lodic_view *view)
{
	nr_calls++;
	return lodic_view_valid(context, view);
}

#define lodic_read(...) counted_read(__VA_ARGS__)
#define lodic_pin(...) counted_pin(__VA_ARGS__)
#define lodic_unpin(...) counted_unpin(__VA_ARGS__)
#define lodic_view_begin(...) counted_view_begin(__VA_ARGS__)
#define lodic_view_valid(...) counted_view_valid(__VA_ARGS__)
#include "lodic/inline.h"
#undef lodic_read
#undef lodic_pin
#undef lodic_unpin
#undef lodic_view_begin
#undef lodic_view_valid

#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define NR_BLOCKS 64u
#define TAIL 100u /* bytes of the file's last block */
#define FILE_BYTES ((u64)(NR_BLOCKS - 1) * BLOCK + TAIL)
#define NR_RANDOM 20000u
#define QUOTA 16u

/* A bed whose file is cached, and an empty table of pins. */
static void bed_make(struct test_bed *b, struct lodic_inline *in)
{
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.cache_bytes = (u64)2 * NR_BLOCKS * BLOCK;
	b->service.options.tables.quota = QUOTA;
	test_bed_make(b, FILE_BYTES);
	assert_int_equal(lodic_prefetch(b->context, b->file, 0, 0, LODIC_WAIT), 0);
	lodic_inline_init(in, b->context, b->file);
	nr_calls = 0;
}

/* Reads, pins and views one block. Returns how many calls went to the library. */
static unsigned int use_block(struct lodic_inline *in, u64 version, u64 block)
{
	u64 at = block * BLOCK, n = block < NR_BLOCKS - 1 ? BLOCK : TAIL;
	unsigned int before = nr_calls;
	static u8 copy[BLOCK];
	struct lodic_view view;
	struct lodic_pin pin;

	assert_int_equal(lodic_read_inline(in, copy, n, (off_t)at), n);
	assert_true(pattern_holds(copy, 1, version, at, n));
	if (lodic_pin_inline(in, (off_t)at, &pin) == 0) {
		assert_int_equal(pin.bytes, n);
		assert_true(pattern_holds(pin.data, 1, version, at, n));
		lodic_unpin_inline(in, &pin);
		assert_null(pin.word);
	}
	if (lodic_view_begin_inline(in, (off_t)at, &view) == 0) {
		assert_int_equal(view.bytes, n);
		assert_true(pattern_holds(view.data, 1, version, at, n));
		assert_int_equal(lodic_view_valid_inline(in, &view), 1);
	}
	return nr_calls - before;
}

static void cached_blocks_at_home_no_call(void **state)
{
	struct lodic_context_stat stat;
	unsigned int nr_short = 0;
	struct lodic_inline in;
	struct test_bed b;

	bed_make(&b, &in);
	for (u64 i = 0; i < NR_BLOCKS; i++)
		nr_short += use_block(&in, 1, i) == 0;
	/* Seven in eight stand at home; two of one home share their entry's first choice. */
	assert_true(nr_short >= NR_BLOCKS / 2);
	stat = test_context_stat(b.context);
	assert_int_equal(stat.hits, 3 * NR_BLOCKS);
	assert_int_equal(stat.misses, 0);
	assert_int_equal(stat.pinned, 0);
	test_bed_free(&b);
	(void)state;
}

static void other_layout_calls_the_library(void **state)
{
	static struct lodic_inline_seat none;
	struct lodic_inline in;
	struct test_bed b;

	bed_make(&b, &in);
	/* So a library of another layout leaves it; in a build of this one all others are. */
	for (int i = 0; i < LODIC_INLINE_LAYOUTS; i++)
		if (i != LODIC_INLINE_LAYOUT)
			assert_int_equal(((struct lodic_inline_context *)b.context)
			                         ->seats[i]
			                         ->generation,
			                 0);
	((struct lodic_inline_context *)b.context)->seats[LODIC_INLINE_LAYOUT] = &none;
	assert_int_equal(use_block(&in, 1, 0), 5);
	lodic_inline_init(&in, b.context, b.file);
	assert_int_equal(use_block(&in, 1, 1), 5);
	test_bed_free(&b);
	(void)state;
}

static void any_offset_and_length_as_lodic_read(void **state)
{
	static u8 ours[4 * BLOCK], theirs[4 * BLOCK];
	u64 stream = random_stream(1);
	struct lodic_inline in;
	struct test_bed b;

	bed_make(&b, &in);
	for (u32 i = 0; i < NR_RANDOM; i++) {
		/* Often at a border of a block, at the file's end, or before its begin. */
		off_t at = (off_t)(random_below(&stream, NR_BLOCKS + 2) * BLOCK) +
		           (off_t)random_below(&stream, 9) - 6;
		size_t n = random_below(&stream, 2) ? random_below(&stream, 70)
		                                    : random_below(&stream, 3 * BLOCK);
		ssize_t expected = lodic_read(b.context, b.file, theirs, n, at);
		struct lodic_pin pin;
		int err;

		assert_int_equal(lodic_read_inline(&in, ours, n, at), expected);
		assert_true(expected <= 0 ||
		            memcmp(ours, theirs, (size_t)expected) == 0);
		err = lodic_pin_inline(&in, at, &pin);
		assert_int_equal(err, at < 0                    ? -EINVAL
		                      : at >= (off_t)FILE_BYTES ? -ENODATA
		                                                : 0);
		if (!err)
			lodic_unpin_inline(&in, &pin);
	}
	assert_int_equal(lodic_read_inline(&in, ours, BLOCK, -1), -EINVAL);
	assert_int_equal(lodic_read_inline(&in, ours, 1, INT64_MIN), -EINVAL);
	assert_int_equal(lodic_read_inline(&in, ours, 0, 5), 0);
	assert_int_equal(test_context_stat(b.context).pinned, 0);
	test_bed_free(&b);
	(void)state;
}

/* The context's other calls, and those of another struct, are no surprise. */
static void pin_given_back_by_either_kind(void **state)
{
	struct lodic_inline in, other;
	struct lodic_pin pins[2];
	struct test_bed b;

	bed_make(&b, &in);
	other = in;
	assert_int_equal(lodic_pin_inline(&in, 0, &pins[0]), 0);
	assert_int_equal(lodic_pin(b.context, b.file, 0, &pins[1]), 0);
	assert_ptr_equal(pins[0].data, pins[1].data);
	lodic_unpin(b.context, &pins[0]);
	assert_int_equal(test_context_stat(b.context).pinned, 1);
	lodic_unpin_inline(&other, &pins[1]);
	assert_int_equal(test_context_stat(b.context).pinned, 0);
	lodic_unpin_inline(&in, &pins[1]); /* twice is no error */
	assert_int_equal(test_context_stat(b.context).pinned, 0);
	/* A copy is one, but no count falls below 0. */
	assert_int_equal(lodic_pin_inline(&in, 0, &pins[0]), 0);
	pins[1] = pins[0];
	lodic_unpin_inline(&in, &pins[0]);
	lodic_unpin_inline(&in, &pins[1]);
	assert_int_equal(test_context_stat(b.context).pinned, 0);
	assert_int_equal(lodic_pin_inline(&in, 0, &pins[0]), 0);
	lodic_unpin_inline(&in, &pins[0]);
	test_bed_free(&b);
	(void)state;
}

static void quota_spent_enobufs(void **state)
{
	struct lodic_pin pins[NR_BLOCKS];
	unsigned int nr[2] = { 0, 0 };
	struct lodic_inline in;
	struct test_bed b;

	bed_make(&b, &in);
	for (int inlined = 0; inlined < 2; inlined++) {
		for (u64 i = 0; i < NR_BLOCKS; i++) {
			off_t at = (off_t)(i * BLOCK);
			int err = inlined ? lodic_pin_inline(&in, at, &pins[nr[1]])
			                  : lodic_pin(b.context, b.file, at,
			                              &pins[nr[0]]);

			nr[inlined] += err == 0;
			assert_true(err == 0 || err == -ENOBUFS);
		}
		for (unsigned int i = 0; i < nr[inlined]; i++)
			lodic_unpin(b.context, &pins[i]);
	}
	assert_int_equal(nr[0], QUOTA);
	assert_int_equal(nr[1], nr[0]);
	test_bed_free(&b);
	(void)state;
}

static void writer_came_new_bytes_at_once(void **state)
{
	static u8 bytes[BLOCK];
	struct lodic_inline in;
	struct lodic_view view;
	struct test_bed b;
	int writer;

	bed_make(&b, &in);
	assert_int_equal(lodic_view_begin_inline(&in, 0, &view), 0);
	writer = fixture_open(b.path, O_WRONLY);
	assert_int_equal(lodic_view_valid_inline(&in, &view), 0);
	pattern_fill(bytes, 1, 2, 0, BLOCK);
	assert_int_equal(pwrite(writer, bytes, BLOCK, 0), BLOCK);
	assert_int_equal(lodic_read_inline(&in, bytes, BLOCK, 0), BLOCK);
	assert_true(pattern_holds(bytes, 1, 2, 0, BLOCK));
	assert_int_equal(lodic_pin_inline(&in, 0, &(struct lodic_pin){ 0 }), -ESTALE);
	close(writer);
	/* The struct finds the file's new claim by itself. */
	assert_true(
		WAIT_UNTIL((nr_calls = 0, lodic_read_inline(&in, bytes, 64, 0) == 64) &&
	                   nr_calls == 0));
	assert_true(pattern_holds(bytes, 1, 2, 0, 64));
	assert_int_equal(lodic_view_valid_inline(&in, &view), 0); /* of the old claim */
	test_bed_free(&b);
	(void)state;
}

static void service_died_then_successor_found(void **state)
{
	struct lodic_inline in;
	struct lodic_view view;
	struct lodic_pin pin;
	struct test_bed b;
	u8 bytes[64];

	bed_make(&b, &in);
	assert_int_equal(lodic_view_begin_inline(&in, 0, &view), 0);
	assert_int_equal(lodic_pin_inline(&in, 0, &pin), 0);
	test_service_kill(&b.service);
	assert_int_equal(lodic_view_valid_inline(&in, &view), 0);
	assert_int_equal(lodic_read_inline(&in, bytes, 64, 0), 64);
	assert_true(pattern_holds(bytes, 1, 1, 0, 64));
	b.service.inherits = true;
	assert_int_equal(test_service_start(&b.service), 0);
	assert_true(
		WAIT_UNTIL((nr_calls = 0, lodic_read_inline(&in, bytes, 64, 0) == 64) &&
	                   nr_calls == 0));
	/* The pin of the old seat stands, and is given back there. */
	assert_true(pattern_holds(pin.data, 1, 1, 0, BLOCK));
	lodic_unpin_inline(&in, &pin);
	assert_int_equal(test_context_stat(b.context).pinned, 0);
	assert_int_equal(lodic_view_valid_inline(&in, &view), 0);
	test_bed_free(&b);
	(void)state;
}

static void forked_child_reads_and_does_not_pin(void **state)
{
	struct lodic_inline in;
	struct lodic_view view;
	struct lodic_pin pin;
	struct test_bed b;
	pid_t pid;

	bed_make(&b, &in);
	assert_int_equal(lodic_pin_inline(&in, 0, &pin), 0);
	assert_int_equal(lodic_view_begin_inline(&in, 0, &view), 0);
	pid = fixture_fork();
	if (pid == 0) {
		u8 bytes[64];

		if (lodic_read_inline(&in, bytes, 64, 0) != 64 ||
		    !pattern_holds(bytes, 1, 1, 0, 64) ||
		    lodic_view_valid_inline(&in, &view) != 0 ||
		    lodic_view_begin_inline(&in, 0, &view) != -ESTALE)
			_exit(1);
		lodic_unpin_inline(&in, &pin); /* the parent's: nothing happens */
		_exit(lodic_pin_inline(&in, 0, &pin) != -ESTALE);
	}
	assert_int_equal(fixture_wait(pid), 0);
	assert_int_equal(test_context_stat(b.context).pinned, 1);
	lodic_unpin_inline(&in, &pin);
	test_bed_free(&b);
	(void)state;
}

/* Under another scheme pins are counted elsewhere; reads and views are the same. */
static void other_scheme_pins_by_the_library(void **state)
{
	struct lodic_inline in;
	struct lodic_pin pin;
	struct test_bed b;
	u8 bytes[64];

	test_bed_init(&b, LODIC_ATOMIC);
	test_bed_make(&b, FILE_BYTES);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	lodic_inline_init(&in, b.context, b.file);
	nr_calls = 0;
	assert_int_equal(lodic_read_inline(&in, bytes, 64, 0), 64);
	assert_int_equal(nr_calls, 0);
	assert_int_equal(lodic_pin_inline(&in, 0, &pin), 0);
	lodic_unpin_inline(&in, &pin);
	assert_int_equal(nr_calls, 2);
	test_bed_free(&b);
	(void)state;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cached_blocks_at_home_no_call),
		cmocka_unit_test(other_layout_calls_the_library),
		cmocka_unit_test(any_offset_and_length_as_lodic_read),
		cmocka_unit_test(pin_given_back_by_either_kind),
		cmocka_unit_test(quota_spent_enobufs),
		cmocka_unit_test(writer_came_new_bytes_at_once),
		cmocka_unit_test(service_died_then_successor_found),
		cmocka_unit_test(forked_child_reads_and_does_not_pin),
		cmocka_unit_test(other_scheme_pins_by_the_library),
	};

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
