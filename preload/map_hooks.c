/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The functions of libc that the shim stands in for. Each calls the next one of its name,
 * which is libc's or another shim's, and notes what happened. It hands the answer and
 * errno to the program untouched.
 *
 * libc's own calls do not come by here: the shim does not see what stdio reads for fread()
 * or fgets().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/map.h"

#define EXPORT __attribute__((visibility("default")))

enum next {
	NEXT_READ,
	NEXT_READ_INNER,
	NEXT_READ_CHECKED,
	NEXT_PREAD,
	NEXT_PREAD64,
	NEXT_PREAD64_INNER,
	NEXT_PREAD_CHECKED,
	NEXT_PREAD64_CHECKED,
	NEXT_READV,
	NEXT_PREADV,
	NEXT_PREADV64,
	NEXT_PREADV2,
	NEXT_PREADV64V2,
	NEXT_CLOSE,
	NEXT_CLOSE_INNER,
	NEXT_CLOSE_RANGE,
	NEXT_CLOSEFROM,
	NEXT_DUP2,
	NEXT_DUP2_INNER,
	NEXT_DUP3,
	NEXT_FCLOSE,
	NEXT_FREOPEN,
	NEXT_FREOPEN64,
	NEXT_FADVISE,
	NEXT_FADVISE64,
	NEXT_MLOCKALL,
	NEXT_EXIT_AT_ONCE,
	NEXT_EXIT_AT_ONCE_C,
	NEXT_QUICK_EXIT,
	NEXT_NR
};

static const char *const next_names[NEXT_NR] = {
	[NEXT_READ] = "read",
	[NEXT_READ_INNER] = "__read",
	[NEXT_READ_CHECKED] = "__read_chk",
	[NEXT_PREAD] = "pread",
	[NEXT_PREAD64] = "pread64",
	[NEXT_PREAD64_INNER] = "__pread64",
	[NEXT_PREAD_CHECKED] = "__pread_chk",
	[NEXT_PREAD64_CHECKED] = "__pread64_chk",
	[NEXT_READV] = "readv",
	[NEXT_PREADV] = "preadv",
	[NEXT_PREADV64] = "preadv64",
	[NEXT_PREADV2] = "preadv2",
	[NEXT_PREADV64V2] = "preadv64v2",
	[NEXT_CLOSE] = "close",
	[NEXT_CLOSE_INNER] = "__close",
	[NEXT_CLOSE_RANGE] = "close_range",
	[NEXT_CLOSEFROM] = "closefrom",
	[NEXT_DUP2] = "dup2",
	[NEXT_DUP2_INNER] = "__dup2",
	[NEXT_DUP3] = "dup3",
	[NEXT_FCLOSE] = "fclose",
	[NEXT_FREOPEN] = "freopen",
	[NEXT_FREOPEN64] = "freopen64",
	[NEXT_FADVISE] = "posix_fadvise",
	[NEXT_FADVISE64] = "posix_fadvise64",
	[NEXT_MLOCKALL] = "mlockall",
	[NEXT_EXIT_AT_ONCE] = "_exit",
	[NEXT_EXIT_AT_ONCE_C] = "_Exit",
	[NEXT_QUICK_EXIT] = "quick_exit",
};

/* Function pointers, as numbers: a word is what host_load_relaxed() loads. */
static u64 next_found[NEXT_NR];

/* The next function of this name. It may be called before any constructor has run, and by
 * two threads at once, which find the same. */
static u64 next_of(enum next which)
{
	u64 found = host_load_relaxed(&next_found[which]);
	int error = errno;

	if (found)
		return found;
	found = (u64)dlsym(RTLD_NEXT, next_names[which]);
	host_store_relaxed(&next_found[which], found);
	errno = error;
	return found;
}

/* Finds all of them at the start, because a signal handler must not call dlsym(). */
__attribute__((constructor)) static void next_find_all(void)
{
	for (u32 i = 0; i < NEXT_NR; i++)
		next_of((enum next)i);
}

typedef ssize_t (*read_fn)(int fd, void *to, size_t n);
typedef ssize_t (*read_checked_fn)(int fd, void *to, size_t n, size_t room);
typedef ssize_t (*pread_fn)(int fd, void *to, size_t n, off_t offset);
typedef ssize_t (*pread_checked_fn)(int fd, void *to, size_t n, off_t offset,
                                    size_t room);
typedef ssize_t (*readv_fn)(int fd, const struct iovec *to, int nr);
typedef ssize_t (*preadv_fn)(int fd, const struct iovec *to, int nr, off_t offset);
typedef ssize_t (*preadv2_fn)(int fd, const struct iovec *to, int nr, off_t offset,
                              int flags);
typedef int (*close_fn)(int fd);
typedef int (*close_range_fn)(unsigned int first, unsigned int last, int flags);
typedef void (*closefrom_fn)(int first);
typedef int (*dup2_fn)(int from, int to);
typedef int (*dup3_fn)(int from, int to, int flags);
typedef int (*fclose_fn)(FILE *stream);
typedef FILE *(*freopen_fn)(const char *path, const char *how, FILE *stream);
typedef int (*fadvise_fn)(int fd, off_t offset, off_t n, int advice);
typedef int (*mlockall_fn)(int flags);
typedef void (*exit_fn)(int status);

/* libc's own names for the same functions. Compilers and headers use them, too. */
ssize_t __read(int fd, void *to, size_t n);
ssize_t __read_chk(int fd, void *to, size_t n, size_t room);
ssize_t __pread64(int fd, void *to, size_t n, off_t offset);
ssize_t __pread_chk(int fd, void *to, size_t n, off_t offset, size_t room);
ssize_t __pread64_chk(int fd, void *to, size_t n, off_t offset, size_t room);
int __close(int fd);
int __dup2(int from, int to);

static ssize_t noted(int fd, ssize_t n, off_t offset)
{
	map_note(fd, n, offset);
	return n;
}

EXPORT ssize_t read(int fd, void *to, size_t n)
{
	return noted(fd, ((read_fn)next_of(NEXT_READ))(fd, to, n), -1);
}

EXPORT ssize_t __read(int fd, void *to, size_t n)
{
	return noted(fd, ((read_fn)next_of(NEXT_READ_INNER))(fd, to, n), -1);
}

EXPORT ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
	read_checked_fn next = (read_checked_fn)next_of(NEXT_READ_CHECKED);

	return noted(fd, next(fd, to, n, room), -1);
}

EXPORT ssize_t pread(int fd, void *to, size_t n, off_t offset)
{
	return noted(fd, ((pread_fn)next_of(NEXT_PREAD))(fd, to, n, offset), offset);
}

EXPORT ssize_t pread64(int fd, void *to, size_t n, off_t offset)
{
	return noted(fd, ((pread_fn)next_of(NEXT_PREAD64))(fd, to, n, offset), offset);
}

EXPORT ssize_t __pread64(int fd, void *to, size_t n, off_t offset)
{
	pread_fn next = (pread_fn)next_of(NEXT_PREAD64_INNER);

	return noted(fd, next(fd, to, n, offset), offset);
}

EXPORT ssize_t __pread_chk(int fd, void *to, size_t n, off_t offset, size_t room)
{
	pread_checked_fn next = (pread_checked_fn)next_of(NEXT_PREAD_CHECKED);

	return noted(fd, next(fd, to, n, offset, room), offset);
}

EXPORT ssize_t __pread64_chk(int fd, void *to, size_t n, off_t offset, size_t room)
{
	pread_checked_fn next = (pread_checked_fn)next_of(NEXT_PREAD64_CHECKED);

	return noted(fd, next(fd, to, n, offset, room), offset);
}

EXPORT ssize_t readv(int fd, const struct iovec *to, int nr)
{
	return noted(fd, ((readv_fn)next_of(NEXT_READV))(fd, to, nr), -1);
}

EXPORT ssize_t preadv(int fd, const struct iovec *to, int nr, off_t offset)
{
	preadv_fn next = (preadv_fn)next_of(NEXT_PREADV);

	return noted(fd, next(fd, to, nr, offset), offset);
}

EXPORT ssize_t preadv64(int fd, const struct iovec *to, int nr, off_t offset)
{
	preadv_fn next = (preadv_fn)next_of(NEXT_PREADV64);

	return noted(fd, next(fd, to, nr, offset), offset);
}

/* For these two, offset -1 means read(), as it does for map_note(). */
EXPORT ssize_t preadv2(int fd, const struct iovec *to, int nr, off_t offset, int flags)
{
	preadv2_fn next = (preadv2_fn)next_of(NEXT_PREADV2);

	return noted(fd, next(fd, to, nr, offset, flags), offset);
}

EXPORT ssize_t preadv64v2(int fd, const struct iovec *to, int nr, off_t offset,
                          int flags)
{
	preadv2_fn next = (preadv2_fn)next_of(NEXT_PREADV64V2);

	return noted(fd, next(fd, to, nr, offset, flags), offset);
}

/* To be called before a descriptor goes. */
static void goes(int fd)
{
	if (fd == STDERR_FILENO)
		map_stderr_closing();
	map_closing(fd);
}

EXPORT int close(int fd)
{
	goes(fd);
	return ((close_fn)next_of(NEXT_CLOSE))(fd);
}

EXPORT int __close(int fd)
{
	goes(fd);
	return ((close_fn)next_of(NEXT_CLOSE_INNER))(fd);
}

EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	close_range_fn next = (close_range_fn)next_of(NEXT_CLOSE_RANGE);

	if (!(flags & CLOSE_RANGE_CLOEXEC)) {
		if (first <= STDERR_FILENO && last >= STDERR_FILENO)
			map_stderr_closing();
		map_closing_from(first, last);
	}
	return next(first, last, flags);
}

EXPORT void closefrom(int first)
{
	unsigned int from = first < 0 ? 0 : (unsigned int)first;

	if (from <= STDERR_FILENO)
		map_stderr_closing();
	map_closing_from(from, ~0u);
	((closefrom_fn)next_of(NEXT_CLOSEFROM))(first);
}

/* The shim does not report here, because a program may put its stderr elsewhere for a while.
 * At the end stderr is there again, or it is another file, which the shim leaves alone. */
EXPORT int dup2(int from, int to)
{
	if (from != to)
		map_closing(to);
	return ((dup2_fn)next_of(NEXT_DUP2))(from, to);
}

EXPORT int __dup2(int from, int to)
{
	if (from != to)
		map_closing(to);
	return ((dup2_fn)next_of(NEXT_DUP2_INNER))(from, to);
}

EXPORT int dup3(int from, int to, int flags)
{
	if (from != to)
		map_closing(to);
	return ((dup3_fn)next_of(NEXT_DUP3))(from, to, flags);
}

static void stream_goes(FILE *stream)
{
	int error = errno;
	int fd = fileno(stream);

	errno = error;
	goes(fd);
}

EXPORT int fclose(FILE *stream)
{
	stream_goes(stream);
	return ((fclose_fn)next_of(NEXT_FCLOSE))(stream);
}

EXPORT FILE *freopen(const char *path, const char *how, FILE *stream)
{
	stream_goes(stream);
	return ((freopen_fn)next_of(NEXT_FREOPEN))(path, how, stream);
}

EXPORT FILE *freopen64(const char *path, const char *how, FILE *stream)
{
	stream_goes(stream);
	return ((freopen_fn)next_of(NEXT_FREOPEN64))(path, how, stream);
}

/* The kernel leaves pages in memory that are mapped. */
EXPORT int posix_fadvise(int fd, off_t offset, off_t n, int advice)
{
	if (advice == POSIX_FADV_DONTNEED)
		map_dropping(fd);
	return ((fadvise_fn)next_of(NEXT_FADVISE))(fd, offset, n, advice);
}

EXPORT int posix_fadvise64(int fd, off_t offset, off_t n, int advice)
{
	if (advice == POSIX_FADV_DONTNEED)
		map_dropping(fd);
	return ((fadvise_fn)next_of(NEXT_FADVISE64))(fd, offset, n, advice);
}

/* It would lock what the shim has mapped into memory, whole files at once. */
EXPORT int mlockall(int flags)
{
	map_stop();
	return ((mlockall_fn)next_of(NEXT_MLOCKALL))(flags);
}

/* These functions run no destructors. */
EXPORT void _exit(int status)
{
	map_end();
	((exit_fn)next_of(NEXT_EXIT_AT_ONCE))(status);
	__builtin_unreachable();
}

EXPORT void _Exit(int status)
{
	map_end();
	((exit_fn)next_of(NEXT_EXIT_AT_ONCE_C))(status);
	__builtin_unreachable();
}

EXPORT void quick_exit(int status)
{
	map_end();
	((exit_fn)next_of(NEXT_QUICK_EXIT))(status);
	__builtin_unreachable();
}
