/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See worker.h. The lock guards everything in struct workers. Nobody holds it during a job, or
 * for longer than a few steps.
 *
 * A thread that is stuck when the service ends cannot be waited for. So the last user of
 * struct workers frees it: the main thread, or a thread. Where it has jobs left, it stays
 * (worker_keep()).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "lib/service/base/worker.h"
#include "lib/service/base/state.h"
#include "lib/service/base/base.h"

/* How long the end of the service waits for jobs under way. */
#define STOP_NS (200 * NS_PER_MS)
#define STACK_BYTES ((size_t)256 << 10)

struct worker {
	struct workers *all;
	struct worker_job *job; /* NULL: it has none */
	u64 since_ns;
};

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t wanted, ended;
	struct worker_job *queue; /* the oldest comes first */
	struct worker_job *finished;
	struct worker each[WORKERS_MOST];
	u32 nr; /* threads */
	u32 nr_idle;
	u32 nr_queued;
	u32 nr_closing; /* descriptors to close, or being closed; the main thread's */
	int event;
	u32 nr_of[NR_WORKER_KINDS]; /* workers that have a job of that kind */
	bool stopping;
	bool orphaned; /* the main thread has gone; the last thread frees this */
	u64 kept;      /* of an earlier service, in worker_keep() */
};

static const u32 most_of[NR_WORKER_KINDS] = {
	[WORKER_ANY] = WORKERS_MOST, [WORKER_CLOSES] = 1, [WORKER_FREES] = 1,
	[WORKER_OPENS] = 2,          [WORKER_LOOKS] = 2,
};

struct worker_closing {
	struct worker_job job;
	int fd;
};

static void worker_free(struct workers *w)
{
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wanted);
	pthread_cond_destroy(&w->ended);
	service_close(&w->event);
	free(w);
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
		pthread_cond_wait(&w->wanted, &w->lock);
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
	const u64 one = 1;

	if (write(w->event, &one, sizeof(one)) != sizeof(one))
		return; /* full: the main thread will look all the same */
}

/* Jobs have ended for which the main thread did not wait, so nobody calls their done(). What they
 * have made ends with the process, soon. Until then it lies within reach, or a look for leaks would
 * find it. */
static void worker_keep(struct workers *w)
{
	static u64 kept;

	w->kept = host_xchg(&kept, (u64)(uintptr_t)w);
}

static void *worker_run(void *arg)
{
	struct worker *self = arg;
	struct workers *w = self->all;
	bool last;

	pthread_mutex_lock(&w->lock);
	while ((self->job = worker_wait(w)) != NULL) {
		self->since_ns = host_now_ns();
		pthread_mutex_unlock(&w->lock);
		self->job->work(self->job);
		pthread_mutex_lock(&w->lock);
		worker_finish(w, self);
		pthread_mutex_unlock(&w->lock);
		worker_tell(w); /* it is there while this thread counts in nr */
		pthread_mutex_lock(&w->lock);
	}
	last = --w->nr == 0 && w->orphaned;
	pthread_cond_signal(&w->ended);
	pthread_mutex_unlock(&w->lock);
	if (last && w->finished)
		worker_keep(w);
	else if (last)
		worker_free(w);
	return NULL;
}

/* One more thread, with all signals blocked. false: there is none. The lock is held. */
static bool worker_spawn(struct workers *w)
{
	struct worker *self = &w->each[w->nr];
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, old;
	int err;

	self->all = w;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&thread, &attributes, worker_run, self);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attributes);
	w->nr += !err;
	return !err;
}

/* ---- the main thread ---- */

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

	pthread_mutex_lock(&w->lock);
	for (u32 i = 0; i < WORKERS_MOST; i++) {
		const struct worker *one = &w->each[i];
		bool stuck = one->job && now - one->since_ns >= stuck_ns;

		nr_all += stuck;
		nr += stuck && one->job->kind == kind;
	}
	pthread_mutex_unlock(&w->lock);
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

/* A job for no program is accepted in any case: nobody hears that it was refused. */
int worker_do(struct base *s, struct worker_job *job)
{
	struct workers *w = s->workers;
	int err = 0;

	pthread_mutex_lock(&w->lock);
	if (job->process != 0 && (worker_nr_stuck(w, 0) == WORKERS_MOST ||
	                          worker_nr_stuck(w, job->process) >= WORKERS_EACH))
		err = -EBUSY;
	else if (w->nr_queued >= w->nr_idle && w->nr < WORKERS_MOST &&
	         !worker_spawn(w) && w->nr == 0)
		err = -EAGAIN;
	if (!err) {
		job->refused = false;
		worker_queue(w, job);
		pthread_cond_signal(&w->wanted);
	}
	pthread_mutex_unlock(&w->lock);
	return err;
}

static void closing_work(struct worker_job *job)
{
	service_close(&((struct worker_closing *)job)->fd);
}

static void closing_done(void *owner, struct worker_job *job)
{
	struct base *s = owner;

	if (s->workers) /* else they end */
		s->workers->nr_closing--;
	free(job);
}

static void worker_close_as(struct base *s, int fd, enum worker_kind kind)
{
	struct worker_closing *closing;

	/* The service ends, and must give up its leases whatever this file does. The kernel
	 * closes the descriptor with the process. One that is replaced ends in a worker. */
	if (!s->workers) {
		if (s->replaced)
			close(fd);
		return;
	}
	closing = malloc(sizeof(*closing));
	if (closing) {
		closing->job = (struct worker_job){ .kind = kind,
			                            .work = closing_work,
			                            .done = closing_done };
		closing->fd = fd;
		if (worker_do(s, &closing->job) == 0) {
			s->workers->nr_closing++;
			return;
		}
		free(closing);
	}
	close(fd); /* no memory, or no thread */
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
	return s->workers ? s->workers->nr_closing : 0;
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

	pthread_mutex_lock(&w->lock);
	finished = w->finished;
	w->finished = NULL;
	pthread_mutex_unlock(&w->lock);
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

	pthread_mutex_lock(&w->lock);
	if (worker_nr_stuck(w, 0) == WORKERS_MOST)
		refused = worker_refuse(w, false);
	pthread_mutex_unlock(&w->lock);
	worker_call_done(s, refused);
}

int worker_start(struct base *s)
{
	struct workers *w = calloc(1, sizeof(*w));
	pthread_condattr_t monotonic;

	if (!w)
		return -ENOMEM;
	w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->event < 0) {
		free(w);
		return -errno;
	}
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->wanted, NULL);
	pthread_cond_init(&w->ended, &monotonic);
	pthread_condattr_destroy(&monotonic);
	s->workers = w;
	return 0;
}

void worker_stop(struct base *s)
{
	struct workers *w = s->workers;
	struct worker_job *refused, *finished;
	struct timespec end;
	bool last;

	if (!w)
		return;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += (long)STOP_NS;
	end.tv_sec += end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	pthread_mutex_lock(&w->lock);
	refused = worker_refuse(w, true); /* the end of the process closes the rest */
	w->stopping = true;
	pthread_cond_broadcast(&w->wanted);
	while (w->nr > 0 && pthread_cond_timedwait(&w->ended, &w->lock, &end) == 0)
		;
	finished = w->finished;
	w->finished = NULL;
	w->orphaned = true;
	last = w->nr == 0;
	pthread_mutex_unlock(&w->lock);
	s->workers = NULL;
	worker_call_done(s, refused);
	worker_call_done(s, finished);
	if (last)
		worker_free(w);
}
