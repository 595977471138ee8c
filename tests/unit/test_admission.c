/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the service brings in when readers miss: the blocks around while there is room, and
 * only what pays when there is none. What a program asks for comes in either
 * way. These cases also look at what that costs: reads of the disk, and CPU time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/service/frame/admission.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define NS_PER_S ((u64)1000000000)
#define SMALL_FRAMES 100u
#define FEW_FRAMES 512u
#define MANY_BLOCKS (16 * FEW_FRAMES)
#define RUN 32u /* blocks that come in together */

/* ---- the rule alone ---- */

/* Newcomers have gone through SMALL: so many turns of it, and of each 100 so many were kept.
 * For each of them the hand has looked so often. */
static void newcomers(struct admission *a, struct reclaim *r, u32 turns, u32 kept,
                      u32 looks)
{
	for (; turns > 0; turns--) {
		r->nr_kept += kept * SMALL_FRAMES / 100;
		r->nr_dropped += SMALL_FRAMES - kept * SMALL_FRAMES / 100;
		r->nr_looks += (u64)looks * SMALL_FRAMES;
		admission_wants(a, r, a->paid_ns - 1);
	}
}

/* Of 2^16 hints at one moment, when the free rate is used up. */
static u32 nr_wanted(struct admission *a, const struct reclaim *r)
{
	const u64 now_ns = a->paid_ns - 1;
	u32 nr = 0;

	for (u32 i = 0; i < 1u << 16; i++)
		nr += admission_wants(a, r, now_ns);
	return nr;
}

static void begin(struct admission *a, struct reclaim *r)
{
	*a = (struct admission){ .paid_ns = NS_PER_S };
	memset(r, 0, sizeof(*r));
	r->lists[RECLAIM_SMALL].nr = SMALL_FRAMES;
}

static void wants_newcomers_dropped_ever_fewer(void **state)
{
	struct admission a;
	struct reclaim r;
	u32 part = 1u << 16;

	(void)state;
	begin(&a, &r);
	assert_in_range(nr_wanted(&a, &r), part - 4, part);
	for (u32 shift = 1; shift <= ADMISSION_SHIFT_MOST; shift++) {
		newcomers(&a, &r, 1, 0, 1);
		part /= 2;
		assert_in_range(nr_wanted(&a, &r), part - 4, part + 4);
	}
	newcomers(&a, &r, 3, 0, 1); /* no fewer than that */
	assert_in_range(nr_wanted(&a, &r), part - 4, part + 4);
}

static void wants_newcomers_kept_all_again(void **state)
{
	struct admission a;
	struct reclaim r;

	(void)state;
	begin(&a, &r);
	newcomers(&a, &r, ADMISSION_SHIFT_MOST, 50, 2);
	assert_in_range(nr_wanted(&a, &r), 0, 128);
	newcomers(&a, &r, ADMISSION_SHIFT_MOST, 95, 5);
	assert_in_range(nr_wanted(&a, &r), (1u << 16) - 4, 1u << 16);
}

static void wants_all_in_use_ever_fewer(void **state)
{
	struct admission a;
	struct reclaim r;

	(void)state;
	begin(&a, &r);
	newcomers(&a, &r, 4, 100, 20);
	assert_in_range(nr_wanted(&a, &r), (1u << 12) - 4, (1u << 12) + 4);
}

static void wants_few_newcomers_no_change(void **state)
{
	struct admission a;
	struct reclaim r;

	(void)state;
	begin(&a, &r);
	r.nr_dropped = SMALL_FRAMES - 1; /* not yet a turn */
	assert_in_range(nr_wanted(&a, &r), (1u << 16) - 4, 1u << 16);
	r.nr_dropped++;
	assert_in_range(nr_wanted(&a, &r), (1u << 15) - 4, (1u << 15) + 4);
}

/* What comes in during a second of a million hints, with so many frames in SMALL. */
static u32 nr_free(u32 small)
{
	const u32 hints = 1000000;
	struct admission a;
	struct reclaim r;
	u32 nr = 0;

	begin(&a, &r);
	newcomers(&a, &r, ADMISSION_SHIFT_MOST, 0, 1);
	r.lists[RECLAIM_SMALL].nr = small;
	for (u64 i = 0; i < hints; i++)
		nr += admission_wants(&a, &r, 20 * NS_PER_S + i * (NS_PER_S / hints));
	return nr - (hints >> ADMISSION_SHIFT_MOST) - ADMISSION_FREE_AT_ONCE;
}

static void wants_free_rate_turns_small_in_two_seconds(void **state)
{
	(void)state;
	assert_in_range(nr_free(10), ADMISSION_FREE_LEAST - 16,
	                ADMISSION_FREE_LEAST + 16);
	assert_in_range(nr_free(4000), 2000 - 16, 2000 + 16);
	assert_in_range(nr_free(1000000), ADMISSION_FREE_MOST - 32,
	                ADMISSION_FREE_MOST + 32);
}

/* ---- the service ---- */

static void bed_make(struct test_bed *b, u64 cache_blocks, u64 file_blocks)
{
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.cache_bytes = cache_blocks * BLOCK;
	test_bed_make(b, file_blocks * BLOCK);
}

static void read_block(struct test_bed *b, u64 block)
{
	u8 bytes[64];

	assert_int_equal(lodic_read(b->context, b->file, bytes, sizeof(bytes),
	                            (off_t)(block * BLOCK)),
	                 sizeof(bytes));
	assert_true(pattern_holds(bytes, 1, 1, block * BLOCK, sizeof(bytes)));
}

/* Waits until the service has done what the reader has hinted at before. */
static void settle(struct test_bed *b)
{
	assert_int_equal(lodic_prefetch(b->context, b->file, 0, 1, LODIC_WAIT), 0);
}

static u64 nr_admitted(const struct test_bed *b)
{
	return test_service_stat(b->lodic).admitted;
}

static void miss_file_fits_brings_the_blocks_around(void **state)
{
	struct test_bed b;
	struct lodic_pin pin;

	(void)state;
	bed_make(&b, 1000, 1000);
	settle(&b); /* block 0 */
	read_block(&b, RUN + 7);
	settle(&b);
	assert_int_equal(nr_admitted(&b), 1 + RUN);
	for (u64 block = RUN; block < 2 * RUN; block++) {
		assert_int_equal(
			lodic_pin(b.context, b.file, (off_t)(block * BLOCK), &pin), 0);
		lodic_unpin(b.context, &pin);
	}
	/* Also while reads are under way, into a cache that the file fills exactly. */
	fsync(b.fd);
	posix_fadvise(b.fd, 0, 0, POSIX_FADV_DONTNEED);
	for (u64 block = 0; block < 1000; block += RUN)
		read_block(&b, block + 3);
	settle(&b);
	assert_int_equal(nr_admitted(&b), 1000);
	test_bed_free(&b);
}

/* Light pins want some frames free, also in a cache that the file fills exactly. */
static void miss_file_fits_light_pins_brings_the_blocks_around(void **state)
{
	struct test_bed b;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	b.service.options.sizes.cache_bytes = (u64)1000 * BLOCK;
	b.service.options.tables.barrier = SERVICE_BARRIER_LIGHT;
	if (test_service_start(&b.service) != 0)
		skip(); /* this machine has no fence over all processes */
	test_service_stop(&b.service);
	test_bed_make(&b, (u64)1000 * BLOCK);
	read_block(&b, RUN + 7);
	settle(&b);
	assert_int_equal(nr_admitted(&b), 1 + RUN);
	test_bed_free(&b);
}

static void miss_file_too_large_brings_the_block_alone(void **state)
{
	struct test_bed b;

	(void)state;
	bed_make(&b, 1000, 1001);
	settle(&b);
	read_block(&b, RUN + 7);
	settle(&b);
	assert_int_equal(nr_admitted(&b), 2);
	test_bed_free(&b);
}

/* Each of the two files has room, and both together have none: the tables of a database. */
static void miss_files_together_too_large_brings_the_block_alone(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	struct lodic_file *other;
	struct test_bed b;
	int fd;

	(void)state;
	bed_make(&b, 1000, 600);
	fixture_path(path, "other");
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, 600 * BLOCK), 0);
	close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(lodic_open(b.lodic, fd, &other), 0);
	assert_int_equal(lodic_file_cached(other), 0);
	read_block(&b, RUN + 7);
	settle(&b);
	assert_int_equal(nr_admitted(&b), 2);
	/* The service lets it go: there is room again. */
	lodic_close(other);
	close(fd);
	assert_int_equal(unlink(path), 0);
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).files == 1));
	read_block(&b, RUN + 8);
	settle(&b);
	assert_int_equal(nr_admitted(&b), 1 + RUN);
	test_bed_free(&b);
}

/* Reads random blocks, many times what the cache has. */
static void thrash(struct test_bed *b, u32 reads)
{
	u64 random = random_stream(1);

	for (u32 i = 0; i < reads; i++)
		read_block(b, random_below(&random, MANY_BLOCKS));
}

static void thrash_few_blocks_come_in(void **state)
{
	struct test_bed b;
	u64 begin_ns, free, misses, admitted;

	(void)state;
	bed_make(&b, FEW_FRAMES, MANY_BLOCKS);
	thrash(&b, 50000); /* the cache is full, and newcomers were judged */
	settle(&b);
	begin_ns = host_now_ns();
	admitted = nr_admitted(&b);
	misses = test_context_stat(b.context).misses;
	thrash(&b, 200000);
	settle(&b);
	misses = test_context_stat(b.context).misses - misses;
	admitted = nr_admitted(&b) - admitted;
	free = (host_now_ns() - begin_ns) * ADMISSION_FREE_LEAST / NS_PER_S +
	       ADMISSION_FREE_AT_ONCE;
	printf("%llu misses, %llu admitted, of which %llu free\n",
	       (unsigned long long)misses, (unsigned long long)admitted,
	       (unsigned long long)free);
	assert_true(misses > 150000);
	assert_true(admitted <= free + misses / 32);
	test_bed_free(&b);
}

static void prefetch_while_few_come_in_comes_in(void **state)
{
	struct test_bed b;
	struct lodic_pin pin;

	(void)state;
	bed_make(&b, FEW_FRAMES, MANY_BLOCKS);
	thrash(&b, 50000);
	for (u32 i = 0; i < MANY_BLOCKS; i += 8) {
		off_t at = (off_t)i * BLOCK;

		read_block(&b, MANY_BLOCKS - 1 - i); /* uses up the free rate */
		assert_int_equal(lodic_prefetch(b.context, b.file, at, 1, LODIC_WAIT),
		                 0);
		assert_int_equal(lodic_pin(b.context, b.file, at, &pin), 0);
		lodic_unpin(b.context, &pin);
	}
	test_bed_free(&b);
}

/* A number in a file of /proc about the process; 0: it is not there. */
static u64 process_number(pid_t pid, const char *file, const char *name)
{
	unsigned long long n = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			sscanf(line + strlen(name), "%llu", &n);
	if (f)
		fclose(f);
	return n;
}

static void fill_page_cached_block_reads_no_disk(void **state)
{
	struct test_bed b;
	u64 before;

	(void)state;
	bed_make(&b, 2048, 1024);
	if (test_service_stat(b.lodic).direct_io == 0) {
		test_bed_free(&b);
		skip();
	}
	fsync(b.fd); /* a direct read would otherwise wait for the bytes that we wrote */
	before = process_number(b.service.pid, "io", "read_bytes:");
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(test_service_stat(b.lodic).cached, 1024);
	assert_in_range(process_number(b.service.pid, "io", "read_bytes:") - before, 0,
	                64 * BLOCK);
	test_bed_free(&b);
}

/* Of all its threads, user and system. */
static u64 cpu_ns(pid_t pid)
{
	struct timespec t;
	clockid_t clock;

	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	assert_int_equal(clock_gettime(clock, &t), 0);
	return (u64)t.tv_sec * NS_PER_S + (u64)t.tv_nsec;
}

static void misses_many_the_service_mostly_naps(void **state)
{
	struct test_bed b;
	u64 mine, its;

	(void)state;
	bed_make(&b, FEW_FRAMES, MANY_BLOCKS);
	thrash(&b, 50000);
	mine = cpu_ns(getpid());
	its = cpu_ns(b.service.pid);
	thrash(&b, 200000);
	its = cpu_ns(b.service.pid) - its;
	mine = cpu_ns(getpid()) - mine;
	printf("CPU time: %llu us here, %llu us in the service\n",
	       (unsigned long long)mine / 1000, (unsigned long long)its / 1000);
	assert_true(its <= mine / 3);
	test_bed_free(&b);
}

static int guard_set(void **state)
{
	(void)state;
	alarm(TEST_SECONDS); /* a hang fails the test at last */
	return 0;
}
#define TEST(name) cmocka_unit_test_setup(name, guard_set)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(wants_newcomers_dropped_ever_fewer),
		TEST(wants_newcomers_kept_all_again),
		TEST(wants_all_in_use_ever_fewer),
		TEST(wants_few_newcomers_no_change),
		TEST(wants_free_rate_turns_small_in_two_seconds),
		TEST(miss_file_fits_brings_the_blocks_around),
		TEST(miss_file_fits_light_pins_brings_the_blocks_around),
		TEST(miss_file_too_large_brings_the_block_alone),
		TEST(miss_files_together_too_large_brings_the_block_alone),
		TEST(thrash_few_blocks_come_in),
		TEST(prefetch_while_few_come_in_comes_in),
		TEST(fill_page_cached_block_reads_no_disk),
		TEST(misses_many_the_service_mostly_naps),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("admission", tests, NULL, NULL);
}
