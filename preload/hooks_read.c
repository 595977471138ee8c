/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Reads. See hooks.h. */
#define _GNU_SOURCE
#include "preload/hooks.h"

#include <limits.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/map.h"
#include "preload/run.h"

typedef ssize_t (*read_fn)(int fd, void *to, size_t n);
typedef ssize_t (*read_checked_fn)(int fd, void *to, size_t n, size_t room);
typedef ssize_t (*pread_fn)(int fd, void *to, size_t n, off_t offset);
typedef ssize_t (*pread_checked_fn)(int fd, void *to, size_t n, off_t offset,
                                    size_t room);
typedef ssize_t (*readv_fn)(int fd, const struct iovec *to, int nr);
typedef ssize_t (*preadv_fn)(int fd, const struct iovec *to, int nr, off_t offset);
typedef ssize_t (*preadv2_fn)(int fd, const struct iovec *to, int nr, off_t offset,
                              int flags);

/* libc's own names for the same functions. Compilers and headers use them, too. */
ssize_t __read(int fd, void *to, size_t n);
ssize_t __read_chk(int fd, void *to, size_t n, size_t room);
ssize_t __pread64(int fd, void *to, size_t n, off_t offset);
ssize_t __pread_chk(int fd, void *to, size_t n, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *to, size_t n, off_t offset, size_t room);

/* The kernel has read n bytes from fd at offset, or where it stood (-1). */
static ssize_t noted(int fd, ssize_t n, off_t offset, enum run_why why)
{
	map_note(fd, n, offset);
	run_note(fd, n, offset, why);
	return n;
}

/* The cache has read n bytes. */
static ssize_t served(int fd, ssize_t n, off_t offset)
{
	run_note(fd, n, offset, RUN_SERVED);
	return n;
}

EXPORT ssize_t read(int fd, void *to, size_t n)
{
	read_fn next = (read_fn)next_of(NEXT_READ);

	run_reads();
	return noted(fd, next(fd, to, n), -1, RUN_KEEPS_OFFSET);
}

EXPORT ssize_t __read(int fd, void *to, size_t n)
{
	read_fn next = (read_fn)next_of(NEXT_READ_INNER);

	run_reads();
	return noted(fd, next(fd, to, n), -1, RUN_KEEPS_OFFSET);
}

EXPORT ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
	read_checked_fn next = (read_checked_fn)next_of(NEXT_READ_CHECKED);

	run_reads();
	return noted(fd, next(fd, to, n, room), -1, RUN_KEEPS_OFFSET);
}

EXPORT ssize_t readv(int fd, const struct iovec *to, int nr)
{
	readv_fn next = (readv_fn)next_of(NEXT_READV);

	run_reads();
	return noted(fd, next(fd, to, nr), -1, RUN_KEEPS_OFFSET);
}

static bool all_can_be(const struct iovec *to, int nr)
{
	if (!hooks_can_be(to))
		return false;
	for (int i = 0; i < nr && i < IOV_MAX; i++)
		if (!hooks_can_be(to[i].iov_base))
			return false;
	return true;
}

static ssize_t pread_by(enum next which, int fd, void *to, size_t n, off_t offset)
{
	const struct iovec all = { to, n };
	enum run_why why = RUN_UNUSUAL;
	int64_t got;

	if (hooks_can_be(to))
		why = run_read(fd, &all, 1, offset, &got);
	if (why == RUN_SERVED)
		return served(fd, got, offset);
	return noted(fd, ((pread_fn)next_of(which))(fd, to, n, offset), offset, why);
}

static ssize_t pread_checked_by(enum next which, int fd, void *to, size_t n,
                                off_t offset, size_t room)
{
	pread_checked_fn next = (pread_checked_fn)next_of(which);
	const struct iovec all = { to, n };
	enum run_why why = RUN_UNUSUAL;
	int64_t got;

	if (n <= room && hooks_can_be(to)) /* otherwise libc ends the program */
		why = run_read(fd, &all, 1, offset, &got);
	if (why == RUN_SERVED)
		return served(fd, got, offset);
	return noted(fd, next(fd, to, n, offset, room), offset, why);
}

EXPORT ssize_t pread(int fd, void *to, size_t n, off_t offset)
{
	return pread_by(NEXT_PREAD, fd, to, n, offset);
}

EXPORT ssize_t pread64(int fd, void *to, size_t n, off_t offset)
{
	return pread_by(NEXT_PREAD64, fd, to, n, offset);
}

EXPORT ssize_t __pread64(int fd, void *to, size_t n, off_t offset)
{
	return pread_by(NEXT_PREAD64_INNER, fd, to, n, offset);
}

EXPORT ssize_t __pread_chk(int fd, void *to, size_t n, off_t offset, size_t room)
{
	return pread_checked_by(NEXT_PREAD_CHECKED, fd, to, n, offset, room);
}

EXPORT ssize_t __pread64_chk(int fd, void *to, size_t n, off_t offset, size_t room)
{
	return pread_checked_by(NEXT_PREAD64_CHECKED, fd, to, n, offset, room);
}

static ssize_t preadv_by(enum next which, int fd, const struct iovec *to, int nr,
                         off_t offset)
{
	enum run_why why = RUN_UNUSUAL;
	int64_t got;

	if (all_can_be(to, nr))
		why = run_read(fd, to, nr, offset, &got);
	if (why == RUN_SERVED)
		return served(fd, got, offset);
	return noted(fd, ((preadv_fn)next_of(which))(fd, to, nr, offset), offset, why);
}

EXPORT ssize_t preadv(int fd, const struct iovec *to, int nr, off_t offset)
{
	return preadv_by(NEXT_PREADV, fd, to, nr, offset);
}

EXPORT ssize_t preadv64(int fd, const struct iovec *to, int nr, off_t offset)
{
	return preadv_by(NEXT_PREADV64, fd, to, nr, offset);
}

/* Offset -1 means read(), as it does for map_note(). */
static ssize_t preadv2_by(enum next which, int fd, const struct iovec *to, int nr,
                          off_t offset, int flags)
{
	preadv2_fn next = (preadv2_fn)next_of(which);
	enum run_why why = offset == -1 ? RUN_KEEPS_OFFSET : RUN_UNUSUAL;
	int64_t got;

	if (flags == 0 && offset != -1 && all_can_be(to, nr))
		why = run_read(fd, to, nr, offset, &got);
	if (why == RUN_SERVED)
		return served(fd, got, offset);
	return noted(fd, next(fd, to, nr, offset, flags), offset, why);
}

EXPORT ssize_t preadv2(int fd, const struct iovec *to, int nr, off_t offset, int flags)
{
	return preadv2_by(NEXT_PREADV2, fd, to, nr, offset, flags);
}

EXPORT ssize_t preadv64v2(int fd, const struct iovec *to, int nr, off_t offset,
                          int flags)
{
	return preadv2_by(NEXT_PREADV64V2, fd, to, nr, offset, flags);
}
