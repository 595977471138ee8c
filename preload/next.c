/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* See next.h. */
#define _GNU_SOURCE
#include "preload/next.h"

#include <dlfcn.h>
#include <errno.h>

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

/* Two threads that come at once find the same. */
u64 next_find(enum next which)
{
	int error = errno;
	u64 found = (u64)dlsym(RTLD_NEXT, next_names[which]);

	host_store_relaxed(&shim.next.found[which], found);
	errno = error;
	return found;
}

/* Finds all of them at the start, because a signal handler must not call dlsym(). */
__attribute__((constructor)) static void next_find_all(void)
{
	for (u32 i = 0; i < NEXT_NR; i++)
		next_find((enum next)i);
}
