/* SPDX-License-Identifier: GPL-2.0 */
/* One thread of a reader process: it reads the hot pages and checks every byte. */
#ifndef LODIC_TESTS_READER_H
#define LODIC_TESTS_READER_H

#include "seat.h"

#include <pthread.h>

struct uring;

struct reader {
	struct seat *seat;
	u32 index;
	pthread_t thread;
	struct uring *ring; /* or NULL: it reads by pread() */
};

/* Of a thread; arg is its struct reader. */
void *reader_main(void *arg);

#endif
