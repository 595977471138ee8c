/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Locks of the papers' kernels that a read takes for reading, besides what it counts. Such a lock
 * is one word: an addition takes it, and another one gives it back, as in Linux' rw_semaphore.
 * Readers do not wait for each other, but the line of the word goes to and fro between them.
 */
#ifndef LODIC_SIM_KERNEL_H
#define LODIC_SIM_KERNEL_H

#include <errno.h>

#include "core/count/count.h"
#include "host/sim/sim.h"

struct kernel_rwlock {
	u64 *words; /* a line for each lock; NULL: there are none, and nobody takes any */
};

/* Call it after sim_begin(). -ENOMEM. name: for sim_result, as sim_name() has it. */
static inline int kernel_rwlock_make(struct kernel_rwlock *locks, u32 nr,
                                     const char *name)
{
	u64 bytes = (u64)nr * COUNT_LINE_BYTES;

	locks->words = host_alloc(bytes, COUNT_LINE_BYTES);
	if (!locks->words)
		return -ENOMEM;
	sim_name(locks->words, bytes, name);
	return 0;
}

static inline void kernel_rwlock_read_begin(const struct kernel_rwlock *locks, u32 lock)
{
	if (locks->words)
		host_fetch_add(&locks->words[(u64)lock * COUNT_LINE_WORDS], 1);
}

static inline void kernel_rwlock_read_end(const struct kernel_rwlock *locks, u32 lock)
{
	if (locks->words)
		host_fetch_add(&locks->words[(u64)lock * COUNT_LINE_WORDS], -(u64)1);
}

/* Does a process take the lock of its address space to find its pte, for a ref and for an unref?
 * We infer it of the paper's LODIC. "A single lock" protects the process-space structure there
 * (LODIC s.4.4), and Table 3 is far slower than the ptes alone explain. FxMark forks processes
 * because threads would meet in that part of Linux. A scheme that looks at a CPU's table first
 * is ours. In Linux 6.12 it takes no such lock. */
static inline bool kernel_locks_space(const struct count_scheme *scheme)
{
	return scheme->has_ptes && !scheme->table;
}

#endif
