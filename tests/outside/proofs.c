/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Writers that do not come by the path that the reader uses: under an overlay, and from
 * another mount namespace. A reader compares each lodic_read() with what was written last,
 * and no read may be stale.
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
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/outside/outside.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define NR_VERSIONS 20u
#define READS_EACH 100u
#define FILE_NUMBER 1u

/* Reads the file often after each write of it at path; returns how many reads were stale. */
static u64 stale_after_writes(struct test_bed *b, struct lodic_file *file,
                              const char *path, u64 *version)
{
	u8 buffer[BLOCK];
	u64 stale = 0;

	for (u32 i = 0; i < NR_VERSIONS; i++) {
		lodic_prefetch(b->context, file, 0, 0, LODIC_WAIT);
		outside_write(path, FILE_NUMBER, ++*version, BLOCK);
		for (u32 k = 0; k < READS_EACH; k++) {
			assert_int_equal(lodic_read(b->context, file, buffer, BLOCK, 0),
			                 BLOCK);
			stale +=
				!pattern_holds(buffer, FILE_NUMBER, *version, 0, BLOCK);
		}
	}
	return stale;
}

/* In folder: lower/, upper/, and merged/ which shows both. */
static void overlay_on(const char *folder)
{
	char path[2 * FIXTURE_PATH_BYTES], data[4 * FIXTURE_PATH_BYTES];
	static const char *const names[] = { "lower", "upper", "work", "merged" };

	for (u32 i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		assert_int_equal(mkdir(path, 0755), 0);
	}
	snprintf(data, sizeof(data),
	         "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", folder, folder,
	         folder);
	outside_mount("overlay", path, "overlay", 0, data);
}

/* The reader opens the file in one layer, and the writer writes in another one. */
static void assert_no_stale_read(struct test_bed *b, const char *folder,
                                 const char *made_in, const char *read_in,
                                 const char *written_in, int cached)
{
	char name[2 * FIXTURE_PATH_BYTES], path[2 * FIXTURE_PATH_BYTES];
	static u32 nr_files;
	struct lodic_file *file;
	u64 version = 1;
	int fd;

	snprintf(name, sizeof(name), "%s/%s/file%u", folder, made_in, nr_files);
	close(fixture_open(name, O_WRONLY | O_CREAT));
	outside_write(name, FILE_NUMBER, version, BLOCK);
	snprintf(name, sizeof(name), "%s/%s/file%u", folder, read_in, nr_files);
	snprintf(path, sizeof(path), "%s/%s/file%u", folder, written_in, nr_files++);
	fd = fixture_open(name, O_RDONLY);
	assert_int_equal(lodic_open(b->lodic, fd, &file), 0);
	assert_int_equal(lodic_file_cached(file), cached);
	assert_int_equal(stale_after_writes(b, file, path, &version), 0);
	lodic_close(file);
	close(fd);
}

static void overlay_written_in_another_layer_no_stale_read(void **state)
{
	char folder[FIXTURE_PATH_BYTES];
	struct test_bed b;

	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCK);
	for (u32 disk = 0; disk < 2; disk++) {
		outside_folder(folder, disk ? "ext4" : "tmpfs");
		if (disk)
			outside_mount_ext4(folder);
		else
			outside_mount("tmpfs", folder, "tmpfs", 0, "size=8m");
		overlay_on(folder);
		assert_no_stale_read(&b, folder, "lower", "merged", "lower",
		                     -EOPNOTSUPP);
		assert_no_stale_read(&b, folder, "merged", "merged", "upper",
		                     -EOPNOTSUPP);
		/* Below the overlay there is a lease, which a writer through it breaks. tmpfs is
		 * refused for another reason. */
		assert_no_stale_read(&b, folder, "merged", "upper", "merged",
		                     disk ? 0 : -EMEDIUMTYPE);
		assert_no_stale_read(&b, folder, "lower", "lower", "lower",
		                     disk ? 0 : -EMEDIUMTYPE);
	}
	test_bed_free(&b);
	(void)state;
}

/* What the reader and the writer tell each other. */
struct talk {
	u64 opened, written, version, reads_since, stale, stop;
};

/* The service of nobody, in a mount namespace of its own. */
static _Noreturn void remount_service_run(struct test_service *service, struct talk *t)
{
	REQUIRE(unshare(CLONE_NEWNS) == 0, "%s", strerror(errno));
	outside_become_nobody();
	REQUIRE(test_service_start(service) == 0, "%s", service->why);
	host_store_release(&t->opened, 1);
	for (;;)
		pause();
}

static _Noreturn void remount_reader_run(const struct test_service *service,
                                         const char *path, struct talk *t)
{
	struct lodic_context *context;
	struct lodic_file *file;
	struct lodic *lodic;
	u8 buffer[BLOCK];
	u64 version;
	int fd;

	outside_become_nobody();
	fd = fixture_open(path, O_RDONLY);
	REQUIRE(test_service_attach(service, &lodic) == 0, "not attached");
	REQUIRE(lodic_context_open(lodic, &context) == 0, "no context");
	REQUIRE(lodic_open(lodic, fd, &file) == 0, "not opened");
	lodic_prefetch(context, file, 0, 0, LODIC_WAIT);
	host_store_release(&t->opened, 2);
	while (!host_load_acquire(&t->stop)) {
		version = host_load_acquire(&t->version);
		REQUIRE(lodic_read(context, file, buffer, BLOCK, 0) == BLOCK, "short");
		if (!host_load_acquire(&t->written))
			continue;
		if (version == 2)
			t->stale += !pattern_holds(buffer, FILE_NUMBER, 2, 0, BLOCK);
		host_store_release(&t->reads_since, t->reads_since + 1);
	}
	_exit(0);
}

/* Nobody's service has no lease on root's file. That the file system is read-only where the
 * service looks says nothing about other namespaces. */
static void remount_in_another_namespace_no_stale_read(void **state)
{
	char folder[FIXTURE_PATH_BYTES], theirs[FIXTURE_PATH_BYTES],
		path[FIXTURE_PATH_BYTES];
	struct talk *t = fixture_shared(sizeof(*t));
	struct test_service service;
	pid_t pids[2];

	outside_folder(folder, "disk");
	outside_mount_ext4(folder);
	fixture_path(path, "disk/file");
	close(fixture_open(path, O_WRONLY | O_CREAT));
	outside_write(path, FILE_NUMBER, 1, BLOCK);
	outside_mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL);
	outside_folder(theirs, "theirs");
	assert_int_equal(chown(theirs, OUTSIDE_NOBODY, OUTSIDE_NOBODY), 0);
	test_service_init(&service, "theirs/s");
	pids[0] = fixture_fork();
	if (pids[0] == 0)
		remount_service_run(&service, t);
	assert_true(WAIT_UNTIL(host_load_acquire(&t->opened) == 1));
	pids[1] = fixture_fork();
	if (pids[1] == 0)
		remount_reader_run(&service, path, t);
	assert_true(WAIT_UNTIL(host_load_acquire(&t->opened) == 2));
	outside_mount(NULL, folder, NULL, MS_REMOUNT, NULL);
	outside_write(path, FILE_NUMBER, 2, BLOCK);
	host_store_release(&t->version, 2);
	host_store_release(&t->written, 1);
	assert_true(WAIT_UNTIL(host_load_acquire(&t->reads_since) > 1000));
	host_store_release(&t->stop, 1);
	assert_int_equal(fixture_wait(pids[1]), 0);
	assert_int_equal(t->stale, 0);
	kill(pids[0], SIGKILL);
	fixture_wait(pids[0]);
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
		TEST(overlay_written_in_another_layer_no_stale_read),
		TEST(remount_in_another_namespace_no_stale_read),
	};

	outside_begin(argc, argv);
	return cmocka_run_group_tests_name("proofs", tests, NULL, NULL);
}
