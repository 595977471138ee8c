/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What one turn of the service does for holds. The service is in this process, and the test calls
 * each turn. So what a turn has done is known, and no clock is asked.
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

#include "lib/service/loop/run.h"
#include "lib/service/succession/make.h"
#include "lib/service/hold/hold_table.h"
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_ask_at_once_turns_stay_short),
	};

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	test_bed_need_leases();
	return cmocka_run_group_tests_name("hold turns", tests, NULL, NULL);
}
