/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files that writers change again and again, each time as a whole. Each 8-byte word of a file
 * tells its generation, so that old bytes never pass for new ones, nor a mixture for either.
 *
 * The writer says in shared memory what a holder may see:
 * - floor: it has opened the file to write this generation, and open(2) has returned. A hold that
 *   is begun from now on must not show an older one.
 * - begun: no byte of a later generation exists.
 * - epoch: odd while the name comes to mean another file. A holder that has opened the file in an
 *   earlier epoch has the old file, to which floor does not apply.
 */
#ifndef LODIC_TESTS_SUPPORT_GENERATIONS_H
#define LODIC_TESTS_SUPPORT_GENERATIONS_H

#include "tests/support/cache_fixture.h"

#define GEN_LEAST_BYTES ((u64)5 << 18) /* 1.25 MiB: such a hold is shared */
#define GEN_MOST_BYTES ((u64)3 << 20)
#define GEN_SIZES 1024u /* so many generations are remembered */

enum gen_change {
	GEN_REWRITE,  /* in place, by write(2) or by stores to a shared mapping */
	GEN_TRUNCATE, /* O_TRUNC, ftruncate() or truncate(), and then written anew */
	GEN_RENAME,   /* another file takes the name */
	GEN_UNLINK,   /* the name goes, and another file is made */
	GEN_NR_CHANGES
};
extern const char *const gen_change_names[GEN_NR_CHANGES];

/* In shared memory, which only the writer writes. */
struct gen_file {
	u64 number; /* for the pattern */
	u64 epoch, floor, begun;
	u64 sizes[GEN_SIZES]; /* of generation i, at i % GEN_SIZES; 0: it changes */
	char path[FIXTURE_PATH_BYTES];
};

/* The writer makes it, with generation 1. */
void gen_file_make(struct gen_file *f, const char *name, u64 number, u64 *random);
void gen_file_change(struct gen_file *f, enum gen_change change, u64 *random);

/* A holder opens it. -1: the writer is about to replace it. */
int gen_file_open(const struct gen_file *f, u64 *ret_epoch);
/* What a hold that begins now may show at least; 0: the holder has another file open. */
u64 gen_file_floor(const struct gen_file *f, u64 epoch);
/* Looks at every byte that was held from offset on, by a hold that was begun when
 * gen_file_floor() said floor. to_end: the hold goes to the file's end. NULL: all is right, and
 * *ret_generation is what it shows. Otherwise what is wrong: "stale", "torn", ... */
const char *gen_file_judge(const struct gen_file *f, const void *data, u64 offset,
                           u64 bytes, u64 floor, bool to_end, u64 *ret_generation);

#endif
