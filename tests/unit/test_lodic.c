/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The library's plain good path against a real service, for each scheme: attach, open,
 * prefetch, read, pin, statistics, two processes, the end of a file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/cache_fixture.h"

#define NR_BLOCKS 40u
#define TAIL_BYTES 1001u
#define FILE_BYTES ((u64)(NR_BLOCKS - 1) * LODIC_BLOCK_BYTES + TAIL_BYTES)
#define TEST_SECONDS 120

static void bed_make(struct test_bed *b, enum lodic_scheme scheme)
{
	test_bed_init(b, scheme);
	test_bed_make(b, FILE_BYTES);
	assert_int_equal(lodic_file_cached(b->file), 0);
	assert_int_equal(lodic_prefetch(b->context, b->file, 0, 0, LODIC_WAIT), 0);
}

static void attach_good_service_says_what_it_is(void **state)
{
	for (u32 scheme = 0; scheme < FIXTURE_NR_SCHEMES; scheme++) {
		struct test_bed b;
		struct lodic_stat stat;

		bed_make(&b, (enum lodic_scheme)scheme);
		stat = test_service_stat(b.lodic);
		assert_int_equal(stat.scheme, scheme);
		assert_int_equal(stat.service_pid, b.service.pid);
		/* One frame more may be there, which no block uses. */
		assert_int_equal(stat.frames, 256);
		assert_int_equal(stat.data_bytes,
		                 (stat.frames + 1) * LODIC_BLOCK_BYTES);
		assert_int_equal(stat.files, 1);
		assert_int_equal(stat.clients, 1);
		assert_int_equal(stat.contexts, 1);
		assert_int_equal(stat.reaped, 0);
		assert_true(stat.uptime_ns > 0 && stat.control_bytes > 0);
		assert_true((stat.count_bytes > 0) ==
		            (scheme == LODIC_ATOMIC || scheme == LODIC_FROZEN));
		test_bed_free(&b);
	}
	(void)state;
}

/* For programs that were compiled with an older or newer lodic.h. */
static void stat_struct_of_another_size_filled_as_far_as_known(void **state)
{
	struct {
		struct lodic_stat known;
		u64 unknown;
	} newer;
	struct {
		struct lodic_context_stat known;
		u64 unknown;
	} newer_context;
	u64 older[3] = { 0, 0, 77 };
	struct test_bed b;

	bed_make(&b, LODIC_LODIC);
	memset(&newer, 0xff, sizeof(newer));
	assert_int_equal(lodic_stat(b.lodic, &newer.known, sizeof(newer)), 0);
	assert_int_equal(newer.known.frames, 256);
	assert_int_equal(newer.unknown, 0);
	assert_int_equal(
		lodic_stat(b.lodic, (struct lodic_stat *)older, 2 * sizeof(u64)), 0);
	assert_int_equal(older[0], 256);
	assert_int_equal(older[1], newer.known.cached);
	assert_int_equal(older[2], 77);

	memset(&newer_context, 0xff, sizeof(newer_context));
	lodic_context_stat(b.context, &newer_context.known, sizeof(newer_context));
	assert_int_equal(newer_context.known.pinned, 0);
	assert_int_equal(newer_context.unknown, 0);
	lodic_context_stat(b.context, (struct lodic_context_stat *)older, sizeof(u64));
	assert_int_equal(older[0], 0);
	assert_int_equal(older[1], newer.known.cached);
	test_bed_free(&b);
	(void)state;
}

static void read_prefetched_all_hits(void **state)
{
	for (u32 scheme = 0; scheme < FIXTURE_NR_SCHEMES; scheme++) {
		u8 buffer[LODIC_BLOCK_BYTES];
		struct test_bed b;
		struct lodic_context_stat stat;

		bed_make(&b, (enum lodic_scheme)scheme);
		for (u64 at = 0; at < FILE_BYTES; at += sizeof(buffer)) {
			u64 n = FILE_BYTES - at < sizeof(buffer) ? FILE_BYTES - at
			                                         : sizeof(buffer);

			assert_int_equal(lodic_read(b.context, b.file, buffer,
			                            sizeof(buffer), (off_t)at),
			                 n);
			assert_true(pattern_holds(buffer, 1, 1, at, n));
		}
		stat = test_context_stat(b.context);
		assert_int_equal(stat.hits, NR_BLOCKS);
		assert_int_equal(stat.misses, 0);
		test_bed_free(&b);
	}
	(void)state;
}

static void read_many_blocks_at_once_whole(void **state)
{
	for (u32 scheme = 0; scheme < FIXTURE_NR_SCHEMES; scheme++) {
		u8 *buffer = malloc(FILE_BYTES + 100);
		struct test_bed b;

		bed_make(&b, (enum lodic_scheme)scheme);
		assert_int_equal(lodic_read(b.context, b.file, buffer, FILE_BYTES + 100,
		                            0),
		                 FILE_BYTES);
		assert_true(pattern_holds(buffer, 1, 1, 0, FILE_BYTES));
		assert_int_equal(test_context_stat(b.context).hits, NR_BLOCKS);
		test_bed_free(&b);
		free(buffer);
	}
	(void)state;
}

static void pin_each_block_right_bytes_counted(void **state)
{
	for (u32 scheme = 0; scheme < FIXTURE_NR_SCHEMES; scheme++) {
		struct lodic_pin pin;
		struct test_bed b;

		bed_make(&b, (enum lodic_scheme)scheme);
		for (u32 round = 0; round < 2; round++)
			for (u64 at = 8; at < FILE_BYTES; at += LODIC_BLOCK_BYTES) {
				assert_int_equal(lodic_pin(b.context, b.file, (off_t)at,
				                           &pin),
				                 0);
				assert_int_equal(pin.bytes,
				                 FILE_BYTES - at < LODIC_BLOCK_BYTES - 8
				                         ? FILE_BYTES - at
				                         : LODIC_BLOCK_BYTES - 8);
				assert_true(
					pattern_holds(pin.data, 1, 1, at, pin.bytes));
				assert_int_equal(test_service_stat(b.lodic).pinned, 1);
				lodic_unpin(b.context, &pin);
				assert_null(pin.word);
			}
		assert_int_equal(test_context_stat(b.context).hits, 2 * NR_BLOCKS);
		assert_int_equal(test_context_stat(b.context).pins_refused, 0);
		assert_int_equal(test_service_stat(b.lodic).pinned, 0);
		test_bed_free(&b);
	}
	(void)state;
}

static void pin_several_stand_until_each_unpin(void **state)
{
	enum { NR_PINS = 12 };

	for (u32 scheme = 0; scheme < FIXTURE_NR_SCHEMES; scheme++) {
		struct lodic_pin pins[NR_PINS];
		struct test_bed b;

		bed_make(&b, (enum lodic_scheme)scheme);
		for (u32 i = 0; i < NR_PINS; i++)
			assert_int_equal(lodic_pin(b.context, b.file,
			                           (off_t)i * LODIC_BLOCK_BYTES,
			                           &pins[i]),
			                 0);
		assert_int_equal(test_service_stat(b.lodic).pinned, NR_PINS);
		for (u32 i = 0; i < NR_PINS; i++) {
			assert_true(pattern_holds(pins[i].data, 1, 1,
			                          (u64)i * LODIC_BLOCK_BYTES,
			                          LODIC_BLOCK_BYTES));
			lodic_unpin(b.context, &pins[i]);
			assert_int_equal(test_service_stat(b.lodic).pinned,
			                 NR_PINS - 1 - i);
		}
		test_bed_free(&b);
	}
	(void)state;
}

static void context_close_pins_held_given_back(void **state)
{
	for (u32 scheme = 0; scheme < FIXTURE_NR_SCHEMES; scheme++) {
		struct lodic_context *other;
		struct lodic_pin pin;
		struct test_bed b;

		if (scheme == LODIC_ATOMIC || scheme == LODIC_FROZEN)
			continue; /* shared words do not say whose a pin is */
		bed_make(&b, (enum lodic_scheme)scheme);
		assert_int_equal(lodic_context_open(b.lodic, &other), 0);
		assert_int_equal(lodic_pin(other, b.file, 0, &pin), 0);
		assert_int_equal(test_service_stat(b.lodic).pinned, 1);
		lodic_context_close(other);
		assert_int_equal(test_service_stat(b.lodic).pinned, 0);
		assert_int_equal(test_service_stat(b.lodic).contexts, 1);
		test_bed_free(&b);
	}
	(void)state;
}

/* The other process: it reads and pins what this one has brought in. */
static int other_process(const struct test_service *service, const char *path)
{
	u8 buffer[LODIC_BLOCK_BYTES];
	int fd = fixture_open(path, O_RDONLY);
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic *lodic;
	struct lodic_pin pin;

	REQUIRE(test_service_attach(service, &lodic) == 0, "not attached");
	REQUIRE(lodic_context_open(lodic, &context) == 0, "no context");
	REQUIRE(lodic_open(lodic, fd, &file) == 0, "not opened");
	for (u64 at = 0; at + sizeof(buffer) < FILE_BYTES; at += sizeof(buffer)) {
		REQUIRE(lodic_read(context, file, buffer, sizeof(buffer), (off_t)at) ==
		                sizeof(buffer),
		        "not read");
		REQUIRE(pattern_holds(buffer, 1, 1, at, sizeof(buffer)), "wrong bytes");
	}
	REQUIRE(lodic_pin(context, file, 0, &pin) == 0, "not pinned");
	REQUIRE(pattern_holds(pin.data, 1, 1, 0, pin.bytes), "wrong bytes");
	REQUIRE(test_context_stat(context).misses == 0, "not shared");
	REQUIRE(test_context_stat(context).hits == NR_BLOCKS, "not counted");
	REQUIRE(test_service_stat(lodic).clients == 2, "not two");
	lodic_unpin(context, &pin);
	lodic_close(file);
	lodic_context_close(context);
	lodic_detach(lodic);
	return 0;
}

static void stat_two_processes_share_frames_and_add_up(void **state)
{
	for (u32 scheme = 0; scheme < FIXTURE_NR_SCHEMES; scheme++) {
		struct lodic_stat stat;
		struct test_bed b;
		u8 byte;
		pid_t pid;

		bed_make(&b, (enum lodic_scheme)scheme);
		pid = fixture_fork();
		if (pid == 0)
			_exit(other_process(&b.service, b.path));
		assert_int_equal(fixture_wait(pid), 0);
		assert_int_equal(lodic_read(b.context, b.file, &byte, 1, 5), 1);
		assert_true(WAIT_UNTIL(test_service_stat(b.lodic).clients == 1));
		stat = test_service_stat(b.lodic);
		assert_int_equal(stat.cached, NR_BLOCKS);
		assert_int_equal(stat.admitted, NR_BLOCKS);
		assert_int_equal(stat.evicted, 0);
		assert_int_equal(stat.errors, 0);
		assert_int_equal(stat.files, 1);
		assert_int_equal(stat.contexts, 1);
		assert_int_equal(stat.hits, NR_BLOCKS + 1);
		assert_int_equal(stat.misses, 0);
		test_bed_free(&b);
	}
	(void)state;
}

static void read_not_prefetched_miss_then_hit(void **state)
{
	for (u32 scheme = 0; scheme < FIXTURE_NR_SCHEMES; scheme++) {
		char path[FIXTURE_PATH_BYTES];
		u8 buffer[100];
		struct lodic_file *file;
		struct test_bed b;
		int fd;

		bed_make(&b, (enum lodic_scheme)scheme);
		pattern_file_make(path, "cold", 2, 1, LODIC_BLOCK_BYTES);
		fd = fixture_open(path, O_RDONLY);
		assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
		close(fd); /* ours: the library has its own */
		assert_int_equal(lodic_read(b.context, file, buffer, 100, 50), 100);
		assert_true(pattern_holds(buffer, 2, 1, 50, 100));
		assert_int_equal(test_context_stat(b.context).misses, 1);
		assert_true(WAIT_UNTIL(lodic_read(b.context, file, buffer, 100, 50) ==
		                               100 &&
		                       test_context_stat(b.context).hits > 0));
		assert_true(pattern_holds(buffer, 2, 1, 50, 100));
		lodic_close(file);
		test_bed_free(&b);
	}
	(void)state;
}

/* Each block that the kernel has read counts, and no other. */
static void read_uncached_file_each_block_a_miss(void **state)
{
	enum { B = LODIC_BLOCK_BYTES };
	static const struct {
		u64 offset, bytes, blocks;
	} reads[] = {
		{ 0, 1, 1 }, { 0, B, 1 }, { B, 1, 1 }, { B - 1, 2, 2 }, { 1, B, 2 }
	};
	u8 buffer[B];
	struct test_bed b;
	u64 misses = 0;
	int writer;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, 3 * B);
	writer = fixture_open(b.path, O_WRONLY);
	assert_true(WAIT_UNTIL(lodic_file_cached(b.file) != 0));
	for (u32 i = 0; i < sizeof(reads) / sizeof(*reads); i++) {
		assert_int_equal(lodic_read(b.context, b.file, buffer, reads[i].bytes,
		                            (off_t)reads[i].offset),
		                 reads[i].bytes);
		misses += reads[i].blocks;
		assert_int_equal(test_context_stat(b.context).misses, misses);
	}
	close(writer);
	test_bed_free(&b);
	(void)state;
}

/* The kernel is asked for the block alone that is not there. */
static void read_half_cached_one_hit_one_miss(void **state)
{
	u8 buffer[2 * LODIC_BLOCK_BYTES];
	struct lodic_context_stat stat;
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, sizeof(buffer));
	assert_int_equal(
		lodic_prefetch(b.context, b.file, 0, LODIC_BLOCK_BYTES, LODIC_WAIT), 0);
	assert_int_equal(lodic_read(b.context, b.file, buffer, sizeof(buffer), 0),
	                 sizeof(buffer));
	assert_true(pattern_holds(buffer, 1, 1, 0, sizeof(buffer)));
	stat = test_context_stat(b.context);
	assert_int_equal(stat.hits, 1);
	assert_int_equal(stat.misses, 1);
	test_bed_free(&b);
	(void)state;
}

static void pin_not_cached_eagain_then_pinned(void **state)
{
	for (u32 scheme = 0; scheme < FIXTURE_NR_SCHEMES; scheme++) {
		char path[FIXTURE_PATH_BYTES];
		struct lodic_file *file;
		struct lodic_pin pin;
		struct test_bed b;
		int fd;

		bed_make(&b, (enum lodic_scheme)scheme);
		pattern_file_make(path, "cold", 2, 1, LODIC_BLOCK_BYTES);
		fd = fixture_open(path, O_RDONLY);
		assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
		assert_int_equal(lodic_pin(b.context, file, 0, &pin), -EAGAIN);
		assert_true(WAIT_UNTIL(lodic_pin(b.context, file, 0, &pin) == 0));
		assert_true(pattern_holds(pin.data, 2, 1, 0, LODIC_BLOCK_BYTES));
		lodic_unpin(b.context, &pin);
		lodic_close(file);
		close(fd);
		test_bed_free(&b);
	}
	(void)state;
}

/* The service forgets a file that was deleted, as soon as nobody has it open. */
static void close_deleted_file_let_go(void **state)
{
	struct test_bed b;

	bed_make(&b, LODIC_LODIC);
	unlink(b.path);
	assert_int_equal(lodic_file_cached(b.file), 0);
	lodic_close(b.file);
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).files == 0));
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).cached == 0));
	assert_int_equal(lodic_open(b.lodic, b.fd, &b.file), 0);
	test_bed_free(&b);
	(void)state;
}

/* Slots change hands, and numbers that hash alike share a chain. */
static void open_more_files_than_slots_each_found_again(void **state)
{
	enum { FILES = 9, SLOTS = 4 };
	char paths[FILES][FIXTURE_PATH_BYTES], name[16];
	struct lodic_file *first, *again;
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.keeping.nr_files = SLOTS;
	test_bed_make(&b, LODIC_BLOCK_BYTES);
	for (u32 i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "slot%u", i);
		pattern_file_make(paths[i], name, 1, 1, LODIC_BLOCK_BYTES);
	}
	for (u32 i = 0; i < 4 * FILES; i++) {
		u8 block[LODIC_BLOCK_BYTES];
		int fd = fixture_open(paths[i % FILES], O_RDONLY);

		assert_int_equal(lodic_open(b.lodic, fd, &first), 0);
		assert_int_equal(lodic_file_cached(first), 0);
		assert_int_equal(lodic_prefetch(b.context, first, 0, 0, LODIC_WAIT), 0);
		assert_int_equal(lodic_open(b.lodic, fd, &again), 0);
		assert_int_equal(lodic_read(b.context, again, block, sizeof(block), 0),
		                 sizeof(block));
		assert_int_equal(test_context_stat(b.context).hits, i + 1);
		assert_int_equal(test_service_stat(b.lodic).files,
		                 i + 2 < SLOTS ? i + 2 : SLOTS);
		lodic_close(first);
		lodic_close(again);
		close(fd);
	}
	test_bed_free(&b);
	(void)state;
}

/* In the child: opens nameless files, says so, and waits for its end. */
static _Noreturn void open_nameless(const struct test_service *service, u32 nr,
                                    volatile u32 *ready)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *file;
	struct lodic *lodic;

	if (test_service_attach(service, &lodic) != 0)
		_exit(1);
	for (u32 i = 0; i < nr; i++) {
		int fd;

		pattern_file_make(path, "nameless", 1, 1, 1);
		fd = fixture_open(path, O_RDONLY);
		if (lodic_open(lodic, fd, &file) != 0 || lodic_file_cached(file) != 0)
			_exit(2);
		unlink(path);
		close(fd);
	}
	*ready = 1;
	for (;;)
		pause();
}

/* More than the service closes in one turn. */
static void killed_with_many_files_open_all_let_go(void **state)
{
	volatile u32 *ready = fixture_shared(sizeof(*ready));
	struct test_bed b;
	pid_t pid;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.keeping.nr_files = 512;
	test_bed_make(&b, FILE_BYTES);
	pid = fixture_fork();
	if (pid == 0)
		open_nameless(&b.service, 300, ready);
	assert_true(WAIT_UNTIL(*ready));
	assert_int_equal(test_service_stat(b.lodic).files, 301);
	kill(pid, SIGKILL);
	fixture_wait(pid);
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).files == 1));
	assert_int_equal(test_service_stat(b.lodic).clients, 1);
	test_bed_free(&b);
	(void)state;
}

/* The kernel does not count the description that memfd_create() makes: it would lease the
 * file to the service while this process can write to it. */
static void open_memfd_that_others_write_never_stale(void **state)
{
	u8 block[LODIC_BLOCK_BYTES], read[LODIC_BLOCK_BYTES];
	int writer = memfd_create("written", MFD_CLOEXEC);
	struct lodic_file *file;
	char path[64];
	struct test_bed b;
	int fd;

	assert_true(writer >= 0);
	pattern_fill(block, 1, 1, 0, sizeof(block));
	assert_int_equal(pwrite(writer, block, sizeof(block), 0), sizeof(block));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", writer);
	fd = fixture_open(path, O_RDONLY);
	bed_make(&b, LODIC_LODIC);
	assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
	lodic_prefetch(b.context, file, 0, 0, LODIC_WAIT);
	pattern_fill(block, 1, 2, 0, sizeof(block));
	assert_int_equal(pwrite(writer, block, sizeof(block), 0), sizeof(block));
	assert_int_equal(lodic_read(b.context, file, read, sizeof(read), 0),
	                 sizeof(read));
	assert_memory_equal(read, block, sizeof(read));
	assert_int_equal(lodic_file_cached(file), -EMEDIUMTYPE);
	lodic_close(file);
	close(fd);
	close(writer);
	test_bed_free(&b);
	(void)state;
}

static void attach_no_service_starts_one_that_leaves_when_idle(void **state)
{
	const char *build = getenv("LODIC_BUILD");
	struct lodic_options options = { .bytes = sizeof(options),
		                         .idle_exit_ms = 100 };
	char program[4096], socket[FIXTURE_PATH_BYTES];
	struct lodic *lodic;
	struct lodic_stat stat;

	if (!build || !*build) {
		print_message("LODIC_BUILD does not say where the program is\n");
		skip();
	}
	snprintf(program, sizeof(program), "%s/lodic", build);
	fixture_path(socket, "started");
	options.socket = socket;
	options.service = program;
	options.cache_bytes = (u64)1 << 20;
	options.scheme = LODIC_HAZARD;
	assert_int_equal(lodic_attach(&options, &lodic), 0);
	stat = test_service_stat(lodic);
	assert_int_equal(stat.scheme, LODIC_HAZARD);
	assert_in_range(stat.frames, 256, 257);
	lodic_detach(lodic);
	if (!WAIT_UNTIL(kill((pid_t)stat.service_pid, 0) != 0)) {
		kill((pid_t)stat.service_pid, SIGKILL);
		fail_msg("it does not leave");
	}
	(void)state;
}

static int guard_set(void **state)
{
	(void)state;
	alarm(TEST_SECONDS);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(attach_good_service_says_what_it_is, guard_set),
		cmocka_unit_test_setup(
			stat_struct_of_another_size_filled_as_far_as_known, guard_set),
		cmocka_unit_test_setup(read_prefetched_all_hits, guard_set),
		cmocka_unit_test_setup(read_many_blocks_at_once_whole, guard_set),
		cmocka_unit_test_setup(pin_each_block_right_bytes_counted, guard_set),
		cmocka_unit_test_setup(pin_several_stand_until_each_unpin, guard_set),
		cmocka_unit_test_setup(context_close_pins_held_given_back, guard_set),
		cmocka_unit_test_setup(stat_two_processes_share_frames_and_add_up,
		                       guard_set),
		cmocka_unit_test_setup(read_not_prefetched_miss_then_hit, guard_set),
		cmocka_unit_test_setup(read_uncached_file_each_block_a_miss, guard_set),
		cmocka_unit_test_setup(read_half_cached_one_hit_one_miss, guard_set),
		cmocka_unit_test_setup(pin_not_cached_eagain_then_pinned, guard_set),
		cmocka_unit_test_setup(close_deleted_file_let_go, guard_set),
		cmocka_unit_test_setup(open_more_files_than_slots_each_found_again,
		                       guard_set),
		cmocka_unit_test_setup(killed_with_many_files_open_all_let_go,
		                       guard_set),
		cmocka_unit_test_setup(open_memfd_that_others_write_never_stale,
		                       guard_set),
		cmocka_unit_test_setup(
			attach_no_service_starts_one_that_leaves_when_idle, guard_set),
	};
	struct test_service service;
	char path[FIXTURE_PATH_BYTES];

	fixture_begin(argc, argv, NULL);
	pattern_file_make(path, "probe", 1, 1, 1);
	test_service_init(&service, "probe-socket");
	REQUIRE(test_service_start(&service) == 0, "%s", service.why);
	fixture_need_leases(&service, path);
	REQUIRE(test_service_stop(&service) == 0, "the service did not end in order");
	return cmocka_run_group_tests_name("lodic", tests, NULL, NULL);
}
