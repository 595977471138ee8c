/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a read does for a file that is not cached: a step towards that, and one of them waits.
 *
 * The read that waits for the service (U14). A program that reads a file many times is faster than
 * the service's first answers. It has read a thousand blocks by system calls before a busy service
 * has had a CPU. So one read of the file sleeps until the answer is there. It is not among the
 * first. A program that reads a few blocks of a thousand files each would wait for all of them. By
 * then the reads have taken about as long as an answer takes. So the wait doubles at most what the
 * file has cost so far.
 *
 * The wait holds no lock and blocks no signal, as that of mmap() (run_map.c). If a read or a
 * mapping has waited in vain, no read waits until the service has answered a mapping. All reads of
 * a process together wait no longer than AWAIT_ALL_NS, also for a service that is slow each time.
 */
#define _GNU_SOURCE
#include "preload/run_await.h"

#include <errno.h>

#include "lib/client/error.h"
#include "preload/run_calls.h"
#include "preload/run_files.h"
#include "preload/run_threads.h"

/* An answer takes 60 us, and a read by the kernel 2. Our choice. */
#define AWAIT_READS 32u
/* How long it waits, at most. Our choice: a service among ten busy programs on two CPUs answers in
 * 5 to 20 ms. */
#define AWAIT_NS UINT64_C(50000000)
#define AWAIT_ALL_NS UINT64_C(1000000000)
#define AWAIT_FIRST_PAUSE_NS UINT64_C(50000)
#define AWAIT_LAST_PAUSE_NS UINT64_C(1000000)

/* Why the file is not cached, as far as the last answers say. */
static enum run_why file_why(const struct run_state *s, const struct run_file *f)
{
	if (host_load_relaxed(&f->lent.reason))
		return RUN_REFUSED;
	if (host_load_relaxed(&s->alone))
		return RUN_AWAY;
	return host_load_relaxed(&s->refusal) ? RUN_REFUSED : RUN_ASKED;
}

/* A step has been made. Does the service refuse this process, whatever the file? The lock is
 * held. */
static void note_refusal(struct run_state *s, int reason)
{
	switch (-reason_error(-reason)) {
	case ENOENT:
	case ECONNREFUSED:
	case ECONNRESET:
	case EINPROGRESS:
	case ESTALE:
	case EAGAIN: reason = 0; /* it is away, or has not answered yet */
	}
	host_store_relaxed(&s->refusal, (u64)reason);
}

enum run_why run_step(struct run_state *s, struct run_reader *r, int fd, u64 slot,
                      const struct run_missed *m)
{
	struct run_file *f = run_file_of(slot);
	bool stopped = false;
	struct fds_hold hold;

	if (host_load_relaxed(&f->locked))
		return RUN_LOCKED;
	if (!lent_due(r->context, &f->lent) || !run_lock(s, &hold, false))
		return file_why(s, f);
	if (fds_address_space_limited()) {
		run_step_aside(s);
		stopped = true;
	} else if (f->lent.name == fds_generation(slot) &&
	           !host_load_relaxed(&f->locked)) {
		/* So that the thread's end does not hand it on half-way. */
		host_store_relaxed(&r->busy, 1);
		lent_step(r->context, &f->lent, fd, m->offset, m->bytes);
		host_store_relaxed(&r->busy, 0);
		run_is_alone(s);
		if (!host_load_relaxed(&f->lent.reason))
			note_refusal(s, lent_reason(r->context, &f->lent));
		if (s->generation != lent_generation(s->lodic)) {
			s->generation = lent_generation(s->lodic);
			run_sweep(s, host_now_ns());
		}
	}
	run_unlock(s, &hold);
	return stopped ? RUN_STOPPED : file_why(s, f);
}

static bool await_is_over(const struct run_reader *r, const struct run_file *f,
                          u64 slot)
{
	return f->lent.name != fds_generation(slot) || host_load_relaxed(&f->locked) ||
	       lent_is_answered(r->context, &f->lent);
}

/* The wait itself, until end_ns at most. */
static void await_answer(struct run_state *s, struct run_reader *r, int fd, u64 slot,
                         const struct run_missed *m, u64 end_ns)
{
	struct run_file *f = run_file_of(slot);
	u64 pause_ns = AWAIT_FIRST_PAUSE_NS;
	int error = errno;

	while (!await_is_over(r, f, slot) && !host_load_relaxed(&s->off)) {
		if (host_now_ns() >= end_ns) {
			host_store_relaxed(&s->unanswered, 1);
			return;
		}
		if (!calls_begin(s))
			return;
		port_sleep(pause_ns);
		errno = error; /* a signal may have ended it */
		run_step(s, r, fd, slot, m);
		calls_end(s);
		if (pause_ns < AWAIT_LAST_PAUSE_NS)
			pause_ns *= 2;
	}
}

void run_await(struct run_state *s, struct run_reader *r, int fd, u64 slot,
               const struct run_missed *m)
{
	struct run_file *f = run_file_of(slot);
	u64 began_ns;

	if (host_load_relaxed(&f->nr_unanswered) > AWAIT_READS ||
	    await_is_over(r, f, slot) ||
	    host_fetch_add(&f->nr_unanswered, 1) != AWAIT_READS ||
	    host_load_relaxed(&s->unanswered) ||
	    host_load_relaxed(&s->awaited_ns) >= AWAIT_ALL_NS)
		return;
	began_ns = host_now_ns();
	await_answer(s, r, fd, slot, m, began_ns + AWAIT_NS);
	host_fetch_add(&s->awaited_ns, host_now_ns() - began_ns);
}
