/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The functions of libc that the shim stands in for. Each calls the next one of its name,
 * which is libc's or another shim's, and hands the answer and errno to the program untouched.
 *
 *   hooks_read.c       reads
 *   hooks_map.c        mmap(), and what changes a mapping
 *   hooks_fd.c         what opens, closes and duplicates descriptors
 *   hooks_rights.c     what changes a process's rights
 *   hooks_process.c    what ends, splits or confines a process, and syscall()
 *   hooks_exec.c       what runs another program
 *   hooks_wait.c       what waits for events or for time
 *   hooks_uring.c      rings that liburing's shared library makes
 *
 * libc's own calls do not come by here. So the shim does not see what stdio reads for fread()
 * or fgets(), nor what posix_spawn() does in the child.
 *
 * A function with variable arguments is defined under another C name, with as many words as it
 * may get (HOOKS_AS). On the machines that lodic supports the two are called the same way.
 */
#ifndef LODIC_PRELOAD_HOOKS_H
#define LODIC_PRELOAD_HOOKS_H

#include "host/host.h"

#define EXPORT __attribute__((visibility("default")))
#define HOOKS_AS(name) __asm__(name)

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
	NEXT_MMAP,
	NEXT_MMAP64,
	NEXT_MUNMAP,
	NEXT_MREMAP,
	NEXT_MPROTECT,
	NEXT_PKEY_MPROTECT,
	NEXT_MADVISE,
	NEXT_MLOCK,
	NEXT_MLOCK2,
	NEXT_OPEN,
	NEXT_OPEN64,
	NEXT_OPEN_INNER,
	NEXT_OPEN64_INNER,
	NEXT_OPEN_CHECKED,
	NEXT_OPEN64_CHECKED,
	NEXT_OPENAT,
	NEXT_OPENAT64,
	NEXT_OPENAT_CHECKED,
	NEXT_OPENAT64_CHECKED,
	NEXT_CREAT,
	NEXT_CREAT64,
	NEXT_CLOSE,
	NEXT_CLOSE_INNER,
	NEXT_CLOSE_RANGE,
	NEXT_CLOSEFROM,
	NEXT_DUP,
	NEXT_DUP2,
	NEXT_DUP2_INNER,
	NEXT_DUP3,
	NEXT_FCNTL,
	NEXT_FCNTL64,
	NEXT_FCNTL_INNER,
	NEXT_FLOCK,
	NEXT_FCLOSE,
	NEXT_FCLOSE_INNER,
	NEXT_PCLOSE,
	NEXT_ENDMNTENT,
	NEXT_ENDMNTENT_INNER,
	NEXT_MQ_CLOSE,
	NEXT_LOGIN_TTY,
	NEXT_FREOPEN,
	NEXT_FREOPEN64,
	NEXT_FADVISE,
	NEXT_FADVISE64,
	NEXT_MLOCKALL,
	NEXT_PRCTL,
	NEXT_UNSHARE,
	NEXT_SETNS,
	NEXT_CHROOT,
	NEXT_CAPSET,
	NEXT_SETUID,
	NEXT_SETEUID,
	NEXT_SETREUID,
	NEXT_SETRESUID,
	NEXT_SETFSUID,
	NEXT_SETGID,
	NEXT_SETEGID,
	NEXT_SETREGID,
	NEXT_SETRESGID,
	NEXT_SETFSGID,
	NEXT_SETGROUPS,
	NEXT_INITGROUPS,
	NEXT_CLONE,
	NEXT_CLONE_INNER,
	NEXT_VFORK,
	NEXT_SYSCALL,
	NEXT_EXECV,
	NEXT_EXECVE,
	NEXT_EXECVP,
	NEXT_EXECVPE,
	NEXT_EXECVEAT,
	NEXT_FEXECVE,
	NEXT_POSIX_SPAWN,
	NEXT_POSIX_SPAWNP,
	NEXT_POLL,
	NEXT_POLL_CHECKED,
	NEXT_PPOLL,
	NEXT_SELECT,
	NEXT_PSELECT,
	NEXT_EPOLL_WAIT,
	NEXT_EPOLL_PWAIT,
	NEXT_NANOSLEEP,
	NEXT_CLOCK_NANOSLEEP,
	NEXT_SLEEP,
	NEXT_USLEEP,
	NEXT_LOCKF,
	NEXT_LOCKF64,
	NEXT_EXIT_AT_ONCE,
	NEXT_EXIT_AT_ONCE_C,
	NEXT_QUICK_EXIT,
	NEXT_NR
};

/* The next function of this name, as a number. Any thread may ask, before any constructor has
 * run, too. */
u64 hooks_next(enum next which);

/* Can a program have memory there? It has none in the first pages, as a rule, and none in the
 * kernel's half; a NULL is the commonest bad pointer. The kernel has an error for these, where the
 * shim would have a fault. Of other pages that are not there the shim knows nothing. */
#define HOOKS_LOWEST UINT64_C(0x10000)
#define HOOKS_HIGHEST (UINT64_C(1) << 56)
static inline bool hooks_can_be(const void *p)
{
	return (u64)p - HOOKS_LOWEST < HOOKS_HIGHEST - HOOKS_LOWEST;
}

/* What close_range() does, whichever way it is called: the shim's own descriptors stay. */
int hooks_close_range(unsigned int first, unsigned int last, int flags);
/* Does this command of fcntl() lock the open file, not the process's view of it? */
bool hooks_fcntl_locks(int command);
/* hooks_rights.c, for syscall(). Is this a call that changes rights? Then it makes it, and returns
 * true. */
bool hooks_rights(long number, const unsigned long a[6], long *ret_result);
/* hooks_map.c, for syscall(): the call may change a mapping. */
void hooks_map_syscall(long number, const unsigned long a[6]);
/* Before and after a descriptor goes, or makes room for another file. */
void hooks_fd_goes(int fd);
void hooks_fd_gone(int fd);
/* A call has opened fd, or has put another file there (-1: it has failed). */
void hooks_fd_opened(int fd);
/* The process is about to have a ring of io_uring (U30). */
void hooks_ring_comes(void);

#endif
