/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See proof.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/service/proof.h"

#define PATH_BYTES 4096
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

/* Local file systems, whose every writer passes through this kernel's open(). */
static bool proof_is_local_disk(u64 type)
{
	switch (type) {
	case EXT4_SUPER_MAGIC: /* ext2 and ext3 have the same number */
	case XFS_SUPER_MAGIC:
	case BTRFS_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC: return true;
	default: return false;
	}
}

/* File systems that nobody can write to in place, mounted or not. */
static bool proof_is_made_read_only(u64 type)
{
	return type == SQUASHFS_MAGIC || type == EROFS_SUPER_MAGIC_V1 ||
	       type == ISOFS_SUPER_MAGIC || type == CRAMFS_MAGIC;
}

const char *proof_name(u32 proof)
{
	static const char *const names[] = { "lease", "verity", "read-only",
		                             "promise" };

	return names[proof];
}

bool proof_by_lease_possible(int fd)
{
	u64 type = proof_file_system(fd);

	return proof_is_local_disk(type) || type == TMPFS_MAGIC ||
	       type == OVERLAYFS_SUPER_MAGIC;
}

bool proof_by_verity(int fd)
{
	struct statx st;

	return proof_is_local_disk(proof_file_system(fd)) &&
	       statx(fd, "", AT_EMPTY_PATH, 0, &st) == 0 &&
	       st.stx_attributes & STATX_ATTR_VERITY;
}

/* Is the word "ro" among the comma-separated options? */
static bool proof_options_are_read_only(const char *options)
{
	return strncmp(options, "ro", 2) == 0 &&
	       (options[2] == ',' || options[2] == '\n' || options[2] == '\0');
}

/* Looks at the superblock's own options, which end each line of mountinfo. A mount may be
 * read-only while another mount of the same file system is not. */
bool proof_superblock_is_read_only(u64 dev)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	unsigned int major_nr, minor_nr;
	char *line = NULL;
	size_t room = 0;
	bool read_only = false;

	if (!file)
		return false;
	while (!read_only && getline(&line, &room, file) > 0) {
		const char *tail = strstr(line, " - ");
		const char *options = strrchr(line, ' ');

		if (tail && options > tail + 2 &&
		    sscanf(line, "%*d %*d %u:%u", &major_nr, &minor_nr) == 2 &&
		    makedev(major_nr, minor_nr) == dev)
			read_only = proof_options_are_read_only(options + 1);
	}
	free(line);
	fclose(file);
	return read_only;
}

static int proof_path(int fd, char *path, size_t bytes)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, bytes - 1);
	if (n < 0)
		return -errno;
	path[n] = '\0';
	return 0;
}

static bool proof_by_promise(const struct service *s, int fd)
{
	const char *const *glob = s->options.immutable;
	char path[PATH_BYTES];

	if (!glob || proof_path(fd, path, sizeof(path)) != 0)
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

int proof_without_lease(const struct service *s, int fd, u64 dev, u32 *ret_proof)
{
	u64 type = proof_file_system(fd);

	if (proof_by_verity(fd))
		*ret_proof = PROOF_VERITY;
	else if ((proof_is_local_disk(type) || proof_is_made_read_only(type)) &&
	         proof_superblock_is_read_only(dev))
		*ret_proof = PROOF_READ_ONLY;
	else if (proof_by_promise(s, fd))
		*ret_proof = PROOF_PROMISE;
	else
		return -EACCES;
	return 0;
}
