/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Runs the program, or watches a process, and gathers what the shim counted. */
#ifndef LODIC_CLI_DOCTOR_RUN_H
#define LODIC_CLI_DOCTOR_RUN_H

#include "cli/doctor/doctor.h"

/* Runs the program to its end. 0, and *ret_status is as waitpid(2) has it; or an exit status, and
 * the function has said why. */
int doctor_run(struct doctor *d, int *ret_status);
/* Watches the process d->pid for d->watch_ms, or to its end. An exit status. */
int doctor_watch(struct doctor *d);

/* The file's entry, its own or a new one; NULL: there is no memory. */
struct doctor_file *doctor_file_of(struct doctor *d, uint64_t dev, uint64_t ino,
                                   const char *path);

/* A copy of a process's counts; NULL: it has left none. To be unmapped. */
struct seen_process *doctor_counts_map(const char *folder, const char *name);
void doctor_add_times(uint64_t (*to)[SEEN_TIMES], const struct seen_process *p);
/* Of all RUN_NR_WHYS. */
static inline uint64_t doctor_sum(const uint64_t *numbers)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < RUN_NR_WHYS; i++)
		sum += numbers[i];
	return sum;
}

static inline uint64_t doctor_ns_of(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000;
}

/* When its bytes last changed. */
static inline uint64_t doctor_mtime_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000000u +
	       (uint64_t)st->st_mtim.tv_nsec;
}

#endif
