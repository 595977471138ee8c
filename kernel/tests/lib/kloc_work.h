/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What processes do to files while KLOC moves them: read, write, truncate, punch, delete, rename,
 * map, fork, read by O_DIRECT, write back, move_pages(2). Each byte of a file is what its offset
 * says, or 0 where a hole was.
 */
#ifndef LODIC_TESTS_KLOC_WORK_H
#define LODIC_TESTS_KLOC_WORK_H

#include "base.h"

#define KLOC_BYTES (1ul << 20)
#define KLOC_FILES 3

struct kloc_worker {
	u8 *buf; /* KLOC_BYTES, aligned to pages */
	u64 rng;
	char path[200];
};

/* What files have. The test sets it, to at least KLOC_BYTES of data_expected(). */
extern const u8 *kloc_expected;

/* The i-th worker. It is a process of its own: it ends with 3 where it finds a wrong byte. */
void kloc_worker_make(struct kloc_worker *w, u32 i);

/* Opens one of the KLOC_FILES files of the directory, does up to three things, closes it. */
void kloc_work(struct kloc_worker *w, const char *dir);

/* Ends the worker if a byte that was read at that offset is wrong. */
void kloc_check(struct kloc_worker *w, const u8 *got, u64 at, ssize_t n, const char *how);

/*
 * After the workers: fills their files of the directory anew. Fails the subtest if their bytes are
 * wrong, or if pages stay resident that nobody uses. Deletes them.
 */
void kloc_work_end(const char *dir);

#endif
