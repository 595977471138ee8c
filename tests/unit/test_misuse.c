/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Programs that break the rules of lodic.h. A debug build stops them with a sentence that
 * names the rule. A release build refuses what would harm others, and goes on. This file is
 * compiled for both. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/cache_fixture.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define NR_BLOCKS 8u

static void bed_make(struct test_bed *b)
{
	test_bed_init(b, LODIC_LODIC);
	test_bed_make(b, (u64)NR_BLOCKS * BLOCK);
	assert_int_equal(lodic_prefetch(b->context, b->file, 0, 0, LODIC_WAIT), 0);
}

#ifdef LODIC_DEBUG

/* misuse() breaks a rule in a process of its own: it must die, and say so. */
static void assert_dies_saying(void (*misuse)(struct test_bed *b), const char *sentence)
{
	char text[4096] = "";
	struct test_bed b;
	int ends[2];
	size_t n = 0;
	ssize_t got;
	pid_t pid;
	int status;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fixture_fork();
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		bed_make(&b);
		misuse(&b);
		_exit(0);
	}
	close(ends[1]);
	/* Its service dies with it. */
	while ((got = read(ends[0], text + n, sizeof(text) - 1 - n)) > 0)
		n += (size_t)got;
	close(ends[0]);
	status = fixture_wait(pid);
	if (!strstr(text, sentence))
		fail_msg("it says '%s'", text);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void give_back_copy(struct test_bed *b)
{
	struct lodic_pin pin, copy;

	REQUIRE(lodic_pin(b->context, b->file, 0, &pin) == 0, "not pinned");
	copy = pin;
	lodic_unpin(b->context, &copy);
}

static void unpin_copy_debug_build_says_so(void **state)
{
	assert_dies_saying(give_back_copy, "by a copy of what lodic_pin() has filled");
	(void)state;
}

static void *read_for_ever(void *arg)
{
	struct test_bed *b = arg;
	u8 buffer[BLOCK];

	for (;;)
		lodic_read(b->context, b->file, buffer, BLOCK, 0);
	return NULL;
}

static void read_from_two_threads(struct test_bed *b)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, read_for_ever, b) == 0, "no thread");
	read_for_ever(b);
}

static void *prefetch_all(void *arg)
{
	struct test_bed *b = arg;

	lodic_prefetch(b->context, b->file, 0, 0, LODIC_WAIT);
	return NULL;
}

/* The service does not come to it, so the thread waits in its call. */
static void read_during_a_prefetch(struct test_bed *b)
{
	pthread_t thread;
	u8 byte;

	test_service_freeze(&b->service);
	REQUIRE(pthread_create(&thread, NULL, prefetch_all, b) == 0, "no thread");
	WAIT_UNTIL(lodic_read(b->context, b->file, &byte, 1, 0) < 0);
}

static void context_of_two_threads_debug_build_says_so(void **state)
{
	assert_dies_saying(read_from_two_threads,
	                   "two threads use one context at once");
	assert_dies_saying(read_during_a_prefetch,
	                   "two threads use one context at once");
	(void)state;
}

static void *read_once(void *arg)
{
	struct test_bed *b = arg;
	u8 byte;

	assert_int_equal(lodic_read(b->context, b->file, &byte, 1, 0), 1);
	return NULL;
}

/* One thread after the other is no misuse. */
static void context_handed_over_debug_build_lets_it(void **state)
{
	struct test_bed b;
	pthread_t thread;

	bed_make(&b);
	for (u32 i = 0; i < 3; i++) {
		read_once(&b);
		assert_int_equal(pthread_create(&thread, NULL, read_once, &b), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
	test_bed_free(&b);
	(void)state;
}

static void use_closed_context(struct test_bed *b)
{
	struct lodic_context *next;
	u8 byte;

	lodic_context_close(b->context);
	REQUIRE(lodic_context_open(b->lodic, &next) == 0, "no context");
	lodic_read(b->context, b->file, &byte, 1, 0);
}

static void close_context_twice(struct test_bed *b)
{
	lodic_context_close(b->context);
	lodic_context_close(b->context);
}

static void use_closed_file(struct test_bed *b)
{
	struct lodic_pin pin;

	lodic_close(b->file);
	lodic_pin(b->context, b->file, 0, &pin);
}

static struct lodic_hold *hold_one(struct test_bed *b)
{
	struct lodic_hold *hold;

	REQUIRE(lodic_hold(b->lodic, b->file, 0, BLOCK, 0, &hold) == 0, "not held");
	return hold;
}

static void release_hold_twice(struct test_bed *b)
{
	struct lodic_hold *hold = hold_one(b);

	lodic_release(hold);
	lodic_release(hold_one(b)); /* it does not take the other's place */
	lodic_release(hold);
}

static void use_released_hold(struct test_bed *b)
{
	struct lodic_hold *hold = hold_one(b);

	lodic_release(hold);
	lodic_hold_data(hold);
}

static void use_after_close_debug_build_says_so(void **state)
{
	assert_dies_saying(use_closed_context,
	                   "a context is used after lodic_context_close()");
	assert_dies_saying(close_context_twice, "a context is closed twice");
	assert_dies_saying(use_closed_file, "a file is used after lodic_close()");
	assert_dies_saying(release_hold_twice, "a hold is released twice");
	assert_dies_saying(use_released_hold, "a hold is used after lodic_release()");
	(void)state;
}

#else

/* Counted below zero, the block would have 127 pins for good. */
static void unpin_copy_again_count_stays_zero(void **state)
{
	struct lodic_pin pin, copy;
	struct test_bed b;

	bed_make(&b);
	for (u32 i = 0; i < NR_BLOCKS; i++) {
		assert_int_equal(lodic_pin(b.context, b.file, (off_t)i * BLOCK, &pin),
		                 0);
		copy = pin;
		lodic_unpin(b.context, &pin);
		lodic_unpin(b.context, &copy);
	}
	assert_int_equal(test_context_stat(b.context).pinned, 0);
	assert_int_equal(test_service_stat(b.lodic).pinned, 0);
	assert_int_equal(lodic_pin(b.context, b.file, 0, &pin), 0);
	assert_int_equal(test_service_stat(b.lodic).pinned, 1);
	lodic_unpin(b.context, &pin);
	assert_int_equal(test_service_stat(b.lodic).pinned, 0);
	test_bed_free(&b);
	(void)state;
}

#endif

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
#ifdef LODIC_DEBUG
		TEST(unpin_copy_debug_build_says_so),
		TEST(context_of_two_threads_debug_build_says_so),
		TEST(context_handed_over_debug_build_lets_it),
		TEST(use_after_close_debug_build_says_so),
#else
		TEST(unpin_copy_again_count_stays_zero),
#endif
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("misuse", tests, NULL, NULL);
}
