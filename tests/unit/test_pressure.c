/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the service gives back when memory is short. The rule alone, with times of the test's own;
 * and a service that reads a stand-in for /proc/pressure/memory.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/cgroup.h"
#include "lib/service/succession/pressure.h"
#include "lib/service/memory/memory.h"
#include "tests/support/wire_caller.h"

#define BLOCK LODIC_BLOCK_BYTES
#define MIB ((u64)1 << 20)
#define GIB ((u64)1 << 30)
#define NS_PER_S ((u64)1000000000)
#define TEST_SECONDS 120
#define NR_IN_USE 70u /* more than one look asks about */

static void parse_takes_the_kernel_s_text_only(void **state)
{
	u32 some = 7;

	(void)state;
	assert_true(pressure_parse(
		"some avg10=12.34 avg60=1.00 avg300=0.10 total=5\nfull avg10=0.00\n",
		&some));
	assert_int_equal(some, 1234);
	assert_true(pressure_parse("some avg10=0.05 ", &some));
	assert_int_equal(some, 5);
	assert_true(pressure_parse("some avg10=100.00", &some));
	assert_int_equal(some, 10000);
	for (u32 i = 0; i < 4; i++) {
		static const char *const wrong[] = { "", "full avg10=1.00",
			                             "some avg10=101.00",
			                             "some avg60=1.00" };

		assert_false(pressure_parse(wrong[i], &some));
	}
	assert_int_equal(some, 10000);
}

/* One look. 0: the cache stays. */
static u64 look(struct pressure *p, u64 seconds, u32 some, u64 bytes)
{
	u64 next = 0;
	enum pressure_step step =
		pressure_decide(p, seconds * NS_PER_S, some, bytes, false, &next);

	assert_int_not_equal(step, PRESSURE_HOLDS);
	return step == PRESSURE_CACHE ? next : 0;
}

static void decide_pressure_smaller_in_steps_and_not_below_an_eighth(void **state)
{
	struct pressure p = { .configured = GIB };
	u64 bytes = GIB, next, seconds = 1000;
	u32 steps = 0;

	(void)state;
	assert_int_equal(look(&p, seconds, PRESSURE_HIGH - 1, bytes), 0);
	assert_int_equal(look(&p, ++seconds, PRESSURE_HIGH, bytes), GIB / 4 * 3);
	for (bytes = GIB / 4 * 3; bytes > GIB / 8; bytes = next) {
		assert_int_equal(look(&p, seconds + 29, 9000, bytes), 0);
		seconds += 30;
		next = look(&p, seconds, 9000, bytes);
		assert_true(next >= GIB / 8);
		assert_true(next == bytes / 4 * 3 || next == GIB / 8);
		assert_in_range(++steps, 1, 10);
	}
	assert_int_equal(look(&p, seconds + 1000, 9000, bytes), 0);
	/* A user wants less than that. */
	assert_int_equal(look(&p, seconds + 2000, 9000, MIB), 0);
}

static void decide_long_calm_grows_back_in_steps(void **state)
{
	struct pressure p = { .configured = GIB, .resized_ns = 1000 * NS_PER_S };
	u64 bytes = GIB / 2, seconds = 1000, next;

	(void)state;
	assert_int_equal(look(&p, seconds, 0, bytes), 0);
	assert_int_equal(look(&p, seconds + 299, PRESSURE_LOW - 1, bytes), 0);
	/* Between the two bounds nothing happens, but the calm is over. */
	assert_int_equal(look(&p, seconds + 299, PRESSURE_LOW, bytes), 0);
	assert_int_equal(look(&p, seconds + 301, 0, bytes), 0);
	assert_int_equal(look(&p, seconds + 600, 0, bytes), 0);
	next = look(&p, seconds + 601, 0, bytes);
	assert_int_equal(next, bytes / 3 * 4);
	assert_int_equal(look(&p, seconds + 602, 0, next), 0);
	assert_int_equal(look(&p, seconds + 901, 0, next), 0);
	assert_int_equal(look(&p, seconds + 902, 0, next), next / 3 * 4);
	assert_int_equal(look(&p, seconds + 903, 0, GIB - 1), 0);
	assert_int_equal(look(&p, seconds + 1202, 0, GIB - 1), 0);
	assert_int_equal(look(&p, seconds + 1203, 0, GIB - 1), GIB);
	assert_int_equal(look(&p, seconds + 9000, 0, GIB), 0);
}

static void decide_warm_holds_first(void **state)
{
	struct pressure p = { .configured = GIB };
	u64 next = 0;

	(void)state;
	assert_int_equal(pressure_decide(&p, NS_PER_S, 9000, GIB, true, &next),
	                 PRESSURE_HOLDS);
	assert_int_equal(pressure_decide(&p, NS_PER_S, 0, GIB, true, &next),
	                 PRESSURE_NOTHING);
	assert_int_equal(pressure_decide(&p, NS_PER_S, 9000, GIB, false, &next),
	                 PRESSURE_CACHE);
}

static void decide_tight_group_waits_less(void **state)
{
	struct pressure p = { .configured = GIB, .tight = true };

	(void)state;
	assert_int_equal(look(&p, 1000, PRESSURE_HIGH, GIB), GIB / 4 * 3);
	assert_int_equal(look(&p, 1004, PRESSURE_HIGH, GIB / 4 * 3), 0);
	assert_int_equal(look(&p, 1005, PRESSURE_HIGH, GIB / 4 * 3), GIB / 16 * 9);
}

static void fits_both_caches_must_have_room_for_a_moment(void **state)
{
	struct cgroup room = { 8 * GIB, GIB - 1, 8 * GIB };
	u64 next = GIB;

	(void)state;
	assert_true(memory_is_tight(&room));
	assert_true(pressure_fits(&room, 2 * GIB, &next));
	assert_int_equal(next, GIB / 2 - BLOCK);
	next = GIB / 4;
	assert_true(pressure_fits(&room, 2 * GIB, &next));
	assert_int_equal(next, GIB / 4);
	room.left = 16 << 10;
	assert_false(pressure_fits(&room, 2 * GIB, &next));
	/* A larger one: it must not make the group tight. */
	room.left = 3 * GIB - 1;
	next = 2 * GIB;
	assert_false(memory_is_tight(&room));
	assert_false(pressure_fits(&room, GIB, &next));
	room.left = 3 * GIB;
	assert_true(pressure_fits(&room, GIB, &next));
	assert_int_equal(next, 2 * GIB);
	room = (struct cgroup){ UINT64_MAX, UINT64_MAX, UINT64_MAX };
	assert_false(memory_is_tight(&room));
	assert_true(pressure_fits(&room, GIB, &next));
}

static void pressure_write(const char *path, const char *text)
{
	int fd = fixture_open(path, O_WRONLY | O_CREAT | O_TRUNC);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* Stand-ins for the files of one control group. */
static void group_write(const char *folder, const char *const files[][2], u32 nr)
{
	char path[FIXTURE_PATH_BYTES + 128];

	assert_true(mkdir(folder, 0755) == 0 || errno == EEXIST);
	for (u32 i = 0; i < nr; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, files[i][0]);
		pressure_write(path, files[i][1]);
	}
}

static void room_of_either_version_is_the_tightest_group_s(void **state)
{
	static const char *const outer[][2] = { { "memory.max", "2000000\n" },
		                                { "memory.current", "1700000\n" },
		                                { "memory.stat", "anon 9\n" } };
	static const char *const inner[][2] = {
		{ "memory.max", "1000000\n" },
		{ "memory.current", "900000\n" },
		{ "memory.stat", "anon 1\ninactive_file 150000\nactive_file 50000\n" }
	};
	static const char *const endless[][2] = { { "memory.max", "max\n" },
		                                  { "memory.current", "999999\n" } };
	static const char *const first[][2] = {
		{ "memory.limit_in_bytes", "500000\n" },
		{ "memory.usage_in_bytes", "450000\n" },
		{ "memory.stat", "inactive_file 400000\ntotal_inactive_file 10000\n"
		                 "total_active_file 5000\n" }
	};
	char mount[FIXTURE_PATH_BYTES], list[FIXTURE_PATH_BYTES];
	char folder[FIXTURE_PATH_BYTES + 64];
	struct cgroup room;

	(void)state;
	fixture_path(mount, "groups");
	fixture_path(list, "list");
	cgroup_look(list, mount, &room); /* there is neither */
	assert_true(room.limit == UINT64_MAX && room.left == UINT64_MAX);
	pressure_write(list, "1:cpu:/x\n0::/a/b\n");
	cgroup_look(list, mount, &room);
	assert_true(room.limit == UINT64_MAX);
	assert_int_equal(mkdir(mount, 0755), 0);
	snprintf(folder, sizeof(folder), "%s/a", mount);
	group_write(folder, outer, 3);
	snprintf(folder, sizeof(folder), "%s/a/b", mount);
	group_write(folder, endless, 2);
	cgroup_look(list, mount, &room);
	assert_int_equal(room.limit, 2000000);
	assert_int_equal(room.left, 300000);
	/* The inner one leaves 300000 only because its cached files count as free. */
	group_write(folder, inner, 3);
	cgroup_look(list, mount, &room);
	assert_int_equal(room.left, 300000);
	snprintf(folder, sizeof(folder), "%s/memory", mount);
	group_write(folder, first, 3);
	pressure_write(list, "4:memory:/not/here\n0::/a/b\n");
	cgroup_look(list, mount, &room);
	assert_int_equal(room.limit, 500000);
	assert_int_equal(room.left, 65000);
	assert_false(memory_is_tight(&room));
}

/* A cache of 4 MiB, which nothing presses yet. The file at path tells of pressure. */
static void bed_make(struct test_bed *b, char path[FIXTURE_PATH_BYTES], u64 hold_bytes,
                     u64 file_bytes)
{
	fixture_path(path, "pressure");
	pressure_write(path, "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.cache_bytes = 4 * MIB;
	b->service.options.sizes.hold_bytes = hold_bytes;
	b->service.options.sizes.pressure = path;
	test_bed_make(b, file_bytes);
}

/* A hold that nobody has goes first; then the cache is handed over smaller. What is held stays. */
static void service_under_pressure_holds_go_then_cache_shrinks(void **state)
{
	const u64 hold_bytes = MIB, frames = 4 * MIB / BLOCK;
	static char path[FIXTURE_PATH_BYTES];
	struct lodic_hold *held, *warm;
	u64 before = 0, since = 0;
	struct lodic_stat stat;
	struct test_bed b;
	u8 byte;

	(void)state;
	alarm(TEST_SECONDS);
	bed_make(&b, path, 4 * MIB, 2 * hold_bytes);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 100 * BLOCK, LODIC_WAIT),
	                 0);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, hold_bytes, LODIC_WAIT, &held),
	                 0);
	assert_int_equal(lodic_hold(b.lodic, b.file, (off_t)hold_bytes, hold_bytes,
	                            LODIC_WAIT, &warm),
	                 0);
	lodic_release(warm);
	assert_int_equal(test_service_stat(b.lodic).hold_bytes, 2 * hold_bytes);

	pressure_write(path, "some avg10=25.00 avg60=0.00 avg300=0.00 total=0\n");
	assert_true(WAIT_UNTIL(({
		since = before;
		before = host_now_ns();
		(stat = test_service_stat(b.lodic)).hold_bytes == hold_bytes;
	})));
	/* The cache a second later. This test may have slept that long on a loaded machine. */
	assert_true(stat.frames == frames ||
	            host_now_ns() - since >= NS_PER_S / 10 * 9);
	assert_true(WAIT_UNTIL((stat = test_service_stat(b.lodic)).frames != frames));
	assert_int_equal(stat.frames, frames / 4 * 3);
	assert_int_equal(stat.hold_bytes, hold_bytes);
	assert_int_equal(stat.cached, 100);
	assert_true(pattern_holds(lodic_hold_data(held), 1, 1, 0, hold_bytes));
	assert_int_equal(lodic_read(b.context, b.file, &byte, 1, 0), 1);
	lodic_release(held);
	test_bed_free(&b);
}

/* Many holds are in use. None can go, and the cache shrinks all the same. */
static void service_under_pressure_holds_in_use_cache_shrinks(void **state)
{
	static char path[FIXTURE_PATH_BYTES];
	int fds[NR_IN_USE];
	struct wire_caller c;
	struct test_bed b;
	u64 id;

	(void)state;
	alarm(TEST_SECONDS);
	bed_make(&b, path, 4 * MIB, 2 * NR_IN_USE * BLOCK);
	caller_hello(&c, &b.service);
	id = caller_open(&c, b.path);
	for (u32 i = 0; i < NR_IN_USE; i++) {
		fds[i] = caller_hold(&c, &b.service, id, 2 * i * BLOCK, BLOCK);
		assert_true(fds[i] >= 0);
	}
	pressure_write(path, "some avg10=25.00 avg60=0.00 avg300=0.00 total=0\n");
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).frames == 3 * MIB / BLOCK));
	assert_int_equal(test_service_stat(b.lodic).holds, NR_IN_USE);
	for (u32 i = 0; i < NR_IN_USE; i++)
		close(fds[i]);
	close(c.socket);
	test_bed_free(&b);
}

static void service_under_pressure_no_holds_no_budget_cache_shrinks(void **state)
{
	static char path[FIXTURE_PATH_BYTES];
	struct test_bed b;

	(void)state;
	alarm(TEST_SECONDS);
	bed_make(&b, path, 0, BLOCK);
	pressure_write(path, "some avg10=25.00 avg60=0.00 avg300=0.00 total=0\n");
	assert_true(WAIT_UNTIL(test_service_stat(b.lodic).frames == 3 * MIB / BLOCK));
	test_bed_free(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse_takes_the_kernel_s_text_only),
		cmocka_unit_test(
			decide_pressure_smaller_in_steps_and_not_below_an_eighth),
		cmocka_unit_test(decide_long_calm_grows_back_in_steps),
		cmocka_unit_test(decide_warm_holds_first),
		cmocka_unit_test(decide_tight_group_waits_less),
		cmocka_unit_test(fits_both_caches_must_have_room_for_a_moment),
		cmocka_unit_test(room_of_either_version_is_the_tightest_group_s),
		cmocka_unit_test(service_under_pressure_holds_go_then_cache_shrinks),
		cmocka_unit_test(service_under_pressure_holds_in_use_cache_shrinks),
		cmocka_unit_test(
			service_under_pressure_no_holds_no_budget_cache_shrinks),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("pressure", tests, NULL, NULL);
}
