/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* When an arena that blocks had to leave becomes larger. The service is in this process, and the
 * test calls each tick. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/service/loop/run.h"
#include "lib/service/succession/make.h"
#include "lib/service/succession/resize.h"
#include "lib/service/succession/whole.h"
#include "tests/support/cache_fixture.h"

#define MIB ((u64)1 << 20)
#define TEST_SECONDS 60

static struct service *begin(void)
{
	static char path[FIXTURE_PATH_BYTES];
	struct service_options options = { .place.socket = path,
		                           .sizes.cache_bytes = MIB,
		                           .sizes.budget_bytes = 16 * MIB,
		                           .sizes.hold_bytes = SERVICE_HOLDS_ANY,
		                           .tables.barrier = SERVICE_BARRIER_LOCK,
		                           .keeping.nr_files = 64 };
	const char *why = NULL;
	struct service *s;
	sigset_t all, old;

	fixture_path(path, "ticks");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	assert_int_equal(service_open(&options, &s, &why), 0);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return s;
}

static void blocks_leave(struct service *s)
{
	u64 *nr = &s->frames.arena->header->nr_evicted;

	host_store_relaxed(nr, host_load_relaxed(nr) + 1);
}

/* Does a resize begin at this tick? */
static bool tick_grows(struct service *s)
{
	budget_tick(&s->budget);
	return resize_is_under_way(s);
}

static void blocks_have_left_arena_grows_after_its_pause(void **state)
{
	struct service *s = begin();

	(void)state;
	s->budget.next_ns = 0;
	assert_false(tick_grows(s)); /* nothing has left */
	blocks_leave(s);
	s->budget.next_ns = UINT64_MAX;
	assert_false(tick_grows(s));
	s->budget.next_ns = 0;
	assert_true(tick_grows(s));
	while (resize_is_under_way(s)) {
		service_turn(s);
		s = resize_next(s);
	}
	assert_int_equal(s->options.sizes.cache_bytes, 2 * MIB);
	service_shut(s);
}

static void load_asks_arena_grows_as_far_as_it_must(void **state)
{
	struct service *s = begin();

	(void)state;
	assert_int_equal(budget_ask(&s->budget, MIB), 0); /* it has that */
	assert_false(resize_is_under_way(s));
	assert_int_equal(budget_ask(&s->budget, 4 * MIB), 0);
	assert_true(resize_is_under_way(s));
	while (resize_is_under_way(s)) {
		service_turn(s);
		s = resize_next(s);
	}
	assert_int_equal(s->options.sizes.cache_bytes, 4 * MIB);
	service_shut(s);
}

static void budget_taken_over_all_of_it(void **state)
{
	const struct budget old = { .bytes = 1, .evicted = 2, .next_ns = 3, .asked = 4 };
	struct budget b = { 0 };

	(void)state;
	budget_take_over(&b, &old);
	assert_memory_equal(&b, &old, sizeof(b));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_have_left_arena_grows_after_its_pause),
		cmocka_unit_test(load_asks_arena_grows_as_far_as_it_must),
		cmocka_unit_test(budget_taken_over_all_of_it),
	};

	fixture_begin(argc, argv, NULL);
	alarm(TEST_SECONDS);
	return cmocka_run_group_tests_name("budget ticks", tests, NULL, NULL);
}
