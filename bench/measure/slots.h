/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Short measured slots on pinned workers, which are threads or processes. A slot is shorter
 * than a scheduler's tick. It counts only when none of its workers was switched out in its
 * window, and when their windows overlapped. So a busy machine costs slots, but does not
 * distort results. The idea is that of bench/measure/measure.h. There the work is a read by one of
 * liblodic's readers; here it is any function.
 */
#ifndef LODIC_BENCH_MEASURE_SLOTS_H
#define LODIC_BENCH_MEASURE_SLOTS_H

#include "host/host.h"

#define SLOTS_MAX_WORKERS 1024u

/* What a slot does. Functions get arg and the number of the worker that calls. */
struct slots_work {
	/* Does nr operations from place position on. Returns how many of them failed; those
	 * are not in the rate. It must not wait for ever: another worker may have ended. */
	u64 (*run)(void *arg, u32 worker, u64 position, u64 nr);
	/* Called once a millisecond, as by a timer; its time counts. NULL: nothing to do. */
	void (*tick)(void *arg, u32 worker);
	void *arg;
	u64 position; /* of worker 0; the others begin elsewhere */
	/* It waits for other workers in the kernel, by a mutex. So a slot counts also if a
	 * worker slept; one whose CPU was taken away still spoils it. */
	bool sleeps;
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

/* Starts workers, which stay on the CPUs named, one each. A process may be anywhere if its
 * CPU is negative. -ENOMEM. -EAGAIN: the system
 * gives no thread or process. -EPERM: the program may not use one of the CPUs. */
int slots_open(struct slots *s, const int *cpus, u32 nr, bool processes);
void slots_close(struct slots *s);

/* Runs one slot on the first nr workers, and tries again when it was disturbed. -EPIPE: a
 * worker has died. */
int slots_measure(struct slots *s, u32 nr, const struct slots_work *work,
                  struct slots_result *ret);

/* Calls work->run once on each of the first nr workers, and measures nothing. ret_failed is
 * the sum of what the calls returned. -EPIPE: a worker has died. */
int slots_call(struct slots *s, u32 nr, const struct slots_work *work, u64 *ret_failed);

#endif
