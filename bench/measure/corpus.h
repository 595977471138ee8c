/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The file that a measurement reads: a large one of this system, the user's, a copy of
 * either, or one of random bytes. */
#ifndef LODIC_BENCH_MEASURE_CORPUS_H
#define LODIC_BENCH_MEASURE_CORPUS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct corpus {
	char path[PATH_MAX];   /* what is read */
	char origin[PATH_MAX]; /* where the bytes come from; "": they are random */
	uint64_t bytes;
	bool temporary; /* corpus_drop() removes the file */
};

/* Takes the user's file. -errno as open(2); -EINVAL: not a regular file, or smaller
 * than one block. */
int corpus_take(struct corpus *c, const char *path);

/* Finds a file of this system between 16 and 256 MiB, as near to 100 as it can. The memory
 * that is free limits the size. The search is bounded. -ENOENT: there is none. */
int corpus_find(struct corpus *c);

/* Writes a file of pseudo-random bytes into folder. -errno as open(2) and write(2);
 * -EINTR when cli_stopped. */
int corpus_make(struct corpus *c, const char *folder);

/* Replaces c by a copy in folder. -errno; -EINTR when cli_stopped. */
int corpus_copy(struct corpus *c, const char *folder);

/* Removes the file that was made or copied. */
void corpus_drop(struct corpus *c);

#endif
