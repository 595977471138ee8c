/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lib/service/file/nameless.h: the service gives a deleted file's disk space back by itself. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define BLOCKS 64u

/* How many descriptors of deleted files that process has. */
static u32 nr_deleted(pid_t pid)
{
	char folder[64], link[4096 + 1];
	struct dirent *entry;
	u32 nr = 0;
	DIR *dir;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", pid);
	dir = opendir(folder);
	REQUIRE(dir, "no %s", folder);
	while ((entry = readdir(dir)) != NULL) {
		ssize_t n =
			readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);

		link[n > 0 ? n : 0] = '\0';
		nr += strstr(link, " (deleted)") && !strstr(link, "memfd:");
	}
	closedir(dir);
	return nr;
}

static void file_deleted_and_closed_goes(void **state)
{
	struct test_bed b;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCKS * BLOCK);
	test_bed_fill(&b);
	assert_int_equal(unlink(b.path), 0);
	lodic_close(b.file);
	b.file = NULL;
	assert_true(WAIT_UNTIL(nr_deleted(b.service.pid) == 0));
	assert_int_equal(test_service_stat(b.lodic).files, 0);
	test_bed_free(&b);
}

/* The program has the file open, as `lodic run` keeps it, and makes no call. Another file is
 * deleted as well, and read all the time: that one stays. */
static void file_deleted_and_idle_goes_one_that_is_read_stays(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *idle;
	struct test_bed b;
	u8 buffer[BLOCK];
	int fd;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, BLOCKS * BLOCK);
	test_bed_fill(&b);
	pattern_file_make(path, "idle", 2, 1, BLOCK);
	fd = fixture_open(path, O_RDONLY);
	assert_int_equal(lodic_open(b.lodic, fd, &idle), 0);
	assert_int_equal(lodic_prefetch(b.context, idle, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(test_service_stat(b.lodic).files, 2);
	unlink(path);
	unlink(b.path);
	assert_true(WAIT_UNTIL(test_bed_reads_hit(&b, 3) &&
	                       test_service_stat(b.lodic).files == 1));
	assert_true(test_bed_reads_hit(&b, 3));
	assert_int_equal(lodic_file_cached(b.file), 0);
	/* The claim is a refusal now: the reader asks the kernel, and is served again. */
	assert_int_equal(lodic_read(b.context, idle, buffer, BLOCK, 0), BLOCK);
	assert_true(pattern_holds(buffer, 2, 1, 0, BLOCK));
	lodic_close(idle);
	close(fd);
	test_bed_free(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_deleted_and_closed_goes),
		cmocka_unit_test(file_deleted_and_idle_goes_one_that_is_read_stays),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("nameless", tests, NULL, NULL);
}
