/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the service does when it can open no more files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES

/* Files that cannot be cached are read from the kernel. When the others are closed, these get
 * their descriptors. */
static void descriptors_run_out_reads_go_on_and_warm_files_make_room(void **state)
{
	enum { NR_FILES = 150, NR_FREE = 100 };
	static struct lodic_file *files[NR_FILES];
	static int fds[NR_FILES];
	struct rlimit limit;
	u32 cached = 0;
	struct test_bed b;
	u8 buffer[BLOCK];

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	b.service.options.nr_files = 4096;
	b.service.options.buffered = true;
	test_bed_make(&b, BLOCK);
	fixture_need_leases(&b.service, b.path);
	assert_int_equal(prlimit(b.service.pid, RLIMIT_NOFILE, NULL, &limit), 0);
	limit.rlim_cur = NR_FREE;
	assert_int_equal(prlimit(b.service.pid, RLIMIT_NOFILE, &limit, NULL), 0);
	for (u32 i = 0; i < NR_FILES; i++) {
		char path[FIXTURE_PATH_BYTES], name[32];
		int err;

		snprintf(name, sizeof(name), "file%u", i);
		pattern_file_make(path, name, 2 + i, 1, BLOCK);
		fds[i] = fixture_open(path, O_RDONLY);
		assert_int_equal(lodic_open(b.lodic, fds[i], &files[i]), 0);
		err = lodic_file_cached(files[i]);
		assert_true(err == 0 || err == -EMFILE);
		cached += err == 0;
	}
	assert_in_range(cached, 1, NR_FREE);
	for (u32 i = 0; i < NR_FILES; i++) {
		assert_int_equal(lodic_read(b.context, files[i], buffer, BLOCK, 0),
		                 BLOCK);
		assert_true(pattern_holds(buffer, 2 + i, 1, 0, BLOCK));
	}
	assert_int_equal(lodic_file_cached(files[NR_FILES - 1]), -EMFILE);
	for (u32 i = 0; i < NR_FILES - 1; i++) {
		lodic_close(files[i]);
		close(fds[i]);
	}
	assert_true(WAIT_UNTIL(
		lodic_read(b.context, files[NR_FILES - 1], buffer, BLOCK, 0) == BLOCK &&
		lodic_file_cached(files[NR_FILES - 1]) == 0));
	assert_true(pattern_holds(buffer, 2 + NR_FILES - 1, 1, 0, BLOCK));
	lodic_close(files[NR_FILES - 1]);
	close(fds[NR_FILES - 1]);
	test_bed_free(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			descriptors_run_out_reads_go_on_and_warm_files_make_room),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("open files", tests, NULL, NULL);
}
