/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One budget for blocks and holds. How large is it on machines that this one is not, and who gets
 * what of it? Services then hand over arenas for it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/cgroup.h"
#include "lib/service/succession/budget.h"
#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define MIB ((u64)1 << 20)
#define GIB ((u64)1 << 30)
#define PAGE 4096u
#define TEST_SECONDS 120
#define ANY SERVICE_HOLDS_ANY

/* ---- numbers ---- */

static void default_is_half_of_the_machine_or_of_the_least_limit(void **state)
{
	static const struct {
		u64 machine, limit, budget;
	} cases[] = {
		{ 64 * GIB, UINT64_MAX, 32 * GIB },
		{ 64 * GIB, 3 * GIB, 3 * GIB / 2 },
		{ 64 * GIB, 96 * MIB, 48 * MIB },
		{ GIB, 64 * GIB, GIB / 2 },
		{ 64 * GIB, 1, SERVICE_MIN_CACHE_BYTES },
		{ (u64)64 << 40, UINT64_MAX, SERVICE_MAX_CACHE_BYTES },
		{ 0, 96 * MIB, 48 * MIB },
		{ 0, UINT64_MAX, SERVICE_DEFAULT_CACHE_BYTES }, /* nobody knows */
	};

	(void)state;
	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(cgroup_budget(cases[i].machine, cases[i].limit),
		                 cases[i].budget);
	assert_in_range(cgroup_default_budget(), SERVICE_MIN_CACHE_BYTES,
	                SERVICE_MAX_CACHE_BYTES);
}

static void start_is_small_and_leaves_most_of_what_is_free(void **state)
{
	static const struct {
		u64 bytes, holds, limit, left, start;
	} cases[] = {
		{ 32 * GIB, ANY, 64 * GIB, 60 * GIB, 64 * MIB },
		{ 32 * GIB, 0, 64 * GIB, 60 * GIB, 64 * MIB },
		{ 48 * MIB, ANY, 96 * MIB, 60 * MIB, 15 * MIB },
		{ 16 * MIB, ANY, 64 * GIB, GIB, 12 * MIB },
		{ 16 * MIB, 6 * MIB, 64 * GIB, GIB, 10 * MIB },
		{ 16 * MIB, 0, 64 * GIB, GIB, 16 * MIB },
		{ 16 * MIB, GIB, 64 * GIB, GIB, MIB },
		{ 16 * MIB, ANY, 64 * GIB, 0, SERVICE_MIN_CACHE_BYTES },
		{ SERVICE_MIN_CACHE_BYTES, ANY, GIB, GIB, SERVICE_MIN_CACHE_BYTES },
		/* More than half: at once, if it is there. */
		{ 48 * GIB, ANY, 64 * GIB, 60 * GIB, 36 * GIB },
		{ 48 * GIB, 40 * GIB, 64 * GIB, 60 * GIB, 8 * GIB },
		{ 48 * GIB, ANY, 64 * GIB, 43 * GIB, 64 * MIB },
		{ 48 * GIB, ANY, 64 * GIB, GIB, 64 * MIB },
		{ (u64)7 << 40, ANY, 64 * GIB, 60 * GIB, 64 * MIB },
		{ 48 * GIB, ANY, UINT64_MAX, UINT64_MAX, 64 * MIB },
	};

	(void)state;
	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct cgroup room = { cases[i].limit, cases[i].left, cases[i].limit };

		assert_int_equal(budget_start(cases[i].bytes, cases[i].holds, &room),
		                 cases[i].start);
	}
}

/* A model of 10 GB on a machine of 64 GB, whatever blocks have. */
static void holds_get_all_but_the_least_part(void **state)
{
	const u64 bytes = cgroup_budget(64 * GIB, UINT64_MAX), model = 10 * GIB;

	(void)state;
	assert_int_equal(budget_smaller(bytes, 30 * GIB, model), 22 * GIB);
	assert_int_equal(budget_smaller(bytes, 23 * GIB, model), 69 * GIB / 4);
	assert_int_equal(budget_smaller(bytes, GIB, bytes - 64 * MIB), 64 * MIB);
	assert_int_equal(budget_smaller(bytes, GIB, bytes - 64 * MIB + 1), 0);
	assert_int_equal(budget_smaller(bytes, GIB, UINT64_MAX), 0);
	assert_int_equal(budget_smaller(48 * MIB, 12 * MIB, 45 * MIB), 3 * MIB);
}

static void blocks_double_as_far_as_holds_leave_it(void **state)
{
	(void)state;
	assert_int_equal(budget_larger(32 * GIB, 64 * MIB, 0), 128 * MIB);
	assert_int_equal(budget_larger(32 * GIB, 20 * GIB, 0), 32 * GIB);
	assert_int_equal(budget_larger(32 * GIB, 64 * MIB, 31 * GIB), 128 * MIB);
	assert_int_equal(budget_larger(GIB, 64 * MIB, GIB - 100 * MIB), 100 * MIB);
	/* Not worth it, or nothing left. */
	assert_int_equal(budget_larger(GIB, 64 * MIB, GIB - 80 * MIB), 0);
	assert_int_equal(budget_larger(GIB, 64 * MIB, 2 * GIB), 0);
	assert_int_equal(budget_larger(16 * MIB, 12 * MIB, 0), 0);
}

/* ---- services ---- */

static struct test_bed bed;

static void serve(u64 budget_bytes, u64 hold_bytes, u64 cache_bytes, u64 file_bytes)
{
	test_bed_init(&bed, LODIC_LODIC);
	bed.service.options.sizes.budget_bytes = budget_bytes;
	bed.service.options.sizes.hold_bytes = hold_bytes;
	bed.service.options.sizes.cache_bytes = cache_bytes;
	test_bed_make(&bed, file_bytes);
}

static u64 bytes_of_blocks(void)
{
	return test_service_stat(bed.lodic).frames * BLOCK;
}

static int hold(u64 offset, u64 bytes, struct lodic_hold **ret)
{
	return lodic_hold(bed.lodic, bed.file, (off_t)offset, bytes, LODIC_WAIT, ret);
}

/* Two programs, and more than a quarter of the budget: one copy. */
static void hold_above_a_quarter_is_shared(void **state)
{
	const u64 bytes = 40 * MIB;
	struct lodic_hold *one, *two;
	struct lodic_file *file;
	struct lodic_stat stat;
	struct lodic *other;

	(void)state;
	serve(64 * MIB, ANY, 0, bytes);
	assert_int_equal(bytes_of_blocks(), 48 * MIB);
	assert_int_equal(test_service_attach(&bed.service, &other), 0);
	assert_int_equal(lodic_open(other, bed.fd, &file), 0);
	assert_int_equal(hold(0, bytes, &one), 0);
	assert_int_equal(lodic_hold(other, file, 0, bytes, LODIC_WAIT, &two), 0);
	assert_true(pattern_holds(lodic_hold_data(one), 1, 1, 0, bytes));
	assert_true(pattern_holds(lodic_hold_data(two), 1, 1, 0, bytes));
	stat = test_service_stat(bed.lodic);
	assert_int_equal(stat.holds_read, 1);
	assert_int_equal(stat.holds_given, 2);
	assert_int_equal(stat.hold_limit, 60 * MIB);
	assert_int_equal(stat.hold_bytes, bytes);
	assert_int_equal(stat.memory_limit, 64 * MIB);
	assert_true(stat.frames * BLOCK + stat.hold_bytes <= stat.memory_limit);
	lodic_release(one);
	lodic_release(two);
	lodic_close(file);
	lodic_detach(other);
	test_bed_free(&bed);
}

/* What somebody has stays, blocks keep their least part, and the hold that does not fit is refused.
 * What nobody has any more makes room without another arena. */
static void holds_in_use_bound_one_another(void **state)
{
	struct lodic_hold *one, *two, *three;
	u64 blocks;

	(void)state;
	serve(32 * MIB, ANY, 0, 40 * MIB);
	assert_int_equal(hold(0, 31 * MIB, &one), -EFBIG);
	assert_int_equal(hold(0, 20 * MIB, &one), 0);
	assert_int_equal(hold(20 * MIB, 9 * MIB, &two), 0);
	blocks = bytes_of_blocks();
	assert_in_range(blocks, 2 * MIB, 3 * MIB);
	assert_int_equal(hold(30 * MIB, 9 * MIB, &three), -ENOSPC);
	lodic_release(two);
	assert_int_equal(hold(30 * MIB, 9 * MIB, &three), 0);
	assert_int_equal(bytes_of_blocks(), blocks);
	assert_int_equal(test_service_stat(bed.lodic).hold_bytes, 29 * MIB);
	assert_true(pattern_holds(lodic_hold_data(one), 1, 1, 0, 20 * MIB));
	lodic_release(one);
	lodic_release(three);
	test_bed_free(&bed);
}

static void limit_of_holds_is_kept(void **state)
{
	struct lodic_hold *one, *two;

	(void)state;
	serve(64 * MIB, 4 * MIB, 0, 8 * MIB);
	assert_int_equal(bytes_of_blocks(), 60 * MIB);
	assert_int_equal(test_service_stat(bed.lodic).hold_limit, 4 * MIB);
	assert_int_equal(hold(0, 5 * MIB, &one), -EFBIG);
	assert_int_equal(hold(0, 3 * MIB, &one), 0);
	assert_int_equal(hold(4 * MIB, 2 * MIB, &two), -ENOSPC);
	assert_int_equal(bytes_of_blocks(), 60 * MIB); /* and no arena is made for it */
	lodic_release(one);
	test_bed_free(&bed);
}

/* Blocks that had to leave bring a larger arena, until the file fits; never above the budget. */
static void arena_grows_as_it_is_used(void **state)
{
	const u64 nr = 10 * MIB / BLOCK;

	(void)state;
	serve(16 * MIB, ANY, 2 * MIB, nr * BLOCK);
	assert_int_equal(bytes_of_blocks(), 2 * MIB);
	assert_true(WAIT_UNTIL(({
		for (u64 i = 0; i < nr; i++)
			test_bed_reads_hit(&bed, i);
		lodic_prefetch(bed.context, bed.file, 0, 0, 0);
		test_service_stat(bed.lodic).cached == nr;
	})));
	assert_int_equal(bytes_of_blocks(), 16 * MIB);
	test_bed_free(&bed);
}

/* Where the budget is the arena's, a hold gets part of it back, and what is read most stays. */
static void hold_makes_a_grown_arena_smaller(void **state)
{
	struct lodic_hold *held;
	struct lodic_stat stat;

	(void)state;
	serve(16 * MIB, ANY, 16 * MIB, 12 * MIB);
	test_bed_fill(&bed);
	assert_int_equal(hold(0, 10 * MIB, &held), 0);
	stat = test_service_stat(bed.lodic);
	assert_int_equal(stat.frames * BLOCK, 6 * MIB);
	assert_int_equal(stat.hold_bytes, 10 * MIB);
	assert_true(stat.cached > 0);
	assert_true(pattern_holds(lodic_hold_data(held), 1, 1, 0, 10 * MIB));
	test_bed_come_back(&bed);
	lodic_release(held);
	test_bed_free(&bed);
}

/* Blocks that want room, and have less than a quarter, get that of holds that nobody has. */
static void warm_holds_give_way_to_few_blocks(void **state)
{
	const u64 nr = 4 * MIB / BLOCK;
	struct lodic_hold *held;

	(void)state;
	serve(16 * MIB, ANY, 16 * MIB, 14 * MIB);
	assert_int_equal(hold(0, 14 * MIB, &held), 0);
	assert_in_range(bytes_of_blocks(), MIB, 2 * MIB);
	lodic_release(held);
	assert_true(WAIT_UNTIL(({
		for (u64 i = 0; i < nr; i++)
			test_bed_reads_hit(&bed, i);
		lodic_prefetch(bed.context, bed.file, 0, nr * BLOCK, 0);
		bytes_of_blocks() >= 4 * MIB;
	})));
	assert_int_equal(test_service_stat(bed.lodic).hold_bytes, 0);
	test_bed_free(&bed);
}

/* A successor with the same budget begins with an arena that has room for all that comes along. */
static void successor_has_as_large_an_arena(void **state)
{
	(void)state;
	serve(16 * MIB, ANY, 14 * MIB, 13 * MIB);
	test_bed_fill(&bed);
	bed.service.options.sizes.cache_bytes = 0;
	test_bed_succeed(&bed);
	test_bed_come_back(&bed);
	assert_int_equal(bytes_of_blocks(), 14 * MIB);
	assert_int_equal(test_service_stat(bed.lodic).cached, 13 * MIB / BLOCK);
	test_bed_free(&bed);
}

/* More than there is: a limit, of which nothing is taken before it is used. */
static void options_of_a_program_are_the_service_s(void **state)
{
	struct lodic_options options = { .bytes = sizeof(options) };
	static char program[512], socket[FIXTURE_PATH_BYTES];
	struct lodic_stat stat;
	struct lodic *lodic;

	(void)state;
	if (!getenv("LODIC_BUILD"))
		skip(); /* nobody says where the program is */
	fixture_path(socket, "started.sock");
	snprintf(program, sizeof(program), "%s/lodic", getenv("LODIC_BUILD"));
	options.socket = socket;
	options.service = program;
	options.cache_bytes = (u64)7 << 40;
	options.hold_bytes = (u64)8 << 40;
	assert_int_equal(lodic_attach(&options, &lodic), -EINVAL);
	options.hold_bytes = 6 * MIB;
	assert_int_equal(lodic_attach(&options, &lodic), 0);
	stat = test_service_stat(lodic);
	assert_int_equal(stat.hold_limit, 6 * MIB);
	assert_true(stat.data_bytes <= 64 * MIB + BLOCK);
	fixture_end((pid_t)stat.service_pid);
	lodic_detach(lodic);
}

/* ---- the kernel's copy ---- */

static u64 pages_of_the_kernel(u64 bytes)
{
	static unsigned char there[64 * MIB / PAGE];
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, bed.fd, 0);
	u64 nr = 0;

	assert_true(at != MAP_FAILED);
	assert_int_equal(mincore(at, bytes, there), 0);
	for (u64 i = 0; i < bytes / PAGE; i++)
		nr += there[i] & 1;
	munmap(at, bytes);
	return nr;
}

static void held_file_is_not_kept_twice(void **state)
{
	const u64 bytes = 18 * MIB + PAGE;
	static u8 buffer[MIB];
	struct lodic_hold *held;
	u64 before;

	(void)state;
	for (u32 buffered = 0; buffered < 2; buffered++) {
		test_bed_init(&bed, LODIC_LODIC);
		bed.service.options.sizes.budget_bytes = 64 * MIB;
		bed.service.options.sizes.hold_bytes = ANY;
		bed.service.options.keeping.buffered = buffered;
		test_bed_make(&bed, bytes);
		assert_int_equal(fsync(bed.fd), 0); /* the kernel keeps what is dirty */
		for (u64 at = 0; at < bytes; at += sizeof(buffer))
			assert_true(pread(bed.fd, buffer, sizeof(buffer), (off_t)at) >
			            0);
		before = pages_of_the_kernel(bytes);
		if (before < bytes / PAGE)
			fixture_skip("the kernel keeps no copy of files there");
		assert_int_equal(hold(0, bytes, &held), 0);
		assert_int_equal(pages_of_the_kernel(bytes), 0);
		assert_true(pattern_holds(lodic_hold_data(held), 1, 1, 0, bytes));
		lodic_release(held);
		test_bed_free(&bed);
	}
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
		TEST(default_is_half_of_the_machine_or_of_the_least_limit),
		TEST(start_is_small_and_leaves_most_of_what_is_free),
		TEST(holds_get_all_but_the_least_part),
		TEST(blocks_double_as_far_as_holds_leave_it),
		TEST(hold_above_a_quarter_is_shared),
		TEST(holds_in_use_bound_one_another),
		TEST(limit_of_holds_is_kept),
		TEST(arena_grows_as_it_is_used),
		TEST(hold_makes_a_grown_arena_smaller),
		TEST(warm_holds_give_way_to_few_blocks),
		TEST(successor_has_as_large_an_arena),
		TEST(options_of_a_program_are_the_service_s),
		TEST(held_file_is_not_kept_twice),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
