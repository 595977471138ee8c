/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See worker.h. The lock guards everything in struct workers. Nobody holds it during a job, or
 * for longer than a few steps.
 *
 * A thread that is stuck when the service ends cannot be waited for. So the last user of
 * struct workers frees it: the main thread, or a thread. Where it has jobs left, it stays
 * (worker_keep()).
 */
#include <errno.h>

#include "core/check.h"
#include "lib/port/thread.h"
#include "lib/service/base/worker.h"
#include "lib/service/base/state.h"
#include "lib/service/base/base.h"

/* How long the end of the service waits for jobs under way. */
#define STOP_NS (200 * NS_PER_MS)
#define STACK_BYTES ((size_t)256 << 10)
/* Ours: memory that comes back does so before as many programs have passed a file. */
#define LATE_MOST 256u

struct worker {
	struct workers *all;
	struct worker_job *job; /* NULL: it has none */
	u64 since_ns;
};

struct workers {
	struct port_lock lock;
	struct port_condition wanted, ended;
	struct worker_job *queue; /* the oldest comes first */
	struct worker_job *finished;
	struct worker each[WORKERS_MOST];
	u32 nr; /* threads */
	u32 nr_idle;
	u32 nr_queued;
	u32 nr_closing; /* descriptors to close, or being closed; the main thread's */
	u32 nr_late; /* not among these: they wait for the next tick; the main thread's */
	int late[LATE_MOST]; /* descriptors that no worker could get */
	int event;
	u32 nr_of[NR_WORKER_KINDS]; /* workers that have a job of that kind */
	bool stopping;
	bool orphaned; /* the main thread has gone; the last thread frees this */
	u64 kept;      /* of an earlier service, in worker_keep() */
};

static const u32 most_of[NR_WORKER_KINDS] = {
	[WORKER_ANY] = WORKERS_MOST, [WORKER_CLOSES] = 1, [WORKER_FREES] = 1,
	[WORKER_OPENS] = 2,          [WORKER_LOOKS] = 2,  [WORKER_FAR] = 2,
	[WORKER_TAKES] = 2,
};

struct worker_closing {
	struct worker_job job;
	int fd;
};

static void worker_free(struct workers *w)
{
	port_lock_end(&w->lock);
	port_condition_end(&w->wanted);
	port_condition_end(&w->ended);
	service_close(&w->event);
	port_free(w);
}

/* ---- the threads ---- */

/* Takes the oldest job out of the queue whose kind is below its bound. NULL: there is none. */
static struct worker_job *worker_pick(struct workers *w)
{
	struct worker_job **at = &w->queue;
	struct worker_job *job;

	while (*at && w->nr_of[(*at)->kind] >= most_of[(*at)->kind])
		at = &(*at)->next;
	job = *at;
	if (job) {
		*at = job->next;
		w->nr_queued--;
		w->nr_of[job->kind]++;
	}
	return job;
}

/* NULL: the service ends. The lock is held. */
static struct worker_job *worker_wait(struct workers *w)
{
	struct worker_job *job;

	w->nr_idle++;
	while (!(job = worker_pick(w)) && !w->stopping)
		port_condition_wait(&w->wanted, &w->lock);
	w->nr_idle--;
	return job;
}

static void worker_finish(struct workers *w, struct worker *self)
{
	w->nr_of[self->job->kind]--;
	self->job->next = w->finished;
	w->finished = self->job;
	self->job = NULL;
}

/* Without the lock: the main thread may take this one's CPU at once, and then wants it. */
static void worker_tell(const struct workers *w)
{
	port_event_tell(w->event);
}

/* Jobs have ended for which the main thread did not wait, so nobody calls their done(). What they
 * have made ends with the process, soon. Until then it lies within reach, or a look for leaks would
 * find it. */
static void worker_keep(struct workers *w)
{
	static u64 kept;

	w->kept = host_xchg(&kept, (u64)(uintptr_t)w);
}

static void worker_run(void *arg)
{
	struct worker *self = arg;
	struct workers *w = self->all;
	bool last;

	port_lock_take(&w->lock);
	while ((self->job = worker_wait(w)) != NULL) {
		self->since_ns = host_now_ns();
		port_lock_give(&w->lock);
		self->job->work(self->job);
		port_lock_take(&w->lock);
		worker_finish(w, self);
		port_lock_give(&w->lock);
		worker_tell(w); /* it is there while this thread counts in nr */
		port_lock_take(&w->lock);
	}
	last = --w->nr == 0 && w->orphaned;
	port_condition_tell(&w->ended);
	port_lock_give(&w->lock);
	if (last && w->finished)
		worker_keep(w);
	else if (last)
		worker_free(w);
}

/* One more thread. 0, or what port_thread_start_alone() says. The lock is held. */
static int worker_spawn(struct workers *w)
{
	struct worker *self = &w->each[w->nr];
	int err;

	self->all = w;
	err = port_thread_start_alone(worker_run, self, STACK_BYTES);
	w->nr += !err;
	return err;
}

/* ---- the main thread ---- */

/* Does a job wait for a thread that could not be had? The lock is held. */
static bool worker_is_wanted(const struct workers *w)
{
	return w->nr_queued > 0 && w->nr_idle == 0 && w->nr < WORKERS_MOST;
}

/* How many workers are stuck with a job of this process; 0: of any. The lock is held. */
static u32 worker_nr_stuck(const struct workers *w, int process)
{
	u64 now = host_now_ns();
	u32 nr = 0;

	for (u32 i = 0; i < WORKERS_MOST; i++) {
		const struct worker *one = &w->each[i];

		nr += one->job && now - one->since_ns >= WORKER_STUCK_NS &&
		      (process == 0 || one->job->process == process);
	}
	return nr;
}

bool worker_is_stuck(const struct base *s, enum worker_kind kind, u64 stuck_ns)
{
	struct workers *w = s->workers;
	u64 now = host_now_ns();
	u32 nr = 0, nr_all = 0;

	port_lock_take(&w->lock);
	for (u32 i = 0; i < WORKERS_MOST; i++) {
		const struct worker *one = &w->each[i];
		bool stuck = one->job && now - one->since_ns >= stuck_ns;

		nr_all += stuck;
		nr += stuck && one->job->kind == kind;
	}
	port_lock_give(&w->lock);
	return nr >= most_of[kind] || nr_all == WORKERS_MOST;
}

static void worker_queue(struct workers *w, struct worker_job *job)
{
	struct worker_job **at = &w->queue;

	while (*at)
		at = &(*at)->next;
	job->next = NULL;
	*at = job;
	w->nr_queued++;
}

void worker_job_init(struct worker_job *job, enum worker_kind kind, int process,
                     enum worker_owner owner, void (*work)(struct worker_job *job),
                     void (*done)(void *owner, struct worker_job *job))
{
	*job = (struct worker_job){ .process = process,
		                    .kind = kind,
		                    .owner = owner,
		                    .work = work,
		                    .done = done };
}

bool worker_was_refused(const struct worker_job *job)
{
	return job->refused;
}

/* A job for no program is accepted in any case: nobody hears that it was refused. */
int worker_do(struct base *s, struct worker_job *job)
{
	struct workers *w = s->workers;
	int err = 0;

	DCHECK(job->owner > OWNER_NONE && job->owner < NR_WORKER_OWNERS,
	       "a job has an owner");
	port_lock_take(&w->lock);
	if (w->nr_queued >= w->nr_idle && w->nr < WORKERS_MOST)
		worker_spawn(w); /* without it the others do the job in time (worker_tick()) */
	if (job->process != 0 && (worker_nr_stuck(w, 0) == w->nr ||
	                          worker_nr_stuck(w, job->process) >= WORKERS_EACH))
		err = -EBUSY;
	if (!err) {
		job->refused = false;
		worker_queue(w, job);
		port_condition_tell(&w->wanted);
	}
	port_lock_give(&w->lock);
	return err;
}

static void closing_work(struct worker_job *job)
{
	port_shut(((struct worker_closing *)job)->fd);
}

static void closing_done(void *owner, struct worker_job *job)
{
	struct base *s = owner;

	if (s->workers) /* else they end */
		s->workers->nr_closing--;
	port_free(job);
}

/* There is no memory for a job. The main thread may close a local file, though others wait while
 * its pages go. It must not close another one: that may never end. */
static void worker_close_without_job(struct workers *w, int fd, enum worker_kind kind)
{
	if (kind == WORKER_FREES)
		port_shut(fd);
	else if (w->nr_late < LATE_MOST)
		w->late[w->nr_late++] = fd;
	/* else the end of the process closes it */
}

static void worker_close_as(struct base *s, int fd, enum worker_kind kind)
{
	struct worker_closing *closing;

	/* The service ends, and must give up its leases whatever this file does. The kernel
	 * closes the descriptor with the process. One that is replaced ends in a worker. */
	if (!s->workers) {
		if (s->replaced)
			port_shut(fd);
		return;
	}
	closing = port_alloc(sizeof(*closing));
	if (closing) {
		worker_job_init(&closing->job, kind, 0, OWNER_BASE, closing_work,
		                closing_done);
		closing->fd = fd;
		worker_do(s, &closing->job); /* it is for no program, so it is accepted */
		s->workers->nr_closing++;
	} else {
		worker_close_without_job(s->workers, fd, kind);
	}
}

/* Takes each out before it may come back to a place that this has passed. */
static void worker_close_late(struct base *s)
{
	struct workers *w = s->workers;
	u32 nr = w->nr_late;

	w->nr_late = 0;
	for (u32 i = 0; i < nr; i++)
		worker_close_as(s, w->late[i], WORKER_CLOSES);
}

void worker_close(struct base *s, int fd)
{
	worker_close_as(s, fd, WORKER_CLOSES);
}

void worker_close_local(struct base *s, int fd)
{
	worker_close_as(s, fd, WORKER_FREES);
}

u32 worker_nr_closing(const struct base *s)
{
	return s->workers ? s->workers->nr_closing + s->workers->nr_late : 0;
}

bool worker_any(const struct base *s)
{
	return s->workers != NULL;
}

int worker_event(const struct base *s)
{
	return s->workers->event;
}

static void worker_call_done(struct base *s, struct worker_job *job)
{
	struct worker_job *next;

	for (; job; job = next) {
		next = job->next;
		job->done(s->owners[job->owner], job);
	}
}

void worker_done(struct base *s)
{
	struct workers *w = s->workers;
	struct worker_job *finished;

	port_lock_take(&w->lock);
	finished = w->finished;
	w->finished = NULL;
	port_lock_give(&w->lock);
	worker_call_done(s, finished);
}

/* Takes the jobs out of the queue that some program waits for; when the service ends, what is
 * to be closed as well. The lock is held. */
static struct worker_job *worker_refuse(struct workers *w, bool ends)
{
	struct worker_job **at = &w->queue;
	struct worker_job *refused = NULL;

	while (*at) {
		struct worker_job *job = *at;

		bool closes = job->kind == WORKER_CLOSES || job->kind == WORKER_FREES;

		if (job->process == 0 && !(ends && closes)) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		w->nr_queued--;
		job->refused = true;
		job->next = refused;
		refused = job;
	}
	return refused;
}

void worker_tick(struct base *s)
{
	struct workers *w = s->workers;
	struct worker_job *refused = NULL;

	port_lock_take(&w->lock);
	if (worker_is_wanted(w))
		worker_spawn(w); /* there may be a thread now */
	if (worker_nr_stuck(w, 0) == w->nr)
		refused = worker_refuse(w, false);
	port_lock_give(&w->lock);
	worker_call_done(s, refused);
	worker_close_late(s);
}

bool worker_wants_ticks(const struct base *s)
{
	struct workers *w = s->workers;
	bool wants;

	port_lock_take(&w->lock);
	wants = w->nr_late > 0 || worker_is_wanted(w);
	port_lock_give(&w->lock);
	return wants;
}

/* The first thread is there from the beginning. So closes always have one. A client
 * that sends descriptors cannot use the service's up while the system gives no thread. */
int worker_start(struct base *s)
{
	struct workers *w = port_alloc(sizeof(*w));
	int err;

	if (!w)
		return -ENOMEM;
	w->event = port_event();
	if (w->event < 0) {
		err = w->event;
		port_free(w);
		return err;
	}
	port_lock_init(&w->lock);
	port_condition_init(&w->wanted);
	port_condition_init(&w->ended);
	port_lock_take(&w->lock);
	err = worker_spawn(w);
	port_lock_give(&w->lock);
	if (err)
		worker_free(w);
	else
		s->workers = w;
	return err;
}

void worker_stop(struct base *s)
{
	struct workers *w = s->workers;
	struct worker_job *refused, *finished;
	u64 end = host_now_ns() + STOP_NS;
	bool last;

	if (!w)
		return;
	port_lock_take(&w->lock);
	refused = worker_refuse(w, true); /* the end of the process closes the rest */
	w->stopping = true;
	port_condition_tell_all(&w->wanted);
	while (w->nr > 0 && port_condition_wait_until(&w->ended, &w->lock, end))
		;
	finished = w->finished;
	w->finished = NULL;
	w->orphaned = true;
	last = w->nr == 0;
	port_lock_give(&w->lock);
	s->workers = NULL;
	worker_call_done(s, refused);
	worker_call_done(s, finished);
	if (last)
		worker_free(w);
}
