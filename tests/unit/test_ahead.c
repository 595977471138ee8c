/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the service brings in of what readers miss. It is all of it, also what their rings have no
 * room for. While misses come in order and frames are free, it is more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/cache/hint.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define MIB ((u64)1 << 20)
#define FILE_BLOCKS 4096u
/* The service takes the blocks around a miss while there is room: this many. */
#define AROUND 32u
#define TEST_SECONDS 120

static void read_block(struct test_bed *b, u64 i)
{
	u8 byte;

	assert_int_equal(lodic_read(b->context, b->file, &byte, 1, (off_t)(i * BLOCK)),
	                 1);
}

static u64 cached(struct test_bed *b)
{
	return test_service_stat(b->lodic).cached;
}

/* Waits until the service has done all that it was asked for, and what followed from it. */
static void settle(struct test_bed *b)
{
	assert_int_equal(lodic_prefetch(b->context, b->file, 0, 1, LODIC_WAIT), 0);
}

/* A reader in a process of its own: reads so many blocks in order, and ends. */
static void child_reads(const struct test_bed *b, u32 nr, int ready, int go)
{
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic *lodic;
	u8 byte = 0;

	if (test_service_attach(&b->service, &lodic) ||
	    lodic_context_open(lodic, &context) || lodic_open(lodic, b->fd, &file) ||
	    write(ready, &byte, 1) != 1 || read(go, &byte, 1) != 1)
		_exit(1);
	for (u32 i = 0; i < nr; i++)
		if (lodic_read(context, file, &byte, 1, (off_t)(i * BLOCK)) != 1)
			_exit(2);
	_exit(0);
}

/* The service is stopped while a reader misses far more than its ring holds, and ends. */
static void reader_that_ends_leaves_what_it_missed(void **state)
{
	const u32 nr = 10 * HINT_MAX;
	int ready[2], go[2], status;
	struct test_bed b;
	pid_t pid;
	u8 byte;

	(void)state;
	test_bed_make_blocks(&b, 64 * MIB, FILE_BLOCKS);
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	pid = fixture_fork();
	if (pid == 0)
		child_reads(&b, nr, ready[1], go[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	test_service_freeze(&b.service);
	assert_int_equal(write(go[1], &byte, 1), 1);
	status = fixture_wait(pid);
	assert_int_equal(kill(b.service.pid, SIGCONT), 0);
	assert_int_equal(status, 0);
	assert_true(WAIT_UNTIL(cached(&b) >= nr));
	close(ready[0]);
	close(go[0]);
	close(go[1]);
	test_bed_free(&b);
}

/* The service is stopped meanwhile. Else it might be ahead of the reader, by any number of blocks,
 * and most of them would not be missed. */
static void misses_in_order_bring_what_comes_next(void **state)
{
	const u32 nr = 4 * AROUND;
	struct test_bed b;

	(void)state;
	assert_in_range(nr, 1, HINT_MAX);
	test_bed_make_blocks(&b, 64 * MIB, FILE_BLOCKS);
	test_service_freeze(&b.service);
	for (u32 i = 0; i < nr; i++)
		read_block(&b, i);
	assert_int_equal(kill(b.service.pid, SIGCONT), 0);
	settle(&b);
	assert_in_range(cached(&b), nr + AROUND, 4 * nr);
	test_bed_free(&b);
}

static void misses_out_of_order_bring_what_lies_around(void **state)
{
	const u32 nr = 50, step = 1601; /* no factor of the file's blocks */
	struct test_bed b;

	(void)state;
	test_bed_make_blocks(&b, 64 * MIB, FILE_BLOCKS);
	for (u32 i = 1; i <= nr; i++)
		read_block(&b, i * step % FILE_BLOCKS);
	settle(&b);
	assert_in_range(cached(&b), nr, (nr + 1) * AROUND);
	test_bed_free(&b);
}

/* Nothing that nobody has read may push out what was asked for. */
static void full_cache_reads_nothing_ahead(void **state)
{
	const u32 from = 1000, nr = 4 * AROUND;
	struct test_bed b;

	(void)state;
	test_bed_make_blocks(&b, MIB, FILE_BLOCKS);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 2 * MIB, LODIC_WAIT), 0);
	assert_true(test_service_stat(b.lodic).evicted > 0);
	for (u32 i = 0; i < nr; i++)
		read_block(&b, from + i);
	settle(&b);
	for (u32 i = nr; i < 2 * nr; i++)
		assert_false(test_bed_reads_hit(&b, from + i));
	test_bed_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reader_that_ends_leaves_what_it_missed),
		cmocka_unit_test(misses_in_order_bring_what_comes_next),
		cmocka_unit_test(misses_out_of_order_bring_what_lies_around),
		cmocka_unit_test(full_cache_reads_nothing_ahead),
	};

	alarm(TEST_SECONDS);
	test_bed_need_leases();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
