/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The threads of the program: what each reads by, which of them are in the shim, and how the shim
 * steps aside. Rules: run.h. */
#define _GNU_SOURCE
#include "preload/run_threads.h"

#include <errno.h>

#include "preload/own.h"
#include "preload/run_calls.h"
#include "preload/run_files.h"
#include "preload/run_leave.h"
#include "preload/run_place.h"
#include "preload/run_record.h"
#include "preload/run_report.h"

/* How long a thread that confines the process waits for the others, at most. A handler may have
 * jumped out of a read, which then never ends. Our choice. */
#define RUN_CONFINE_LOOKS 100u
#define RUN_CONFINE_PAUSE_NS UINT64_C(1000000)
/* How soon a sweep goes on that has found the service busy. */
#define RUN_SOON_NS 2000000u

void run_step_aside(struct run_state *s)
{
	run_places_end(s);
	host_store_relaxed(&s->off, 1);
	run_let_go(s);
}

void run_stop(void)
{
	struct run_state *s = shim.run.state;
	struct fds_hold hold;

	host_store_relaxed(&shim.run.stopped, 1);
	if (!s || host_load_relaxed(&s->off)) /* U13 */
		return;
	/* A vfork() child gets no lock. */
	if (run_lock(s, &hold, true)) {
		run_step_aside(s);
		run_unlock(s, &hold);
	}
	host_store_relaxed(&s->off, 1);
}

void run_end(bool stderr_closing)
{
	struct fds_hold hold;

	if ((!shim.run.reports && !shim.run.records) || !shim.run.state ||
	    !calls_begin(shim.run.state))
		return;
	if (fds_lock(&shim.run.state->fds, &hold, true)) {
		if (shim.run.reports)
			run_report_end(stderr_closing);
		if (shim.run.records)
			run_record_end(stderr_closing);
		fds_unlock(&shim.run.state->fds, &hold);
	}
	calls_end(shim.run.state);
}

/* Does another thread make system calls of the shim's, or may it soon? */
static bool others_call(struct run_state *s)
{
	struct run_reader *r =
		(struct run_reader *)host_load_acquire((u64 *)&s->readers);

	while (r && (r == shim_thread.reader || !host_load_relaxed(&r->busy)))
		r = r->made_before;
	return r || host_load_relaxed(&s->inside);
}

/* The filter may be for all threads. So those go out first that are in the shim. A reader stores
 * busy and looks at off without a fence between; that is what the first pause is for. */
void run_confined(void)
{
	struct run_state *s = shim.run.state;
	int error = errno;

	if (!s || host_load_relaxed(&shim.run.filtered))
		return;
	run_end(false);
	run_report_mark(SEEN_BLIND);
	run_stop();
	host_store_relaxed(&shim.run.filtered, 1);
	host_fence_full();
	for (u32 i = 0; i < RUN_CONFINE_LOOKS && (i == 0 || others_call(s));
	     i++) /* U19 */
		port_sleep(RUN_CONFINE_PAUSE_NS);
	errno = error;
}

bool run_forked(void)
{
	shim_thread.reader = NULL;
	shim_thread.over = false;
	run_places_forked();
	run_report_forked();
	run_record_forked();
	if (host_load_relaxed(&shim.run.gone))
		host_store_relaxed(&shim.run.state->off, 1);
	if (host_load_relaxed(&shim.run.filtered))
		return false;
	own_forked();
	return true;
}

/* Another thread may have this one's reader. One that is in the middle of a read stays. */
static void reader_give(void)
{
	struct run_state *s = shim.run.state;
	struct run_reader *r = shim_thread.reader;
	struct fds_hold hold;

	if (!r || shim_thread.reader_pid != host_load_relaxed(&s->fds.pid) ||
	    host_load_relaxed(&r->busy) || !run_lock(s, &hold, true))
		return;
	shim_thread.reader = NULL;
	r->idle_since_ns = host_now_ns();
	r->seated = true;
	r->next = s->free_readers;
	s->free_readers = r;
	host_fetch_add(&s->nr_idle, 1);
	run_unlock(s, &hold);
}

/* Gives back the seats of readers that no thread has; those of a service that has gone at once.
 * false: the service is busy. */
static bool readers_sweep(struct run_state *s, u64 now)
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

void run_sweep(struct run_state *s, u64 now)
{
	host_store_relaxed(&s->nr_idle, 0);
	if (readers_sweep(s, now) && files_sweep(s, now)) {
		host_store_relaxed(&s->sweep_at_ns, now + RUN_KEEP_NS);
	} else {
		host_fetch_add(&s->nr_idle, 1);
		host_store_relaxed(&s->sweep_at_ns, now + RUN_SOON_NS);
	}
}

/* The thread ends. */
static void reader_leave(void *arg)
{
	(void)arg;
	reader_give();
	shim_thread.reader = NULL;
	shim_thread.over = true;
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
	r = port_alloc(sizeof(*r));
	if (r && lent_context(s->lodic, &r->context) != 0) {
		port_free(r);
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

	if (likely(shim_thread.reader && shim_thread.reader_pid == pid))
		return shim_thread.reader;
	if (shim_thread.over || !run_lock(s, &hold, false))
		return NULL;
	shim_thread.reader = reader_make(s);
	shim_thread.reader_pid = pid;
	if (shim_thread.reader &&
	    !port_word_set(&shim.reader_word, shim_thread.reader)) {
		shim_thread.reader->next = s->free_readers;
		s->free_readers = shim_thread.reader;
		shim_thread.reader = NULL;
	}
	run_unlock(s, &hold);
	return shim_thread.reader;
}

bool run_threads_start(void)
{
	shim.reader_word.end = reader_leave;
	return port_word_make(&shim.reader_word);
}
