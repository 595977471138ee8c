/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What /proc says of a process: bytes, CPU time, mappings, offsets. */
#ifndef LODIC_CLI_DOCTOR_PROC_H
#define LODIC_CLI_DOCTOR_PROC_H

#include "cli/doctor/doctor.h"

void doctor_proc_io(int pid, struct doctor_io *ret);
/* CPU time of a process with all its threads. -errno. */
int doctor_proc_cpu(int pid, uint64_t *ret_user_ns, uint64_t *ret_system_ns);
/* Files below the folder ours are left out. Leaves *ret as it is if the process has gone, or is
 * another user's. */
void doctor_proc_maps(int pid, const char *ours, struct doctor_maps *ret);

/* The offsets of a process's descriptors. */
#define DOCTOR_FDS 4096u
struct doctor_fds {
	uint64_t offset[DOCTOR_FDS]; /* of regular files */
	uint64_t ino[DOCTOR_FDS];
};
/* Looks at the descriptors. What moved forward since the last look is added to d->moved_bytes. */
void doctor_proc_fds(struct doctor *d, struct doctor_fds *fds);

#endif
