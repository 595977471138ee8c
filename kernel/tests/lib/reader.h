/* SPDX-License-Identifier: GPL-2.0 */
/* One thread of a reader process: it reads the hot pages and checks every byte. */
#ifndef LODIC_TESTS_READER_H
#define LODIC_TESTS_READER_H

#include "seat.h"

#include <pthread.h>

struct reader {
	struct seat *seat;
	u32 index;
	pthread_t thread;
};

/* Of a thread; arg is its struct reader. */
void *reader_main(void *arg);

#endif
