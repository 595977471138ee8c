/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * For tests that need root: mounts, and other users. Each test program has a mount namespace
 * of its own, which goes with its last process, and every mount with it.
 */
#ifndef LODIC_TESTS_OUTSIDE_OUTSIDE_H
#define LODIC_TESTS_OUTSIDE_OUTSIDE_H

#include "tests/support/cache_fixture.h"

#define OUTSIDE_NOBODY 65534
#define OUTSIDE_IMAGE_BYTES ((u64)8 << 20)

/* Enters the namespace and begins the fixture, whose folder others may enter. Skips the test
 * without root, and in a container that may not mount. */
void outside_begin(int argc, char **argv);
/* The same with options, as for fixture_begin(). */
void outside_begin_with(int argc, char **argv, const struct fixture_option *options);
/* Makes the folder name and gives its path. */
void outside_folder(char path[FIXTURE_PATH_BYTES], const char *name);
/* mount(2). The test fails when this fails. */
void outside_mount(const char *source, const char *at, const char *type,
                   unsigned long flags, const char *data);
/* Makes an empty ext4 file system in a file and mounts it at the folder at. */
void outside_mount_ext4(const char *at);
/* This process becomes nobody. */
void outside_become_nobody(void);
/* Writes n bytes of pattern file.version to the start of path, as any program would. */
void outside_write(const char *path, u64 file, u64 version, u64 n);

#endif
