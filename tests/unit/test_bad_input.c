/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What users get wrong, and what files do. In each case the program gets the right bytes
 * from the kernel or one clear error, never a wrong byte, and it never hangs. Where the
 * scheme matters each is tried. test_bad_service.c has the sockets and services that are
 * not as they should be.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define FILE_BYTES ((u64)20 * BLOCK + 1234)
#define TEST_SECONDS 120
#define NOBODY 65534
#define COUNT_MAX 127 /* pins on a block of one context under LODIC */
#define HAZARD_SLOTS 64
#define RANDOM_READS 3000u

#define FOR_EACH_SCHEME(scheme) \
	for (enum lodic_scheme scheme = LODIC_LODIC; scheme <= LODIC_HAZARD; scheme++)

static void bed_make(struct test_bed *b, enum lodic_scheme scheme, bool cached)
{
	test_bed_init(b, scheme);
	test_bed_make(b, FILE_BYTES);
	assert_int_equal(lodic_file_cached(b->file), 0);
	if (cached)
		assert_int_equal(lodic_prefetch(b->context, b->file, 0, 0, LODIC_WAIT),
		                 0);
}

/* The file must read as pread() says, at each place. */
static void assert_reads_like_pread(struct test_bed *b, struct lodic_file *file, int fd,
                                    u64 around, u64 *random, u32 times)
{
	static u8 ours[5 * BLOCK], theirs[5 * BLOCK];

	while (times-- > 0) {
		u64 n = random_below(random,
		                     random_below(random, 2) ? 100 : sizeof(ours));
		off_t at = (off_t)random_below(random, around);
		ssize_t got = lodic_read(b->context, file, ours, n, at);

		assert_int_equal(got, pread(fd, theirs, n, at));
		assert_memory_equal(ours, theirs, (size_t)got);
	}
}

static void open_not_a_regular_file_clear_error(void **state)
{
	struct lodic_file *file = NULL;
	char socket_path[FIXTURE_PATH_BYTES];
	int pipes[2], sockets[2], fd, null;
	struct test_bed b;

	bed_make(&b, LODIC_LODIC, true);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	null = fixture_open("/dev/null", O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, pipes[0], &file), -ENODEV);
	assert_int_equal(lodic_open(b.lodic, pipes[1], &file),
	                 -EBADF); /* for writing only */
	assert_int_equal(lodic_open(b.lodic, sockets[0], &file), -ENODEV);
	assert_int_equal(lodic_open(b.lodic, null, &file), -ENODEV);
	fixture_path(socket_path, ".");
	fd = fixture_open(socket_path, O_RDONLY | O_DIRECTORY);
	assert_int_equal(lodic_open(b.lodic, fd, &file), -EISDIR);
	close(fd);
	fd = fixture_open(b.path, O_RDWR);
	assert_int_equal(lodic_open(b.lodic, fd, &file), -EINVAL);
	close(fd);
	fd = fixture_open(b.path, O_WRONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &file), -EBADF);
	close(fd);
	fd = fixture_open(b.path, O_PATH);
	assert_int_equal(lodic_open(b.lodic, fd, &file), -EBADF);
	close(fd);
	assert_int_equal(lodic_open(b.lodic, fd, &file), -EBADF); /* closed */
	assert_int_equal(lodic_open(b.lodic, -1, &file), -EBADF);
	assert_int_equal(lodic_open(NULL, null, &file), -EINVAL);
	assert_int_equal(lodic_open(b.lodic, null, NULL), -EINVAL);
	assert_null(file);
	for (u32 i = 0; i < 2; i++) {
		close(pipes[i]);
		close(sockets[i]);
	}
	close(null);
	test_bed_free(&b);
	(void)state;
}

static void open_empty_file_reads_nothing_until_it_grows(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *file;
	struct lodic_pin pin;
	struct test_bed b;
	u8 buffer[16];
	int fd, writer;

	bed_make(&b, LODIC_LODIC, false);
	pattern_file_make(path, "empty", 3, 1, 0);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
	assert_int_equal(lodic_file_cached(file), -ENODATA);
	assert_int_equal(lodic_read(b.context, file, buffer, 16, 0), 0);
	assert_int_equal(lodic_pin(b.context, file, 0, &pin), -ENODATA);
	assert_int_equal(lodic_prefetch(b.context, file, 0, 0, LODIC_WAIT), -ESTALE);
	writer = fixture_open(path, O_WRONLY);
	assert_int_equal(write(writer, "sixteen bytes !!", 16), 16);
	assert_int_equal(lodic_read(b.context, file, buffer, 16, 0), 16);
	assert_memory_equal(buffer, "sixteen bytes !!", 16);
	close(writer);
	/* The library tries again after a while. */
	assert_true(WAIT_UNTIL(lodic_read(b.context, file, buffer, 16, 0) == 16 &&
	                       lodic_file_cached(file) == 0));
	lodic_close(file);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

static void open_with_a_writer_etxtbsy_then_cached(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *file;
	struct test_bed b;
	u8 buffer[BLOCK];
	int fd, writer;

	bed_make(&b, LODIC_LODIC, false);
	pattern_file_make(path, "busy", 3, 1, BLOCK);
	writer = fixture_open(path, O_WRONLY);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &file), 0);
	assert_int_equal(lodic_file_cached(file), -ETXTBSY);
	assert_int_equal(lodic_read(b.context, file, buffer, BLOCK, 0), BLOCK);
	assert_true(pattern_holds(buffer, 3, 1, 0, BLOCK));
	assert_int_equal(test_context_stat(b.context).hits, 0);
	close(writer);
	assert_true(WAIT_UNTIL(lodic_read(b.context, file, buffer, BLOCK, 0) == BLOCK &&
	                       lodic_file_cached(file) == 0));
	lodic_close(file);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

static void read_file_changed_while_cached_new_bytes(void **state)
{
	FOR_EACH_SCHEME(scheme)
	{
		static u8 fresh[FILE_BYTES];
		struct lodic_pin pin;
		struct test_bed b;
		u8 buffer[BLOCK];
		int writer;

		bed_make(&b, scheme, true);
		assert_int_equal(lodic_pin(b.context, b.file, BLOCK, &pin), 0);
		writer = fixture_open(b.path, O_WRONLY);
		assert_int_equal(lodic_file_cached(b.file), -ESTALE);
		pattern_fill(fresh, 1, 2, 0, FILE_BYTES);
		assert_int_equal(pwrite(writer, fresh, FILE_BYTES, 0), FILE_BYTES);
		assert_int_equal(lodic_read(b.context, b.file, buffer, BLOCK, BLOCK),
		                 BLOCK);
		assert_true(pattern_holds(buffer, 1, 2, BLOCK, BLOCK));
		assert_int_equal(ftruncate(writer, 2 * BLOCK + 5), 0);
		assert_int_equal(
			lodic_read(b.context, b.file, buffer, BLOCK, 2 * BLOCK), 5);
		assert_int_equal(
			lodic_read(b.context, b.file, buffer, BLOCK, 3 * BLOCK), 0);
		assert_true(
			pattern_holds(pin.data, 1, 1, BLOCK, BLOCK)); /* a snapshot */
		lodic_unpin(b.context, &pin);
		assert_int_equal(lodic_pin(b.context, b.file, 4 * BLOCK, &pin),
		                 -ENODATA);
		close(writer);
		assert_true(WAIT_UNTIL(lodic_pin(b.context, b.file, BLOCK, &pin) == 0));
		assert_true(pattern_holds(pin.data, 1, 2, BLOCK, BLOCK));
		lodic_unpin(b.context, &pin);
		assert_true(
			WAIT_UNTIL(lodic_pin(b.context, b.file, 2 * BLOCK, &pin) == 0));
		assert_int_equal(pin.bytes, 5);
		lodic_unpin(b.context, &pin);
		test_bed_free(&b);
	}
	(void)state;
}

static void read_file_larger_than_cache_right_bytes(void **state)
{
	const u64 bytes = (u64)100 * BLOCK + 77;

	FOR_EACH_SCHEME(scheme)
	{
		u64 random = random_stream(10 + scheme);
		struct lodic_pin pin;
		struct test_bed b;

		test_bed_init(&b, scheme);
		b.service.options.sizes.cache_bytes = (u64)32 * BLOCK;
		test_bed_make(&b, bytes);
		assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT),
		                 0);
		assert_reads_like_pread(&b, b.file, b.fd, bytes + BLOCK, &random,
		                        RANDOM_READS);
		for (u32 i = 0; i < RANDOM_READS; i++) {
			u64 at = random_below(&random, bytes);

			if (lodic_pin(b.context, b.file, (off_t)at, &pin) != 0)
				continue;
			assert_true(pattern_holds(pin.data, 1, 1, at, pin.bytes));
			lodic_unpin(b.context, &pin);
		}
		assert_true(test_context_stat(b.context).hits > 0);
		assert_true(test_service_stat(b.lodic).evicted > 0);
		test_bed_free(&b);
	}
	(void)state;
}

static void read_unaligned_across_blocks_like_pread(void **state)
{
	FOR_EACH_SCHEME(scheme)
	{
		u64 random = random_stream(20 + scheme);
		struct test_bed b;

		bed_make(&b, scheme, true);
		assert_reads_like_pread(&b, b.file, b.fd, FILE_BYTES + 2 * BLOCK,
		                        &random, RANDOM_READS);
		assert_int_equal(test_context_stat(b.context).misses, 0);
		test_bed_free(&b);
	}
	(void)state;
}

static void read_odd_offsets_and_lengths_like_pread(void **state)
{
	static const off_t offsets[] = { 0,
		                         1,
		                         BLOCK - 1,
		                         (off_t)FILE_BYTES - 1,
		                         (off_t)FILE_BYTES,
		                         (off_t)FILE_BYTES + 1,
		                         (off_t)1 << 40,
		                         (off_t)1 << 45,
		                         LLONG_MAX - BLOCK,
		                         LLONG_MAX,
		                         -1,
		                         -BLOCK,
		                         LLONG_MIN };
	static const size_t lengths[] = { 0, 1, BLOCK, 2 * BLOCK + 1, (size_t)1 << 20 };
	static u8 buffer[1 << 20], expected[1 << 20];
	struct lodic_pin pin;
	struct test_bed b;

	for (u32 cached = 0; cached < 2; cached++) {
		bed_make(&b, LODIC_LODIC, cached);
		for (u32 i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
			for (u32 k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
				ssize_t got = lodic_read(b.context, b.file, buffer,
				                         lengths[k], offsets[i]);
				ssize_t want =
					pread(b.fd, expected, lengths[k], offsets[i]);

				/* No such end can be: the kernel says so, a cached
				 * file's reader is told that it has none. */
				if (offsets[i] > LLONG_MAX - (off_t)lengths[k])
					assert_true(got == 0 || got == -EINVAL);
				else
					assert_int_equal(got, want < 0 ? -errno : want);
				if (got > 0)
					assert_memory_equal(buffer, expected,
					                    (size_t)got);
			}
			if (offsets[i] < 0)
				assert_int_equal(lodic_pin(b.context, b.file,
				                           offsets[i], &pin),
				                 -EINVAL);
			if (offsets[i] >= (off_t)FILE_BYTES)
				assert_int_equal(lodic_pin(b.context, b.file,
				                           offsets[i], &pin),
				                 -ENODATA);
		}
		assert_int_equal(lodic_prefetch(b.context, b.file, -1, 0, 0), -EINVAL);
		assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, 64), -EINVAL);
		assert_int_equal(lodic_prefetch(b.context, b.file, LLONG_MAX, ~(u64)0,
		                                LODIC_WAIT),
		                 0);
		assert_int_equal(lodic_prefetch(b.context, b.file, BLOCK, ~(u64)0,
		                                LODIC_WAIT),
		                 0);
		test_bed_free(&b);
	}
	(void)state;
}

static void readv_odd_vectors_like_preadv(void **state)
{
	static u8 buffer[4 * BLOCK], expected[4 * BLOCK];
	static struct iovec many[IOV_MAX + 1];
	struct iovec ours[3], theirs[3];
	u64 random = random_stream(30);
	struct test_bed b;

	bed_make(&b, LODIC_LODIC, true);
	for (u32 i = 0; i < 500; i++) {
		u64 at = 0, offset = random_below(&random, FILE_BYTES + 100);
		ssize_t got;

		for (u32 k = 0; k < 3; k++) {
			u64 n = random_below(&random, 4)
			                ? random_below(&random, BLOCK + 300)
			                : 0;

			ours[k] = (struct iovec){ buffer + at, n };
			theirs[k] = (struct iovec){ expected + at, n };
			at += n;
		}
		got = lodic_readv(b.context, b.file, ours, 3, (off_t)offset);
		assert_int_equal(got, preadv(b.fd, theirs, 3, (off_t)offset));
		assert_memory_equal(buffer, expected, (size_t)got);
	}
	for (u32 i = 0; i < IOV_MAX + 1; i++)
		many[i] = (struct iovec){ buffer + i, 1 };
	assert_int_equal(lodic_readv(b.context, b.file, many, IOV_MAX, 0), IOV_MAX);
	assert_true(pattern_holds(buffer, 1, 1, 0, IOV_MAX));
	assert_int_equal(lodic_readv(b.context, b.file, many, IOV_MAX + 1, 0), -EINVAL);
	assert_int_equal(lodic_readv(b.context, b.file, many, -1, 0), -EINVAL);
	assert_int_equal(lodic_readv(b.context, b.file, NULL, 1, 0), -EINVAL);
	assert_int_equal(lodic_readv(b.context, b.file, NULL, 0, 0), 0);
	assert_int_equal(lodic_readv(b.context, b.file, many, 1, -1), -EINVAL);
	test_bed_free(&b);
	(void)state;
}

/* Runs as a user who may read the file but does not own it. */
static int other_owner_run(const char *path, const char *socket_name)
{
	struct test_service service;
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic *lodic;
	struct lodic_pin pin;
	u8 buffer[BLOCK], expected[BLOCK];
	int fd = fixture_open(path, O_RDONLY);
	ssize_t n = pread(fd, expected, BLOCK, 0);

	test_service_init(&service, socket_name);
	REQUIRE(test_service_start(&service) == 0, "%s", service.why);
	REQUIRE(test_service_attach(&service, &lodic) == 0, "not attached");
	REQUIRE(lodic_context_open(lodic, &context) == 0, "no context");
	REQUIRE(lodic_open(lodic, fd, &file) == 0, "not opened");
	REQUIRE(lodic_file_cached(file) == -EACCES, "%d", lodic_file_cached(file));
	for (u32 i = 0; i < 100; i++) {
		REQUIRE(lodic_read(context, file, buffer, BLOCK, 0) == n, "not read");
		REQUIRE(memcmp(buffer, expected, (size_t)n) == 0, "wrong bytes");
		REQUIRE(lodic_pin(context, file, 0, &pin) == -ESTALE, "pinned");
	}
	REQUIRE(test_context_stat(context).hits == 0, "cached without a proof");
	REQUIRE(lodic_prefetch(context, file, 0, 0, LODIC_WAIT) == -ESTALE,
	        "prefetched");
	lodic_close(file);
	lodic_context_close(context);
	lodic_detach(lodic);
	close(fd);
	REQUIRE(test_service_stop(&service) == 0, "the service did not end in order");
	return 0;
}

static void open_file_of_another_owner_eacces_read_from_kernel(void **state)
{
	char path[FIXTURE_PATH_BYTES] = "/etc/passwd", folder[FIXTURE_PATH_BYTES];
	bool root = geteuid() == 0;
	struct stat st;
	pid_t pid;

	if (root) {
		pattern_file_make(path, "of-root", 1, 1, FILE_BYTES);
		fixture_path(folder, "nobody");
		assert_int_equal(mkdir(folder, 0700), 0);
		assert_int_equal(chown(folder, NOBODY, NOBODY), 0);
		fixture_path(folder, ".");
		assert_int_equal(chmod(folder, 0711), 0);
	} else if (stat(path, &st) != 0 || st.st_uid == geteuid()) {
		print_message("no file of another owner is known here\n");
		skip();
	}
	pid = fixture_fork();
	if (pid == 0) {
		if (root && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten by setuid() */
		_exit(other_owner_run(path, root ? "nobody/s" : "ours"));
	}
	assert_int_equal(fixture_wait(pid), 0);
	(void)state;
}

/* What a child may do with what it has inherited. */
static int forked_child_run(struct test_bed *b, struct lodic_pin pin)
{
	struct lodic_context *context = NULL;
	struct lodic_file *file;
	struct lodic_stat stat;
	struct lodic_pin other;
	u8 buffer[3 * BLOCK];

	for (u32 i = 0; i < 10; i++) {
		REQUIRE(lodic_read(b->context, b->file, buffer, sizeof(buffer), i) ==
		                sizeof(buffer),
		        "not read");
		REQUIRE(pattern_holds(buffer, 1, 1, i, sizeof(buffer)), "wrong bytes");
		REQUIRE(lodic_pin(b->context, b->file, 0, &other) == -ESTALE, "pinned");
	}
	REQUIRE(lodic_read(b->context, b->file, buffer, 1, -1) == -EINVAL, "no error");
	REQUIRE(lodic_pin(b->context, b->file, -1, &other) == -EINVAL, "no error");
	REQUIRE(lodic_prefetch(b->context, b->file, 0, 0, LODIC_WAIT) == -ESTALE,
	        "no error");
	REQUIRE(lodic_stat(b->lodic, &stat, sizeof(stat)) == -ECHILD, "no error");
	REQUIRE(lodic_context_open(b->lodic, &context) == -ECHILD, "no error");
	REQUIRE(lodic_file_cached(b->file) == -ESTALE, "no error");
	REQUIRE(lodic_open(b->lodic, b->fd, &file) == 0, "not opened");
	REQUIRE(lodic_read(b->context, file, buffer, BLOCK, 0) == BLOCK, "not read");
	REQUIRE(pattern_holds(buffer, 1, 1, 0, BLOCK), "wrong bytes");
	lodic_unpin(b->context, &pin); /* the parent's: harmless */
	lodic_close(file);
	lodic_close(b->file);
	lodic_context_close(b->context);
	lodic_detach(b->lodic);
	/* An attachment of its own gives it a cache. */
	REQUIRE(test_service_attach(&b->service, &b->lodic) == 0, "not attached");
	REQUIRE(lodic_context_open(b->lodic, &b->context) == 0, "no context");
	REQUIRE(lodic_open(b->lodic, b->fd, &b->file) == 0, "not opened");
	REQUIRE(lodic_pin(b->context, b->file, 0, &other) == 0, "not pinned");
	return 0; /* with a pin, as if killed */
}

static void fork_child_uses_parents_context_parent_unharmed(void **state)
{
	FOR_EACH_SCHEME(scheme)
	{
		struct lodic_pin pin, again;
		struct test_bed b;
		u8 buffer[BLOCK];
		pid_t pid;

		bed_make(&b, scheme, true);
		assert_int_equal(lodic_pin(b.context, b.file, 5 * BLOCK, &pin), 0);
		pid = fixture_fork();
		if (pid == 0)
			_exit(forked_child_run(&b, pin));
		assert_int_equal(fixture_wait(pid), 0);
		assert_true(WAIT_UNTIL(test_service_stat(b.lodic).contexts == 1));
		assert_int_equal(test_service_stat(b.lodic).pinned,
		                 scheme == LODIC_ATOMIC || scheme == LODIC_FROZEN ? 2
		                                                                  : 1);
		assert_true(pattern_holds(pin.data, 1, 1, 5 * BLOCK, BLOCK));
		assert_int_equal(lodic_read(b.context, b.file, buffer, BLOCK, 0),
		                 BLOCK);
		assert_int_equal(lodic_pin(b.context, b.file, 0, &again), 0);
		assert_int_equal(test_context_stat(b.context).misses, 0);
		lodic_unpin(b.context, &again);
		lodic_unpin(b.context, &pin);
		test_bed_free(&b);
	}
	(void)state;
}

static void pin_one_block_128_times_last_refused(void **state)
{
	FOR_EACH_SCHEME(scheme)
	{
		static struct lodic_pin pins[COUNT_MAX + 1];
		u32 room = scheme == LODIC_LODIC    ? COUNT_MAX
		           : scheme == LODIC_HAZARD ? HAZARD_SLOTS
		                                    : COUNT_MAX + 1;
		struct lodic_pin pin;
		struct test_bed b;
		u8 buffer[BLOCK];

		bed_make(&b, scheme, true);
		for (u32 round = 0; round < 2; round++) {
			for (u32 i = 0; i < room; i++)
				assert_int_equal(
					lodic_pin(b.context, b.file, 0, &pins[i]), 0);
			if (room <= COUNT_MAX)
				assert_int_equal(lodic_pin(b.context, b.file, 0, &pin),
				                 scheme == LODIC_LODIC ? -EOVERFLOW
				                                       : -ENOBUFS);
			assert_int_equal(test_service_stat(b.lodic).pinned, 1);
			assert_int_equal(
				lodic_read(b.context, b.file, buffer, BLOCK, 0), BLOCK);
			assert_true(pattern_holds(buffer, 1, 1, 0, BLOCK));
			for (u32 i = 0; i < room; i++) {
				lodic_unpin(b.context, &pins[i]);
				lodic_unpin(b.context,
				            &pins[i]); /* once more: harmless */
			}
			assert_int_equal(test_service_stat(b.lodic).pinned, 0);
		}
		assert_int_equal(test_context_stat(b.context).pins_refused,
		                 room <= COUNT_MAX ? 2 : 0);
		test_bed_free(&b);
	}
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
		TEST(open_not_a_regular_file_clear_error),
		TEST(open_empty_file_reads_nothing_until_it_grows),
		TEST(open_with_a_writer_etxtbsy_then_cached),
		TEST(open_file_of_another_owner_eacces_read_from_kernel),
		TEST(read_file_changed_while_cached_new_bytes),
		TEST(read_file_larger_than_cache_right_bytes),
		TEST(read_unaligned_across_blocks_like_pread),
		TEST(read_odd_offsets_and_lengths_like_pread),
		TEST(readv_odd_vectors_like_preadv),
		TEST(fork_child_uses_parents_context_parent_unharmed),
		TEST(pin_one_block_128_times_last_refused),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("bad_input", tests, NULL, NULL);
}
