/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Short measured slots on pinned workers, threads or processes. A slot is shorter than a
 * scheduler's tick and counts only when none of its workers was switched out in its window
 * and their windows overlapped: a busy machine costs slots, not truth. The idea is
 * measure/measure.h's; there the work is a read by one of liblodic's readers, here it is any
 * function.
 */
#ifndef LODIC_BENCH_SLOTS_H
#define LODIC_BENCH_SLOTS_H

#include "host/host.h"

#define SLOTS_MAX_WORKERS 1024u

/* What a slot does. Functions get arg and the number of the worker that calls. */
struct slots_work {
	/* nr operations from place position on. Returns how many of them failed; those
	 * are not in the rate. Never waits for ever: another worker may have ended. */
	u64 (*run)(void *arg, u32 worker, u64 position, u64 nr);
	/* Once a millisecond, as a timer does; NULL: nothing to do. Its time counts. */
	void (*tick)(void *arg, u32 worker);
	void *arg;
	u64 position; /* of worker 0; the others begin elsewhere */
};

struct slots_result {
	bool counts;  /* undisturbed */
	double mops;  /* 10^6 operations a second, all workers */
	u32 nr_tried; /* slots, until one counted */
	/* In all of them, with the warm-up. */
	u64 nr_ops, nr_failed;
};

struct slots_worker;

struct slots {
	struct slots_worker *workers;
	u32 nr_workers;
	bool processes;
};

/* Workers stay on the CPUs named, one each. -ENOMEM, -EAGAIN: no thread or process to be
 * had; -EPERM: one of the CPUs is not for us. */
int slots_open(struct slots *s, const int *cpus, u32 nr, bool processes);
void slots_close(struct slots *s);

/* One slot on the first nr workers, tried again when it was disturbed. -EPIPE: a worker
 * has died. */
int slots_measure(struct slots *s, u32 nr, const struct slots_work *work,
                  struct slots_result *ret);

/* work->run once on each of the first nr workers, nothing measured; ret_failed is the sum
 * of what the calls returned. -EPIPE. */
int slots_call(struct slots *s, u32 nr, const struct slots_work *work, u64 *ret_failed);

#endif
