/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The end of a hold. Any thread may release one, also as it ends, at exit, after the attachment's
 * end, and in a forked child, whose parent keeps its own.
 */
#define _GNU_SOURCE
#include <dirent.h>
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/support/held.h"

#define BLOCK LODIC_BLOCK_BYTES
#define TEST_SECONDS 120
#define FILE_BYTES ((u64)200 * 1024 + 123)
#define NR_FORKS 20u
#define TRIES 5u

static void bed_make(struct test_bed *b)
{
	test_bed_init(b, LODIC_LODIC);
	test_bed_make(b, FILE_BYTES);
}

static void fork_child_keeps_its_own(void **state)
{
	struct lodic_hold *a, *c, *h = NULL;
	struct test_bed b;
	pid_t pid;

	bed_make(&b);
	a = held_range(&b, 7, 2 * BLOCK);
	c = held_range(&b, BLOCK, BLOCK);
	pid = fixture_fork();
	if (pid == 0) {
		REQUIRE(held_has(a, 1, 1, 7, 2 * BLOCK), "wrong in the child");
		lodic_release(a);
		REQUIRE(held_has(c, 1, 1, BLOCK, BLOCK), "wrong after a release");
		REQUIRE(lodic_hold_ready(c) == 1, "not ready in the child");
		REQUIRE(lodic_hold(b.lodic, b.file, 0, 1, 0, &h) == -ECHILD, "held");
		lodic_close(b.file);
		lodic_context_close(b.context);
		lodic_detach(b.lodic);
		REQUIRE(held_has(c, 1, 1, BLOCK, BLOCK), "wrong after a detach");
		lodic_release(c); /* the last user of the attachment */
		_exit(0);
	}
	lodic_release(c);
	assert_int_equal(fixture_wait(pid), 0);
	assert_true(held_has(a, 1, 1, 7, 2 * BLOCK));
	lodic_release(a);
	test_bed_free(&b);
	(void)state;
}

struct holder {
	struct test_bed *b;
	u64 stop;
};

static void *hold_and_release(void *arg)
{
	struct holder *holder = arg;
	struct lodic_hold *h;

	while (!host_load_acquire(&holder->stop)) {
		REQUIRE(lodic_hold(holder->b->lodic, holder->b->file, 0, BLOCK, 0,
		                   &h) == 0,
		        "not held");
		lodic_release(h);
	}
	return NULL;
}

/* The parent's other thread may hold any lock at the fork. */
static void fork_while_threads_hold_child_releases(void **state)
{
	struct lodic_hold *h;
	struct holder holder = { 0 };
	pthread_t thread;
	struct test_bed b;
	pid_t pid;

	bed_make(&b);
	holder.b = &b;
	h = held_range(&b, 1, BLOCK);
	assert_int_equal(pthread_create(&thread, NULL, hold_and_release, &holder), 0);
	for (u32 i = 0; i < NR_FORKS; i++) {
		pid = fixture_fork();
		if (pid == 0) {
			REQUIRE(held_has(h, 1, 1, 1, BLOCK), "wrong in the child");
			lodic_release(h);
			_exit(0);
		}
		assert_int_equal(fixture_wait(pid), 0);
	}
	host_store_release(&holder.stop, 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(held_has(h, 1, 1, 1, BLOCK));
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

struct asker {
	struct lodic *lodic;
	u64 thread_id;
};

static void *ask_stopped_service(void *arg)
{
	struct asker *asker = arg;
	struct lodic_stat stat;

	host_store_release(&asker->thread_id, (u64)syscall(SYS_gettid));
	lodic_stat(asker->lodic, &stat, sizeof(stat));
	return NULL;
}

/* A thread waits for a stopped service, with the attachment's lock: for 2 s. Returns how long this
 * process and its child take to release. */
static u64 release_while_other_thread_waits(void)
{
	struct lodic_hold *a, *c;
	struct asker asker = { 0 };
	struct test_bed b;
	pthread_t thread;
	u64 begun, took;
	pid_t pid;

	bed_make(&b);
	a = held_range(&b, 0, BLOCK);
	c = held_range(&b, 0, BLOCK);
	asker.lodic = b.lodic;
	test_service_freeze(&b.service);
	assert_int_equal(pthread_create(&thread, NULL, ask_stopped_service, &asker), 0);
	assert_true(
		WAIT_UNTIL(held_thread_sleeps(host_load_acquire(&asker.thread_id))));
	begun = host_now_ns();
	lodic_release(a);
	pid = fixture_fork();
	if (pid == 0) {
		lodic_release(c);
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	took = host_now_ns() - begun;
	kill(b.service.pid, SIGCONT);
	assert_int_equal(pthread_join(thread, NULL), 0);
	lodic_release(c);
	test_bed_free(&b);
	return took;
}

/* Neither waits for that thread, which the child does not have. On a loaded machine they may be
 * late for another reason, but not in each try. */
static void release_while_other_thread_waits_does_not(void **state)
{
	u64 took = ~(u64)0;

	for (u32 i = 0; i < TRIES && took >= (u64)1500000000; i++)
		took = release_while_other_thread_waits();
	assert_true(took < (u64)1500000000);
	(void)state;
}

static void *release_it(void *arg)
{
	lodic_release(arg);
	return NULL;
}

static pthread_key_t key;

static void release_by_key(void *arg)
{
	lodic_release(arg);
}

static void *end_with_hold(void *arg)
{
	REQUIRE(pthread_setspecific(key, held_range(arg, 3, BLOCK)) == 0, "no key");
	return NULL;
}

static void release_on_other_threads_after_detach(void **state)
{
	struct lodic_hold *h, *last;
	struct test_bed b;
	pthread_t thread;
	u32 descriptors = held_nr_descriptors();

	bed_make(&b);
	assert_int_equal(pthread_key_create(&key, release_by_key), 0);
	h = held_range(&b, 0, BLOCK);
	last = held_range(&b, 1, BLOCK);
	assert_int_equal(pthread_create(&thread, NULL, release_it, h), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, end_with_hold, &b), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(pthread_key_delete(key), 0);
	test_bed_free(&b); /* closes, detaches, and stops the service */
	assert_true(held_has(last, 1, 1, 1, BLOCK));
	assert_int_equal(lodic_hold_ready(last), 1);
	assert_int_equal(pthread_create(&thread, NULL, release_it, last), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(held_nr_descriptors(), descriptors);
	(void)state;
}

static struct lodic_hold *held_at_exit;

static void release_at_exit(void)
{
	REQUIRE(held_has(held_at_exit, 1, 1, 0, BLOCK), "wrong at exit");
	lodic_release(held_at_exit);
}

static void release_at_exit_works(void **state)
{
	struct test_bed b;
	pid_t pid;

	bed_make(&b);
	pid = fixture_fork();
	if (pid == 0) {
		struct lodic_file *file;
		struct lodic *lodic;

		REQUIRE(test_service_attach(&b.service, &lodic) == 0, "no cache");
		REQUIRE(lodic_open(lodic, b.fd, &file) == 0, "not opened");
		REQUIRE(lodic_hold(lodic, file, 0, BLOCK, 0, &held_at_exit) == 0,
		        "not held");
		atexit(release_at_exit);
		lodic_close(file);
		lodic_detach(lodic);
		exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	test_bed_free(&b);
	(void)state;
}

static void hold_fd_of_copy_sealed_outlives_service(void **state)
{
	struct lodic_hold *h;
	struct test_bed b;
	off_t at = -1;
	pid_t pid;
	int fd;

	bed_make(&b);
	h = held_range(&b, 1234, 5 * BLOCK);
	fd = lodic_hold_fd(h, &at);
	assert_true(fd >= 0 && held_descriptor_is_right(fd, at, 1234, 5 * BLOCK));
	close(fd);
	assert_int_equal(lodic_hold_fd(h, NULL), -EINVAL);
	test_service_kill(&b.service);
	fd = lodic_hold_fd(h, &at);
	assert_true(fd >= 0 && held_descriptor_is_right(fd, at, 1234, 5 * BLOCK));
	lodic_release(h);
	assert_true(held_descriptor_is_right(fd, at, 1234, 5 * BLOCK));
	close(fd);
	b.service.inherits = true;
	assert_int_equal(test_service_start(&b.service), 0);
	h = held_range(&b, 0, 10);
	pid = fixture_fork();
	if (pid == 0) {
		fd = lodic_hold_fd(h, &at);
		REQUIRE(fd >= 0 && held_descriptor_is_right(fd, at, 0, 10),
		        "in the child");
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	lodic_release(h);
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
		TEST(fork_child_keeps_its_own),
		TEST(fork_while_threads_hold_child_releases),
		TEST(release_while_other_thread_waits_does_not),
		TEST(release_on_other_threads_after_detach),
		TEST(release_at_exit_works),
		TEST(hold_fd_of_copy_sealed_outlives_service),
	};

	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("hold_release", tests, NULL, NULL);
}
