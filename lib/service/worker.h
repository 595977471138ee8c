/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Threads for what may never return: whatever touches a descriptor that a client has passed.
 * Its file system may be a dead server, or a process that does not answer. Even close() may
 * wait for it. So the main thread passes such work on, and hears of the end by an event.
 *
 * A worker that has been busy with one job for WORKER_STUCK_NS is stuck. One program gets at
 * most WORKERS_EACH workers stuck, and closing gets one. While all are stuck no more work is
 * accepted.
 * So a client hears at once that the service cannot serve it, and no queue grows.
 */
#ifndef LODIC_LIB_SERVICE_WORKER_H
#define LODIC_LIB_SERVICE_WORKER_H

#include "lib/service/state.h"

/* Ours: an open takes some microseconds, so that one worker is enough until one sticks. */
#define WORKERS_MOST 8u
#define WORKERS_EACH 2u
#define WORKER_STUCK_NS (500 * NS_PER_MS)

struct worker_job {
	struct worker_job *next;
	int process;  /* for which program; 0: for none */
	bool closes;  /* a descriptor of unknown kind: one worker at a time does that */
	bool refused; /* it was never begun: all workers are stuck */
	/* A worker calls it. It touches nothing but the job and what stands still. */
	void (*work)(struct worker_job *job);
	/* The main thread calls it afterwards; it frees the job. */
	void (*done)(struct service *s, struct worker_job *job);
};

int worker_start(struct service *s);
/* Ends the threads that are not stuck, after their jobs. */
void worker_stop(struct service *s);
/* Lets a worker do the job, soon. -EBUSY: too many are stuck; -EAGAIN: there is no thread.
 * In both cases neither work() nor done() will be called. */
int worker_do(struct service *s, struct worker_job *job);
/* Lets a worker close fd. */
void worker_close(struct service *s, int fd);
/* How many such descriptors are not closed yet. */
u32 worker_nr_closing(const struct service *s);
/* An eventfd: readable when worker_done() has something to do. */
int worker_event(const struct service *s);
/* Calls done() of the jobs that have ended. */
void worker_done(struct service *s);
/* The main loop calls it now and then: when all workers are stuck it refuses what waits. */
void worker_tick(struct service *s);

#endif
