/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A lock of the modelled kernel with tasks that sleep, as Linux's rw_semaphore. While a writer
 * has it or waits for it, readers and writers stand in a queue, and sleep. The task that lets the
 * lock go wakes the writer at the head, or else all readers in the queue, as rwsem_mark_wake()
 * does. sim/kernel.h has what such a lock costs while nobody writes.
 *
 * Not here: tasks that spin for a moment before they sleep, and readers that take a lock
 * from a writer in the queue.
 */
#ifndef LODIC_SIM_FIGURES_KERNEL_LOCKS_H
#define LODIC_SIM_FIGURES_KERNEL_LOCKS_H

#include "host/sim/sim.h"

/* Assumed: what a wake-up of a task on another CPU costs the task that wakes it. */
#define KERNEL_WAKE_NS 1000u
/* Assumed: from the wake-up until the woken task runs, besides the two switches. */
#define KERNEL_WOKEN_NS 1000u
#define KERNEL_MAX_SLEEPERS 256u

struct kernel_sleeper {
	bool writer, granted;
};

struct kernel_rwsem {
	u64 *word;       /* readers, and bits for a writer and for a queue */
	u64 *queue_lock; /* Linux's wait_lock, held while the queue changes */
	struct kernel_sleeper *queue[KERNEL_MAX_SLEEPERS]; /* the head first */
	u32 nr_queued;
	u32 switch_ns;
	u64 nr_sleeps;
};

/* Call it after sim_begin(). -ENOMEM. name: for sim_result, as sim_name() has it. */
int kernel_rwsem_make(struct kernel_rwsem *s, const struct sim_machine *machine,
                      const char *name);
void kernel_rwsem_read_begin(struct kernel_rwsem *s);
void kernel_rwsem_read_end(struct kernel_rwsem *s);
void kernel_rwsem_write_begin(struct kernel_rwsem *s);
void kernel_rwsem_write_end(struct kernel_rwsem *s);

#endif
