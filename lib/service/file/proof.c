/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See proof.h. */
#include <errno.h>
#include <fnmatch.h>

#include "lib/port/inode.h"
#include "lib/reason.h"
#include "lib/service/file/group.h"
#include "lib/service/file/proof.h"
#include "lib/service/file/systems.h"
#include "lib/service/file/state.h"
#include "lib/service/base/base.h"

#define FILE_TOO_BIG ((u64)1 << 44) /* block numbers have 32 bits */

/* File systems whose every writer passes through this kernel. It meets a lease there, or a watch
 * hears of it (doc/proofs.md). A lease on overlayfs proves nothing: it lies on the overlay's own
 * inode, and who writes to the file below does not meet it. */
static bool proof_keeps_leases(enum port_system system)
{
	switch (system) {
	case PORT_SYSTEM_EXT:
	case PORT_SYSTEM_XFS:
	case PORT_SYSTEM_BTRFS:
	case PORT_SYSTEM_F2FS:
	case PORT_SYSTEM_TMPFS: return true;
	default: return false;
	}
}

/* A tmpfs file without a name may be of memfd_create(), whose own description can write. The
 * kernel does not count that one as a writer, so it would grant a lease beside it. */
static bool proof_is_memory(enum port_system system, const struct port_file *file)
{
	return system == PORT_SYSTEM_TMPFS && file->nr_names == 0;
}

/* Formats that no kernel can write to, however they are mounted. A read-only mount of
 * another format is no proof: it may be writable in another mount namespace. */
static bool proof_is_format(enum port_system system)
{
	return system == PORT_SYSTEM_SQUASHFS || system == PORT_SYSTEM_EROFS ||
	       system == PORT_SYSTEM_ISO || system == PORT_SYSTEM_CRAMFS;
}

const char *proof_name(u32 proof)
{
	static const char *const names[] = { "lease", "verity", "format", "promise",
		                             "none" };

	return names[proof];
}

int proof_path(int fd, char path[PROOF_PATH_BYTES])
{
	return port_path_of(fd, path, PROOF_PATH_BYTES);
}

/* The glob that the user promised about a file of this path. */
static const char *proof_promise(const struct service_options *o, const char *path)
{
	const char *const *glob = o->keeping.immutable;

	while (glob && *glob && fnmatch(*glob, path, FNM_PATHNAME) != 0)
		glob++;
	return glob ? *glob : NULL;
}

/* Opens a description of the service's own: the client could change a lease or a flag on
 * that of its own. */
static int proof_reopen(int fd, unsigned int how)
{
	int own = port_reopen_at_once(fd, how | PORT_LEAVES_ATIME);

	if (own == -EPERM) /* not the owner's process */
		own = port_reopen_at_once(fd, how);
	if (own == -ENOENT)
		return reason_encode(LODIC_REASON_NO_PROC);
	if (own == -EACCES)
		return reason_encode(LODIC_REASON_UNREADABLE);
	return own == -EWOULDBLOCK ? -ETXTBSY : own;
}

int proof_open_direct(int fd)
{
	return proof_reopen(fd, PORT_PAST_CACHE);
}

/* What the file system says about the file. */
static int proof_look_inside(const struct service_options *o, int fd,
                             enum port_system system, struct passed_file *p)
{
	struct port_file file;
	int err;

	/* It is memory already. And what is pinned there for I/O changes without a word to anybody
	 * (doc/proofs.md). */
	if (system == PORT_SYSTEM_TMPFS && !p->promise)
		return -EMEDIUMTYPE;
	err = port_look(fd, &file);
	if (err)
		return err;
	p->dev = file.dev;
	p->ino = file.ino;
	p->size = file.bytes;
	p->may_lease = p->may_lease && !proof_is_memory(system, &file);
	if (file.kind != PORT_FILE_REGULAR) {
		p->local = false; /* a device may wait in close() */
		return file.kind == PORT_FILE_FOLDER ? -EISDIR : -ENODEV;
	}
	if (proof_check_size(p->size) != 0)
		return proof_check_size(p->size);
	if (o->sharing.for_group && !group_admits(o->sharing.group, p->path, &file))
		return reason_encode(LODIC_REASON_GROUP);
	p->fd = proof_reopen(fd, 0);
	if (p->fd < 0)
		return p->fd;
	/* A worker opens the description for it when a read comes (direct.c). */
	p->direct = !o->keeping.buffered && p->local && port_reads_past_cache(p->fd);
	if (p->may_lease && port_has_verity(p->fd)) {
		p->may_lease = false; /* it needs none */
		p->other = PROOF_VERITY;
	} else if (proof_is_format(system)) {
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
	p->may_lease = proof_keeps_leases(kind.system);
	p->local = p->may_lease || proof_is_format(kind.system);
	p->away = kind.away;
	p->promise = proof_promise(o, p->path);
	if (p->local)
		return proof_look_inside(o, fd, kind.system, p);
	if (!p->promise)
		return reason_encode(LODIC_REASON_FILE_SYSTEM);
	err = systems_enter(&kind);
	if (err)
		return err;
	err = proof_look_inside(o, fd, kind.system, p);
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
	unsigned int mode;
	int fd = *fd_at, err = port_mode(fd, &mode);

	proof_refuse(p, fd, 0);
	if (err || mode & (PORT_MAY_WRITE | PORT_NAMES_ONLY))
		p->error = -EINVAL;
	else
		p->error = proof_look_at(o, fd, p);
	/* Another file system may wait in close() as well. */
	if (p->local)
		service_close_file(fd_at);
}
