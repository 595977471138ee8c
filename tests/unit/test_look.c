/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lib/look.h: an answer that nobody waited for is not the next request's; buckets of times. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/look.h"
#include "lib/port/listen.h"
#include "lib/wire.h"
#include "tests/support/cache_fixture.h"

static int service = -1;
static u64 nr_answers;
static bool interrupted;

/* The service answers each request, and the n-th answer says that it has n frames. */
static void answer(void)
{
	struct wire_request request;
	struct wire_page page;
	struct port_message m = { .bytes = &request, .room = sizeof(request) };

	memset(&page, 0, sizeof(page));
	page.reply.stat.frames = ++nr_answers;
	assert_int_equal(port_receive(service, &m), 0);
	assert_int_equal(port_send(service, &page.reply, sizeof(page.reply), NULL, 0), 0);
}

int __wrap_port_wait(int fd, enum port_waiting what, int ms);

int __wrap_port_wait(int fd, enum port_waiting what, int ms)
{
	(void)ms;
	if (interrupted)
		return -EINTR;
	if (port_ready(fd, what) != 1)
		answer();
	return 1;
}

static void late_answer_is_not_the_next_one(void **state)
{
	int listening = port_socket(), pid;
	struct lodic_stat stat;
	struct look *look;
	char path[FIXTURE_PATH_BYTES];

	(void)state;
	fixture_path(path, "look");
	unlink(path);
	assert_int_equal(port_bind(listening, path), 0);
	assert_int_equal(port_listen(listening, 1), 0);
	assert_int_equal(look_open(path, &look, &pid), 0);
	service = port_accept(listening);
	assert_true(service >= 0);
	interrupted = true;
	assert_int_equal(look_stat(look, &stat), -EINTR);
	interrupted = false;
	answer();
	assert_int_equal(look_stat(look, &stat), 0);
	assert_int_equal(stat.frames, 2);
	look_close(look);
	port_close(service);
	port_close(listening);
	unlink(path);
}

static void time_bucket_goes_up_to_its_power_of_two(void **state)
{
	u32 last = LOOK_TIME_BUCKETS - 1;

	(void)state;
	assert_int_equal(look_time_bucket(0), 0);
	for (u32 i = 0; i < last; i++) {
		assert_int_equal(look_time_bucket((u64)1000 << i), i);
		assert_int_equal(look_time_bucket(((u64)1000 << i) + 1), i + 1);
	}
	assert_int_equal(look_time_bucket(UINT64_MAX), last);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late_answer_is_not_the_next_one),
		cmocka_unit_test(time_bucket_goes_up_to_its_power_of_two),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("look", tests, NULL, NULL);
}
