/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads of this process that read pages of a file all the time and check every byte. They
 * map nothing. Each stays on a processor of its own, or moves to another one now and then.
 */
#ifndef LODIC_TESTS_CROWD_H
#define LODIC_TESTS_CROWD_H

#include "base.h"

#include <pthread.h>

#define CROWD_MOST 16

struct crowd {
	int fd;
	const u8 *expect;
	u32 threads, pages; /* pages of the file, from its first */
	bool moves;         /* between processors, also in the middle of a read */
	bool zeros_ok;      /* holes are being made, or the file is being truncated */
	atomic_bool stop;
	atomic_uint bad;
	atomic_ulong reads;
	char bad_text[160]; /* of the first */
	pthread_t thread[CROWD_MOST];
	atomic_uint started;
	u32 cpus; /* 0 to cpus - 1 */
};

/* Starts the threads. The caller has set the first fields, and the others to 0. */
void crowd_start(struct crowd *c);

/* Waits until nr more reads have ended, half a minute at most. */
void crowd_wait(struct crowd *c, unsigned long nr);

/* Ends them. Fails the subtest if one read a wrong byte, or if nobody read. */
void crowd_stop(struct crowd *c);

#endif
