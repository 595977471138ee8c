/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * See guest.h: the libc of a program with the shim, behind the hooks. Each function is one system
 * call of the running task. It fails only for the program's own reasons: no fault is drawn.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <sys/file.h>
#include <unistd.h>

#include "host/whole/files.h"
#include "host/whole/guest.h"
#include "preload/next_names.h"

#define NEXT_NS 2000u

/* What a program may not open here. */
#define NEXT_STRANGE_FLAGS (O_CREAT | O_TRUNC | O_APPEND | O_PATH | O_TMPFILE)

static void next_enters(void)
{
	machine.now_ns += 1 + machine_draw(NEXT_NS);
	machine_yield();
}

/* Its result, or -1 with errno. */
static long next_returns(const char *name, long result)
{
	machine_note("%s() = %ld", name, result);
	if (result >= 0)
		return result;
	errno = (int)-result;
	return -1;
}

/* ---- descriptors ---- */

static int next_open(const char *path, int flags, mode_t rights)
{
	u32 mode = flags & O_DIRECT ? PORT_DIRECT : 0;

	(void)rights;
	if (flags & NEXT_STRANGE_FLAGS & ~O_DIRECTORY)
		machine_fail("a program opens %s by flags %x", path, (unsigned int)flags);
	if ((flags & O_ACCMODE) != O_WRONLY)
		mode |= PORT_MAY_READ;
	if ((flags & O_ACCMODE) != O_RDONLY)
		mode |= PORT_MAY_WRITE;
	next_enters();
	return (int)next_returns("open", program_open(path, mode));
}

static long next_close_now(int fd)
{
	if (!fd_get(fd))
		return -EBADF;
	fd_close(process_now(), fd);
	return 0;
}

int guest_next_close(int fd)
{
	next_enters();
	machine_note("closes %d", fd);
	return (int)next_returns("close", next_close_now(fd));
}

static int next_close_range(unsigned int first, unsigned int last, int flags)
{
	next_enters();
	if (flags != 0 || first > last)
		return (int)next_returns("close_range", -EINVAL);
	for (unsigned int fd = first; fd <= last && fd < MACHINE_MOST_FDS; fd++)
		if (fd_get((int)fd))
			fd_close(process_now(), (int)fd);
	return (int)next_returns("close_range", 0);
}

static bool next_may_have(unsigned int fd)
{
	return fd < process_now()->fd_limit && fd < MACHINE_MOST_FDS;
}

/* The lowest free number from there on. */
static long next_dup_from(int from, unsigned int lowest)
{
	struct process *p = process_now();
	struct description *d = fd_get(from);

	if (!d)
		return -EBADF;
	if (!next_may_have(lowest))
		return -EINVAL;
	while (next_may_have(lowest) && p->fds[lowest])
		lowest++;
	if (!next_may_have(lowest))
		return -EMFILE;
	description_keep(d);
	p->fds[lowest] = d;
	return (long)lowest;
}

static int next_dup(int from)
{
	next_enters();
	return (int)next_returns("dup", next_dup_from(from, 0));
}

static long next_put(int from, int to)
{
	struct process *p = process_now();
	struct description *d = fd_get(from);

	if (!d || to < 0 || !next_may_have((unsigned int)to))
		return -EBADF;
	if (from == to)
		return to;
	description_keep(d);
	if (p->fds[to])
		fd_close(p, to);
	p->fds[to] = d;
	return to;
}

static int next_dup2(int from, int to)
{
	next_enters();
	return (int)next_returns("dup2", next_put(from, to));
}

static int next_dup3(int from, int to, int flags)
{
	(void)flags;
	next_enters();
	return (int)next_returns("dup3", from == to ? -EINVAL : next_put(from, to));
}

static int next_fcntl(int fd, int command, ...)
{
	__builtin_va_list args;
	unsigned long more;

	__builtin_va_start(args, command);
	more = __builtin_va_arg(args, unsigned long);
	__builtin_va_end(args);
	next_enters();
	switch (command) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		return (int)next_returns("fcntl", next_dup_from(fd, (unsigned int)more));
	case F_SETLK: return (int)next_returns("fcntl", fd_get(fd) ? 0 : -EBADF);
	default: machine_fail("a program calls fcntl() with %d", command);
	}
}

/* ---- reads ---- */

/* The file that can be read there. An error if there is none. */
static long next_file(int fd, struct fd_file **ret_file)
{
	*ret_file = fd_file_of(fd);
	if (!*ret_file || !((*ret_file)->d.mode & PORT_MAY_READ))
		return fd_get(fd) && !*ret_file ? -ESPIPE : -EBADF;
	machine.running->nr_reads++;
	return 0;
}

static long next_read_at(const struct fd_file *file, const struct iovec *to, int nr, u64 offset)
{
	u64 all = 0, got;

	for (int i = 0; i < nr; i++) {
		got = inode_read(file->inode, to[i].iov_base, to[i].iov_len, offset + all);
		all += got;
		if (got < to[i].iov_len)
			break;
	}
	return (long)all;
}

static ssize_t next_read(int fd, void *to, size_t n)
{
	const struct iovec all = { to, n };
	struct fd_file *file;
	long result;

	next_enters();
	result = next_file(fd, &file);
	if (result == 0) {
		result = next_read_at(file, &all, 1, file->position);
		file->position += (u64)result;
	}
	return next_returns("read", result);
}

static ssize_t next_preadv(int fd, const struct iovec *to, int nr, off_t offset)
{
	struct fd_file *file;
	long result;

	next_enters();
	result = offset < 0 || nr < 0 || nr > IOV_MAX ? -EINVAL : next_file(fd, &file);
	if (result == 0)
		result = next_read_at(file, to, nr, (u64)offset);
	return next_returns("preadv", result);
}

static ssize_t next_pread(int fd, void *to, size_t n, off_t offset)
{
	const struct iovec all = { to, n };

	return next_preadv(fd, &all, 1, offset);
}

off_t guest_next_lseek(int fd, off_t offset, int whence)
{
	struct fd_file *file = fd_file_of(fd);

	next_enters();
	file = fd_file_of(fd);
	if (!file)
		return next_returns("lseek", fd_get(fd) ? -ESPIPE : -EBADF);
	if (whence != SEEK_SET && whence != SEEK_CUR)
		machine_fail("a program seeks by %d", whence);
	if (whence == SEEK_CUR)
		offset += (off_t)file->position;
	if (offset < 0)
		return next_returns("lseek", -EINVAL);
	file->position = (u64)offset;
	return next_returns("lseek", offset);
}

/* ---- the table ---- */

u64 next_find(enum next which);

/* Others are not what the programs of scenarios call. */
u64 next_find(enum next which)
{
	switch (which) {
	case NEXT_OPEN: return (u64)next_open;
	case NEXT_CLOSE: return (u64)guest_next_close;
	case NEXT_CLOSE_RANGE: return (u64)next_close_range;
	case NEXT_DUP: return (u64)next_dup;
	case NEXT_DUP2: return (u64)next_dup2;
	case NEXT_DUP3: return (u64)next_dup3;
	case NEXT_FCNTL: return (u64)next_fcntl;
	case NEXT_READ: return (u64)next_read;
	case NEXT_PREAD: return (u64)next_pread;
	case NEXT_PREADV: return (u64)next_preadv;
	default: machine_fail("there is no function %u behind the shim", which);
	}
}
