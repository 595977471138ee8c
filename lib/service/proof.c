/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See proof.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "lib/service/proof.h"

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#ifndef EROFS_SUPER_MAGIC_V1
#define EROFS_SUPER_MAGIC_V1 0xE0F5E1E2
#endif

static u64 proof_file_system(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 ? (u64)(unsigned long)st.f_type : 0;
}

/* File systems whose every writer passes through this kernel's open(), and meets a lease
 * there. A lease on overlayfs proves nothing: it lies on the overlay's own inode, and who
 * writes to the file below does not meet it. */
static bool proof_keeps_leases(u64 type)
{
	switch (type) {
	case EXT4_SUPER_MAGIC: /* ext2 and ext3 have the same number */
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case TMPFS_MAGIC: return true;
	default: return false;
	}
}

/* Formats that no kernel can write to, however they are mounted. A read-only mount of
 * another format is no proof: it may be writable in another mount namespace. */
static bool proof_is_format(u64 type)
{
	return type == SQUASHFS_MAGIC || type == EROFS_SUPER_MAGIC_V1 ||
	       type == ISOFS_SUPER_MAGIC || type == CRAMFS_MAGIC;
}

const char *proof_name(u32 proof)
{
	static const char *const names[] = { "lease", "verity", "format", "promise" };

	return names[proof];
}

bool proof_by_lease_possible(int fd)
{
	return proof_keeps_leases(proof_file_system(fd));
}

bool proof_by_verity(int fd)
{
	struct statx st;

	return proof_keeps_leases(proof_file_system(fd)) &&
	       statx(fd, "", AT_EMPTY_PATH, 0, &st) == 0 &&
	       st.stx_attributes & STATX_ATTR_VERITY;
}

int proof_path(int fd, char path[PROOF_PATH_BYTES])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, PROOF_PATH_BYTES - 1);
	if (n < 0)
		return -errno;
	path[n] = '\0';
	return 0;
}

static bool proof_by_promise(const struct service *s, int fd)
{
	const char *const *glob = s->options.immutable;
	char path[PROOF_PATH_BYTES];

	if (!glob || proof_path(fd, path) != 0)
		return false;
	for (; *glob; glob++) {
		if (fnmatch(*glob, path, FNM_PATHNAME) != 0)
			continue;
		service_say(s, "%s is cached because of your promise '%s'", path,
		            *glob);
		return true;
	}
	return false;
}

int proof_without_lease(const struct service *s, int fd, u32 *ret_proof)
{
	if (proof_by_verity(fd))
		*ret_proof = PROOF_VERITY;
	else if (proof_is_format(proof_file_system(fd)))
		*ret_proof = PROOF_FORMAT;
	else if (proof_by_promise(s, fd))
		*ret_proof = PROOF_PROMISE;
	else
		return -EACCES;
	return 0;
}
