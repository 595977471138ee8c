/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What opens, closes and duplicates descriptors. See hooks.h, and U11 in run.h. */
#define _GNU_SOURCE
#include "preload/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <mqueue.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>
#include <utmp.h>

#include "preload/fds.h"
#include "preload/map.h"
#include "preload/own.h"
#include "preload/run.h"

typedef int (*open_fn)(const char *path, int flags, ...);
typedef int (*open_checked_fn)(const char *path, int flags);
typedef int (*openat_fn)(int at, const char *path, int flags, ...);
typedef int (*openat_checked_fn)(int at, const char *path, int flags);
typedef int (*creat_fn)(const char *path, mode_t mode);
typedef int (*close_fn)(int fd);
typedef int (*close_range_fn)(unsigned int first, unsigned int last, int flags);
typedef void (*closefrom_fn)(int first);
typedef int (*dup_fn)(int from);
typedef int (*dup2_fn)(int from, int to);
typedef int (*dup3_fn)(int from, int to, int flags);
typedef int (*fcntl_fn)(int fd, int command, ...);
typedef int (*lockf_fn)(int fd, int operation, off_t n);
typedef int (*flock_fn)(int fd, int operation);
typedef int (*fclose_fn)(FILE *stream);
typedef FILE *(*freopen_fn)(const char *path, const char *how, FILE *stream);
typedef int (*fadvise_fn)(int fd, off_t offset, off_t n, int advice);

int __close(int fd);
int __dup2(int from, int to);
int __endmntent(FILE *stream);
int _IO_fclose(FILE *stream);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int at, const char *path, int flags);
int __openat64_2(int at, const char *path, int flags);
EXPORT int hooks_open(const char *path, int flags, mode_t mode) HOOKS_AS("open");
EXPORT int hooks_open64(const char *path, int flags, mode_t mode) HOOKS_AS("open64");
EXPORT int hooks_open_inner(const char *path, int flags, mode_t mode)
	HOOKS_AS("__open");
EXPORT int hooks_open64_inner(const char *path, int flags, mode_t mode)
	HOOKS_AS("__open64");
EXPORT int hooks_openat(int at, const char *path, int flags, mode_t mode)
	HOOKS_AS("openat");
EXPORT int hooks_openat64(int at, const char *path, int flags, mode_t mode)
	HOOKS_AS("openat64");
EXPORT int hooks_fcntl(int fd, int command, unsigned long more) HOOKS_AS("fcntl");
EXPORT int hooks_fcntl64(int fd, int command, unsigned long more) HOOKS_AS("fcntl64");
EXPORT int hooks_fcntl_inner(int fd, int command, unsigned long more)
	HOOKS_AS("__fcntl");

void hooks_fd_opened(int fd)
{
	run_enters();
	run_changes(fd);
	if (own_is(fd) && fds_is_ours()) /* a vfork() child has descriptors of its own */
		own_lost(fd);
	run_opened(fd);
}

/* A number has got a file. */
static int filled(int fd)
{
	hooks_fd_opened(fd);
	return fd;
}

/* The program has opened a file. */
static int opened(int fd)
{
	run_may_start();
	return filled(fd);
}

int hooks_open(const char *path, int flags, mode_t mode)
{
	return opened(((open_fn)next_of(NEXT_OPEN))(path, flags, mode));
}

int hooks_open64(const char *path, int flags, mode_t mode)
{
	return opened(((open_fn)next_of(NEXT_OPEN64))(path, flags, mode));
}

int hooks_open_inner(const char *path, int flags, mode_t mode)
{
	return opened(((open_fn)next_of(NEXT_OPEN_INNER))(path, flags, mode));
}

int hooks_open64_inner(const char *path, int flags, mode_t mode)
{
	return opened(((open_fn)next_of(NEXT_OPEN64_INNER))(path, flags, mode));
}

EXPORT int __open_2(const char *path, int flags)
{
	return opened(((open_checked_fn)next_of(NEXT_OPEN_CHECKED))(path, flags));
}

EXPORT int __open64_2(const char *path, int flags)
{
	return opened(((open_checked_fn)next_of(NEXT_OPEN64_CHECKED))(path, flags));
}

int hooks_openat(int at, const char *path, int flags, mode_t mode)
{
	return opened(((openat_fn)next_of(NEXT_OPENAT))(at, path, flags, mode));
}

int hooks_openat64(int at, const char *path, int flags, mode_t mode)
{
	return opened(((openat_fn)next_of(NEXT_OPENAT64))(at, path, flags, mode));
}

EXPORT int __openat_2(int at, const char *path, int flags)
{
	openat_checked_fn next = (openat_checked_fn)next_of(NEXT_OPENAT_CHECKED);

	return opened(next(at, path, flags));
}

EXPORT int __openat64_2(int at, const char *path, int flags)
{
	openat_checked_fn next = (openat_checked_fn)next_of(NEXT_OPENAT64_CHECKED);

	return opened(next(at, path, flags));
}

EXPORT int creat(const char *path, mode_t mode)
{
	return opened(((creat_fn)next_of(NEXT_CREAT))(path, mode));
}

EXPORT int creat64(const char *path, mode_t mode)
{
	return opened(((creat_fn)next_of(NEXT_CREAT64))(path, mode));
}

void hooks_fd_goes(int fd)
{
	run_enters();
	if (fd == STDERR_FILENO) {
		map_stderr_closing();
		run_end(true);
	}
	map_closing(fd);
	run_changes(fd);
	if (fd >= 0)
		run_closes((unsigned int)fd, (unsigned int)fd);
}

void hooks_fd_gone(int fd)
{
	run_changes(fd);
}

static int close_by(enum next which, int fd)
{
	int result;

	if (own_is(fd)) {
		errno = EBADF;
		return -1;
	}
	hooks_fd_goes(fd);
	result = ((close_fn)next_of(which))(fd);
	hooks_fd_gone(fd);
	return result;
}

EXPORT int close(int fd)
{
	return close_by(NEXT_CLOSE, fd);
}

EXPORT int __close(int fd)
{
	return close_by(NEXT_CLOSE_INNER, fd);
}

static void range_goes(unsigned int first, unsigned int last)
{
	if (first <= STDERR_FILENO && last >= STDERR_FILENO) {
		map_stderr_closing();
		run_end(true);
	}
	map_closing_from(first, last);
	run_changes_from(first, last);
	run_closes(first, last);
}

int hooks_close_range(unsigned int first, unsigned int last, int flags)
{
	close_range_fn next = (close_range_fn)next_of(NEXT_CLOSE_RANGE);
	int result = 0;
	u64 own;

	if (flags & (int)CLOSE_RANGE_UNSHARE)
		run_stop(); /* U13 */
	if (flags & (int)CLOSE_RANGE_CLOEXEC || first > last)
		return next(first, last, flags);
	range_goes(first, last);
	/* Around each of the shim's own. */
	for (u64 from = first; from <= last && result == 0; from = own + 1) {
		own = own_next(from, last);
		if (own > from)
			result = next((unsigned int)from, (unsigned int)(own - 1),
			              flags);
	}
	run_changes_from(first, last);
	return result;
}

EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	return hooks_close_range(first, last, flags);
}

EXPORT void closefrom(int first)
{
	unsigned int from = first < 0 ? 0 : (unsigned int)first;
	int error = errno;

	if (hooks_close_range(from, ~0u, 0) != 0) { /* an old kernel has no such call */
		errno = error;
		((closefrom_fn)next_of(NEXT_CLOSEFROM))(first);
		run_changes_from(from, ~0u);
	}
}

EXPORT int dup(int from)
{
	return filled(((dup_fn)next_of(NEXT_DUP))(from));
}

/* Another file comes to this number. The shim does not report here, because a program may put
 * its stderr elsewhere for a while. At the end stderr is there again, or it is another file, which
 * the shim leaves alone. */
static void makes_room(int from, int to)
{
	if (from == to)
		return;
	map_closing(to);
	run_changes(to);
	if (to >= 0)
		run_closes((unsigned int)to, (unsigned int)to);
}

static int dup2_by(enum next which, int from, int to)
{
	int result;

	makes_room(from, to);
	result = ((dup2_fn)next_of(which))(from, to);
	return from == to ? result : filled(result);
}

EXPORT int dup2(int from, int to)
{
	return dup2_by(NEXT_DUP2, from, to);
}

EXPORT int __dup2(int from, int to)
{
	return dup2_by(NEXT_DUP2_INNER, from, to);
}

EXPORT int dup3(int from, int to, int flags)
{
	makes_room(from, to);
	return filled(((dup3_fn)next_of(NEXT_DUP3))(from, to, flags));
}

/* Inside, it is a lock by fcntl(). */
static int lockf_by(enum next which, int fd, int operation, off_t n)
{
	int result;

	fds_note_lock();
	result = ((lockf_fn)next_of(which))(fd, operation, n);
	run_places_lock();
	return result;
}

EXPORT int lockf(int fd, int operation, off_t n)
{
	return lockf_by(NEXT_LOCKF, fd, operation, n);
}

EXPORT int lockf64(int fd, int operation, off_t n)
{
	return lockf_by(NEXT_LOCKF64, fd, operation, n);
}

EXPORT int flock(int fd, int operation)
{
	int result;

	run_locks(fd);
	result = ((flock_fn)next_of(NEXT_FLOCK))(fd, operation);
	run_places_lock();
	return result;
}

bool hooks_fcntl_locks(int command)
{
	return command == F_OFD_SETLK || command == F_OFD_SETLKW ||
	       command == F_SETLEASE;
}

static int fcntl_by(enum next which, int fd, int command, unsigned long more)
{
	int result;

	if (hooks_fcntl_locks(command))
		run_locks(fd);
	else if (command == F_SETLK || command == F_SETLKW)
		fds_note_lock();
	result = ((fcntl_fn)next_of(which))(fd, command, more);
	if (hooks_fcntl_locks(command) || command == F_SETLK || command == F_SETLKW)
		run_places_lock();
	else if (command == F_SETFL) /* O_DIRECT */
		run_changes(fd);
	else if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
		hooks_fd_opened(result);
	return result;
}

int hooks_fcntl(int fd, int command, unsigned long more)
{
	return fcntl_by(NEXT_FCNTL, fd, command, more);
}

int hooks_fcntl64(int fd, int command, unsigned long more)
{
	return fcntl_by(NEXT_FCNTL64, fd, command, more);
}

int hooks_fcntl_inner(int fd, int command, unsigned long more)
{
	return fcntl_by(NEXT_FCNTL_INNER, fd, command, more);
}

/* Its descriptor is about to go. */
static int stream_goes(FILE *stream)
{
	int error = errno;
	int fd = fileno(stream);

	errno = error;
	hooks_fd_goes(fd);
	return fd;
}

static int stream_close_by(enum next which, FILE *stream)
{
	int fd = stream_goes(stream);
	int result = ((fclose_fn)next_of(which))(stream);

	hooks_fd_gone(fd);
	return result;
}

EXPORT int fclose(FILE *stream)
{
	return stream_close_by(NEXT_FCLOSE, stream);
}

EXPORT int _IO_fclose(FILE *stream)
{
	return stream_close_by(NEXT_FCLOSE_INNER, stream);
}

/* libc closes any stream by this name. */
EXPORT int pclose(FILE *stream)
{
	return stream_close_by(NEXT_PCLOSE, stream);
}

static int mntent_end_by(enum next which, FILE *stream)
{
	return stream ? stream_close_by(which, stream)
	              : ((fclose_fn)next_of(which))(stream);
}

EXPORT int endmntent(FILE *stream)
{
	return mntent_end_by(NEXT_ENDMNTENT, stream);
}

EXPORT int __endmntent(FILE *stream)
{
	return mntent_end_by(NEXT_ENDMNTENT_INNER, stream);
}

/* A queue is a descriptor, and libc's function closes whatever has its number. */
EXPORT int mq_close(mqd_t queue)
{
	return close_by(NEXT_MQ_CLOSE, queue);
}

/* Inside, libc puts fd at 0 to 2, and closes it. */
EXPORT int login_tty(int fd)
{
	int result;

	for (int to = STDIN_FILENO; to <= STDERR_FILENO; to++)
		makes_room(fd, to);
	if (fd > STDERR_FILENO)
		hooks_fd_goes(fd);
	result = ((dup_fn)next_of(NEXT_LOGIN_TTY))(fd);
	for (int to = STDIN_FILENO; to <= STDERR_FILENO; to++)
		if (result == 0)
			filled(to);
		else
			run_changes(to);
	hooks_fd_gone(fd);
	return result;
}

static FILE *freopen_by(enum next which, const char *path, const char *how,
                        FILE *stream)
{
	int fd = stream_goes(stream);
	FILE *result = ((freopen_fn)next_of(which))(path, how, stream);

	hooks_fd_gone(fd);
	return result;
}

EXPORT FILE *freopen(const char *path, const char *how, FILE *stream)
{
	return freopen_by(NEXT_FREOPEN, path, how, stream);
}

EXPORT FILE *freopen64(const char *path, const char *how, FILE *stream)
{
	return freopen_by(NEXT_FREOPEN64, path, how, stream);
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
