/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Contract: port/inode.h. */
#define _GNU_SOURCE
#include "lib/port/inode.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define FD_PATH_BYTES 32
#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000u
#endif
#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000u
#endif
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#ifndef EROFS_SUPER_MAGIC_V1
#define EROFS_SUPER_MAGIC_V1 0xE0F5E1E2
#endif

static void inode_path(int fd, char path[FD_PATH_BYTES])
{
	snprintf(path, FD_PATH_BYTES, "/proc/self/fd/%d", fd);
}

/* With AT_STATX_DONT_SYNC, and for no field but the mount's, FUSE sends no request
 * (tests/outside/opens.c). NFS does not either, by its source; 9p does. The answer has the device's
 * number as well. */
static int inode_place(int fd, const char *path, int flags, struct port_place *ret)
{
	unsigned int mask = STATX_MNT_ID | STATX_MNT_ID_UNIQUE;
	struct statx st;

	if (statx(fd, path, flags | AT_STATX_DONT_SYNC, mask, &st) != 0)
		return -errno;
	*ret = (struct port_place){
		.dev = makedev(st.stx_dev_major, st.stx_dev_minor),
		.mount = st.stx_mask & mask ? st.stx_mnt_id : 0,
		.mount_for_ever = st.stx_mask & STATX_MNT_ID_UNIQUE ? st.stx_mnt_id : 0,
	};
	return 0;
}

int port_place(int fd, struct port_place *ret)
{
	return inode_place(fd, "", AT_EMPTY_PATH, ret);
}

int port_place_at(const char *path, struct port_place *ret)
{
	return inode_place(AT_FDCWD, path, 0, ret);
}

int port_names(int fd, struct port_names *ret)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_NLINK | STATX_INO,
	          &st) != 0)
		return -errno;
	*ret = (struct port_names){
		.dev = makedev(st.stx_dev_major, st.stx_dev_minor),
		.ino = st.stx_ino,
		.known = st.stx_mask & STATX_NLINK,
		.nr = st.stx_nlink,
	};
	return 0;
}

int port_system(int fd, enum port_system *ret)
{
	struct statfs system;

	if (fstatfs(fd, &system) != 0)
		return -errno;
	switch ((unsigned long)system.f_type) {
	case EXT4_SUPER_MAGIC: *ret = PORT_SYSTEM_EXT; break;
	case XFS_SUPER_MAGIC: *ret = PORT_SYSTEM_XFS; break;
	case BTRFS_SUPER_MAGIC: *ret = PORT_SYSTEM_BTRFS; break;
	case F2FS_SUPER_MAGIC: *ret = PORT_SYSTEM_F2FS; break;
	case TMPFS_MAGIC: *ret = PORT_SYSTEM_TMPFS; break;
	case SQUASHFS_MAGIC: *ret = PORT_SYSTEM_SQUASHFS; break;
	case EROFS_SUPER_MAGIC_V1: *ret = PORT_SYSTEM_EROFS; break;
	case ISOFS_SUPER_MAGIC: *ret = PORT_SYSTEM_ISO; break;
	case CRAMFS_MAGIC: *ret = PORT_SYSTEM_CRAMFS; break;
	default: *ret = PORT_SYSTEM_OTHER;
	}
	return 0;
}

bool port_has_verity(int fd)
{
	struct statx st;

	return statx(fd, "", AT_EMPTY_PATH, 0, &st) == 0 &&
	       st.stx_attributes & STATX_ATTR_VERITY;
}

int port_reopen_at_once(int fd, unsigned int how)
{
	char path[FD_PATH_BYTES];
	int own;

	inode_path(fd, path);
	own = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
	                         (how & PORT_LEAVES_ATIME ? O_NOATIME : 0) |
	                         (how & PORT_PAST_CACHE ? O_DIRECT : 0));
	if (own < 0)
		return -errno;
	/* io_uring would take the flag for "do not wait for the disk". */
	fcntl(own, F_SETFL, fcntl(own, F_GETFL) & ~O_NONBLOCK);
	return own;
}

int port_reopen_name(int fd)
{
	char path[FD_PATH_BYTES];
	int name;

	inode_path(fd, path);
	name = open(path, O_PATH | O_CLOEXEC);
	return name < 0 ? -errno : name;
}

/* Asks the kernel without a second descriptor. */
bool port_reads_past_cache(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
		return false;
	fcntl(fd, F_SETFL, flags);
	return true;
}

int port_access_list(const char *path)
{
	ssize_t bytes = getxattr(path, "system.posix_acl_access", NULL, 0);

	return bytes < 0 ? -errno : (int)bytes;
}
