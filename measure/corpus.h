/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The file that is read: a large one of this system, the user's, a copy, or one
 * made. */
#ifndef LODIC_MEASURE_CORPUS_H
#define LODIC_MEASURE_CORPUS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct corpus {
	char path[PATH_MAX]; /* what is read */
	char origin
		[PATH_MAX]; /* where the bytes come from; "" when they were made up */
	uint64_t bytes;
	bool temporary; /* path is ours: corpus_drop() removes it */
};

/* Takes the user's file. -errno as open(2); -EINVAL: not a regular file, or smaller
 * than one block. */
int corpus_take(struct corpus *c, const char *path);

/* Finds one between 16 and 256 MiB, best about 100, small enough for the memory that is
 * free; the search is bounded. -ENOENT: there is none. */
int corpus_find(struct corpus *c);

/* Writes one of pseudo-random bytes into folder. -errno as open(2) and write(2). */
int corpus_make(struct corpus *c, const char *folder);

/* Replaces c by a copy in folder. -errno; -EINTR when cli_stopped. */
int corpus_copy(struct corpus *c, const char *folder);

/* Removes what was made or copied. */
void corpus_drop(struct corpus *c);

/* Where copies may lie: `build` here, if it exists, else the folder for temporary
 * files. */
const char *corpus_folder(void);

#endif
