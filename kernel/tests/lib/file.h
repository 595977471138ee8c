/* SPDX-License-Identifier: GPL-2.0 */
/* The files that tests read and map. */
#ifndef LODIC_TESTS_FILE_H
#define LODIC_TESTS_FILE_H

#include "fs.h"

#define FILE_BYTES PMD_BYTES
/* Where a process maps the file: far from everything else, so with tables of its own. */
#define AREA_A ((char *)(1ul << 44))
#define AREA_B (AREA_A + (1ul << 32))

#define MOVE_ALL 4 /* MPOL_MF_MOVE_ALL: pages that others map too */

/* Makes the file anew with its bytes, and writes it to disk. Returns 0 or -errno. */
int file_make(const char *path, const u8 *expect, size_t bytes);

/*
 * Fails the subtest if the file, which nobody maps or reads, does not leave the page cache
 * when asked to. It leaves if each page's reference count is exact. Not for tmpfs.
 */
void file_check_evictable(const char *path);

/* The system call move_pages(), which the libc does not have. */
long file_move_pages(int pid, unsigned long nr, void **pages, const int *nodes,
                     int *status, int flags);

/* Fails the subtest if anything holds a page of the file that should not. */
void file_check_exact(const struct test_fs *fs, const char *path, size_t bytes);

/* Splits all large folios of the file that the kernel can split. */
void file_split(const char *path, size_t bytes);

/* Whether the entry for an address of this process is present. */
bool file_present(const char *at);

/* The page frame behind an address of this process; 0: none is present. */
u64 file_frame(const char *at);

/*
 * Fails the subtest unless each of the nr present pages belongs to a large folio. Looks at
 * nothing where the kernel does not say, and prints that.
 */
void file_check_large(const char *map, u32 nr);

/* Maps the file's first bytes, with all their entries. */
void *file_map(int fd, size_t bytes, int prot, int flags);

#endif
