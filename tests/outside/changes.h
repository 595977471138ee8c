/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Ways to change a file, or to try it. Each ends the process when it does not go as it should. */
#ifndef LODIC_TESTS_OUTSIDE_CHANGES_H
#define LODIC_TESTS_OUTSIDE_CHANGES_H

#include "tests/support/cache_fixture.h"

#define SPOT_PATH_BYTES (2 * FIXTURE_PATH_BYTES)

/* What there is for a row: the path that readers have, and the one that is changed. */
struct spot {
	char path[SPOT_PATH_BYTES], via[SPOT_PATH_BYTES], other[SPOT_PATH_BYTES];
	int writer;   /* what prepare() leaves open; -1: nothing */
	void *mapped; /* the same */
};

/* The first block of the file gets other bytes, or the file another size. The last few change only
 * what is around the bytes. change_register() is right if the kernel refuses to pin the pages. */
void change_write(const struct spot *s);
void change_direct(const struct spot *s);
void change_open(const struct spot *s);
void change_trunc_written(const struct spot *s);
void change_trunc_readonly(const struct spot *s);
void change_truncate(const struct spot *s);
void change_ftruncate(const struct spot *s);
void change_writer(const struct spot *s);
void change_store(const struct spot *s);
void change_map(const struct spot *s);
void change_punch(const struct spot *s);
void change_zero(const struct spot *s);
void change_collapse(const struct spot *s);
void change_insert(const struct spot *s);
void change_copy_range(const struct spot *s);
void change_clone(const struct spot *s);
void change_sendfile(const struct spot *s);
void change_splice(const struct spot *s);
void change_uring(const struct spot *s);
void change_swapon(const struct spot *s);
void change_rename_over(const struct spot *s);
void change_unlink(const struct spot *s);
void change_attributes(const struct spot *s);
void change_flags(const struct spot *s);
void change_register(const struct spot *s);
/* What is there before a reader comes. */
void change_prepare_writer(struct spot *s);
void change_prepare_mapping(struct spot *s);

#endif
