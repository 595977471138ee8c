/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A service seen from outside: what it says of its holds, and what the kernel says. */
#ifndef LODIC_TESTS_SUPPORT_HOLD_WATCH_H
#define LODIC_TESTS_SUPPORT_HOLD_WATCH_H

#include "tests/support/cache_fixture.h"

/* The memory of holds that a process has open. */
struct hold_memory {
	u32 nr;           /* memfds */
	u64 bytes;        /* their sizes */
	u64 present;      /* what the kernel has given them */
	u32 nr_uncounted; /* that holders have mapped, and this process does not have */
};

/* Processes that may hold something. */
struct hold_watched {
	const char *since; /* a file that the service wrote to when it began */
	const int *pids;   /* below 1: none */
	u32 nr_pids;
	int *stopped; /* in shared memory: the service, while it is stopped; else 0 */
};

/* The statistics, and the service's process. It is no client. -errno: no service answers. */
int hold_watch_stat(const char *socket, struct lodic_stat *ret_stat, int *ret_pid);
/* Drops all files. 0, or -errno as above. */
int hold_watch_drop(const char *socket);
/* Wants the file's holds in the other tier than before (*to), and says how many have come to one
 * since the service began. 0: no service answers. */
u64 hold_watch_move(const char *socket, const char *path, u32 *to);
/* false: the process has gone. */
bool hold_watch_memory(int pid, struct hold_memory *ret_memory);
/* The same while all threads of the process are stopped, so that it is of one moment. false: they
 * did not stop soon, or the process has gone. Looks at the holders too: what they have mapped, and
 * was made since the service began, must be the service's. Only root sees that. */
bool hold_watch_memory_at_once(int pid, const struct hold_watched *watched,
                               struct hold_memory *ret_memory);
/* Starts a process that lets a stopped service go on when this one has ended in whatever way. */
void hold_watch_guard(const int *stopped);
/* Descriptors of the process; 0: it has gone. */
u32 hold_watch_nr_descriptors(int pid);
/* Does the service list a hold with this process among those that may have it? */
bool hold_watch_lists(const char *socket, int pid, u64 *ret_bytes);

#endif
