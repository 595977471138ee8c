/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Holds that are not ready yet. The service reads as long as the test wants: pread(2), which
 * it calls in this program's child, stops there. Meanwhile a program polls, waits, gives up, is
 * cancelled, or loses its service. In no case is anything half-held.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "lib/client/attach.h"
#include "tests/support/held.h"

#define TEST_SECONDS 120
#define MIB ((u64)1 << 20)
#define FILE_BYTES (2 * MIB + 77)

/* Shared with the service. */
static struct {
	u64 hang;    /* 1: a large read waits */
	u64 hanging; /* it does */
	u64 error;   /* what it then fails with; 0: it goes on */
} * reading;

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
	u64 error;

	if (n >= MIB && host_load_acquire(&reading->hang)) {
		host_store_release(&reading->hanging, 1);
		while (host_load_acquire(&reading->hang))
			fixture_pause_us(200);
		host_store_release(&reading->hanging, 0);
	}
	error = host_load_acquire(&reading->error);
	if (n >= MIB && error) {
		errno = (int)error;
		return -1;
	}
	return syscall(SYS_pread64, fd, to, n, at);
}

static void bed_make(struct test_bed *b)
{
	host_store_release(&reading->hang, 0);
	host_store_release(&reading->error, 0);
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.hold_bytes = 8 * MIB;
	test_bed_make(b, FILE_BYTES);
}

static bool is_hanging(void)
{
	return host_load_acquire(&reading->hanging) == 1;
}

/* A hold whose bytes the service has begun to read, and will read when the test lets it. */
static struct lodic_hold *hold_hanging(struct test_bed *b)
{
	struct lodic_hold *h = NULL;

	host_store_release(&reading->hang, 1);
	assert_int_equal(lodic_hold(b->lodic, b->file, 0, 0, 0, &h), 0);
	assert_int_equal(lodic_hold_ready(h), 0);
	assert_true(WAIT_UNTIL(is_hanging()));
	return h;
}

static void read_on(void)
{
	host_store_release(&reading->hang, 0);
}

/* Polls and asks until the hold is ready or has failed. */
static int ready_at_last(struct lodic_hold *h)
{
	struct pollfd wait = { .events = POLLIN };
	int ready;

	while ((ready = lodic_hold_ready(h)) == 0) {
		wait.fd = lodic_hold_event(h);
		assert_true(wait.fd >= 0);
		assert_int_equal(poll(&wait, 1, FIXTURE_DEADLINE_MS), 1);
	}
	return ready;
}

static void hold_not_ready_event_says_when(void **state)
{
	struct pollfd wait = { .events = POLLIN };
	struct lodic_stat stat;
	struct lodic_hold *h;
	struct test_bed b;
	u32 descriptors;
	off_t at;

	bed_make(&b);
	descriptors = held_nr_descriptors();
	h = hold_hanging(&b);
	wait.fd = lodic_hold_event(h);
	assert_true(wait.fd >= 0);
	assert_int_equal(poll(&wait, 1, 0), 0);
	assert_null(lodic_hold_data(h));
	assert_int_equal(lodic_hold_bytes(h), 0);
	assert_int_equal(lodic_hold_fd(h, &at), -EAGAIN);
	/* Nobody else waits meanwhile. */
	assert_int_equal(lodic_stat(b.lodic, &stat, sizeof(stat)), 0);
	read_on();
	assert_int_equal(poll(&wait, 1, FIXTURE_DEADLINE_MS), 1);
	assert_int_equal(ready_at_last(h), 1);
	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	assert_int_equal(lodic_hold_event(h), -1);
	assert_int_equal(held_nr_descriptors(), descriptors);
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

/* Two that ask for one range, and one for a part of it: the service reads it once. */
static void hold_joins_what_is_being_read(void **state)
{
	struct lodic_hold *h, *same = NULL, *part = NULL;
	struct test_bed b;

	bed_make(&b);
	h = hold_hanging(&b);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 0, 0, &same), 0);
	assert_int_equal(lodic_hold(b.lodic, b.file, 99, MIB, 0, &part), 0);
	assert_int_equal(lodic_hold_ready(part), 0);
	read_on();
	assert_int_equal(ready_at_last(part), 1);
	assert_int_equal(ready_at_last(h), 1);
	assert_int_equal(ready_at_last(same), 1);
	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	assert_true(held_has(same, 1, 1, 0, FILE_BYTES));
	assert_true(held_has(part, 1, 1, 99, MIB));
	assert_int_equal(test_service_stat(b.lodic).holds_read, 1);
	lodic_release(h);
	lodic_release(same);
	lodic_release(part);
	test_bed_free(&b);
	(void)state;
}

static void release_not_ready_nothing_stays(void **state)
{
	struct lodic_hold *h;
	struct test_bed b;
	u32 descriptors;
	pid_t pid;

	bed_make(&b);
	descriptors = held_nr_descriptors();
	h = hold_hanging(&b);
	pid = fixture_fork();
	if (pid == 0) {
		REQUIRE(lodic_hold_ready(h) == -ECHILD, "a child knows");
		REQUIRE(lodic_hold_event(h) == -1, "a child waits");
		lodic_release(h);
		_exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
	assert_int_equal(lodic_hold_ready(h), 0);
	lodic_release(h);
	assert_int_equal(held_nr_descriptors(), descriptors);
	read_on();
	h = held_range(&b, 0, 0);
	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

static void hold_read_fails_error_nothing_held(void **state)
{
	struct lodic_hold *h = NULL;
	struct test_bed b;
	u32 descriptors;

	bed_make(&b);
	descriptors = held_nr_descriptors();
	host_store_release(&reading->error, EIO);
	assert_int_equal(lodic_hold(b.lodic, b.file, 0, 0, LODIC_WAIT, &h), -EIO);
	assert_null(h);
	h = hold_hanging(&b);
	read_on();
	assert_int_equal(ready_at_last(h), -EIO);
	assert_int_equal(lodic_hold_ready(h), -EIO);
	assert_int_equal(lodic_hold_event(h), -1);
	assert_null(lodic_hold_data(h));
	lodic_release(h);
	assert_int_equal(held_nr_descriptors(), descriptors);
	host_store_release(&reading->error, 0);
	h = held_range(&b, 0, 0);
	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	lodic_release(h);
	assert_int_equal(test_service_stat(b.lodic).holds_failed, 2);
	test_bed_free(&b);
	(void)state;
}

static pid_t write_second_version(const struct test_bed *b)
{
	pid_t pid = fixture_fork();
	u8 *bytes;
	int fd;

	if (pid > 0)
		return pid;
	bytes = malloc(FILE_BYTES);
	pattern_fill(bytes, 1, 2, 0, FILE_BYTES);
	fd = fixture_open(b->path, O_WRONLY);
	REQUIRE(write(fd, bytes, FILE_BYTES) == (ssize_t)FILE_BYTES, "not written");
	_exit(0);
}

/* A writer comes while the service reads. What the hold says then: 0 while it is read anew. */
static int ready_after_a_writer(struct lodic_hold *h, const struct test_bed *b)
{
	struct pollfd wait = { lodic_hold_event(h), POLLIN, 0 };
	int ready;

	assert_int_equal(fixture_wait(write_second_version(b)), 0);
	read_on();
	assert_int_equal(poll(&wait, 1, FIXTURE_DEADLINE_MS), 1);
	host_store_release(&reading->hang, 1);
	ready = lodic_hold_ready(h);
	assert_true(ready < 0 || WAIT_UNTIL(is_hanging()));
	return ready;
}

static void hold_writers_come_while_read_new_bytes(void **state)
{
	struct lodic_hold *h;
	struct test_bed b;
	int ready;

	bed_make(&b);
	h = hold_hanging(&b);
	assert_int_equal(ready_after_a_writer(h, &b), 0);
	assert_int_equal(lodic_hold_ready(h), 0);
	read_on();
	assert_int_equal(ready_at_last(h), 1);
	assert_true(held_has(h, 1, 2, 0, FILE_BYTES));
	lodic_release(h);
	assert_int_equal(truncate(b.path, FILE_BYTES - 1), 0);
	h = hold_hanging(&b);
	while ((ready = ready_after_a_writer(h, &b)) == 0)
		;
	assert_int_equal(ready, -ESTALE);
	assert_int_equal(lodic_reason(-ESTALE), LODIC_REASON_HOLD_CHANGED);
	lodic_release(h);
	read_on();
	test_bed_free(&b);
	(void)state;
}

static void hold_service_dies_meanwhile_successor_reads(void **state)
{
	struct lodic_hold *h;
	struct test_bed b;

	bed_make(&b);
	h = hold_hanging(&b);
	test_service_kill(&b.service);
	read_on();
	b.service.inherits = true;
	assert_int_equal(test_service_start(&b.service), 0);
	assert_int_equal(ready_at_last(h), 1);
	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	lodic_release(h);
	/* And none comes. */
	assert_int_equal(truncate(b.path, FILE_BYTES - 1), 0);
	h = hold_hanging(&b);
	test_service_kill(&b.service);
	assert_int_equal(ready_at_last(h), -ECONNRESET);
	assert_int_equal(lodic_hold_ready(h), -ECONNRESET);
	lodic_release(h);
	read_on();
	assert_int_equal(test_service_start(&b.service), 0);
	test_bed_free(&b);
	(void)state;
}

/* The service hangs up on the hold alone: once is no harm. */
static void hold_connection_lost_once_more_tried(void **state)
{
	struct lodic_hold *h;
	struct test_bed b;

	bed_make(&b);
	h = hold_hanging(&b);
	assert_int_equal(shutdown(lodic_hold_event(h), SHUT_RDWR), 0);
	assert_int_equal(lodic_hold_ready(h), 0);
	assert_int_equal(shutdown(lodic_hold_event(h), SHUT_RDWR), 0);
	assert_int_equal(lodic_hold_ready(h), -ECONNRESET);
	lodic_release(h);
	h = hold_hanging(&b);
	assert_int_equal(shutdown(lodic_hold_event(h), SHUT_RDWR), 0);
	read_on();
	assert_int_equal(ready_at_last(h), 1);
	assert_true(held_has(h, 1, 1, 0, FILE_BYTES));
	lodic_release(h);
	test_bed_free(&b);
	(void)state;
}

/* The service has hung up on the process, and knows none of its files any more. */
static void hold_after_hang_up_file_opened_anew(void **state)
{
	struct lodic_hold *h;
	struct test_bed b;

	bed_make(&b);
	for (u32 i = 0; i < 3; i++) {
		assert_int_equal(shutdown(b.lodic->channel.socket, SHUT_RDWR), 0);
		h = held_range(&b, i, 0);
		assert_true(held_has(h, 1, 1, i, FILE_BYTES - i));
		lodic_release(h);
	}
	h = held_range(&b, 0, 0);
	assert_int_equal(shutdown(b.lodic->channel.socket, SHUT_RDWR), 0);
	close(lodic_hold_fd(h, &(off_t){ 0 }));
	lodic_release(h);
	assert_int_equal(test_service_stat(b.lodic).files, 1);
	test_bed_free(&b);
	(void)state;
}

struct waiter {
	struct test_bed *b;
	struct lodic_hold *hold;
	u64 thread_id;
	int result;
};

static void *wait_for_hold(void *arg)
{
	struct waiter *w = arg;

	host_store_release(&w->thread_id, (u64)syscall(SYS_gettid));
	w->result = lodic_hold(w->b->lodic, w->b->file, 0, 0, LODIC_WAIT, &w->hold);
	return NULL;
}

/* A thread that waits until the service has read. */
static pthread_t waiter_start(struct waiter *w, struct test_bed *b)
{
	pthread_t thread;

	w->b = b;
	host_store_release(&reading->hang, 1);
	assert_int_equal(pthread_create(&thread, NULL, wait_for_hold, w), 0);
	assert_true(WAIT_UNTIL(is_hanging() &&
	                       held_thread_sleeps(host_load_acquire(&w->thread_id))));
	return thread;
}

static void hold_waits_other_threads_do_not(void **state)
{
	struct waiter w = { 0 };
	struct lodic_stat stat;
	struct test_bed b;
	pthread_t thread;

	bed_make(&b);
	thread = waiter_start(&w, &b);
	for (u32 i = 0; i < 3; i++)
		assert_int_equal(lodic_stat(b.lodic, &stat, sizeof(stat)), 0);
	lodic_release(held_range(&b, 0, 100));
	read_on();
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(w.result, 0);
	assert_true(held_has(w.hold, 1, 1, 0, FILE_BYTES));
	lodic_release(w.hold);
	test_bed_free(&b);
	(void)state;
}

static void hold_waits_service_dies_econnreset(void **state)
{
	struct waiter w = { 0 };
	struct test_bed b;
	pthread_t thread;
	u32 descriptors;

	bed_make(&b);
	descriptors = held_nr_descriptors();
	thread = waiter_start(&w, &b);
	test_service_kill(&b.service);
	assert_int_equal(pthread_join(thread, NULL), 0);
	read_on();
	assert_int_equal(w.result, -ECONNRESET);
	assert_null(w.hold);
	assert_in_range(held_nr_descriptors(), 0, descriptors);
	test_bed_free(&b);
	(void)state;
}

static void hold_waits_thread_cancelled_nothing_stays(void **state)
{
	struct waiter w = { 0 };
	void *result = NULL;
	struct test_bed b;
	pthread_t thread;
	u32 descriptors;

#ifdef __SANITIZE_ADDRESS__
	skip(); /* it takes what the cancelled functions leave on the stack for theirs */
#endif
	bed_make(&b);
	descriptors = held_nr_descriptors();
	thread = waiter_start(&w, &b);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_null(w.hold);
	assert_int_equal(held_nr_descriptors(), descriptors);
	read_on();
	w.hold = held_range(&b, 0, 0);
	assert_true(held_has(w.hold, 1, 1, 0, FILE_BYTES));
	lodic_release(w.hold);
	test_bed_free(&b);
	/* Nothing of the cancelled one kept the attachment. */
	assert_in_range(held_nr_descriptors(), 0, descriptors);
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
		TEST(hold_not_ready_event_says_when),
		TEST(hold_joins_what_is_being_read),
		TEST(release_not_ready_nothing_stays),
		TEST(hold_read_fails_error_nothing_held),
		TEST(hold_writers_come_while_read_new_bytes),
		TEST(hold_service_dies_meanwhile_successor_reads),
		TEST(hold_connection_lost_once_more_tried),
		TEST(hold_after_hang_up_file_opened_anew),
		TEST(hold_waits_other_threads_do_not),
		TEST(hold_waits_service_dies_econnreset),
		TEST(hold_waits_thread_cancelled_nothing_stays),
	};

	reading = fixture_shared(sizeof(*reading));
	fixture_begin(argc, argv, NULL);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("hold_wait", tests, NULL, NULL);
}
