/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What one turn of the service does for holds, and for programs that have gone. The service is in
 * this process, and the test calls each turn. So what a turn has done is known, and no clock is
 * asked.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/look.h"
#include "lib/service/loop/run.h"
#include "lib/service/client/connection.h"
#include "lib/service/succession/make.h"
#include "lib/service/hold/hold_table.h"
#include "lib/service/hold/holds.h"
#include "lib/service/succession/whole.h"
#include "tests/support/wire_caller.h"

#define BLOCK LODIC_BLOCK_BYTES
#define MIB ((u64)1 << 20)
#define TEST_SECONDS 120
#define CALLERS 8u
#define REQUESTS 12u /* of each caller: less than a turn takes from it */
#define BEGINS_PER_TURN 16u

struct bed {
	struct test_service service; /* its names; it is not started */
	struct service *s;
	struct wire_caller callers[CALLERS];
	u64 id;
};

/* Turns until the answer is there. */
static int answer(struct bed *b, struct wire_caller *c)
{
	struct pollfd wait = { .fd = c->socket, .events = POLLIN };

	while (poll(&wait, 1, 0) == 0)
		service_turn(b->s);
	return caller_receive(c);
}

static int ask(struct bed *b, struct wire_caller *c, u32 op, u64 a, u64 n, int fd)
{
	caller_send(c, op, a, 0, n, fd);
	return answer(b, c);
}

static void bed_make(struct bed *b, u64 hold_bytes)
{
	char path[FIXTURE_PATH_BYTES];
	struct wire_caller *c;
	sigset_t all, old;
	const char *why;
	int fd;

	memset(b, 0, sizeof(*b));
	test_service_init(&b->service, "turns");
	b->service.options.place.socket = b->service.socket;
	b->service.options.sizes.hold_bytes = hold_bytes;
	b->service.options.keeping.nr_files = 256;
	pattern_file_make(path, "turns.bin", 1, 1, MIB);
	fd = fixture_open(path, O_RDONLY);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	assert_int_equal(service_open(&b->service.options, &b->s, &why), 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	for (c = b->callers; c < b->callers + CALLERS; c++) {
		caller_connect(c, &b->service);
		assert_int_equal(ask(b, c, WIRE_HELLO, 0, 0, -1), 0);
		while (c->nr_fds > 0)
			close(c->fds[--c->nr_fds]);
		assert_int_equal(ask(b, c, WIRE_FILE_OPEN, 0, 0, fd), 0);
		b->id = c->reply.file.id;
	}
	close(fd);
	unlink(path);
}

static void bed_free(struct bed *b)
{
	for (u32 i = 0; i < CALLERS; i++)
		if (b->callers[i].socket >= 0)
			close(b->callers[i].socket);
	service_shut(b->s);
}

static u32 nr_in(const struct bed *b, enum holds_queue queue)
{
	return b->s->holding.holds->queues.lists[queue].nr;
}

/* Many ask at once. Each is answered in that turn, but few ranges are begun in a turn. */
static void many_ask_at_once_turns_stay_short(void **state)
{
	const u32 all = CALLERS * REQUESTS;
	u32 begun = 0, turns = 0, now;
	struct bed b;

	bed_make(&b, 4 * MIB);
	for (u32 i = 0; i < all; i++)
		caller_send(&b.callers[i % CALLERS], WIRE_HOLD, b.id,
		            (u64)i * 2 * BLOCK, BLOCK, -1);
	while (nr_in(&b, HOLDS_SMALL) + nr_in(&b, HOLDS_MAIN) < all) {
		service_turn(b.s);
		now = nr_in(&b, HOLDS_READING) + nr_in(&b, HOLDS_SMALL) +
		      nr_in(&b, HOLDS_MAIN);
		assert_true(now - begun <= BEGINS_PER_TURN);
		if (turns++ == 0)
			assert_int_equal(nr_in(&b, HOLDS_WANTING), all - now);
		begun = now;
	}
	for (u32 i = 0; i < all; i++)
		assert_int_equal(caller_receive(&b.callers[i % CALLERS]), -EINPROGRESS);
	bed_free(&b);
	(void)state;
}

/* Turns until no range wants room, or is read. */
static void turn_until_read(struct bed *b)
{
	while (nr_in(b, HOLDS_WANTING) + nr_in(b, HOLDS_READING) > 0)
		service_turn(b->s);
}

/* As a program does: again, until it is there. */
static int hold(struct bed *b, struct wire_caller *c, u64 offset, u64 n)
{
	int err;

	do {
		caller_send(c, WIRE_HOLD, b->id, offset, n, -1);
		err = answer(b, c);
		turn_until_read(b);
	} while (err == -EINPROGRESS);
	return err;
}

static void warm_ranges_make(struct bed *b)
{
	struct wire_caller *c = &b->callers[0];

	for (u32 i = 0; i < 5; i++) {
		assert_int_equal(hold(b, c, (u64)i * 2 * BLOCK, BLOCK), 0);
		assert_int_equal(c->reply.hold.offset, (u64)i * 2 * BLOCK);
		close(c->fds[0]);
	}
}

/* What nobody has gives its room back at once, however many ranges that are. */
static void warm_ranges_give_all_their_room(void **state)
{
	struct bed b;

	bed_make(&b, 4 * MIB);
	warm_ranges_make(&b);
	holds_spare_descriptors(&b.s->holding);
	assert_false(holds_any(&b.s->holding));
	warm_ranges_make(&b);
	assert_true(holds_give_back(&b.s->holding));
	assert_false(holds_any(&b.s->holding));
	assert_int_equal(holds_used(&b.s->holding), 0);
	bed_free(&b);
	(void)state;
}

/* `lodic holds` names each process once. */
static void held_twice_by_one_process_named_once(void **state)
{
	struct look_hold told;
	struct bed b;
	int fd;

	bed_make(&b, 4 * MIB);
	assert_int_equal(hold(&b, &b.callers[0], 0, BLOCK), 0);
	fd = b.callers[0].fds[0];
	assert_int_equal(hold(&b, &b.callers[0], 0, BLOCK), 0);
	close(b.callers[0].fds[0]);
	assert_true(hold_table_look(&b.s->holding, 0, &told));
	assert_int_equal(told.nr_pids, 1);
	assert_int_equal(told.pids[0], getpid());
	close(fd);
	bed_free(&b);
	(void)state;
}

/* A range that was read for a program that has gone is kept for nobody. */
static void asker_has_gone_its_range_gives_room(void **state)
{
	struct bed b;

	bed_make(&b, 4 * MIB);
	caller_send(&b.callers[0], WIRE_HOLD, b.id, 0, BLOCK, -1);
	close(b.callers[0].socket);
	b.callers[0].socket = -1;
	service_turn(b.s);
	assert_true(holds_any(&b.s->holding));
	turn_until_read(&b);
	assert_int_equal(nr_in(&b, HOLDS_SMALL) + nr_in(&b, HOLDS_MAIN), 1);
	assert_true(holds_give_back(&b.s->holding));
	assert_false(holds_any(&b.s->holding));
	bed_free(&b);
	(void)state;
}

/* All room is in use. A turn begins few ranges, and later turns refuse the others: a program that
 * waits for one hears why. */
static void no_room_who_waits_hears_why(void **state)
{
	u64 number = 0;
	struct bed b;
	int fd;

	bed_make(&b, 16 * BLOCK);
	assert_int_equal(hold(&b, &b.callers[0], 0, 16 * BLOCK), 0);
	fd = b.callers[0].fds[0];
	for (u32 i = 0; i < 2 * REQUESTS; i++)
		caller_send(&b.callers[i / REQUESTS], WIRE_HOLD, b.id,
		            (u64)(i + 20) * 2 * BLOCK, BLOCK, -1);
	service_turn(b.s);
	for (u32 i = 0; i < 2 * REQUESTS; i++) {
		struct wire_caller *c = &b.callers[i / REQUESTS];

		if (caller_receive(c) == -EINPROGRESS)
			number = c->reply.hold.number;
	}
	assert_true(number > 0);
	turn_until_read(&b);
	assert_int_equal(ask(&b, &b.callers[2], WIRE_HOLD_WAIT, number, 0, -1), -ENOSPC);
	close(fd);
	bed_free(&b);
	(void)state;
}

/* A range is read for all who wait, also if the program that asked for it has gone. */
static void asker_has_gone_another_one_waits_it_is_read(void **state)
{
	struct wire_caller *waits, *asks;
	u64 number = 0;
	struct bed b;

	bed_make(&b, 4 * MIB);
	waits = &b.callers[CALLERS - 1];
	asks = waits - 1;
	for (u32 i = 0; i < (CALLERS - 1) * REQUESTS; i++)
		caller_send(&b.callers[i / REQUESTS], WIRE_HOLD, b.id, (u64)i * 2 * BLOCK,
		            BLOCK, -1);
	service_turn(b.s);
	for (u32 i = 0; i < REQUESTS; i++) {
		assert_int_equal(caller_receive(asks), -EINPROGRESS);
		number = asks->reply.hold.number;
	}
	caller_send(waits, WIRE_HOLD_WAIT, number, 0, 0, -1);
	service_turn(b.s);
	close(asks->socket);
	asks->socket = -1;
	service_turn(b.s);
	assert_true(nr_in(&b, HOLDS_WANTING) > 0);
	assert_int_equal(answer(&b, waits), 0);
	bed_free(&b);
	(void)state;
}

static u32 nr_opens(const struct bed *b)
{
	u32 nr = 0;

	for (const struct client *c = b->s->clients.first; c; c = c->next)
		nr += c->opens.nr;
	return nr;
}

/* A program with many files hangs up. Few of them are closed in a turn. */
static void many_files_hung_up_turns_stay_short(void **state)
{
	enum { FILES = 100, CLOSES_PER_TURN = 64 };
	char path[FIXTURE_PATH_BYTES];
	struct bed b;
	int fd;
	u32 nr;

	bed_make(&b, 4 * MIB);
	for (u32 i = 0; i < FILES; i++) {
		pattern_file_make(path, "one-of-many", i, 1, BLOCK);
		fd = fixture_open(path, O_RDONLY);
		assert_int_equal(ask(&b, &b.callers[0], WIRE_FILE_OPEN, 0, 0, fd), 0);
		close(fd);
		unlink(path);
	}
	nr = nr_opens(&b);
	assert_true(nr > FILES);
	close(b.callers[0].socket);
	b.callers[0].socket = -1;
	while (nr > CALLERS) {
		u32 before = nr;

		service_turn(b.s);
		nr = nr_opens(&b);
		assert_true(before - nr <= CLOSES_PER_TURN);
	}
	bed_free(&b);
	(void)state;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_ask_at_once_turns_stay_short),
		cmocka_unit_test(warm_ranges_give_all_their_room),
		cmocka_unit_test(held_twice_by_one_process_named_once),
		cmocka_unit_test(asker_has_gone_its_range_gives_room),
		cmocka_unit_test(asker_has_gone_another_one_waits_it_is_read),
		cmocka_unit_test(no_room_who_waits_hears_why),
		cmocka_unit_test(many_files_hung_up_turns_stay_short),
	};

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("hold turns", tests, NULL, NULL);
}
