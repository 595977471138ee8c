/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The next function of each name, and reads. See hooks.h. */
#define _GNU_SOURCE
#include "preload/hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/map.h"
#include "preload/run.h"

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
	[NEXT_MMAP] = "mmap",
	[NEXT_MMAP64] = "mmap64",
	[NEXT_MUNMAP] = "munmap",
	[NEXT_MREMAP] = "mremap",
	[NEXT_MPROTECT] = "mprotect",
	[NEXT_PKEY_MPROTECT] = "pkey_mprotect",
	[NEXT_MADVISE] = "madvise",
	[NEXT_MLOCK] = "mlock",
	[NEXT_MLOCK2] = "mlock2",
	[NEXT_OPEN] = "open",
	[NEXT_OPEN64] = "open64",
	[NEXT_OPEN_INNER] = "__open",
	[NEXT_OPEN64_INNER] = "__open64",
	[NEXT_OPEN_CHECKED] = "__open_2",
	[NEXT_OPEN64_CHECKED] = "__open64_2",
	[NEXT_OPENAT] = "openat",
	[NEXT_OPENAT64] = "openat64",
	[NEXT_OPENAT_CHECKED] = "__openat_2",
	[NEXT_OPENAT64_CHECKED] = "__openat64_2",
	[NEXT_CREAT] = "creat",
	[NEXT_CREAT64] = "creat64",
	[NEXT_CLOSE] = "close",
	[NEXT_CLOSE_INNER] = "__close",
	[NEXT_CLOSE_RANGE] = "close_range",
	[NEXT_CLOSEFROM] = "closefrom",
	[NEXT_DUP] = "dup",
	[NEXT_DUP2] = "dup2",
	[NEXT_DUP2_INNER] = "__dup2",
	[NEXT_DUP3] = "dup3",
	[NEXT_FCNTL] = "fcntl",
	[NEXT_FCNTL64] = "fcntl64",
	[NEXT_FCNTL_INNER] = "__fcntl",
	[NEXT_FLOCK] = "flock",
	[NEXT_FCLOSE] = "fclose",
	[NEXT_FCLOSE_INNER] = "_IO_fclose",
	[NEXT_PCLOSE] = "pclose",
	[NEXT_ENDMNTENT] = "endmntent",
	[NEXT_ENDMNTENT_INNER] = "__endmntent",
	[NEXT_MQ_CLOSE] = "mq_close",
	[NEXT_LOGIN_TTY] = "login_tty",
	[NEXT_FREOPEN] = "freopen",
	[NEXT_FREOPEN64] = "freopen64",
	[NEXT_FADVISE] = "posix_fadvise",
	[NEXT_FADVISE64] = "posix_fadvise64",
	[NEXT_MLOCKALL] = "mlockall",
	[NEXT_PRCTL] = "prctl",
	[NEXT_UNSHARE] = "unshare",
	[NEXT_SETNS] = "setns",
	[NEXT_CHROOT] = "chroot",
	[NEXT_CAPSET] = "capset",
	[NEXT_SETUID] = "setuid",
	[NEXT_SETEUID] = "seteuid",
	[NEXT_SETREUID] = "setreuid",
	[NEXT_SETRESUID] = "setresuid",
	[NEXT_SETFSUID] = "setfsuid",
	[NEXT_SETGID] = "setgid",
	[NEXT_SETEGID] = "setegid",
	[NEXT_SETREGID] = "setregid",
	[NEXT_SETRESGID] = "setresgid",
	[NEXT_SETFSGID] = "setfsgid",
	[NEXT_SETGROUPS] = "setgroups",
	[NEXT_INITGROUPS] = "initgroups",
	[NEXT_CLONE] = "clone",
	[NEXT_CLONE_INNER] = "__clone",
	[NEXT_VFORK] = "vfork",
	[NEXT_SYSCALL] = "syscall",
	[NEXT_EXECV] = "execv",
	[NEXT_EXECVE] = "execve",
	[NEXT_EXECVP] = "execvp",
	[NEXT_EXECVPE] = "execvpe",
	[NEXT_EXECVEAT] = "execveat",
	[NEXT_FEXECVE] = "fexecve",
	[NEXT_POSIX_SPAWN] = "posix_spawn",
	[NEXT_POSIX_SPAWNP] = "posix_spawnp",
	[NEXT_POLL] = "poll",
	[NEXT_POLL_CHECKED] = "__poll_chk",
	[NEXT_PPOLL] = "ppoll",
	[NEXT_SELECT] = "select",
	[NEXT_PSELECT] = "pselect",
	[NEXT_EPOLL_WAIT] = "epoll_wait",
	[NEXT_EPOLL_PWAIT] = "epoll_pwait",
	[NEXT_NANOSLEEP] = "nanosleep",
	[NEXT_CLOCK_NANOSLEEP] = "clock_nanosleep",
	[NEXT_SLEEP] = "sleep",
	[NEXT_USLEEP] = "usleep",
	[NEXT_LOCKF] = "lockf",
	[NEXT_LOCKF64] = "lockf64",
	[NEXT_EXIT_AT_ONCE] = "_exit",
	[NEXT_EXIT_AT_ONCE_C] = "_Exit",
	[NEXT_QUICK_EXIT] = "quick_exit",
};

/* Function pointers, as numbers: a word is what host_load_relaxed() loads. */
static u64 next_found[NEXT_NR];

/* The next function of this name. It may be called before any constructor has run, and by
 * two threads at once, which find the same. */
u64 hooks_next(enum next which)
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
		hooks_next((enum next)i);
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
	read_fn next = (read_fn)hooks_next(NEXT_READ);

	run_reads();
	return noted(fd, next(fd, to, n), -1, RUN_KEEPS_OFFSET);
}

EXPORT ssize_t __read(int fd, void *to, size_t n)
{
	read_fn next = (read_fn)hooks_next(NEXT_READ_INNER);

	run_reads();
	return noted(fd, next(fd, to, n), -1, RUN_KEEPS_OFFSET);
}

EXPORT ssize_t __read_chk(int fd, void *to, size_t n, size_t room)
{
	read_checked_fn next = (read_checked_fn)hooks_next(NEXT_READ_CHECKED);

	run_reads();
	return noted(fd, next(fd, to, n, room), -1, RUN_KEEPS_OFFSET);
}

EXPORT ssize_t readv(int fd, const struct iovec *to, int nr)
{
	readv_fn next = (readv_fn)hooks_next(NEXT_READV);

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
	ssize_t got;

	if (hooks_can_be(to))
		why = run_read(fd, &all, 1, offset, &got);
	if (why == RUN_SERVED)
		return served(fd, got, offset);
	return noted(fd, ((pread_fn)hooks_next(which))(fd, to, n, offset), offset, why);
}

static ssize_t pread_checked_by(enum next which, int fd, void *to, size_t n,
                                off_t offset, size_t room)
{
	pread_checked_fn next = (pread_checked_fn)hooks_next(which);
	const struct iovec all = { to, n };
	enum run_why why = RUN_UNUSUAL;
	ssize_t got;

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
	ssize_t got;

	if (all_can_be(to, nr))
		why = run_read(fd, to, nr, offset, &got);
	if (why == RUN_SERVED)
		return served(fd, got, offset);
	return noted(fd, ((preadv_fn)hooks_next(which))(fd, to, nr, offset), offset,
	             why);
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
	preadv2_fn next = (preadv2_fn)hooks_next(which);
	enum run_why why = offset == -1 ? RUN_KEEPS_OFFSET : RUN_UNUSUAL;
	ssize_t got;

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
