/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Control groups that limit memory, and what /proc and /sys say of memory. A process belongs to
 * the group of the one that has started it. Only pages of memory files are charged: to the group of
 * the process that made the file, and those around it. They go when the file goes.
 *
 * Where a group has no room for a page, the kernel kills the process with most memory there. The
 * page is charged all the same.
 */
#ifndef LODIC_HOST_WHOLE_GROUP_H
#define LODIC_HOST_WHOLE_GROUP_H

#include "host/whole/machine.h"

struct group {
	char path[32]; /* below where groups are mounted: "/box" */
	struct group *outer;
	u64 limit, high; /* bytes; 0: none */
	u64 charged;     /* of memory files */
	u64 others;      /* what other programs have */
	u64 files;       /* in the page cache: the kernel drops them for what is charged */
	u32 nr_kills;
	bool first; /* it is of the first version */
};

/* What the kernel says of the whole machine. */
struct memory_says {
	u64 available;     /* bytes, in /proc/meminfo; 0: there is no such file */
	bool has_pressure; /* there is /proc/pressure/memory */
	u32 pressure;      /* avg10 of it, in hundredths of a percent */
};
extern struct memory_says memory_says;

/* The running task's process has got pages of a memory file of that name; NULL: nobody asks. */
extern void (*groups_heard)(const struct group *group, const char *name);

/* None is left, and the kernel says nothing. */
void group_begin(void);
struct group *group_new(struct group *outer, const char *path);
/* Of the processes in it, and in those inside. */
void group_freeze(const struct group *group, bool frozen);
u64 group_used(const struct group *group);
/* What it leaves; 0: nothing. Without a limit: UINT64_MAX. Its page cache counts as free. */
u64 group_left(const struct group *group);
/* A memory file of it gets pages. Somebody may be killed for it, also the running task's
 * process: then this does not return. */
void group_charge(struct group *group, const char *name, u64 bytes);
void group_uncharge(struct group *group, u64 bytes);
/* The text of a file below /proc or /sys, as that process sees it. false: there is none. */
bool group_text(const struct process *process, const char *path, char *to, size_t room);

#endif
