/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Threads for what may never return: whatever touches a descriptor that a client has passed.
 * Its file system may be a dead server, or a process that does not answer. Even close() may
 * wait for it. So the main thread passes such work on, and hears of the end by an event.
 *
 * A worker that has been busy with one job for WORKER_STUCK_NS is stuck. One program gets at
 * most WORKERS_EACH workers stuck. Some kinds of jobs have a bound of their own (enum
 * worker_kind). While all workers are stuck, and there is no other thread, no more work is
 * accepted. So a client hears at once that the service cannot serve it.
 *
 * One queue can grow, that of descriptors to close: one whose close() hangs holds up all others of
 * unknown kind. To refuse programs would not bound it, because what they have sent must be closed
 * in any case.
 */
#ifndef LODIC_LIB_SERVICE_BASE_WORKER_H
#define LODIC_LIB_SERVICE_BASE_WORKER_H

#include "lib/service/base/base.h"

struct base;

/* Ours: an open takes some microseconds, so that one worker is enough until one sticks. Files that
 * do not answer keep 16 at most. SYSTEMS_ASKED look at them, two read blocks, and two read for
 * holds. One closes, and one asks for names. Two open what a predecessor has passed (takeover.c),
 * one reads the configuration, and one ends a service that a resize has replaced. So two are free
 * for local files. */
#define WORKERS_MOST 18u
#define WORKERS_EACH 2u
#define WORKER_STUCK_NS (500 * NS_PER_MS)

/* Jobs of a kind, and how many workers do that kind at once: no number of such jobs makes all
 * workers stick. */
enum worker_kind {
	WORKER_ANY,
	WORKER_CLOSES, /* a descriptor of unknown kind; 1 */
	WORKER_FREES,  /* the same of a local file, whose pages may go; 1 */
	WORKER_OPENS,  /* a second description of a local file; 2 */
	WORKER_LOOKS,  /* asks what is held whether it still has a name; 2 */
	WORKER_FAR,    /* reads blocks of a file that may not answer; 2 */
	WORKER_TAKES,  /* opens such a file, which a predecessor has passed; 2 */
	NR_WORKER_KINDS
};

/* It lies first in what the job needs. worker.c alone looks into it. */
struct worker_job {
	struct worker_job *next;
	int process;  /* for which program; 0: for none */
	u32 kind;     /* enum worker_kind */
	u32 owner;    /* enum worker_owner, not OWNER_NONE */
	bool refused; /* it was never begun: all workers are stuck */
	/* A worker calls it. It touches nothing but the job and what stands still. */
	void (*work)(struct worker_job *job);
	/* The main thread calls it afterwards; it frees the job. */
	void (*done)(void *owner, struct worker_job *job);
};

/* Workers are there, and so is their first thread. -ENOMEM, and what port_event() and
 * port_thread_start_alone() say. */
int worker_start(struct base *s);
/* Ends the threads that are not stuck, after their jobs. */
void worker_stop(struct base *s);
/* Are there workers? A service that ends has none. */
bool worker_any(const struct base *s);
/* A new job, for worker_do(). process: for which program; 0: for none. */
void worker_job_init(struct worker_job *job, enum worker_kind kind, int process,
                     enum worker_owner owner, void (*work)(struct worker_job *job),
                     void (*done)(void *owner, struct worker_job *job));
/* Of a job that has ended: was it never begun, because all workers were stuck? */
bool worker_was_refused(const struct worker_job *job);
/* Lets a worker do the job, soon. -EBUSY: too many are stuck, and it is for a program. Then neither
 * work() nor done() will be called. */
int worker_do(struct base *s, struct worker_job *job);
/* Is a job of this kind sure to wait? Workers that stick hold its bound, or all of them stick. */
bool worker_is_stuck(const struct base *s, enum worker_kind kind, u64 stuck_ns);
/* Lets a worker close fd, of which nothing is known. Where there is no memory for that now,
 * worker_tick() tries again; the end of the process closes what are too many. */
void worker_close(struct base *s, int fd);
/* The same for a local file. It does not wait for files that do not answer. Where there is no
 * memory for that, it closes fd itself. */
void worker_close_local(struct base *s, int fd);
/* How many such descriptors are not closed yet. */
u32 worker_nr_closing(const struct base *s);
/* An event: it has input when worker_done() has something to do. */
int worker_event(const struct base *s);
/* Calls done() of the jobs that have ended. */
void worker_done(struct base *s);
/* The main loop calls it now and then: when all workers are stuck it refuses what waits. It begins
 * a thread if none could be had before, and lets workers close what they could not. */
void worker_tick(struct base *s);
/* Does something wait for the next tick? */
bool worker_wants_ticks(const struct base *s);

#endif
