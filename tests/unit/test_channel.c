/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How a channel waits for a reply: it spins as long as that is the quicker way, and never for
 * long. The service is a thread. And a channel that is not greeted leaves nothing behind. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/client/attach.h"
#include "lib/client/channel.h"
#include "lib/port/listen.h"
#include "tests/support/held.h"

#define LATE_MS 60u
#define LATE_CPU_NS ((u64)20000000) /* of a wait of LATE_MS */

struct answerer {
	int socket;
	u64 late_ms;
};

static void *answerer_run(void *arg)
{
	struct answerer *a = arg;
	struct wire_reply reply = { 0 };
	struct wire_request request;

	while (recv(a->socket, &request, sizeof(request), 0) == sizeof(request)) {
		fixture_pause_us(host_load_relaxed(&a->late_ms) * 1000);
		if (wire_send(a->socket, &reply, sizeof(reply), NULL, 0) != 0)
			break;
	}
	return NULL;
}

static struct channel channel;
static struct answerer answerer;
static pthread_t thread;
static u32 nr_done;

static void done(void *owner, const struct channel_reply *reply)
{
	(void)owner;
	assert_int_equal(reply->error, 0);
	nr_done++;
}

static int set_up(void **state)
{
	int ends[2];

	(void)state;
	channel_init(&channel);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends),
	                 0);
	channel.socket = ends[0];
	answerer = (struct answerer){ .socket = ends[1] };
	assert_int_equal(pthread_create(&thread, NULL, answerer_run, &answerer), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	channel_close(&channel, -ECONNRESET);
	pthread_join(thread, NULL);
	close(answerer.socket);
	return 0;
}

/* One request. Returns the CPU time that the wait has taken. */
static u64 ask(u64 deadline_ns)
{
	static const struct wire_request request = { .version = WIRE_VERSION,
		                                     .op = WIRE_FILE_CLOSE };
	struct timespec t;
	u64 begun;

	nr_done = 0;
	assert_int_equal(channel_ask(&channel, &request, -1, deadline_ns, done, NULL),
	                 0);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	begun = (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
	channel_wait(&channel);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	assert_int_equal(nr_done, 1);
	return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec - begun;
}

static u64 soon(void)
{
	return host_now_ns() + (u64)FIXTURE_DEADLINE_MS * 1000000;
}

/* Asks until the channel has waited so often: a reply may be there before it waits. */
static void ask_until(u32 nr_waits)
{
	assert_true(WAIT_UNTIL(({
		ask(soon());
		channel.nr_waits >= nr_waits;
	})));
}

static void channel_wait_tries_the_slower_way_now_and_then(void **state)
{
	static const u64 slow = 800000; /* more than a wait can count */

	(void)state;
	for (u32 way = 0; way < CHANNEL_NR_WAYS; way++) {
		channel.nr_waits = 100;
		channel.mean_ns[way] = slow;
		channel.mean_ns[!way] = 1;
		ask_until(200);
		assert_int_equal(channel.mean_ns[way], slow);
		assert_int_not_equal(channel.mean_ns[!way], 1);
		channel.mean_ns[!way] = 1;
		ask_until(256 + 9);
		assert_int_not_equal(channel.mean_ns[way], slow);
	}
}

static void channel_wait_for_a_late_reply_does_not_spin_for_long(void **state)
{
	(void)state;
	host_store_relaxed(&answerer.late_ms, LATE_MS);
	for (u32 i = 0; i < 2; i++) {
		/* On a loaded machine even this reply may be there before it waits. */
		assert_true(WAIT_UNTIL(({
			channel.nr_waits = 100;
			channel.mean_ns[CHANNEL_SPIN] = 0;
			channel.mean_ns[CHANNEL_SLEEP] = 1;
			assert_in_range(ask(soon()), 0, LATE_CPU_NS);
			channel.nr_waits == 101;
		})));
		assert_in_range(channel.mean_ns[CHANNEL_SPIN], 1, 400000);
	}
}

static void channel_wait_without_a_deadline_only_sleeps(void **state)
{
	(void)state;
	host_store_relaxed(&answerer.late_ms, 1);
	assert_in_range(ask(DEADLINE_NEVER), 0, LATE_CPU_NS);
	assert_int_equal(channel.nr_waits, 0);
	assert_int_equal(channel.mean_ns[CHANNEL_SPIN], 0);
}

/* What each of many requests has come to, in the order of the replies. */
static u32 ended[CHANNEL_MOST];
static u32 nr_ended;
static int nr_errors;

static void end_one(void *owner, const struct channel_reply *reply)
{
	ended[nr_ended++] = *(const u32 *)owner;
	nr_errors += reply->error != 0;
}

/* Asks for as many as follow each other. */
static u32 ask_many(u32 numbers[CHANNEL_MOST])
{
	static const struct wire_request request = { .version = WIRE_VERSION,
		                                     .op = WIRE_FILE_CLOSE };
	u32 nr = 0;

	nr_ended = 0;
	nr_errors = 0;
	while (nr < CHANNEL_MOST && channel_has_room(&channel)) {
		numbers[nr] = nr;
		assert_int_equal(channel_ask(&channel, &request, -1, soon(), end_one,
		                             &numbers[nr]),
		                 0);
		nr++;
	}
	return nr;
}

static void channel_ask_many_ends_each_in_order(void **state)
{
	u32 numbers[CHANNEL_MOST], nr;

	(void)state;
	host_store_relaxed(&answerer.late_ms, 1); /* so that many are under way */
	nr = ask_many(numbers);
	assert_in_range(nr, CHANNEL_MOST - 1, CHANNEL_MOST);
	channel_wait(&channel);
	assert_int_equal(nr_ended, nr);
	assert_int_equal(nr_errors, 0);
	for (u32 i = 0; i < nr; i++)
		assert_int_equal(ended[i], i);
	assert_true(channel_poll(&channel));
}

static void channel_close_ends_all_that_are_under_way(void **state)
{
	u32 numbers[CHANNEL_MOST], nr;

	(void)state;
	host_store_relaxed(&answerer.late_ms, 1);
	nr = ask_many(numbers);
	channel_close(&channel, -ECONNRESET);
	assert_int_equal(nr_ended, nr);
	assert_true(nr_errors > 0);
	assert_true(channel_poll(&channel));
	assert_false(channel_has_room(&channel));
}

static bool sends_fail;

int __real_port_send(int socket, const void *message, size_t bytes, const int *fds,
                     unsigned int nr_fds);
int __wrap_port_send(int socket, const void *message, size_t bytes, const int *fds,
                     unsigned int nr_fds);

int __wrap_port_send(int socket, const void *message, size_t bytes, const int *fds,
                     unsigned int nr_fds)
{
	return sends_fail ? -ENOBUFS
	                  : __real_port_send(socket, message, bytes, fds, nr_fds);
}

/* The next try makes another one. */
static void attach_step_that_cannot_greet_leaves_no_socket(void **state)
{
	char path[FIXTURE_PATH_BYTES];
	int listening = port_socket();
	struct lodic *lodic;

	(void)state;
	fixture_path(path, "ungreeted");
	assert_int_equal(port_bind(listening, path), 0);
	assert_int_equal(port_listen(listening, 1), 0);
	assert_int_equal(attach_later(path, UINT32_MAX, &lodic), 0);
	attach_lock(lodic);
	sends_fail = true;
	assert_int_equal(attach_step(lodic), -ENOBUFS);
	sends_fail = false;
	assert_int_equal(lodic->channel.socket, -1);
	attach_unlock(lodic);
	lodic_detach(lodic);
	close(listening);
}

/* The socket goes on, so that the next wait needs no other one beside it. */
static void prefetch_that_cannot_ask_leaves_no_socket(void **state)
{
	struct test_bed b;
	u32 descriptors;

	(void)state;
	test_bed_make_blocks(&b, (u64)1 << 20, 1);
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	descriptors = held_nr_descriptors();
	sends_fail = true;
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), -ENOBUFS);
	sends_fail = false;
	assert_int_equal(lodic_prefetch(b.context, b.file, 0, 0, LODIC_WAIT), 0);
	assert_int_equal(held_nr_descriptors(), descriptors);
	test_bed_free(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			channel_wait_tries_the_slower_way_now_and_then, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			channel_wait_for_a_late_reply_does_not_spin_for_long, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			channel_wait_without_a_deadline_only_sleeps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(channel_ask_many_ends_each_in_order,
		                                set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			channel_close_ends_all_that_are_under_way, set_up, tear_down),
		cmocka_unit_test(attach_step_that_cannot_greet_leaves_no_socket),
		cmocka_unit_test(prefetch_that_cannot_ask_leaves_no_socket),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
