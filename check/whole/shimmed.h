/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A program with the shim of `lodic run`, which knows nothing of it. It opens files, duplicates,
 * replaces and closes descriptors, and reads. It remembers what it has done, and so knows what the
 * kernel would do without the shim: which numbers, bytes, positions and errnos.
 */
#ifndef LODIC_CHECK_WHOLE_SHIMMED_H
#define LODIC_CHECK_WHOLE_SHIMMED_H

#include "check/whole/world.h"

#define SHIMMED_MOST 4u /* programs of a run */
#define SHIMMED_THREADS 3u

struct shimmed_plan {
	u32 nr_rounds;  /* of each thread */
	u32 nr_threads; /* besides the first; at most SHIMMED_THREADS */
	u32 changes;    /* one round in so many changes the table of descriptors */
	bool gives_up;  /* it changes its rights now and then */
	bool strays; /* it takes numbers of the shim's, by bare system calls, too */
};

/* Before a run has any. */
void shimmed_begin(void);
struct process *shimmed_start(const struct shimmed_plan *plan);

#endif
