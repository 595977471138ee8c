/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* lib/service/base/worker.h: its end while a job is under way; no thread, no memory. */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/service/base/state.h"
#include "lib/service/base/worker.h"
#include "tests/support/cache_fixture.h"

#define NR_JOBS 2u
#define MADE_BYTES 100u
#define MANY 600u

/* Each goes on when it may, and makes something that done() would free. */
struct late {
	struct worker_job job;
	u64 *go_on, *nr_made;
	void *made;
};

static void late_work(struct worker_job *job)
{
	struct late *late = (struct late *)job;

	while (!host_load_acquire(late->go_on))
		fixture_pause_us(1000);
	late->made = malloc(MADE_BYTES);
	host_fetch_add(late->nr_made, 1);
}

static void late_done(void *owner, struct worker_job *job)
{
	(void)owner;
	(void)job;
	abort(); /* the end has not waited for it */
}

/* Not inlined: its stack must not keep a job within reach. */
static void __attribute__((noinline)) service_begins_and_ends(u64 *go_on, u64 *nr_made)
{
	struct base *s = calloc(1, sizeof(*s));

	REQUIRE(s && worker_start(s) == 0, "no workers");
	for (u32 i = 0; i < NR_JOBS; i++) {
		struct late *late = calloc(1, sizeof(*late));

		REQUIRE(late, "no memory");
		worker_job_init(&late->job, WORKER_ANY, 0, OWNER_BASE, late_work, late_done);
		late->go_on = go_on;
		late->nr_made = nr_made;
		REQUIRE(worker_do(s, &late->job) == 0, "not begun");
	}
	worker_stop(s);
	free(s);
}

/* AddressSanitizer looks for leaks at a process's exit(). */
static void end_with_jobs_under_way_does_not_wait_nothing_leaks(void **state)
{
	static u64 go_on, nr_made;
	pid_t pid = fixture_fork();

	(void)state;
	if (pid == 0) {
		service_begins_and_ends(&go_on, &nr_made);
		REQUIRE(host_load_acquire(&nr_made) == 0, "it has waited");
		host_store_release(&go_on, 1);
		REQUIRE(WAIT_UNTIL(host_load_acquire(&nr_made) == NR_JOBS), "stuck");
		fixture_pause_us(100000); /* the threads end */
		exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
}

/* A job that names no owner would end at some other struct. */
static void job_without_an_owner_fails_at_once(void **state)
{
	static const u32 wrong[] = { OWNER_NONE, NR_WORKER_OWNERS };
	const struct rlimit no_core = { 0, 0 };

	(void)state;
#ifndef LODIC_DEBUG
	skip();
#endif
	for (u32 i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		pid_t pid = fixture_fork();
		int status;

		if (pid == 0) {
			struct base s = { 0 };
			struct worker_job job = { .work = late_work,
				                  .done = late_done,
				                  .owner = wrong[i] };

			setrlimit(RLIMIT_CORE, &no_core);
			signal(SIGABRT, SIG_DFL); /* cmocka looks after it */
			close(STDERR_FILENO);
			REQUIRE(worker_start(&s) == 0, "no workers");
			worker_do(&s, &job);
			_exit(0);
		}
		status = fixture_wait(pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
}

static bool no_threads;

int __real_port_thread_start_alone(void (*run)(void *arg), void *arg, size_t bytes);
int __wrap_port_thread_start_alone(void (*run)(void *arg), void *arg, size_t bytes);

int __wrap_port_thread_start_alone(void (*run)(void *arg), void *arg, size_t bytes)
{
	return no_threads ? -EAGAIN : __real_port_thread_start_alone(run, arg, bytes);
}

static void start_without_a_thread_fails(void **state)
{
	struct base s = { 0 };

	(void)state;
	no_threads = true;
	assert_int_equal(worker_start(&s), -EAGAIN);
	no_threads = false;
	assert_false(worker_any(&s));
}

static bool no_memory;

void *__real_port_alloc(size_t bytes);
void *__wrap_port_alloc(size_t bytes);

void *__wrap_port_alloc(size_t bytes)
{
	return no_memory ? NULL : __real_port_alloc(bytes);
}

static struct base *workers_begin(void)
{
	struct base *s = calloc(1, sizeof(*s));

	REQUIRE(s && worker_start(s) == 0, "no workers");
	s->owners[OWNER_BASE] = s;
	return s;
}

/* The user's limit of threads is reached once the service has begun. */
static void close_many_without_further_threads(void)
{
	struct base *s = workers_begin();
	int fds[2];

	REQUIRE(port_pipe(fds) == 0, "no pipe");
	no_threads = true;
	for (u32 i = 0; i < MANY; i++)
		worker_close(s, port_dup(fds[1]));
	port_close(fds[1]);
	REQUIRE(port_wait(fds[0], PORT_HANG_UP, 30000) == 1, "some stay open");
	REQUIRE(WAIT_UNTIL((worker_done(s), worker_nr_closing(s) == 0)), "for ever");
	worker_stop(s);
	port_close(fds[0]);
	free(s);
}

static void close_without_memory(void)
{
	struct base *s = workers_begin();
	int fds[2], local[2];

	REQUIRE(port_pipe(fds) == 0 && port_pipe(local) == 0, "no pipes");
	no_memory = true;
	worker_close(s, fds[1]);
	worker_tick(s);
	worker_close_local(s, local[1]);
	no_memory = false;
	REQUIRE(port_ready(fds[0], PORT_HANG_UP) == 0, "the main thread has closed it");
	REQUIRE(port_ready(local[0], PORT_HANG_UP) == 1, "nobody has closed it");
	REQUIRE(worker_nr_closing(s) == 1 && worker_wants_ticks(s), "it is lost");
	worker_tick(s);
	REQUIRE(port_wait(fds[0], PORT_HANG_UP, 30000) == 1, "nobody has closed it");
	REQUIRE(WAIT_UNTIL(port_event_take(worker_event(s))), "nobody says so");
	worker_done(s);
	REQUIRE(worker_nr_closing(s) == 0 && !worker_wants_ticks(s), "for ever");
	worker_stop(s);
	port_close(fds[0]);
	port_close(local[0]);
	free(s);
}

/* A job that goes on when it may. */
struct waiting {
	struct worker_job job;
	u64 go_on;
	bool done, refused;
};

static void waiting_work(struct worker_job *job)
{
	while (!host_load_acquire(&((struct waiting *)job)->go_on))
		fixture_pause_us(1000);
}

static void waiting_done(void *owner, struct worker_job *job)
{
	struct waiting *w = (struct waiting *)job;

	(void)owner;
	w->done = true;
	w->refused = worker_was_refused(job);
}

static int waiting_begin(struct base *s, struct waiting *w, int process)
{
	worker_job_init(&w->job, WORKER_ANY, process, OWNER_BASE, waiting_work,
	                waiting_done);
	return worker_do(s, &w->job);
}

static bool worker_has_ended(struct base *s, const struct waiting *w)
{
	worker_tick(s);
	worker_done(s);
	return w->done;
}

/* Programs hear that nobody comes to them, and once there is a thread it takes what is left. */
static void only_worker_is_stuck(void)
{
	static struct waiting stuck, waits, late, closes = { .go_on = 1 };
	struct base *s = workers_begin();

	no_threads = true;
	REQUIRE(waiting_begin(s, &stuck, 1) == 0 && waiting_begin(s, &waits, 2) == 0,
	        "refused at once");
	REQUIRE(WAIT_UNTIL(worker_has_ended(s, &waits)) && waits.refused,
	        "a program waits for ever");
	REQUIRE(waiting_begin(s, &late, 3) == -EBUSY, "the next one waits, too");
	REQUIRE(!worker_wants_ticks(s), "for what?");
	REQUIRE(waiting_begin(s, &closes, 0) == 0, "what is for no program is accepted");
	REQUIRE(!worker_has_ended(s, &closes) && worker_wants_ticks(s), "who does it?");
	no_threads = false;
	REQUIRE(WAIT_UNTIL(worker_has_ended(s, &closes)) && !closes.refused,
	        "no thread comes");
	host_store_release(&stuck.go_on, 1);
	worker_stop(s);
	free(s);
}

/* A job of a kind that one worker at a time may do. */
static void closer_is_stuck(void)
{
	static struct waiting closes, any;
	const u64 hour_ns = (u64)3600 * 1000000000;
	struct base *s = workers_begin();

	REQUIRE(waiting_begin(s, &any, 0) == 0, "refused");
	worker_job_init(&closes.job, WORKER_CLOSES, 0, OWNER_BASE, waiting_work,
	                waiting_done);
	REQUIRE(worker_do(s, &closes.job) == 0, "refused");
	REQUIRE(WAIT_UNTIL(worker_is_stuck(s, WORKER_CLOSES, 0)), "it runs for ever");
	REQUIRE(!worker_is_stuck(s, WORKER_CLOSES, hour_ns), "not so long");
	REQUIRE(!worker_is_stuck(s, WORKER_ANY, 0), "the others are there");
	host_store_release(&closes.go_on, 1);
	REQUIRE(WAIT_UNTIL(worker_has_ended(s, &closes)), "no end");
	REQUIRE(!worker_is_stuck(s, WORKER_CLOSES, 0), "it has ended");
	host_store_release(&any.go_on, 1);
	worker_stop(s);
	free(s);
}

static void only_closer_is_stuck_others_are_not(void **state)
{
	pid_t pid = fixture_fork();

	(void)state;
	if (pid == 0) {
		closer_is_stuck();
		exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
}

static void only_worker_is_stuck_programs_are_refused(void **state)
{
	pid_t pid = fixture_fork();

	(void)state;
	if (pid == 0) {
		only_worker_is_stuck();
		exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
}

static void close_many_without_further_threads_all_close(void **state)
{
	pid_t pid = fixture_fork();

	(void)state;
	if (pid == 0) {
		close_many_without_further_threads();
		exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
}

static void close_without_memory_waits_for_some(void **state)
{
	pid_t pid = fixture_fork();

	(void)state;
	if (pid == 0) {
		close_without_memory();
		exit(0);
	}
	assert_int_equal(fixture_wait(pid), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(end_with_jobs_under_way_does_not_wait_nothing_leaks),
		cmocka_unit_test(job_without_an_owner_fails_at_once),
		cmocka_unit_test(start_without_a_thread_fails),
		cmocka_unit_test(close_many_without_further_threads_all_close),
		cmocka_unit_test(close_without_memory_waits_for_some),
		cmocka_unit_test(only_worker_is_stuck_programs_are_refused),
		cmocka_unit_test(only_closer_is_stuck_others_are_not),
	};

	fixture_begin(argc, argv, NULL);
	return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
