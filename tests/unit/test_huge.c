/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Huge pages: readers have the frames in them where the kernel gives some, and the service
 * says the truth where it does not.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/huge.h"
#include "tests/support/cache_fixture.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define MIB ((u64)1 << 20)
#define TEST_SECONDS 120

struct log {
	char text[4096];
};

static void log_take(void *arg, enum service_level level, const char *event,
                     const char *line)
{
	struct log *log = arg;
	size_t n = strlen(log->text);

	(void)level;
	(void)event;
	snprintf(log->text + n, sizeof(log->text) - n, "%s\n", line);
}

/* How many bytes of the memfd of this name this process has mapped by huge pages. */
static u64 mapped_huge(const char *name)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	unsigned long from, to, kib, found = 0;
	bool inside = false;
	char line[4096];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = strstr(line, name) != NULL;
		else if (inside && sscanf(line, "ShmemPmdMapped: %lu", &kib) == 1)
			found += kib;
	}
	fclose(file);
	return (u64)found << 10;
}

/* A reader that has read a file as large as the cache. */
static void bed_make(struct test_bed *b, u64 cache_bytes, bool small,
                     struct log **ret_log)
{
	u64 bytes = cache_bytes;
	u8 *buffer = malloc(bytes);

	*ret_log = fixture_shared(sizeof(**ret_log));
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.cache_bytes = cache_bytes;
	b->service.options.tables.small_pages = small;
	b->service.options.events.say = log_take;
	b->service.options.events.say_arg = *ret_log;
	test_bed_make(b, bytes);
	assert_int_equal(lodic_prefetch(b->context, b->file, 0, 0, LODIC_WAIT), 0);
	assert_non_null(buffer);
	assert_int_equal(lodic_read(b->context, b->file, buffer, bytes, 0), bytes);
	assert_true(pattern_holds(buffer, 1, 1, 0, bytes));
	free(buffer);
}

/* Asks the kernel without the library. */
static bool kernel_gives_huge_pages(void)
{
	int fd = memfd_create("probe", MFD_CLOEXEC);
	u64 bytes = 2 * HUGE_PAGE_BYTES;
	u8 *p, *at;
	bool given;

	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	at = p + -(u64)(uintptr_t)p % HUGE_PAGE_BYTES;
	munmap(p, bytes);
	at = mmap(at, HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
	          fd, 0);
	assert_ptr_not_equal(at, MAP_FAILED);
	*at = 1;
	given = madvise(at, HUGE_PAGE_BYTES, MADV_COLLAPSE) == 0;
	munmap(at, HUGE_PAGE_BYTES);
	close(fd);
	return given;
}

static void need_huge_pages(void)
{
	if (!kernel_gives_huge_pages()) {
		print_message("this kernel makes no huge page by MADV_COLLAPSE\n");
		skip();
	}
}

/* Full memory is no mistake of the service's. */
static void need_what_was_asked_for(struct test_bed *b, const struct log *log)
{
	if (!strstr(log->text, "in one piece") && !strstr(log->text, "too long"))
		return;
	print_message("%s", log->text);
	test_bed_free(b);
	skip();
}

static void reader_has_frames_and_tables_in_huge_pages(void **state)
{
	struct test_bed b;
	struct log *log;

	need_huge_pages();
	bed_make(&b, 128 * MIB, false, &log); /* its tables take more than 2 MiB */
	need_what_was_asked_for(&b, log);
	assert_int_equal(test_service_stat(b.lodic).huge_bytes, 128 * MIB);
	assert_non_null(strstr(log->text, "huge pages: 100 % of the cache\n"));
	assert_int_equal(mapped_huge("lodic-data"), 128 * MIB);
	assert_true(mapped_huge("lodic-control") >= HUGE_PAGE_BYTES);
	test_bed_free(&b);
	(void)state;
}

static void cache_ends_within_huge_page_share_said(void **state)
{
	struct test_bed b;
	struct log *log;

	need_huge_pages();
	bed_make(&b, 3 * MIB, false, &log);
	need_what_was_asked_for(&b, log);
	assert_int_equal(test_service_stat(b.lodic).huge_bytes, 2 * MIB);
	assert_int_equal(mapped_huge("lodic-data"), 2 * MIB);
	assert_non_null(strstr(log->text, "huge pages: 67 % of the cache\n"));
	test_bed_free(&b);
	(void)state;
}

/* The service is a child, and inherits it. */
static void kernel_refuses_said_with_reason(void **state)
{
	struct test_bed b;
	struct log *log;

	assert_int_equal(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
	bed_make(&b, 8 * MIB, false, &log);
	assert_int_equal(prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
	assert_int_equal(test_service_stat(b.lodic).huge_bytes, 0);
	assert_int_equal(mapped_huge("lodic-"), 0);
	assert_non_null(strstr(log->text, "no huge pages: the kernel refuses them"));
	test_bed_free(&b);
	(void)state;
}

static void cache_smaller_than_huge_page_said(void **state)
{
	struct test_bed b;
	struct log *log;

	bed_make(&b, MIB, false, &log);
	assert_int_equal(test_service_stat(b.lodic).huge_bytes, 0);
	assert_int_equal(mapped_huge("lodic-"), 0);
	assert_non_null(strstr(log->text, "no huge pages: the cache is smaller"));
	test_bed_free(&b);
	(void)state;
}

static void switched_off_none_asked_for(void **state)
{
	struct test_bed b;
	struct log *log;

	bed_make(&b, 8 * MIB, true, &log);
	assert_int_equal(test_service_stat(b.lodic).huge_bytes, 0);
	assert_int_equal(mapped_huge("lodic-"), 0);
	assert_null(strstr(log->text, "huge"));
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
		TEST(reader_has_frames_and_tables_in_huge_pages),
		TEST(cache_ends_within_huge_page_share_said),
		TEST(kernel_refuses_said_with_reason),
		TEST(cache_smaller_than_huge_page_said),
		TEST(switched_off_none_asked_for),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("huge", tests, NULL, NULL);
}
