/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The processes that read for the measurement. */
#ifndef LODIC_CLI_DOCTOR_READER_H
#define LODIC_CLI_DOCTOR_READER_H

#include "cli/doctor/doctor.h"

#define DOCTOR_MOST_READ 65536u
#define DOCTOR_COLD_READS 16u /* of a slot; their median counts */
#define DOCTOR_NEW_FILES 64u
/* In the environment: how the paths of the new files begin. */
#define DOCTOR_NEW_PLACE "LODIC_DOCTOR_NEW"

/* What a reader is to do. It answers with the ns of a read, or of a new file. */
struct doctor_order {
	uint32_t bytes, reads; /* 0 reads: the whole span once, from its begin */
	uint64_t span;         /* 0: new files, until they are served */
	bool cold;
	bool askew; /* reads begin anywhere in a block */
};

/* CPU time of this thread. */
uint64_t doctor_cpu_ns(void);
/* `lodic doctor --reader FILE`: it gets orders at stdin, one by one. */
int doctor_reader(const char *path);

#endif
