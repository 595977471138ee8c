/* SPDX-License-Identifier: GPL-2.0 */
/* A memory cgroup of the test's own, so that the kernel reclaims its pages and no others. */
#ifndef LODIC_TESTS_PROACTIVE_H
#define LODIC_TESTS_PROACTIVE_H

#include "base.h"

/* Makes the group and enters it. Returns 0, or -errno if this kernel has none. */
int proactive_enter(void);

/* Makes the kernel reclaim so much of the group. Returns 0 or -errno: EAGAIN if it cannot. */
int proactive_reclaim(size_t bytes);

/* The same, from page cache alone. */
int proactive_reclaim_files(size_t bytes);

/* A line of the group's memory.stat, or 0. */
u64 proactive_stat(const char *name);

/* Leaves the group and removes it; its pages stay charged to its parent. */
void proactive_leave(void);

/*
 * Takes the accessed bits away from what pid maps, and the referenced flags of its pages. So
 * reclaim finds the pages unused. Returns 0 or -errno.
 */
int proactive_age(pid_t pid);

#endif
