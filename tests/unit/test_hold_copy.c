/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Small holds: copies in the holder's own memory. They have the right bytes of one moment,
 * and keep them whatever becomes of the file and of the service. A million of them would need
 * no descriptor, and few mappings.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/held.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define FILE_BYTES ((u64)200 * 1024 + 123)
/* The largest file that is copied whole. */
#define RACE_BYTES (((u64)1 << 20) - 8)
#define NR_FORKS 20u
/* Under a sanitizer fewer: each byte has several of its own there. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define NR_MANY 10000u
#define MEMORY_TELLS false
#define NR_CHANGES 10u
#else
#define NR_MANY 100000u
#define MEMORY_TELLS true
#define NR_CHANGES 15u
#endif

static void bed_make(struct test_bed *b)
{
	test_bed_init(b, LODIC_LODIC);
	test_bed_make(b, FILE_BYTES);
}

/* Of this process: the size, and the part that is in memory. */
static void memory_bytes(u64 *ret_size, u64 *ret_resident)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long size, resident;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
	fclose(file);
	*ret_size = (u64)size * (u64)sysconf(_SC_PAGESIZE);
	*ret_resident = (u64)resident * (u64)sysconf(_SC_PAGESIZE);
}

static void hold_any_range_has_its_bytes(void **state)
{
	static const u64 ranges[][2] = { { 0, 1 },
		                         { 0, BLOCK },
		                         { 0, BLOCK + 1 },
		                         { 1, BLOCK },
		                         { BLOCK - 1, 1 },
		                         { BLOCK - 1, 2 },
		                         { BLOCK, 1 },
		                         { 3 * BLOCK + 77, 9 * BLOCK },
		                         { FILE_BYTES - 1, 1 },
		                         { FILE_BYTES - 123, 123 },
		                         { 0, FILE_BYTES } };
	u64 n = sizeof(ranges) / sizeof(*ranges);
	struct lodic_hold *holds[sizeof(ranges) / sizeof(*ranges)];
	struct test_bed b;
	u32 descriptors;

	bed_make(&b);
	descriptors = held_nr_descriptors();
	for (u64 i = 0; i < n; i++)
		holds[i] = held_range(&b, ranges[i][0], ranges[i][1]);
	for (u64 i = 0; i < n; i++) {
		assert_true(held_has(holds[i], 1, 1, ranges[i][0], ranges[i][1]));
		/* What is aligned in the file is so in memory. */
		assert_int_equal((uintptr_t)lodic_hold_data(holds[i]) % BLOCK,
		                 ranges[i][0] % BLOCK);
		assert_int_equal(lodic_hold_event(holds[i]), -1);
	}
	assert_int_equal(held_nr_descriptors(), descriptors);
	for (u64 i = 0; i < n; i++)
		lodic_release(holds[i]);
	lodic_release(NULL);
	test_bed_free(&b);
	(void)state;
}

static void hold_range_ends_where_file_does(void **state)
{
	struct lodic_hold *h;
	struct test_bed b;

	bed_make(&b);
	h = held_range(&b, 0, 0);
	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	lodic_release(h);
	h = held_range(&b, 5000, 0);
	assert_true(held_has(h, 1, 1, 5000, FILE_BYTES - 5000));
	lodic_release(h);
	h = held_range(&b, FILE_BYTES - 10, (u64)1 << 40);
	assert_true(held_has(h, 1, 1, FILE_BYTES - 10, 10));
	lodic_release(h);
	h = held_range(&b, FILE_BYTES - 10, ~(u64)0);
	assert_true(held_has(h, 1, 1, FILE_BYTES - 10, 10));
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

static void hold_wrong_arguments_clear_errors(void **state)
{
	struct lodic_hold *h = NULL;
	struct lodic *other;
	struct test_bed b;
	int fd;

	bed_make(&b);
	assert_int_equal(lodic_hold(b.lodic, b.file, -1, 1, 0, &h), -EINVAL);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 1, 2, &h), -EINVAL);
	assert_int_equal(lodic_hold(NULL, b.file, 0, 1, 0, &h), -EINVAL);
	assert_int_equal(lodic_hold(b.lodic, NULL, 0, 1, 0, &h), -EINVAL);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 1, 0, NULL), -EINVAL);
	assert_int_equal(lodic_hold(b.lodic, b.file, FILE_BYTES, 1, 0, &h), -ENODATA);
	assert_int_equal(lodic_hold(b.lodic, b.file, INT64_MAX, 0, LODIC_WAIT, &h),
	                 -ENODATA);
	assert_int_equal(test_service_attach(&b.service, &other), 0);
	assert_int_equal(lodic_hold(other, b.file, 0, 1, 0, &h), -EINVAL);
	lodic_detach(other);
	/* A writer has it open: it is not cached. */
	fd = fixture_open(b.path, O_WRONLY);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 1, 0, &h), -ESTALE);
	assert_int_equal(lodic_hold(b.lodic, b.file, FILE_BYTES, 1, 0, &h), -ENODATA);
	assert_null(h);
	close(fd);
	test_bed_free(&b);
	(void)state;
}

/* What is held stands, and a new hold has the new bytes. */
static void held_bytes_stand_whatever_happens(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_hold *old, *now = NULL;
	struct test_bed b;
	u8 *bytes = malloc(FILE_BYTES);
	int fd;

	bed_make(&b);
	old = held_range(&b, 100, 3 * BLOCK);
	fd = fixture_open(b.path, O_WRONLY);
	pattern_fill(bytes, 1, 2, 0, FILE_BYTES);
	assert_int_equal(write(fd, bytes, FILE_BYTES), FILE_BYTES);
	close(fd);
	assert_true(held_has(old, 1, 1, 100, 3 * BLOCK));
	assert_true(
		WAIT_UNTIL(lodic_hold(b.lodic, b.file, 100, 3 * BLOCK, 0, &now) == 0));
	assert_true(held_has(now, 1, 2, 100, 3 * BLOCK));
	lodic_release(now);
	now = NULL;
	assert_int_equal(truncate(b.path, 200), 0);
	assert_true(held_has(old, 1, 1, 100, 3 * BLOCK));
	assert_true(
		WAIT_UNTIL(lodic_hold(b.lodic, b.file, 100, 3 * BLOCK, 0, &now) == 0));
	assert_true(held_has(now, 1, 2, 100, 100));
	pattern_file_make(path, "other", 9, 1, BLOCK);
	assert_int_equal(rename(path, b.path), 0);
	assert_int_equal(unlink(b.path), 0);
	test_service_kill(&b.service);
	assert_true(held_has(old, 1, 1, 100, 3 * BLOCK));
	assert_true(held_has(now, 1, 2, 100, 100));
	b.service.inherits = true;
	assert_int_equal(test_service_start(&b.service), 0);
	assert_true(held_has(old, 1, 1, 100, 3 * BLOCK));
	lodic_release(old);
	lodic_release(now);
	free(bytes);
	test_bed_free(&b);
	(void)state;
}

/* No service listens, and none may be started: the file is not cached. With one that came
 * back, it is. */
static void hold_service_away_estale_and_back(void **state)
{
	struct lodic_hold *h = NULL;
	struct test_bed b;

	bed_make(&b);
	test_service_kill(&b.service);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 1, 0, &h), -ESTALE);
	b.service.inherits = true;
	assert_int_equal(test_service_start(&b.service), 0);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, BLOCK, 0, &h), 0);
	assert_true(held_has(h, 1, 1, 0, BLOCK));
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

/* What comes in between when the library has read half of a range. It stands in for libc's
 * pread(2), which the library calls. */
static struct {
	void (*step)(struct test_bed *b);
	struct test_bed *b;
	u32 left; /* so many more reads are met */
} between;

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
	ssize_t half, rest;

	if (between.left == 0 || n < 2)
		return syscall(SYS_pread64, fd, to, n, at);
	between.left--;
	half = syscall(SYS_pread64, fd, to, n / 2, at);
	between.step(between.b);
	if (half < 0)
		return half;
	rest = syscall(SYS_pread64, fd, (u8 *)to + half, n - (size_t)half, at + half);
	return rest < 0 ? half : half + rest;
}

static void write_next_version(struct test_bed *b)
{
	u8 *bytes = malloc(FILE_BYTES);
	int fd = fixture_open(b->path, O_RDWR);
	u64 word;

	assert_int_equal(syscall(SYS_pread64, fd, &word, sizeof(word), 0),
	                 sizeof(word));
	pattern_fill(bytes, 1, PATTERN_VERSION(word) + 1, 0, FILE_BYTES);
	assert_int_equal(write(fd, bytes, FILE_BYTES), FILE_BYTES);
	close(fd);
	free(bytes);
}

static void kill_service_and_write(struct test_bed *b)
{
	test_service_kill(&b->service);
	write_next_version(b);
}

static void cut_file(struct test_bed *b)
{
	assert_int_equal(truncate(b->path, BLOCK), 0);
}

static void come_between(struct test_bed *b, void (*step)(struct test_bed *b),
                         u32 times)
{
	between.b = b;
	between.step = step;
	between.left = times;
}

/* One change is worth another try, and two are not. */
static void hold_writer_comes_between_no_mixed_bytes(void **state)
{
	struct lodic_hold *h = NULL;
	struct test_bed b;

	bed_make(&b);
	come_between(&b, write_next_version, 1);
	h = held_range(&b, 0, 0);
	assert_true(held_has(h, 1, 2, 0, FILE_BYTES));
	lodic_release(h);
	come_between(&b, write_next_version, 2);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 0, 0, &h), -ESTALE);
	assert_int_equal(between.left, 0);
	come_between(&b, cut_file, 1);
	h = held_range(&b, 0, 0);
	assert_true(held_has(h, 1, 4, 0, BLOCK));
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

static void hold_service_dies_between_no_mixed_bytes(void **state)
{
	struct lodic_hold *h = NULL;
	struct test_bed b;

	bed_make(&b);
	come_between(&b, kill_service_and_write, 1);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 0, 0, &h), -ESTALE);
	assert_null(h);
	b.service.inherits = true;
	assert_int_equal(test_service_start(&b.service), 0);
	h = held_range(&b, 0, 0);
	assert_true(held_has(h, 1, 2, 0, FILE_BYTES));
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

struct writing {
	u64 floor; /* no word is older; the writer stores it when a change is complete */
	u64 seen;  /* the version that the holder has held last */
	u64 stop;
};

static _Noreturn void write_versions(const struct test_bed *b, struct writing *w)
{
	u8 *bytes = malloc(RACE_BYTES);
	int fd;

	for (u64 version = 2; version < NR_CHANGES + 2; version++) {
		REQUIRE(WAIT_UNTIL(host_load_acquire(&w->seen) == version - 1),
		        "nobody has seen it");
		pattern_fill(bytes, 1, version, 0, RACE_BYTES);
		fd = fixture_open(b->path, O_WRONLY);
		/* From the end on: a copy under way goes the other way, and meets it. */
		for (u64 at = RACE_BYTES / BLOCK * BLOCK, n = RACE_BYTES - at;;
		     at -= BLOCK, n = BLOCK) {
			REQUIRE(pwrite(fd, bytes + at, n, (off_t)at) == (ssize_t)n,
			        "not written");
			if (at == 0)
				break;
		}
		host_store_release(&w->floor, version);
		close(fd);
	}
	_exit(0);
}

/* One version, and none that is older than what the file had when the call began. */
static void hold_while_file_is_written_one_version_not_stale(void **state)
{
	struct writing *w = fixture_shared(sizeof(*w));
	struct lodic_hold *h;
	struct test_bed b;
	u64 floor, version;
	pid_t pid;
	int err;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, RACE_BYTES);
	w->floor = 1;
	pid = fixture_fork();
	if (pid == 0)
		write_versions(&b, w);
	do {
		/* From the disk a copy takes so long that a writer comes in between. */
		fdatasync(b.fd);
		posix_fadvise(b.fd, 0, 0, POSIX_FADV_DONTNEED);
		floor = host_load_acquire(&w->floor);
		err = lodic_hold(b.lodic, b.file, 0, 0, 0, &h);
		if (err) {
			assert_int_equal(err, -ESTALE);
			continue;
		}
		assert_int_equal(lodic_hold_bytes(h), RACE_BYTES);
		version = PATTERN_VERSION(*(const u64 *)lodic_hold_data(h));
		assert_true(version >= floor);
		assert_true(held_has(h, 1, version, 0, RACE_BYTES));
		lodic_release(h);
		host_store_release(&w->seen, version);
	} while (host_load_acquire(&w->seen) < NR_CHANGES + 1);
	assert_int_equal(fixture_wait(pid), 0);
	munmap(w, sizeof(*w));
	test_bed_free(&b);
	(void)state;
}

static void hold_very_many_few_mappings_memory_given_back(void **state)
{
	struct lodic_hold **holds = calloc(NR_MANY, sizeof(struct lodic_hold *));
	u64 size, size_after, resident, resident_after;
	u32 mappings, descriptors;
	struct test_bed b;

	bed_make(&b);
	lodic_release(held_range(&b, 0, 1));
	mappings = held_nr_mappings(NULL);
	descriptors = held_nr_descriptors();
	memory_bytes(&size, &resident);
	for (u64 i = 0; i < NR_MANY; i++)
		holds[i] = held_range(&b, i, 8 + i % 64);
	assert_true(held_nr_mappings(NULL) < mappings + NR_MANY / 100);
	assert_int_equal(held_nr_descriptors(), descriptors);
	/* All others, and then the rest: memory goes before its chunk does. */
	for (u64 odd = 0; odd < 2; odd++)
		for (u64 i = odd; i < NR_MANY; i += 2) {
			assert_true(held_has(holds[i], 1, 1, i, 8 + i % 64));
			lodic_release(holds[i]);
		}
	free(holds);
	memory_bytes(&size_after, &resident_after);
	if (MEMORY_TELLS) {
		assert_true(resident_after < resident + ((u64)100 << 20));
		assert_true(size_after < size + ((u64)100 << 20));
	}
	test_bed_free(&b);
	(void)state;
}

static void hold_pages_given_back_one_by_one(void **state)
{
	struct lodic_hold *holds[64];
	const u8 *first;
	unsigned char there;
	struct test_bed b;

	bed_make(&b);
	for (u32 i = 0; i < 64; i++)
		holds[i] = held_range(&b, 0, BLOCK);
	first = lodic_hold_data(holds[0]);
	for (u32 i = 0; i < 63; i++)
		lodic_release(holds[i]);
	/* Its chunk stays, because of the last one. */
	assert_int_equal(mincore((void *)(uintptr_t)first, 1, &there), 0);
	assert_int_equal(there & 1, 0);
	assert_true(held_has(holds[63], 1, 1, 0, BLOCK));
	/* And its place is not given again. */
	holds[0] = held_range(&b, BLOCK, BLOCK);
	assert_ptr_not_equal(lodic_hold_data(holds[0]), first);
	lodic_release(holds[0]);
	lodic_release(holds[63]);
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
		TEST(hold_any_range_has_its_bytes),
		TEST(hold_range_ends_where_file_does),
		TEST(hold_wrong_arguments_clear_errors),
		TEST(held_bytes_stand_whatever_happens),
		TEST(hold_service_away_estale_and_back),
		TEST(hold_writer_comes_between_no_mixed_bytes),
		TEST(hold_service_dies_between_no_mixed_bytes),
		TEST(hold_while_file_is_written_one_version_not_stale),
		TEST(hold_very_many_few_mappings_memory_given_back),
		TEST(hold_pages_given_back_one_by_one),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("hold_copy", tests, NULL, NULL);
}
