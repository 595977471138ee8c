/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Holds where things are not as they should be. There is no /proc, no descriptor, or no address
 * space. The holder is in another mount namespace, or another user. A disk errs, or the service is
 * stopped. Each gives one error that lodic.h names, and the next hold works again. A holder that
 * keeps what it has released stays charged.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/outside/outside.h"
#include "tests/support/held.h"
#include "tests/support/hold_watch.h"

#define TEST_SECONDS 120
#define MIB ((u64)1 << 20)
#define FILE_BYTES (4 * MIB)
#define HOLD_BYTES (8 * MIB)
#define SMALL_BYTES ((u64)8 << 10)
/* Far less than a call waits for a stopped service, which is 2 s. On a loaded machine any step may
 * take longer, but not in each try. */
#define AT_ONCE_NS ((u64)1000 * 1000000)
#define ANSWER_NS ((u64)4000 * 1000000)
#define TRIES 5u
#define NR_WAITING 3u
#define DISK_BYTES (3 * MIB)
#define DISK_LEFT_BYTES MIB

static void bed_init(struct test_bed *b)
{
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.hold_bytes = HOLD_BYTES;
}

static void bed_make(struct test_bed *b)
{
	bed_init(b);
	test_bed_make(b, FILE_BYTES);
}

/* Holds n bytes from offset on, looks at them, and releases them. */
static int try_hold(struct test_bed *b, u64 offset, u64 n)
{
	struct lodic_hold *h = NULL;
	int err = lodic_hold(b->lodic, b->file, (off_t)offset, n, LODIC_WAIT, &h);

	if (!err)
		assert_true(held_has(h, 1, 1, offset, n));
	lodic_release(h);
	return err;
}

static struct lodic_stat stat_now(const struct test_bed *b)
{
	struct lodic_stat stat = { 0 };
	int pid;

	assert_int_equal(hold_watch_stat(b->service.socket, &stat, &pid), 0);
	return stat;
}

static void hold_without_proc_estale_and_why_reads_work(void **state)
{
	struct test_bed b;
	pid_t pid;

#ifdef __SANITIZE_ADDRESS__
	skip(); /* its look for leaks at the service's end needs /proc */
#endif
	bed_init(&b);
	pid = fixture_fork();
	if (pid == 0) {
		u8 bytes[LODIC_BLOCK_BYTES];

		REQUIRE(unshare(CLONE_NEWNS) == 0 && umount2("/proc", MNT_DETACH) == 0,
		        "%s", strerror(errno));
		test_bed_make(&b, FILE_BYTES);
		/* Without /proc the service caches no file. */
		REQUIRE(try_hold(&b, 0, FILE_BYTES) == -ESTALE, "held without /proc");
		REQUIRE(try_hold(&b, 0, SMALL_BYTES) == -ESTALE, "held without /proc");
		REQUIRE(lodic_file_cached(b.file) == -EOPNOTSUPP, "another reason");
		REQUIRE(lodic_read(b.context, b.file, bytes, sizeof(bytes), 0) ==
		                        sizeof(bytes) &&
		                pattern_holds(bytes, 1, 1, 0, sizeof(bytes)),
		        "wrong bytes");
		test_bed_free(&b);
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	(void)state;
}

static void hold_client_without_descriptors_emfile_then_works(void **state)
{
	int taken[256];
	struct rlimit old, limit;
	struct test_bed b;
	u32 nr = 0;
	int err;

	bed_make(&b);
	getrlimit(RLIMIT_NOFILE, &old);
	limit = old;
	limit.rlim_cur = 128;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	while (nr < 256 && (taken[nr] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		nr++;
	err = try_hold(&b, 0, FILE_BYTES);
	while (nr > 0)
		close(taken[--nr]);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(err, -EMFILE);
	assert_int_equal(try_hold(&b, 0, FILE_BYTES), 0);
	assert_true(WAIT_UNTIL(stat_now(&b).hold_used_bytes == 0));
	test_bed_free(&b);
	(void)state;
}

static void hold_address_space_full_enomem_then_works(void **state)
{
	struct rlimit old, limit = { 0 };
	struct test_bed b;
	int err;

#ifdef __SANITIZE_ADDRESS__
	skip(); /* it has all the address space there is */
#endif
	bed_make(&b);
	assert_int_equal(try_hold(&b, 0, FILE_BYTES), 0);
	getrlimit(RLIMIT_AS, &old);
	limit = old;
	limit.rlim_cur = 1;
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	err = try_hold(&b, 0, FILE_BYTES);
	setrlimit(RLIMIT_AS, &old);
	assert_int_equal(err, -ENOMEM);
	assert_int_equal(try_hold(&b, 0, FILE_BYTES), 0);
	assert_true(WAIT_UNTIL(stat_now(&b).hold_used_bytes == 0));
	test_bed_free(&b);
	(void)state;
}

static int nobody_run(struct test_bed *b)
{
	outside_become_nobody();
	test_bed_make(b, FILE_BYTES);
	REQUIRE(try_hold(b, 0, FILE_BYTES) == 0, "nobody cannot hold");
	REQUIRE(try_hold(b, 1, SMALL_BYTES) == 0, "nobody cannot hold a small one");
	REQUIRE(WAIT_UNTIL(stat_now(b).hold_used_bytes == 0), "in use");
	test_bed_free(b);
	return 0;
}

static void hold_as_nobody_works(void **state)
{
	char folder[FIXTURE_PATH_BYTES];
	struct test_bed b;
	pid_t pid;

	fixture_path(folder, ".");
	assert_int_equal(chmod(folder, 0777), 0);
	bed_init(&b);
	pid = fixture_fork();
	if (pid == 0)
		_exit(nobody_run(&b));
	assert_int_equal(fixture_wait(pid), 0);
	assert_int_equal(chmod(folder, 0711), 0);
	(void)state;
}

/* The service does not see the path, and needs none. */
static void hold_in_other_mount_namespace_works(void **state)
{
	struct test_bed b;
	pid_t pid;

	bed_make(&b);
	pid = fixture_fork();
	if (pid == 0) {
		char folder[FIXTURE_PATH_BYTES], path[FIXTURE_PATH_BYTES];
		struct test_bed own = { .service = b.service };

		fixture_path(folder, "elsewhere");
		mkdir(folder, 0755);
		REQUIRE(unshare(CLONE_NEWNS) == 0, "%s", strerror(errno));
		outside_mount_ext4(folder);
		pattern_file_make(path, "elsewhere/file", 1, 1, FILE_BYTES);
		own.fd = fixture_open(path, O_RDONLY);
		REQUIRE(test_service_attach(&own.service, &own.lodic) == 0,
		        "no service");
		REQUIRE(lodic_open(own.lodic, own.fd, &own.file) == 0, "not opened");
		REQUIRE(try_hold(&own, 0, FILE_BYTES) == 0, "not held: %s",
		        lodic_strerror(lodic_file_cached(own.file)));
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	assert_int_equal(try_hold(&b, 0, FILE_BYTES), 0);
	test_bed_free(&b);
	(void)state;
}

/* Only a call that asks the service may wait, and for two seconds at most. Was it so? */
static bool stopped_service_keeps_nobody_waiting(void)
{
	struct lodic_hold *held, *more = NULL;
	struct test_bed b;
	bool in_time;
	u64 start;
	int err;

	bed_make(&b);
	held = held_range(&b, 0, 2 * MIB);
	test_service_freeze(&b.service);
	start = host_now_ns();
	assert_true(held_has(held, 1, 1, 0, 2 * MIB));
	assert_int_equal(lodic_hold_ready(held), 1);
	assert_int_equal(try_hold(&b, 5, SMALL_BYTES), 0);
	in_time = host_now_ns() - start < AT_ONCE_NS;
	start = host_now_ns();
	err = lodic_hold(b.lodic, b.file, 2 * MIB, 2 * MIB, 0, &more);
	assert_int_equal(err, -ETIMEDOUT);
	assert_null(more);
	in_time &= host_now_ns() - start < ANSWER_NS;
	start = host_now_ns();
	lodic_release(held);
	in_time &= host_now_ns() - start < AT_ONCE_NS;
	assert_int_equal(kill(b.service.pid, SIGCONT), 0);
	assert_true(WAIT_UNTIL(try_hold(&b, 2 * MIB, 2 * MIB) == 0));
	assert_true(WAIT_UNTIL(stat_now(&b).hold_used_bytes == 0));
	test_bed_free(&b);
	return in_time;
}

static void hold_service_stopped_held_stands_nothing_waits(void **state)
{
	bool in_time = false;

	for (u32 i = 0; i < TRIES && !in_time; i++)
		in_time = stopped_service_keeps_nobody_waiting();
	assert_true(in_time);
	(void)state;
}

/* A child that gets a descriptor and keeps it until it is told. */
static void hold_kept_and_passed_on_charged_until_gone(void **state)
{
	u64 *done = fixture_shared(sizeof(*done)), bytes;
	struct lodic_hold *h;
	struct test_bed b;
	off_t at;
	void *map;
	pid_t pid;
	int fd;

	bed_make(&b);
	b.service.options.sizes.hold_bytes = HOLD_BYTES;
	h = held_range(&b, 0, FILE_BYTES);
	fd = lodic_hold_fd(h, &at);
	assert_true(fd >= 0);
	map = mmap(NULL, (u64)at + FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	pid = fixture_fork();
	if (pid == 0) {
		munmap(map, (u64)at + FILE_BYTES);
		lodic_release(h); /* only fd is left here */
		while (!host_load_acquire(done))
			fixture_pause_us(200);
		_exit(!held_descriptor_is_right(fd, at, 0, FILE_BYTES));
	}
	close(fd);
	lodic_release(h);
	fixture_pause_us(50000); /* the service looks now and then */
	assert_int_equal(stat_now(&b).hold_used_bytes, FILE_BYTES);
	assert_true(hold_watch_lists(b.service.socket, getpid(), &bytes));
	assert_int_equal(bytes, FILE_BYTES);
	assert_true(pattern_holds((u8 *)map + at, 1, 1, 0, FILE_BYTES));
	munmap(map, (u64)at + FILE_BYTES);
	/* The child alone. */
	fixture_pause_us(50000);
	assert_int_equal(stat_now(&b).hold_used_bytes, FILE_BYTES);
	assert_true(hold_watch_lists(b.service.socket, getpid(), &bytes));
	host_store_release(done, 1);
	assert_int_equal(fixture_wait(pid), 0);
	assert_true(WAIT_UNTIL(stat_now(&b).hold_used_bytes == 0));
	assert_false(hold_watch_lists(b.service.socket, getpid(), &bytes));
	test_bed_free(&b);
	(void)state;
}

static void hold_kept_no_room_enospc_until_it_goes(void **state)
{
	struct lodic_hold *h;
	struct test_bed b;
	off_t at;
	void *map;
	int fd;

	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.hold_bytes = 3 * MIB;
	test_bed_make(&b, FILE_BYTES);
	h = held_range(&b, 0, 2 * MIB);
	fd = lodic_hold_fd(h, &at);
	assert_true(fd >= 0);
	map = mmap(NULL, (u64)at + 2 * MIB, PROT_READ, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	close(fd);
	lodic_release(h);
	assert_int_equal(try_hold(&b, 2 * MIB, 2 * MIB), -ENOSPC);
	assert_true(stat_now(&b).hold_bytes <= 3 * MIB);
	assert_true(pattern_holds((u8 *)map + at, 1, 1, 0, 2 * MIB));
	munmap(map, (u64)at + 2 * MIB);
	assert_true(WAIT_UNTIL(try_hold(&b, 2 * MIB, 2 * MIB) == 0));
	test_bed_free(&b);
	(void)state;
}

/* Copies an image of the disk, in place. */
static void disk_copy(const char *to, const char *from)
{
	char command[3 * FIXTURE_PATH_BYTES];

	snprintf(command, sizeof(command), "cat '%s' >'%s.tmp' && cat '%s.tmp' 1<>'%s'",
	         from, to, to, to);
	REQUIRE(system(command) == 0, "%s", command);
}

static int waiting_run(const struct test_bed *bed)
{
	struct test_bed b = { .service = bed->service, .fd = bed->fd };
	int err;

	REQUIRE(test_service_attach(&b.service, &b.lodic) == 0, "no service");
	REQUIRE(lodic_open(b.lodic, b.fd, &b.file) == 0, "not opened");
	err = try_hold(&b, 0, DISK_BYTES);
	REQUIRE(err == -EIO, "not the disk's error: %s", strerror(-err));
	return 0;
}

/* The loop device's file is cut off: reads behind its end fail. */
static void hold_disk_errs_eio_to_all_then_works(void **state)
{
	char folder[FIXTURE_PATH_BYTES], path[FIXTURE_PATH_BYTES];
	char image[FIXTURE_PATH_BYTES + 8], saved[FIXTURE_PATH_BYTES + 16];
	pid_t pids[NR_WAITING];
	struct test_bed b;
	struct lodic_file *first;
	int fd, first_fd;

	bed_make(&b);
	outside_folder(folder, "disk");
	outside_mount_ext4(folder);
	snprintf(image, sizeof(image), "%s.image", folder);
	snprintf(saved, sizeof(saved), "%s.saved", image);
	pattern_file_make(path, "disk/file", 1, 1, DISK_BYTES);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(syncfs(fd), 0);
	disk_copy(saved, image);
	first = b.file;
	first_fd = b.fd;
	b.fd = fd;
	assert_int_equal(lodic_open(b.lodic, fd, &b.file), 0);
	assert_int_equal(lodic_file_cached(b.file), 0);
	assert_int_equal(truncate(image, DISK_LEFT_BYTES), 0);
	assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	for (u32 i = 0; i < NR_WAITING; i++) {
		pids[i] = fixture_fork();
		if (pids[i] == 0)
			_exit(waiting_run(&b));
	}
	for (u32 i = 0; i < NR_WAITING; i++)
		assert_int_equal(fixture_wait(pids[i]), 0);
	assert_true(WAIT_UNTIL(stat_now(&b).hold_bytes == 0));
	disk_copy(image, saved);
	assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	assert_int_equal(try_hold(&b, 0, DISK_BYTES), 0);
	lodic_close(b.file);
	close(fd);
	b.file = first;
	b.fd = first_fd;
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
		TEST(hold_without_proc_estale_and_why_reads_work),
		TEST(hold_client_without_descriptors_emfile_then_works),
		TEST(hold_address_space_full_enomem_then_works),
		TEST(hold_as_nobody_works),
		TEST(hold_in_other_mount_namespace_works),
		TEST(hold_service_stopped_held_stands_nothing_waits),
		TEST(hold_kept_and_passed_on_charged_until_gone),
		TEST(hold_kept_no_room_enospc_until_it_goes),
		TEST(hold_disk_errs_eio_to_all_then_works),
	};

	outside_begin(argc, argv);
	return cmocka_run_group_tests_name("hold_places", tests, NULL, NULL);
}
