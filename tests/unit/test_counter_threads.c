/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * lodic/counter.h with many threads. Objects are killed and live again while threads use them.
 * Threads put what others have taken, and end with guards.
 *
 *    test_counter_threads [--ends N] [--kills N] [--seed N]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/random.h"
#include "lodic/counter.h"

#define NR_OBJECTS 8u
#define NR_THREADS 4u
#define NR_PASSED 64u
#define ENDS_AT_A_TIME 8u
#define GUARDS_MOST 40u /* more than one block of a thread */
#define DEADLINE_NS 50000000000ull /* of one kill */

static u64 nr_ends = 1000, nr_kills = 800, seed = 20240731;

/* Threads look at it as long as they hold it. */
enum { OBJECT_DEAD, OBJECT_LIVE };

struct object {
	struct lodic_counter counter;
	u64 state;       /* by host_* */
	u64 nr_released; /* by host_* */
	u64 unused[5];
};

static struct object objects[NR_OBJECTS] __attribute__((aligned(64)));
static struct lodic_domain *domain;
static u64 nr_wrong, stop;
/* References on their way from one thread to another: object + 1, token. Both by host_*. */
static struct {
	u64 lock, object, token;
} passed[NR_PASSED];

static void object_release(struct lodic_counter *counter, void *arg)
{
	struct object *o = (struct object *)counter;

	(void)arg;
	host_fetch_add(&o->nr_released, 1); /* before the killer may go on */
	if (host_xchg(&o->state, OBJECT_DEAD) != OBJECT_LIVE)
		host_fetch_add(&nr_wrong, 1); /* released twice */
}

static void make_domain(enum lodic_counter_scheme scheme, u32 entries)
{
	const struct lodic_domain_options options = { .scheme = scheme,
		                                      .entries = entries,
		                                      .release = object_release };
	u32 i;

	assert_int_equal(lodic_domain_create(&options, &domain), 0);
	memset(objects, 0, sizeof(objects));
	memset(passed, 0, sizeof(passed));
	for (i = 0; i < NR_OBJECTS; i++)
		objects[i].state = OBJECT_LIVE;
	nr_wrong = stop = 0;
}

static void look(const struct object *o)
{
	if (host_load_acquire(&o->state) != OBJECT_LIVE)
		host_fetch_add(&nr_wrong, 1);
}

/* Leaves a reference for the thread that comes next, and puts what another one has left. */
static void pass(u64 *random, u32 object, u64 token)
{
	u32 i = (u32)(random_next(random) % NR_PASSED);
	u64 other, other_token;

	host_lock(&passed[i].lock);
	other = passed[i].object;
	other_token = passed[i].token;
	passed[i].object = object;
	passed[i].token = token;
	host_unlock(&passed[i].lock);
	if (!other)
		return;
	look(&objects[other - 1]);
	lodic_counter_put(domain, &objects[other - 1].counter, other_token);
}

static void *user_main(void *arg)
{
	u64 random = seed + (u64)(uintptr_t)arg, token;

	while (!host_load_relaxed(&stop)) {
		u32 i = (u32)(random_next(&random) % NR_OBJECTS);
		struct object *o = &objects[i];

		if (!lodic_counter_try_get(domain, &o->counter, &token)) {
			sched_yield();
			continue;
		}
		look(o);
		if (random_next(&random) % 4 == 0) {
			u64 more = lodic_counter_get(domain, &o->counter);

			lodic_counter_put(domain, &o->counter, token);
			token = more;
			look(o);
		}
		if (random_next(&random) % 8 == 0)
			pass(&random, i + 1, token);
		else
			lodic_counter_put(domain, &o->counter, token);
		if (random_next(&random) % 64 == 0)
			pass(&random, 0, 0);
	}
	return NULL;
}

static u64 passed_left(void)
{
	u64 nr = 0;
	u32 i;

	for (i = 0; i < NR_PASSED; i++) {
		u64 object = passed[i].object;

		if (!object)
			continue;
		passed[i].object = 0;
		nr++;
		look(&objects[object - 1]);
		lodic_counter_put(domain, &objects[object - 1].counter,
		                  passed[i].token);
	}
	return nr;
}

/* A soak takes minutes. */
static void progress(u64 done, u64 all, const char *what)
{
	if (done && done % 5000 == 0)
		print_message("             %lu of %lu %s\n", (unsigned long)done,
		              (unsigned long)all, what);
}

/* Kills, waits for the release, and makes it live again. */
static void kills_under_load(enum lodic_counter_scheme scheme, u32 entries)
{
	u64 end, kill;
	pthread_t threads[NR_THREADS];
	u32 i;

	make_domain(scheme, entries);
	for (i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, user_main,
		                                (void *)(uintptr_t)i),
		                 0);
	for (kill = 0; kill < nr_kills; kill++) {
		struct object *o = &objects[kill % NR_OBJECTS];

		progress(kill, nr_kills, "kills");
		end = host_now_ns() + DEADLINE_NS;
		assert_int_equal(lodic_counter_kill(domain, &o->counter), 0);
		assert_int_equal(lodic_counter_kill(domain, &o->counter), -EALREADY);
		while (host_load_acquire(&o->state) == OBJECT_LIVE &&
		       host_now_ns() < end)
			sched_yield();
		assert_int_equal(host_load_acquire(&o->state), OBJECT_DEAD);
		assert_int_equal(host_load_acquire(&o->nr_released),
		                 kill / NR_OBJECTS + 1);
		host_store_release(&o->state, OBJECT_LIVE);
		lodic_counter_init(&o->counter);
	}
	host_store_release(&stop, 1);
	for (i = 0; i < NR_THREADS; i++)
		pthread_join(threads[i], NULL);
	passed_left();
	assert_int_equal(nr_wrong, 0);
	for (i = 0; i < NR_OBJECTS; i++) {
		assert_int_equal(lodic_counter_sum(domain, &objects[i].counter), 0);
		assert_int_equal(lodic_counter_kill(domain, &objects[i].counter), 0);
		assert_int_equal(objects[i].state, OBJECT_DEAD);
	}
	lodic_domain_destroy(domain);
}

static void kill_under_load_releases_once_paygo(void **state)
{
	(void)state;
	kills_under_load(LODIC_COUNTER_PAYGO, 0);
}

/* Eight objects in four entries: keys change all the time, and much counts in the words. */
static void kill_under_load_releases_once_paygo_small(void **state)
{
	(void)state;
	kills_under_load(LODIC_COUNTER_PAYGO, 4);
}

static void kill_under_load_releases_once_percpu(void **state)
{
	(void)state;
	kills_under_load(LODIC_COUNTER_PERCPU, 4);
}

static void kill_under_load_releases_once_atomic(void **state)
{
	(void)state;
	kills_under_load(LODIC_COUNTER_ATOMIC, 0);
}

/* ---- ends ---- */

static u64 nr_started;

/* Holds guards when it ends; how it ends is its argument's business. */
static void *ender_main(void *arg)
{
	u64 random = seed + (u64)(uintptr_t)arg;
	u32 nr = 1 + (u32)(random_next(&random) % GUARDS_MOST), i;
	struct lodic_guard *guard, *last = NULL;

	for (i = 0; i < nr; i++) {
		guard = lodic_guard_take(
			domain, &objects[random_next(&random) % NR_OBJECTS].counter);
		if (!guard)
			host_fetch_add(&nr_wrong, 1);
		if (last && i % 3 == 0) {
			lodic_guard_drop(last);
			last = NULL;
		} else {
			last = guard;
		}
	}
	host_fetch_add(&nr_started, 1);
	switch ((uintptr_t)arg % 3) {
	case 0: return NULL;
	case 1: pthread_exit(NULL);
	default:
		for (;;) { /* until it is cancelled */
			pthread_testcancel();
			sched_yield();
		}
	}
}

static void end_with_guards_leaves_no_count(void **state)
{
	pthread_t threads[ENDS_AT_A_TIME];
	u64 done, i;

	(void)state;
	make_domain(LODIC_COUNTER_PAYGO, 0);
	for (done = 0; done < nr_ends; done += ENDS_AT_A_TIME) {
		progress(done, nr_ends, "ends");
		nr_started = 0;
		for (i = 0; i < ENDS_AT_A_TIME; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, ender_main,
			                                (void *)(uintptr_t)(done + i)),
			                 0);
		while (host_load_acquire(&nr_started) < ENDS_AT_A_TIME)
			sched_yield();
		for (i = 0; i < ENDS_AT_A_TIME; i++)
			if ((done + i) % 3 == 2)
				pthread_cancel(threads[i]);
		for (i = 0; i < ENDS_AT_A_TIME; i++)
			pthread_join(threads[i], NULL);
	}
	assert_int_equal(nr_wrong, 0);
	for (i = 0; i < NR_OBJECTS; i++) {
		assert_int_equal(lodic_counter_sum(domain, &objects[i].counter), 0);
		assert_int_equal(lodic_counter_kill(domain, &objects[i].counter), 0);
		assert_int_equal(objects[i].state, OBJECT_DEAD);
		assert_int_equal(objects[i].nr_released, 1);
	}
	printf("%lu ends of threads with guards: 0 counts left, each object released once\n",
	       (unsigned long)done);
	lodic_domain_destroy(domain);
}

/* A killed object's last reference is a guard of a thread that ends. */
static void *last_main(void *arg)
{
	(void)arg;
	if (!lodic_guard_take(domain, &objects[0].counter))
		host_fetch_add(&nr_wrong, 1);
	host_fetch_add(&nr_started, 1);
	while (!host_load_acquire(&stop))
		sched_yield();
	return NULL;
}

static void end_with_last_guard_releases(void **state)
{
	pthread_t thread;

	(void)state;
	make_domain(LODIC_COUNTER_PAYGO, 0);
	nr_started = 0;
	assert_int_equal(pthread_create(&thread, NULL, last_main, NULL), 0);
	while (!host_load_acquire(&nr_started))
		sched_yield();
	assert_int_equal(lodic_counter_kill(domain, &objects[0].counter), 0);
	assert_int_equal(objects[0].nr_released, 0);
	assert_null(lodic_guard_take(domain, &objects[0].counter));
	host_store_release(&stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(nr_wrong, 0);
	assert_int_equal(objects[0].nr_released, 1);
	lodic_domain_destroy(domain);
}

/* release() takes guards while its thread ends. One it drops, and one it leaves to that end. */
static void taking_release(struct lodic_counter *counter, void *arg)
{
	struct lodic_guard *guard;

	object_release(counter, arg);
	if (counter != &objects[0].counter && counter != &objects[1].counter)
		return;
	guard = lodic_guard_take(domain, &objects[2].counter);
	if (!guard)
		host_fetch_add(&nr_wrong, 1);
	else if (counter == &objects[0].counter)
		lodic_guard_drop(guard);
}

/* The guard of object 0 lies in another block than that of object 1. */
static void *two_blocks_main(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i <= GUARDS_MOST; i++) {
		u32 object = i == 0 ? 1 : i == GUARDS_MOST ? 0 : 3;

		if (!lodic_guard_take(domain, &objects[object].counter))
			host_fetch_add(&nr_wrong, 1);
	}
	for (i = 0; i < 2; i++)
		if (lodic_counter_kill(domain, &objects[i].counter) != 0)
			host_fetch_add(&nr_wrong, 1);
	return NULL;
}

static void end_with_release_that_takes_guards_leaves_no_count(void **state)
{
	const struct lodic_domain_options options = { .release = taking_release };
	pthread_t thread;
	u32 i;

	(void)state;
	make_domain(LODIC_COUNTER_PAYGO, 0);
	lodic_domain_destroy(domain);
	assert_int_equal(lodic_domain_create(&options, &domain), 0);
	assert_int_equal(pthread_create(&thread, NULL, two_blocks_main, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(nr_wrong, 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(objects[i].nr_released, 1);
	for (i = 2; i < 4; i++)
		assert_int_equal(lodic_counter_sum(domain, &objects[i].counter), 0);
	lodic_domain_destroy(domain);
}

/* A token outlives the thread that took it. */
static void *token_main(void *arg)
{
	u64 *token = arg;

	if (!lodic_counter_try_get(domain, &objects[0].counter, token))
		host_fetch_add(&nr_wrong, 1);
	return NULL;
}

static void token_outlives_its_thread(void **state)
{
	pthread_t thread;
	u64 token;

	(void)state;
	make_domain(LODIC_COUNTER_PAYGO, 0);
	assert_int_equal(pthread_create(&thread, NULL, token_main, &token), 0);
	pthread_join(thread, NULL);
	assert_int_equal(lodic_counter_sum(domain, &objects[0].counter), 1);
	assert_int_equal(lodic_counter_kill(domain, &objects[0].counter), 0);
	assert_int_equal(objects[0].nr_released, 0);
	lodic_counter_put(domain, &objects[0].counter, token);
	assert_int_equal(objects[0].nr_released, 1);
	assert_int_equal(nr_wrong, 0);
	lodic_domain_destroy(domain);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kill_under_load_releases_once_paygo),
		cmocka_unit_test(kill_under_load_releases_once_paygo_small),
		cmocka_unit_test(kill_under_load_releases_once_percpu),
		cmocka_unit_test(kill_under_load_releases_once_atomic),
		cmocka_unit_test(end_with_guards_leaves_no_count),
		cmocka_unit_test(end_with_last_guard_releases),
		cmocka_unit_test(end_with_release_that_takes_guards_leaves_no_count),
		cmocka_unit_test(token_outlives_its_thread),
	};
	int i;

	for (i = 1; i + 1 < argc; i += 2) {
		u64 n = strtoull(argv[i + 1], NULL, 0);

		if (strcmp(argv[i], "--ends") == 0)
			nr_ends = n;
		else if (strcmp(argv[i], "--kills") == 0)
			nr_kills = n;
		else if (strcmp(argv[i], "--seed") == 0)
			seed = n;
	}
	printf("seed=%lu\n", (unsigned long)seed);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
