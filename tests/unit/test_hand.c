/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a successor and the service before it owe each other when one of them dies: rules HO3 to
 * HO6 of lib/service/succession/takeover.h. test_restart.c has what comes along. Each mutant of
 * these rules fails one of the cases.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/wire_caller.h"

#define MIB ((u64)1 << 20)
#define FEW_BLOCKS 20u
#define MANY_BLOCKS 4000u /* so many that a death often meets the copy */
#define DEATHS 12u
#define STEP_US 3000u
#define TEST_SECONDS 120

/* HO3, HO5: it has had the socket and the lock, and says nothing more. */
static void successor_dies_before_handed_old_goes_on(void **state)
{
	struct wire_caller c;
	struct lodic *other;
	struct test_bed b;

	(void)state;
	test_bed_make_blocks(&b, MIB, FEW_BLOCKS);
	test_bed_fill(&b);
	assert_int_equal(caller_succeed(&c, &b.service), 0);
	assert_int_equal(caller_ask(&c, WIRE_HAND_OVER, 0, 0, 0), 0);
	assert_int_equal(c.nr_fds, 2);
	while (c.nr_fds > 0)
		close(c.fds[--c.nr_fds]);
	close(c.socket);
	assert_int_equal(test_service_attach(&b.service, &other), 0);
	assert_int_equal(test_service_stat(other).service_pid, b.service.pid);
	lodic_detach(other);
	for (u64 i = 0; i < FEW_BLOCKS; i++)
		assert_true(test_bed_reads_hit(&b, i)); /* nobody had to come back */
	test_bed_succeed(&b); /* its place in the queue is free */
	test_bed_come_back(&b);
	test_bed_free(&b);
}

/* HO4: the lock is the successor's from the old one's end on, and its file is there. */
static void old_ends_lock_stays(void **state)
{
	char lock[FIXTURE_PATH_BYTES + 8];
	struct test_service third;
	struct test_bed b;

	(void)state;
	test_bed_make_blocks(&b, MIB, FEW_BLOCKS);
	snprintf(lock, sizeof(lock), "%s.lock", b.service.socket);
	for (u32 i = 0; i < 2; i++) {
		test_bed_succeed(&b);
		assert_int_equal(access(lock, F_OK), 0);
		assert_int_equal(access(b.service.socket, F_OK), 0);
		third = b.service;
		assert_int_equal(test_service_start(&third), -EADDRINUSE);
	}
	test_bed_come_back(&b);
	test_bed_free(&b);
	assert_int_equal(access(lock, F_OK), -1);
}

/* HO6: at any moment. */
static void old_dies_successor_serves(void **state)
{
	struct test_service next;
	struct test_bed b;

	(void)state;
	test_bed_make_blocks(&b, 24 * MIB, MANY_BLOCKS);
	for (u32 i = 0; i < DEATHS; i++) {
		test_bed_fill(&b);
		next = b.service;
		next.options.place.takeover = true;
		test_service_begin(&next);
		fixture_pause_us((u64)i * STEP_US);
		test_service_kill(&b.service);
		if (test_service_await(&next) != 0)
			fail_msg("after %u us: %s", i * STEP_US, next.why);
		b.service = next;
		b.service.options.place.takeover = false;
		test_bed_come_back(&b);
		assert_int_equal(test_service_stat(b.lodic).service_pid, next.pid);
	}
	test_bed_free(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(successor_dies_before_handed_old_goes_on),
		cmocka_unit_test(old_ends_lock_stays),
		cmocka_unit_test(old_dies_successor_serves),
	};

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("hand", tests, NULL, NULL);
}
