/* SPDX-License-Identifier: GPL-2.0 */
/* The file systems that tests use: ext4, xfs and tmpfs, and those of tests/proofs.c. */
#ifndef LODIC_TESTS_FS_H
#define LODIC_TESTS_FS_H

#include "base.h"

struct test_fs {
	const char *kind;
	char dir[100];
	bool mounted_here;
};

/* The guest's disk that has one of that kind, or NULL. btrfs and f2fs: `kernel/run proofs`. */
const char *fs_device(const char *kind);

/*
 * Mounts the test file system of that kind; tmpfs is fresh each time. With -d DIR it uses DIR
 * instead. Returns 0, or -errno if this machine has no such file system.
 */
int fs_mount(const char *kind, struct test_fs *ret_fs);

/* Unmounts. A file system that stays busy fails the present subtest. */
void fs_umount(struct test_fs *fs);

/* The file system of that kind, mounted at its first use. Returns 0 or -errno. */
int fs_mount_once(const char *kind, struct test_fs **ret_fs);

/* Unmounts what fs_mount_once() has mounted. */
void fs_umount_all(void);

#endif
