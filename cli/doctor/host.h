/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What this host lacks, and whether its memory has room for a cache. */
#ifndef LODIC_CLI_DOCTOR_HOST_H
#define LODIC_CLI_DOCTOR_HOST_H

#include "cli/doctor/doctor.h"

/* Finds out how much memory the process, 0: this one, may use; and the doctor. */
void doctor_memory_look(struct doctor_memory *m, int pid);
/* Reads the settings, and the size of the cache that `lodic run` would start. */
void doctor_settings_look(struct doctor *d);
/* What this host lacks, in words; NULL: no more. */
const char *doctor_host_lacks(unsigned int i);

#endif
