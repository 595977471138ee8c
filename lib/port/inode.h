/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): the file behind a descriptor, as the service must know it before
 * it believes the file.
 *
 * A local file system is one of enum port_system, but for PORT_SYSTEM_OTHER. It asks no server and
 * no other program. What it knows of an open file is in memory, so such an answer does not wait.
 * An open or a read may wait for its disk. Any other one may never answer.
 */
#ifndef LODIC_LIB_PORT_INODE_H
#define LODIC_LIB_PORT_INODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/port.h"

/* On which file system and which mount a file is. */
struct port_place {
	uint64_t dev;   /* of the file system; another one may have it after the last unmount */
	uint64_t mount; /* the same of a mount; 0: the kernel does not number them */
	/* Of a mount, and never another one's; 0: the kernel has no such numbers. */
	uint64_t mount_for_ever;
};
/* The server of a file system is not asked, but for 9p's. So this waits for 9p alone. -EBADF
 * -ENOSYS, PORT_FILE_ERRNOS. */
PORT_HANGS int port_place(int fd, struct port_place *ret);
/* The same of what path leads to. Also what port_look_at() says. */
PORT_HANGS int port_place_at(const char *path, struct port_place *ret);

/* How many names fd's file has, and which file that is. It asks as port_place() does, so nr is what
 * the kernel last heard. -EBADF -ENOSYS, PORT_FILE_ERRNOS. */
struct port_names {
	uint64_t dev, ino;
	bool known; /* nr is */
	uint32_t nr;
};
PORT_HANGS int port_names(int fd, struct port_names *ret);

enum port_system {
	PORT_SYSTEM_OTHER,
	PORT_SYSTEM_EXT, /* ext2, ext3, ext4 */
	PORT_SYSTEM_XFS,
	PORT_SYSTEM_BTRFS,
	PORT_SYSTEM_F2FS,
	PORT_SYSTEM_TMPFS, /* also of port_memory_file() */
	PORT_SYSTEM_SQUASHFS,
	PORT_SYSTEM_EROFS,
	PORT_SYSTEM_ISO,
	PORT_SYSTEM_CRAMFS,
};
/* What kind of file system fd's file is on. It asks the system itself, which stays the same. -EBADF
 * -ENOSYS -EACCES, PORT_FILE_ERRNOS; a file system in user space may say any other errno. */
PORT_HANGS int port_system(int fd, enum port_system *ret);

/* Is the file sealed by fs-verity, so that nobody can ever write to it? false also where that is
 * not known. */
PORT_HANGS bool port_has_verity(int fd);

enum port_reopening {
	PORT_LEAVES_ATIME = 1, /* reads do not change when the file was last read */
	PORT_PAST_CACHE = 2,   /* reads go past the kernel's cache of pages */
};
/* As port_reopen(), but does not wait for a program that has the file under a lease of a writer.
 * Reads of it wait as usual. -EWOULDBLOCK: there is such a lease; that program is told. -EPERM:
 * only the file's owner may leave its time alone; or as port_reopen(). -EINVAL: the file system
 * does not read past the cache. And what port_reopen() says. */
PORT_HANGS int port_reopen_at_once(int fd, unsigned int how);
/* Another descriptor of what fd leads to. It names that, and gives no right to it
 * (PORT_NAMES_ONLY). No server of a file system is asked, but for 9p's. -ENOENT: there is no /proc,
 * or fd is none. -EMFILE -ENFILE -EACCES, PORT_FILE_ERRNOS. */
PORT_HANGS int port_reopen_name(int fd);
/* May a description of the same file read past the kernel's cache? */
PORT_HANGS bool port_reads_past_cache(int fd);

/* The size of the list that says, beside its mode, who may do what with the file at path, behind
 * symbolic links. -ENODATA: it has none. -EOPNOTSUPP: no file there has. And what port_look_at()
 * says. */
PORT_HANGS int port_access_list(const char *path);

#endif
