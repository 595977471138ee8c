/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * One successor at a time has the place: rules HO6 and HO7 of lib/service/succession/takeover.h,
 * where one is stopped, says nothing, or comes too late. test_hand.c has those that die, and
 * test_authority.c has strangers. These are rows of doc/authority.md, too.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/wire_caller.h"

#define MIB ((u64)1 << 20)
#define FEW_BLOCKS 20u
#define SILENT_MS 50u
#define CROWD 40u /* more than EVENTS_PER_TURN (lib/service/loop/service.c) */
#define IDLE_MS 1600u /* time enough for a slow machine to connect */
#define TEST_SECONDS 120
/* For what must happen; a mutant is not waited for. */
#define PLACE_MS (TEST_MUTANT ? 2000u : FIXTURE_DEADLINE_MS)

static void drop_fds(struct wire_caller *c)
{
	while (c->nr_fds > 0)
		close(c->fds[--c->nr_fds]);
}

static void bed_make(struct test_bed *b)
{
	test_bed_make_blocks(b, MIB, FEW_BLOCKS);
	test_bed_fill(b);
}

/* The cache is as it was, and its service is. */
static void bed_check_and_free(struct test_bed *b)
{
	for (u64 i = 0; i < FEW_BLOCKS; i++)
		assert_true(test_bed_reads_hit(b, i));
	assert_int_equal(test_service_stat(b->lodic).service_pid, b->service.pid);
	test_bed_free(b);
}

/* HO7 */
static void successor_second_waits_for_the_first_ones_end(void **state)
{
	struct wire_caller first, second;
	struct test_bed b;

	(void)state;
	bed_make(&b);
	assert_int_equal(caller_succeed(&first, &b.service), 0);
	for (u32 i = 0; i < 3; i++)
		assert_int_equal(caller_succeed(&second, &b.service), -EBUSY);
	assert_int_equal(caller_ask(&first, WIRE_HAND_STAY, 0, 0, 0), 0);
	close(first.socket);
	assert_true(WAIT_UNTIL_MS(caller_succeed(&second, &b.service) == 0, PLACE_MS));
	close(second.socket);
	bed_check_and_free(&b);
}

static void bed_make_impatient(struct test_bed *b)
{
	test_bed_init(b, LODIC_LODIC);
	b->service.options.sizes.cache_bytes = MIB;
	b->service.options.place.successor_ms = SILENT_MS;
	test_bed_make(b, (u64)FEW_BLOCKS * LODIC_BLOCK_BYTES);
	test_bed_fill(b);
}

/* HO7: it is stopped, say. */
static void successor_that_is_silent_loses_its_place(void **state)
{
	struct wire_caller first, second;
	struct test_bed b;
	u64 start;

	(void)state;
	bed_make_impatient(&b);
	start = host_now_ns();
	assert_int_equal(caller_succeed(&first, &b.service), 0);
	assert_true(WAIT_UNTIL_MS(caller_succeed(&second, &b.service) == 0, PLACE_MS));
	assert_true(host_now_ns() - start >= SILENT_MS * (u64)1000000);
	assert_int_equal(caller_receive(&first), -ECANCELED);
	assert_int_equal(caller_receive(&first), -ECONNRESET);
	close(first.socket);
	assert_int_equal(caller_ask(&second, WIRE_HAND_STAY, 0, 0, 0), 0);
	close(second.socket);
	bed_check_and_free(&b);
}

/* HO7: HANDED has been sent, and the service has not come to it yet when the next one asks. */
static void successor_that_has_spoken_is_not_silent(void **state)
{
	struct wire_caller first, second;
	struct test_bed b;
	int lock;
	u64 end;

	(void)state;
	bed_make_impatient(&b);
	caller_connect(&second, &b.service);
	assert_int_equal(caller_ask(&second, WIRE_STAT, 0, 0, 0), 0);
	lock = caller_open_lock(&b.service, O_RDWR);
	assert_int_equal(caller_succeed(&first, &b.service), 0);
	assert_int_equal(caller_ask(&first, WIRE_HAND_OVER, 0, 0, 0), 0);
	drop_fds(&first);
	end = host_now_ns() + 2 * SILENT_MS * (u64)1000000;
	test_service_freeze(&b.service);
	caller_send(&second, WIRE_SUCCEED, 0, 0, 0, lock);
	caller_send(&first, WIRE_HANDED, 0, 0, 0, -1);
	while (host_now_ns() < end)
		fixture_pause_us(1000);
	kill(b.service.pid, SIGCONT);
	assert_int_equal(caller_receive(&second), -EBUSY);
	assert_int_equal(caller_receive(&first), 0);
	assert_int_equal(fixture_wait(b.service.pid), 0);
	close(lock);
	close(first.socket);
	close(second.socket);
	assert_int_equal(test_service_start(&b.service), 0);
	test_bed_free(&b);
}

/* HO7 */
static void resize_waits_for_a_successor_that_has_the_socket(void **state)
{
	struct wire_caller first, visitor;
	struct test_bed b;
	u64 start;
	int err;

	(void)state;
	bed_make_impatient(&b);
	caller_connect(&visitor, &b.service);
	assert_int_equal(caller_succeed(&first, &b.service), 0);
	start = host_now_ns();
	assert_int_equal(caller_ask(&first, WIRE_HAND_OVER, 0, 0, 0), 0);
	drop_fds(&first);
	err = caller_ask(&visitor, WIRE_RESIZE, 2 * MIB, 0, 0);
	/* On a machine that is very busy it is silent by now. */
	assert_true(err == -EBUSY || host_now_ns() - start > SILENT_MS * (u64)1000000);
	assert_true(WAIT_UNTIL_MS(!err || caller_ask(&visitor, WIRE_RESIZE, 2 * MIB, 0,
	                                             0) == 0,
	                          PLACE_MS));
	assert_int_equal(caller_receive(&first), -ECANCELED);
	close(first.socket);
	assert_true(WAIT_UNTIL(caller_ask(&visitor, WIRE_RESIZE, 0, 0, 0) == 0 &&
	                       visitor.reply.resize.state == LOOK_RESIZE_DONE));
	close(visitor.socket);
	test_bed_free(&b);
}

/* A manager that hears it ends the successor, too. */
static void must_not_say_it(void *arg)
{
	(void)arg;
	_exit(1);
}

/* HO6: HANDED waits behind more events than a turn hears, of which one ends the service. A
 * successor that had no answer in time serves, so path and lock stay. */
static void successor_that_has_spoken_keeps_its_path(void **state)
{
	struct wire_caller first, crowd[CROWD];
	struct test_bed b;
	int lock;

	(void)state;
	test_bed_init(&b, LODIC_LODIC);
	b.service.options.events.stopping = must_not_say_it;
	b.service.options.sizes.cache_bytes = MIB;
	test_bed_make(&b, (u64)FEW_BLOCKS * LODIC_BLOCK_BYTES);
	for (u32 i = 0; i < CROWD; i++) {
		caller_connect(&crowd[i], &b.service);
		assert_int_equal(caller_ask(&crowd[i], WIRE_STAT, 0, 0, 0), 0);
	}
	assert_int_equal(caller_succeed(&first, &b.service), 0);
	assert_int_equal(caller_ask(&first, WIRE_HAND_OVER, 0, 0, 0), 0);
	drop_fds(&first);
	test_service_freeze(&b.service);
	kill(b.service.pid, SIGTERM);
	for (u32 i = 0; i < CROWD; i++)
		caller_send(&crowd[i], WIRE_STAT, 0, 0, 0, -1);
	caller_send(&first, WIRE_HANDED, 0, 0, 0, -1);
	kill(b.service.pid, SIGCONT);
	assert_int_equal(caller_receive(&first), 0);
	assert_int_equal(fixture_wait(b.service.pid), 0);
	lock = caller_open_lock(&b.service, O_RDONLY);
	assert_true(lock >= 0);
	close(lock);
	assert_int_equal(access(b.service.socket, F_OK), 0);
	close(first.socket);
	for (u32 i = 0; i < CROWD; i++)
		close(crowd[i].socket);
	b.service.options.events.stopping = NULL;
	assert_int_equal(test_service_start(&b.service), 0);
	test_bed_free(&b);
}

static void stop_here(void *arg)
{
	(void)arg;
	raise(SIGSTOP);
}

static bool is_stopped(pid_t pid)
{
	int status;

	return waitpid(pid, &status, WNOHANG | WUNTRACED) == pid && WIFSTOPPED(status);
}

static pid_t old_pid;
static bool tells_back;

/* The wrong process ends the successor. */
static void must_be_the_old_one(void *arg, int pid)
{
	(void)arg;
	if (pid != old_pid)
		_exit(1);
	raise(SIGSTOP);
}

static void begin_stopped(const struct test_bed *b, struct test_service *next)
{
	*next = b->service;
	next->options.place.takeover = true;
	next->options.events.taking = stop_here;
	next->options.events.stopping = NULL;
	next->options.events.taken_back = tells_back ? must_be_the_old_one : NULL;
	old_pid = b->service.pid;
	test_service_begin(next);
	assert_true(WAIT_UNTIL(is_stopped(next->pid)));
}

/* A successor that has had socket and lock is stopped, and another one comes, unless it is NULL. */
static void stop_successor(struct test_bed *b, struct test_service *next,
                           struct wire_caller *other)
{
	bed_make_impatient(b);
	begin_stopped(b, next);
	if (!other)
		return;
	if (!WAIT_UNTIL_MS(caller_succeed(other, &b->service) == 0, PLACE_MS)) {
		test_service_kill(next); /* its lease would stop the next case */
		fail_msg("the place is not free");
	}
}

static void assert_serves(const struct test_bed *b)
{
	struct lodic *lodic;

	assert_int_equal(test_service_attach(&b->service, &lodic), 0);
	assert_int_equal(test_service_stat(lodic).service_pid, b->service.pid);
	lodic_detach(lodic);
}

/* HO7. A manager that has heard of the successor hears that the old one goes on. */
static void successor_that_lost_its_place_does_not_serve(void **state)
{
	struct wire_caller other;
	struct test_service next;
	struct test_bed b;
	int lock;

	(void)state;
	tells_back = true;
	stop_successor(&b, &next, &other);
	tells_back = false;
	kill(next.pid, SIGCONT);
	assert_true(WAIT_UNTIL(is_stopped(next.pid)));
	kill(next.pid, SIGCONT);
	assert_int_equal(test_service_await(&next), -EBUSY);
	close(other.socket);
	lock = caller_open_lock(&b.service, O_RDONLY);
	assert_true(lock >= 0);
	close(lock);
	assert_serves(&b);
	bed_check_and_free(&b);
}

/* HO7: the place is the other one's, even if the service has died. */
static void successor_that_lost_its_place_does_not_serve_the_dead(void **state)
{
	struct wire_caller other;
	struct test_service next;
	struct test_bed b;

	(void)state;
	stop_successor(&b, &next, &other);
	test_service_kill(&b.service);
	kill(next.pid, SIGCONT);
	assert_int_equal(test_service_await(&next), -EBUSY);
	close(other.socket);
	b.service.options.place.takeover = true;
	assert_int_equal(test_service_start(&b.service), 0);
	assert_serves(&b);
	test_bed_free(&b);
}

/* HO6: an administrator stops all that serves at a path. Both end, and nothing is left. */
static void successor_ends_with_a_service_that_is_stopped(void **state)
{
	struct wire_caller asker;
	struct test_service next;
	struct test_bed b;

	(void)state;
	for (u32 asks = 0; asks < 2; asks++) {
		stop_successor(&b, &next, NULL);
		caller_connect(&asker, &b.service);
		if (asks)
			assert_int_equal(caller_ask(&asker, WIRE_STOP, 0, 0, 0), 0);
		else
			kill(b.service.pid, SIGTERM);
		assert_int_equal(fixture_wait(b.service.pid), 0);
		kill(next.pid, SIGCONT);
		assert_int_equal(test_service_await(&next), -ESHUTDOWN);
		assert_int_equal(access(b.service.socket, F_OK), -1);
		assert_int_equal(caller_open_lock(&b.service, O_RDONLY), -1);
		close(asker.socket);
		assert_int_equal(test_service_start(&b.service), 0);
		test_bed_free(&b);
	}
}

/* HO6: the same of one that has not got the socket yet. */
static void successor_that_copies_hears_of_the_stop(void **state)
{
	struct wire_caller first;
	struct test_bed b;

	(void)state;
	bed_make(&b);
	assert_int_equal(caller_succeed(&first, &b.service), 0);
	assert_int_equal(caller_ask(&first, WIRE_HAND_ARENA, 0, 0, 0), 0);
	drop_fds(&first);
	assert_int_equal(test_service_stop(&b.service), 0);
	assert_int_equal(caller_receive(&first), -ESHUTDOWN);
	close(first.socket);
	assert_int_equal(test_service_start(&b.service), 0);
	test_bed_free(&b);
}

/* Else it would take the end of the arena that it copies for the service's death. */
static void successor_that_copies_hears_of_a_resize(void **state)
{
	struct wire_caller first, visitor;
	struct test_bed b;

	(void)state;
	bed_make(&b);
	caller_connect(&visitor, &b.service);
	assert_int_equal(caller_succeed(&first, &b.service), 0);
	assert_int_equal(caller_ask(&visitor, WIRE_RESIZE, 2 * MIB, 0, 0), 0);
	assert_int_equal(caller_receive(&first), -ECANCELED);
	assert_int_equal(caller_receive(&first), -ECONNRESET);
	close(first.socket);
	close(visitor.socket);
	test_bed_free(&b);
}

/* HO6: the successor serves by now, and the answer says so. */
static void stop_is_refused_when_the_successor_serves(void **state)
{
	struct wire_caller first, asker;
	struct test_bed b;

	(void)state;
	bed_make(&b);
	caller_connect(&asker, &b.service);
	assert_int_equal(caller_ask(&asker, WIRE_STAT, 0, 0, 0), 0);
	assert_int_equal(caller_succeed(&first, &b.service), 0);
	assert_int_equal(caller_ask(&first, WIRE_HAND_OVER, 0, 0, 0), 0);
	drop_fds(&first);
	test_service_freeze(&b.service);
	caller_send(&asker, WIRE_STOP, 0, 0, 0, -1);
	caller_send(&first, WIRE_HANDED, 0, 0, 0, -1);
	kill(b.service.pid, SIGCONT);
	assert_int_equal(caller_receive(&first), 0);
	assert_int_equal(caller_receive(&asker), -EBUSY);
	assert_int_equal(fixture_wait(b.service.pid), 0);
	close(first.socket);
	close(asker.socket);
	assert_int_equal(test_service_start(&b.service), 0);
	test_bed_free(&b);
}

/* A service that nobody uses waits for a successor, but not for one that is stopped. */
static void successor_that_is_silent_keeps_no_idle_service(void **state)
{
	struct test_service service;
	struct wire_caller reader, c;
	int status = -1;
	u64 start;

	(void)state;
	test_service_init(&service, "idle");
	service.options.place.idle_exit_ms = IDLE_MS;
	service.options.place.successor_ms = IDLE_MS + IDLE_MS / 2;
	assert_int_equal(test_service_start(&service), 0);
	caller_hello(&reader, &service);
	start = host_now_ns();
	assert_int_equal(caller_succeed(&c, &service), 0);
	close(reader.socket);
	assert_true(WAIT_UNTIL_MS(waitpid(service.pid, &status, WNOHANG) == service.pid,
	                          2 * IDLE_MS + PLACE_MS));
	assert_int_equal(status, 0);
	assert_true(host_now_ns() - start >=
	            service.options.place.successor_ms * (u64)1000000);
	close(c.socket);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(successor_second_waits_for_the_first_ones_end),
		cmocka_unit_test(successor_that_is_silent_loses_its_place),
		cmocka_unit_test(successor_that_has_spoken_is_not_silent),
		cmocka_unit_test(successor_that_has_spoken_keeps_its_path),
		cmocka_unit_test(resize_waits_for_a_successor_that_has_the_socket),
		cmocka_unit_test(successor_that_lost_its_place_does_not_serve),
		cmocka_unit_test(successor_that_lost_its_place_does_not_serve_the_dead),
		cmocka_unit_test(successor_ends_with_a_service_that_is_stopped),
		cmocka_unit_test(successor_that_copies_hears_of_the_stop),
		cmocka_unit_test(successor_that_copies_hears_of_a_resize),
		cmocka_unit_test(stop_is_refused_when_the_successor_serves),
		cmocka_unit_test(successor_that_is_silent_keeps_no_idle_service),
	};

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("succession", tests, NULL, NULL);
}
