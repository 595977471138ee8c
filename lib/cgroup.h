/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How much memory the machine has for a process, and its control groups of either version. */
#ifndef LODIC_LIB_CGROUP_H
#define LODIC_LIB_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define CGROUP_LIST "/proc/self/cgroup"
#define CGROUP_MOUNT "/sys/fs/cgroup"

struct cgroup {
	uint64_t limit; /* bytes; UINT64_MAX: there is none */
	uint64_t
		left; /* of these; cached files count as free, because the kernel drops them */
	uint64_t least; /* the least limit, of whichever group */
};

/* The group, of those that list names and those around them, that leaves least. list is a file like
 * /proc/self/cgroup, and mount a folder like /sys/fs/cgroup. A file that is not there says nothing.
 * Any thread may call it. */
void cgroup_look(const char *list, const char *mount, struct cgroup *ret);

/* The same, or the whole machine, if that leaves less: what MemAvailable says of its memory. */
void cgroup_look_all(struct cgroup *ret);

/* The default for `memory' (ADR-0040): half of the machine's memory, or of the least limit of a
 * control group, if that is less. machine_bytes 0: nobody knows. */
uint64_t cgroup_budget(uint64_t machine_bytes, uint64_t least_limit);
/* The same for this process. */
uint64_t cgroup_default_budget(void);

/* Finds the number after key in a file of lines like "key: number". If key is NULL the file
 * is one number. false: it is not there, or is not a number ("max"). */
bool cgroup_read_number(const char *path, const char *key, uint64_t *ret);

#endif
