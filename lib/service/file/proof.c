/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See proof.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/reason.h"
#include "lib/service/file/group.h"
#include "lib/service/file/proof.h"
#include "lib/service/file/systems.h"
#include "lib/service/file/state.h"
#include "lib/service/base/base.h"

#define FILE_TOO_BIG ((u64)1 << 44) /* block numbers have 32 bits */
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif
#ifndef EROFS_SUPER_MAGIC_V1
#define EROFS_SUPER_MAGIC_V1 0xE0F5E1E2
#endif

/* File systems whose every writer passes through this kernel. It meets a lease there, or a watch
 * hears of it (doc/proofs.md). A lease on overlayfs proves nothing: it lies on the overlay's own
 * inode, and who writes to the file below does not meet it. */
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

/* A tmpfs file without a name may be of memfd_create(), whose own description can write. The
 * kernel does not count that one as a writer, so it would grant a lease beside it. */
static bool proof_is_memory(u64 type, const struct stat *st)
{
	return type == TMPFS_MAGIC && st->st_nlink == 0;
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
	static const char *const names[] = { "lease", "verity", "format", "promise",
		                             "none" };

	return names[proof];
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

/* The glob that the user promised about a file of this path. */
static const char *proof_promise(const struct service_options *o, const char *path)
{
	const char *const *glob = o->immutable;

	while (glob && *glob && fnmatch(*glob, path, FNM_PATHNAME) != 0)
		glob++;
	return glob ? *glob : NULL;
}

static bool proof_has_verity(int fd)
{
	struct statx st;

	return statx(fd, "", AT_EMPTY_PATH, 0, &st) == 0 &&
	       st.stx_attributes & STATX_ATTR_VERITY;
}

/* Opens a description of the service's own: the client could change a lease or a flag on
 * that of its own. */
static int proof_reopen(int fd, int flags)
{
	char path[64];
	int own;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* O_NONBLOCK: if a process holds a write lease, say so instead of waiting. */
	own = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOATIME | flags);
	if (own < 0 && errno == EPERM) /* not the owner's process */
		own = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
	if (own < 0 && errno == ENOENT)
		return reason_encode(LODIC_REASON_NO_PROC);
	if (own < 0 && errno == EACCES)
		return reason_encode(LODIC_REASON_UNREADABLE);
	if (own < 0)
		return errno == EWOULDBLOCK ? -ETXTBSY : -errno;
	/* io_uring would take the flag for "do not wait for the disk". */
	fcntl(own, F_SETFL, fcntl(own, F_GETFL) & ~O_NONBLOCK);
	return own;
}

int proof_open_direct(int fd)
{
	return proof_reopen(fd, O_DIRECT);
}

/* Asks the kernel without a second descriptor. */
static bool proof_takes_direct(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (fcntl(fd, F_SETFL, flags | O_DIRECT) != 0)
		return false;
	fcntl(fd, F_SETFL, flags);
	return true;
}

/* What the file system says about the file. */
static int proof_look_inside(const struct service_options *o, int fd, u64 type,
                             struct passed_file *p)
{
	struct stat st;

	/* It is memory already. And what is pinned there for I/O changes without a word to anybody
	 * (doc/proofs.md). */
	if (type == TMPFS_MAGIC && !p->promise)
		return -EMEDIUMTYPE;
	if (fstat(fd, &st) != 0)
		return -errno;
	p->dev = st.st_dev;
	p->ino = st.st_ino;
	p->size = (u64)st.st_size;
	p->may_lease = p->may_lease && !proof_is_memory(type, &st);
	if (!S_ISREG(st.st_mode)) {
		p->local = false; /* a device may wait in close() */
		return S_ISDIR(st.st_mode) ? -EISDIR : -ENODEV;
	}
	if (proof_check_size(p->size) != 0)
		return proof_check_size(p->size);
	if (o->for_group && !group_admits(o->group, p->path, &st))
		return reason_encode(LODIC_REASON_GROUP);
	p->fd = proof_reopen(fd, 0);
	if (p->fd < 0)
		return p->fd;
	/* A worker opens the description for it when a read comes (direct.c). */
	p->direct = !o->buffered && p->local && proof_takes_direct(p->fd);
	if (p->may_lease && proof_has_verity(p->fd)) {
		p->may_lease = false; /* it needs none */
		p->other = PROOF_VERITY;
	} else if (proof_is_format(type)) {
		p->other = PROOF_FORMAT;
	} else if (p->promise) {
		p->other = PROOF_PROMISE;
	}
	return 0;
}

/* The type comes first: a network file system, or one in user space, is asked nothing more
 * without a promise. */
static int proof_look_at(const struct service_options *o, int fd, struct passed_file *p)
{
	struct systems_kind kind;
	int err = systems_find(fd, &kind);

	if (err)
		return err;
	p->may_lease = proof_keeps_leases(kind.type);
	p->local = p->may_lease || proof_is_format(kind.type);
	p->away = kind.away;
	p->promise = proof_promise(o, p->path);
	if (p->local)
		return proof_look_inside(o, fd, kind.type, p);
	if (!p->promise)
		return reason_encode(LODIC_REASON_FILE_SYSTEM);
	err = systems_enter(&kind);
	if (err)
		return err;
	err = proof_look_inside(o, fd, kind.type, p);
	systems_leave(&kind);
	return err;
}

int proof_check_size(u64 size)
{
	return size == 0              ? reason_encode(LODIC_REASON_EMPTY)
	       : size >= FILE_TOO_BIG ? reason_encode(LODIC_REASON_FILE_SIZE)
	                              : 0;
}

void proof_refuse(struct passed_file *p, int fd, int error)
{
	*p = (struct passed_file){ .error = error, .fd = -1, .other = PROOF_NONE };
	if (proof_path(fd, p->path) != 0)
		*p->path = '\0';
}

void proof_look(const struct service_options *o, int *fd_at, struct passed_file *p)
{
	int fd = *fd_at, flags = fcntl(fd, F_GETFL);

	proof_refuse(p, fd, 0);
	if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY || flags & O_PATH)
		p->error = -EINVAL;
	else
		p->error = proof_look_at(o, fd, p);
	/* Another file system may wait in close() as well. */
	if (p->local)
		service_close(fd_at);
}
