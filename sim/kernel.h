/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Locks of the papers' kernels that a read takes for reading, besides what it counts. Such a lock
 * is one word: an addition takes it, and another one gives it back, as in Linux' rw_semaphore.
 * Readers do not wait for each other, but the line of the word goes to and fro between them.
 */
#ifndef LODIC_SIM_KERNEL_H
#define LODIC_SIM_KERNEL_H

#include "core/count/count.h"

static inline void kernel_read_lock(u64 *lock)
{
	host_fetch_add(lock, 1);
}

static inline void kernel_read_unlock(u64 *lock)
{
	host_fetch_add(lock, -(u64)1);
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
