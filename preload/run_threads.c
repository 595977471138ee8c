/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The threads of the program: what each reads by, which of them are in the shim, and how the shim
 * steps aside. Rules: run.h. */
#define _GNU_SOURCE
#include "preload/run_state.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

#include "preload/own.h"
#include "preload/run_place.h"

/* How long a thread that confines the process waits for the others, at most. A handler may have
 * jumped out of a read, which then never ends. Our choice. */
#define RUN_CONFINE_LOOKS 100u
#define RUN_CONFINE_PAUSE_NS 1000000

u64 run_filtered, run_stopped;
static pthread_key_t run_key;

static __thread struct run_reader *run_mine;
static __thread u64 run_pid; /* the process that it is of: after fork() another one */
static __thread bool run_over;

void run_step_aside(struct run_state *s)
{
	run_places_end(s);
	host_store_relaxed(&s->off, 1);
	run_let_go(s);
}

void run_stop(void)
{
	struct run_state *s = run_state;
	struct fds_hold hold;

	host_store_relaxed(&run_stopped, 1);
	if (!s || host_load_relaxed(&s->off)) /* U13 */
		return;
	/* A vfork() child gets no lock. */
	if (run_lock(s, &hold, true)) {
		run_step_aside(s);
		run_unlock(s, &hold);
	}
	host_store_relaxed(&s->off, 1);
}

bool calls_begin(struct run_state *s)
{
	host_fetch_add(&s->inside, 1);
	if (likely(!host_load_relaxed(&run_filtered)))
		return true;
	host_fetch_add(&s->inside, -(u64)1);
	return false;
}

void calls_end(struct run_state *s)
{
	host_fetch_add(&s->inside, -(u64)1);
}

bool run_lock(struct run_state *s, struct fds_hold *hold, bool wait)
{
	if (!calls_begin(s))
		return false;
	if (fds_lock(&s->fds, hold, wait)) {
		if (!host_load_relaxed(&s->off) && !host_load_relaxed(&s->leaving))
			return true;
		fds_unlock(&s->fds, hold);
	}
	calls_end(s);
	return false;
}

void run_unlock(struct run_state *s, const struct fds_hold *hold)
{
	fds_unlock(&s->fds, hold);
	calls_end(s);
}

/* Does another thread make system calls of the shim's, or may it soon? */
static bool others_call(struct run_state *s)
{
	struct run_reader *r =
		(struct run_reader *)host_load_acquire((u64 *)&s->readers);

	while (r && (r == run_mine || !host_load_relaxed(&r->busy)))
		r = r->made_before;
	return r || host_load_relaxed(&s->inside);
}

/* The filter may be for all threads. So those go out first that are in the shim. A reader stores
 * busy and looks at off without a fence between; that is what the first pause is for. */
void run_confined(void)
{
	const struct timespec pause = { .tv_nsec = RUN_CONFINE_PAUSE_NS };
	struct run_state *s = run_state;
	int error = errno;

	if (!s || host_load_relaxed(&run_filtered))
		return;
	run_end(false);
	run_report_mark(SEEN_BLIND);
	run_stop();
	host_store_relaxed(&run_filtered, 1);
	host_fence_full();
	for (u32 i = 0; i < RUN_CONFINE_LOOKS && (i == 0 || others_call(s));
	     i++) /* U19 */
		own_call(SYS_nanosleep, &pause, NULL);
	errno = error;
}

bool run_forked(void)
{
	run_mine = NULL;
	run_over = false;
	run_places_forked();
	run_report_forked();
	run_record_forked();
	if (host_load_relaxed(&run_gone))
		host_store_relaxed(&run_state->off, 1);
	return !host_load_relaxed(&run_filtered);
}

/* Another thread may have this one's reader. One that is in the middle of a read stays. */
static void reader_give(void)
{
	struct run_state *s = run_state;
	struct run_reader *r = run_mine;
	struct fds_hold hold;

	if (!r || run_pid != host_load_relaxed(&s->fds.pid) ||
	    host_load_relaxed(&r->busy) || !run_lock(s, &hold, true))
		return;
	run_mine = NULL;
	r->idle_since_ns = host_now_ns();
	r->seated = true;
	r->next = s->free_readers;
	s->free_readers = r;
	host_fetch_add(&s->nr_idle, 1);
	run_unlock(s, &hold);
}

bool readers_sweep(struct run_state *s, u64 now)
{
	bool done = true;

	for (struct run_reader *r = s->free_readers; r; r = r->next) {
		bool old = now - r->idle_since_ns >= RUN_KEEP_NS;

		if (r->seated && ((done && old) || lent_is_dead(r->context))) {
			r->seated = !lent_park(r->context);
			done &= !r->seated;
		}
		host_fetch_add(&s->nr_idle, r->seated);
	}
	return done;
}

/* The thread ends. */
static void reader_leave(void *arg)
{
	(void)arg;
	reader_give();
	run_mine = NULL;
	run_over = true;
}

void run_suspends(void)
{
	reader_give(); /* U18 */
}

/* The lock is held. */
static struct run_reader *reader_make(struct run_state *s)
{
	struct run_reader *r = s->free_readers;

	if (r) {
		s->free_readers = r->next;
		return r;
	}
	if (!run_attach(s))
		return NULL;
	r = own_calloc(1, sizeof(*r));
	if (r && lent_context(s->lodic, &r->context) != 0) {
		own_free(r);
		r = NULL;
	}
	if (r) {
		r->made_before = s->readers;
		host_store_release((u64 *)&s->readers, (u64)r);
	}
	return r;
}

struct run_reader *reader_mine(struct run_state *s)
{
	u64 pid = host_load_relaxed(&s->fds.pid);
	struct fds_hold hold;

	if (likely(run_mine && run_pid == pid))
		return run_mine;
	if (run_over || !run_lock(s, &hold, false))
		return NULL;
	run_mine = reader_make(s);
	run_pid = pid;
	if (run_mine && pthread_setspecific(run_key, run_mine) != 0) {
		run_mine->next = s->free_readers;
		s->free_readers = run_mine;
		run_mine = NULL;
	}
	run_unlock(s, &hold);
	return run_mine;
}

bool run_threads_start(void)
{
	return pthread_key_create(&run_key, reader_leave) == 0;
}
