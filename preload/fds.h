/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the shim knows about the program's descriptors: a word for each, its slot. `lodic map` and
 * `lodic run` each have such a table, and one process has one of them.
 *
 *   0                                          nothing is known
 *   FDS_SKIP                                   the shim leaves it alone until it is closed
 *   generation << 16 | index << 2 | FDS_FILE   a file of the shim's table of files
 *   FDS_OTHER, or n << 2 | FDS_OTHER           the user's own
 *
 * The generation says which file an index means, because another file may take its place.
 *
 * The table lies in memory that the kernel wipes in a child. After a fork() the child's pid is
 * noted there. A child of vfork() or of a bare clone() finds another pid, or none, and the lock
 * refuses it.
 */
#ifndef LODIC_PRELOAD_FDS_H
#define LODIC_PRELOAD_FDS_H

#include <stdbool.h>
#include <stddef.h>

#include "host/host.h"
#include "lib/port/guest.h"

/* The shim does not look at descriptors from this number on. Each lower one takes 8 bytes,
 * in memory that the kernel gives only once it is touched. */
#define FDS_NR 65536u

#define FDS_SKIP 1u
#define FDS_FILE 2u
#define FDS_OTHER 3u
#define FDS_KIND 3u
#define FDS_INDEX_SHIFT 2
#define FDS_GENERATION_SHIFT 16
#define FDS_MAX_FILES (1u << (FDS_GENERATION_SHIFT - FDS_INDEX_SHIFT))

/* First in the state of its user. */
struct fds {
	u64 pid; /* 0: a child that did not come by fork() */
	struct port_lock lock;
	u64 locked; /* this process has taken a lock by fcntl(): U32; atomic */
	u64 top;    /* no descriptor from here on was seen */
	u64 slots[FDS_NR];
};

static inline u64 fds_of_file(u64 generation, u64 index)
{
	return generation << FDS_GENERATION_SHIFT | index << FDS_INDEX_SHIFT | FDS_FILE;
}

static inline u64 fds_generation(u64 slot)
{
	return slot >> FDS_GENERATION_SHIFT;
}

static inline u64 fds_index(u64 slot)
{
	return slot >> FDS_INDEX_SHIFT & (FDS_MAX_FILES - 1);
}

/* Zeroed memory for a state of so many bytes, which the kernel wipes in a child. forked() is called
 * there; if it returns false, the state stays another process's, as it is for a child that did not
 * come by fork(). NULL: nothing more happens there. Returns NULL if there is no memory. Only a
 * constructor may call it, once in each process. */
void *fds_state(size_t bytes, bool (*forked)(void));

/* Is the state this process's? */
bool fds_is_ours(void);

/* This process takes a lock of its own on a file. Its next close of the file drops the lock. */
void fds_note_lock(void);
/* May it hold such a lock? A vfork() child has none. */
bool fds_may_lock(void);

/* A thread that holds the lock has its signals blocked and cannot be cancelled. */
struct fds_hold {
	struct port_quiet quiet;
	int error;
};

/* false: the state is another process's, or wait is false and another thread holds the lock. */
bool fds_lock(struct fds *fds, struct fds_hold *hold, bool wait);
void fds_unlock(struct fds *fds, const struct fds_hold *hold); /* errno as it was */

/* Under the lock. */
void fds_saw(struct fds *fds, int fd);

/* Does the process have a limit on its address space? Then what the shim maps would take from
 * what the program may have. */
bool fds_address_space_limited(void);

#endif
