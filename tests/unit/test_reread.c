/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * lib/service/succession/reread.h: a size that has to wait comes, whatever else happens meanwhile.
 * The service is this process's, and makes a turn when the test says so.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/service/loop/run.h"
#include "lib/service/succession/make.h"
#include "lib/service/base/worker.h"
#include "lib/service/client/client.h"
#include "lib/service/succession/reread.h"
#include "lib/service/succession/resize.h"
#include "lib/service/succession/whole.h"
#include "tests/support/cache_fixture.h"

#define MIB ((u64)1 << 20)
#define DEADLINE_S 60

/* What the configuration says, one reading after the other. 0: the same as before. */
static u64 says[2];
static u32 nr_read;

static void read_nothing(void *arg)
{
	(void)arg;
}

static u64 tell(void *arg)
{
	(void)arg;
	return says[nr_read++];
}

static struct service *begin(void)
{
	static char socket[FIXTURE_PATH_BYTES];
	struct service_options options = { .place.socket = socket,
		                           .sizes.cache_bytes = MIB,
		                           .tables.barrier = SERVICE_BARRIER_LOCK,
		                           .keeping.nr_files = 64,
		                           .place.successor_ms = 200,
		                           .events.reread = read_nothing,
		                           .events.reread_done = tell };
	const char *why = NULL;
	struct service *s;
	sigset_t all, old;

	nr_read = 0;
	fixture_path(socket, "reread");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	assert_int_equal(service_open(&options, &s, &why), 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	alarm(DEADLINE_S); /* a turn may sleep for ever */
	return s;
}

static void end(struct service *s)
{
	alarm(0);
	service_shut(s);
}

static void reread(struct service *s)
{
	reread_begin(&s->reread);
	assert_true(s->reread.runs);
	while (s->reread.runs)
		service_turn(s);
}

static void waiting_size_outlives_a_reading_that_says_nothing_new(void **state)
{
	struct service *s = begin();

	(void)state;
	says[0] = 3 * MIB;
	says[1] = 0;
	assert_int_equal(resize_ask(s, 2 * MIB), 0);
	/* Until resize_next() is called, the resize is under way. */
	reread(s);
	reread(s);
	do {
		service_turn(s);
		s = resize_next(s);
	} while (s->change.resize || s->reread.bytes > 0);
	assert_int_equal(s->options.sizes.cache_bytes, 3 * MIB);
	end(s);
}

static void newer_size_takes_the_place_of_one_that_waits(void **state)
{
	struct service *s = begin();

	(void)state;
	says[0] = 3 * MIB;
	says[1] = 4 * MIB;
	assert_int_equal(resize_ask(s, 2 * MIB), 0);
	reread(s);
	reread(s);
	do {
		service_turn(s);
		s = resize_next(s);
	} while (s->change.resize || s->reread.bytes > 0);
	assert_int_equal(s->options.sizes.cache_bytes, 4 * MIB);
	end(s);
}

/* Nobody is connected, nothing is held, and a successor that had the socket says nothing more. */
static void size_comes_when_a_successor_is_silent(void **state)
{
	struct client *c = calloc(1, sizeof(*c));
	struct service *s = begin();
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends),
	                 0);
	c->kind = CLIENT_SUCCESSOR;
	c->asked = c->had_place = true;
	c->socket = ends[0];
	c->process = c->wake = -1;
	c->newest = c->reap_at = FRAME_NONE;
	c->heard_ns = host_now_ns();
	s->clients.first = s->clients.successor = c;
	says[0] = 3 * MIB;
	reread(s);
	assert_int_equal(s->reread.bytes, 3 * MIB);
	while (s->reread.bytes > 0 || s->change.resize) {
		service_turn(s);
		s = resize_next(s);
	}
	assert_int_equal(s->options.sizes.cache_bytes, 3 * MIB);
	close(ends[1]);
	end(s);
}

/* The service ends, and then it hears of a new size. */
static void service_that_ends_takes_no_size(void **state)
{
	struct service *s = begin();
	struct pollfd read = { .fd = worker_event(&s->base), .events = POLLIN };

	(void)state;
	says[0] = 3 * MIB;
	reread_begin(&s->reread);
	assert_int_equal(poll(&read, 1, -1), 1);
	end(s);
	assert_int_equal(nr_read, 1);
}

/* The same with a second signal, which came while the first one's files were being read. */
static void service_that_ends_reads_nothing_again(void **state)
{
	struct service *s = begin();
	struct pollfd read = { .fd = worker_event(&s->base), .events = POLLIN };

	(void)state;
	says[0] = 0;
	reread_begin(&s->reread);
	reread_begin(&s->reread);
	assert_int_equal(poll(&read, 1, -1), 1);
	end(s);
	assert_int_equal(nr_read, 1);
}

static void second_signal_reads_again(void **state)
{
	struct service *s = begin();

	(void)state;
	says[0] = 0;
	says[1] = 3 * MIB;
	reread_begin(&s->reread);
	reread_begin(&s->reread);
	while (s->reread.runs || s->reread.bytes > 0 || s->change.resize) {
		service_turn(s);
		s = resize_next(s);
	}
	assert_int_equal(s->options.sizes.cache_bytes, 3 * MIB);
	end(s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(waiting_size_outlives_a_reading_that_says_nothing_new),
		cmocka_unit_test(newer_size_takes_the_place_of_one_that_waits),
		cmocka_unit_test(size_comes_when_a_successor_is_silent),
		cmocka_unit_test(service_that_ends_takes_no_size),
		cmocka_unit_test(service_that_ends_reads_nothing_again),
		cmocka_unit_test(second_signal_reads_again),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("reread", tests, NULL, NULL);
}
