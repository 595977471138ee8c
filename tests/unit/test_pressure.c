/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the service gives back when memory is short. The rule alone, with times of the test's own;
 * and a service that reads a stand-in for /proc/pressure/memory.
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

#include "lib/service/pressure.h"
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

static void pressure_write(const char *path, const char *text)
{
	int fd = fixture_open(path, O_WRONLY | O_CREAT | O_TRUNC);

	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* A hold that nobody has goes first; then the cache is handed over smaller. What is held stays. */
static void service_under_pressure_holds_go_then_cache_shrinks(void **state)
{
	const u64 hold_bytes = MIB, frames = 4 * MIB / BLOCK;
	static char path[FIXTURE_PATH_BYTES];
	struct lodic_hold *held, *warm;
	struct lodic_stat stat;
	struct test_bed b;
	u8 byte;

	(void)state;
	alarm(TEST_SECONDS);
	fixture_path(path, "pressure");
	pressure_write(path, "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	test_bed_init(&b, LODIC_LODIC);
	b.service.options.cache_bytes = 4 * MIB;
	b.service.options.hold_bytes = 4 * MIB;
	b.service.options.pressure = path;
	test_bed_make(&b, 2 * hold_bytes);
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
	assert_true(WAIT_UNTIL((stat = test_service_stat(b.lodic)).hold_bytes ==
	                       hold_bytes));
	assert_int_equal(stat.frames, frames);
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
	fixture_path(path, "pressure");
	pressure_write(path, "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	test_bed_init(&b, LODIC_LODIC);
	b.service.options.cache_bytes = 4 * MIB;
	b.service.options.hold_bytes = 4 * MIB;
	b.service.options.pressure = path;
	test_bed_make(&b, 2 * NR_IN_USE * BLOCK);
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse_takes_the_kernel_s_text_only),
		cmocka_unit_test(
			decide_pressure_smaller_in_steps_and_not_below_an_eighth),
		cmocka_unit_test(decide_long_calm_grows_back_in_steps),
		cmocka_unit_test(decide_warm_holds_first),
		cmocka_unit_test(service_under_pressure_holds_go_then_cache_shrinks),
		cmocka_unit_test(service_under_pressure_holds_in_use_cache_shrinks),
	};
	struct test_bed b;

	fixture_begin(argc, argv, NULL);
	test_bed_init(&b, LODIC_LODIC);
	test_bed_make(&b, 1);
	fixture_need_leases(&b.service, b.path);
	test_bed_free(&b);
	return cmocka_run_group_tests_name("pressure", tests, NULL, NULL);
}
