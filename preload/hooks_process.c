/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What ends, splits or confines a process, and syscall(). See hooks.h, and U13 in run.h. */
#define _GNU_SOURCE
#include "preload/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/map.h"
#include "preload/own.h"
#include "preload/own_calls.h"
#include "preload/run.h"
#include "preload/run_calls.h"

#define CLONE3_LEAST_BYTES 64u /* of its first version */

typedef int (*mlockall_fn)(int flags);
typedef int (*prctl_fn)(int option, ...);
typedef int (*clone_fn)(int (*fn)(void *), void *stack, int flags, void *arg, ...);
typedef long (*syscall_fn)(long number, ...);
typedef void (*exit_fn)(int status);

__attribute__((used)) u64 hooks_vfork(void); /* the code below calls it */
EXPORT int hooks_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                       unsigned long d) HOOKS_AS("prctl");
EXPORT int hooks_clone(int (*fn)(void *), void *stack, int flags, void *arg,
                       unsigned long a, unsigned long b, unsigned long c)
	HOOKS_AS("clone");
EXPORT int hooks_clone_inner(int (*fn)(void *), void *stack, int flags, void *arg,
                             unsigned long a, unsigned long b, unsigned long c)
	HOOKS_AS("__clone");
EXPORT long hooks_syscall(long number, unsigned long a, unsigned long b,
                          unsigned long c, unsigned long d, unsigned long e,
                          unsigned long f) HOOKS_AS("syscall");

/* It would lock what the shim has mapped into memory, whole files at once. */
EXPORT int mlockall(int flags)
{
	map_stop();
	run_stop();
	return ((mlockall_fn)next_of(NEXT_MLOCKALL))(flags);
}

/* A filter may kill the program for a system call that it does not make by itself. */
int hooks_prctl(int option, unsigned long a, unsigned long b, unsigned long c,
                unsigned long d)
{
	if (option == PR_SET_SECCOMP)
		run_confined();
	return ((prctl_fn)next_of(NEXT_PRCTL))(option, a, b, c, d);
}

/* Does a clone() with these flags share memory or descriptors against U13? Where the parent waits
 * for the child (CLONE_VFORK) only one of them runs. Descriptors that another process shares are
 * closed there unseen. */
static bool parts(unsigned long flags)
{
	if (flags & CLONE_FILES)
		return !(flags & CLONE_THREAD);
	return (flags & (CLONE_VM | CLONE_VFORK)) == CLONE_VM;
}

/* The calling thread waits, and the child runs on its thread-local words. */
static bool suspends(unsigned long flags)
{
	return (flags & CLONE_VM) && (flags & CLONE_VFORK);
}

/* Returns the next vfork(). */
u64 hooks_vfork(void)
{
	run_suspends();
	return next_of(NEXT_VFORK);
}

/* vfork() returns twice, so no frame of the shim may lie below it: this jumps there. */
__asm__(".pushsection .text\n"
        ".globl vfork, __vfork\n"
        ".type vfork, %function\n"
        ".type __vfork, %function\n"
        "vfork:\n"
        "__vfork:\n"
#if defined(__x86_64__)
        "endbr64\n"
        "sub $8, %rsp\n"
        "call hooks_vfork\n"
        "add $8, %rsp\n"
        "jmp *%rax\n"
#elif defined(__aarch64__)
        "hint #34\n" /* bti c */
        "stp x29, x30, [sp, #-16]!\n"
        "bl hooks_vfork\n"
        "ldp x29, x30, [sp], #16\n"
        "mov x16, x0\n"
        "br x16\n"
#else
#error "vfork() has no jump here"
#endif
        ".size vfork, . - vfork\n"
        ".size __vfork, . - __vfork\n"
        ".popsection\n");

static clone_fn clones(enum next which, int flags)
{
	if (parts((unsigned long)flags))
		run_stop();
	if (suspends((unsigned long)flags))
		run_suspends();
	return (clone_fn)next_of(which);
}

int hooks_clone(int (*fn)(void *), void *stack, int flags, void *arg, unsigned long a,
                unsigned long b, unsigned long c)
{
	return clones(NEXT_CLONE, flags)(fn, stack, flags, arg, a, b, c);
}

int hooks_clone_inner(int (*fn)(void *), void *stack, int flags, void *arg,
                      unsigned long a, unsigned long b, unsigned long c)
{
	return clones(NEXT_CLONE_INNER, flags)(fn, stack, flags, arg, a, b, c);
}

/* Can this word be read? The kernel copies a mask of signals before it finds that there is no way
 * -1 to change one, so the question changes nothing. false as well where the shim may not ask. */
static bool is_readable(unsigned long word)
{
	bool readable = false;
	int error = errno;

	if (!shim.run.state || !calls_begin(shim.run.state))
		return false;
	if (own_call(SYS_rt_sigprocmask, -1L, word, NULL, sizeof(u64)) != 0)
		readable = errno == EINVAL;
	calls_end(shim.run.state);
	errno = error;
	return readable;
}

/* The flags that clone3() will find. Without them it fails, and says why. */
static unsigned long clone3_flags(unsigned long args, unsigned long bytes)
{
	if (bytes < CLONE3_LEAST_BYTES || !is_readable(args))
		return 0;
	return *(const unsigned long *)args;
}

/* Does this system call make the shim step aside? */
static bool stops(long number, unsigned long a, unsigned long b)
{
	switch (number) {
	case SYS_unshare: return a & CLONE_FILES;
	case SYS_clone: return parts(a);
	case SYS_clone3: return parts(clone3_flags(a, b));
	default: return false;
	}
}

/* What the shim must do first, for some calls. */
static void prepares(long number, unsigned long a, unsigned long b)
{
	unsigned long flags = 0;

	if (number == SYS_seccomp || (number == SYS_prctl && (int)a == PR_SET_SECCOMP))
		run_confined();
	else if (number == SYS_io_uring_setup || number == SYS_io_uring_enter ||
	         number == SYS_io_uring_register)
		hooks_ring_comes();
	else if (stops(number, a, b))
		run_stop();
	if (number == SYS_flock || (number == SYS_fcntl && hooks_fcntl_locks((int)b)))
		run_locks((int)a);
	else if (number == SYS_fcntl && ((int)b == F_SETLK || (int)b == F_SETLKW))
		fds_note_lock();
	if (number == SYS_clone)
		flags = a;
	else if (number == SYS_clone3)
		flags = clone3_flags(a, b);
#ifdef SYS_vfork
	if (number == SYS_vfork)
		flags = CLONE_VM | CLONE_VFORK;
#endif
	if (suspends(flags))
		run_suspends();
}

/* The call puts another file at its result. */
static bool opens(long number)
{
	switch (number) {
#ifdef SYS_open
	case SYS_open:
	case SYS_creat:
#endif
	case SYS_openat:
	case SYS_openat2:
	case SYS_open_by_handle_at:
	case SYS_memfd_create:
	case SYS_dup:
	case SYS_fcntl:
	case SYS_pidfd_getfd: return true;
	default: return false;
	}
}

/* The descriptor that the call closes or replaces; -1: it does none. */
static int closes(long number, unsigned long a, unsigned long b)
{
	switch (number) {
	case SYS_close: return (int)a;
#ifdef SYS_dup2
	case SYS_dup2:
#endif
	case SYS_dup3: return (int)b;
	default: return -1;
	}
}

/* The call returns in a child, too. */
static bool splits(long number)
{
	switch (number) {
#ifdef SYS_vfork
	case SYS_vfork:
	case SYS_fork:
#endif
	case SYS_clone:
	case SYS_clone3: return true;
	default: return false;
	}
}

/* Of the calls that return once. */
static __attribute__((noinline)) long syscall_once(long number, unsigned long a,
                                                   unsigned long b, unsigned long c,
                                                   unsigned long d, unsigned long e,
                                                   unsigned long f)
{
	syscall_fn next = (syscall_fn)next_of(NEXT_SYSCALL);
	const unsigned long all[6] = { a, b, c, d, e, f };
	int fd = closes(number, a, b);
	long result;

	if (hooks_rights(number, all, &result))
		return result;
	hooks_map_syscall(number, all);
	if (number == SYS_close_range)
		return hooks_close_range((unsigned int)a, (unsigned int)b, (int)c);
	if (number == SYS_execve)
		return execve((const char *)a, (char *const *)b, (char *const *)c);
	if (number == SYS_execveat)
		return execveat((int)a, (const char *)b, (char *const *)c,
		                (char *const *)d, (int)e);
	if (fd < 0 && !opens(number)) {
		result = next(number, a, b, c, d, e, f);
		if (number == SYS_flock)
			run_places_lock();
		return result;
	}
	if (number == SYS_close && own_is(fd)) {
		errno = EBADF;
		return -1;
	}
	hooks_fd_goes(fd);
	result = next(number, a, b, c, d, e, f);
	if (fd >= 0 && (number == SYS_close || a == b || result < 0))
		hooks_fd_gone(fd);
	else if (fd >= 0)
		hooks_fd_opened(fd);
	else if (number == SYS_fcntl &&
	         (hooks_fcntl_locks((int)b) || (int)b == F_SETLK || (int)b == F_SETLKW))
		run_places_lock();
	else if (number == SYS_fcntl && (int)b == F_SETFL)
		run_changes((int)a);
	else if (number != SYS_fcntl || (int)b == F_DUPFD || (int)b == F_DUPFD_CLOEXEC)
		hooks_fd_opened((int)result);
	return result;
}

/* Calls with which a program goes round libc. Those that split the process leave by a jump: a child
 * of syscall(SYS_vfork) must not come back to a frame of ours. So no local of this function has an
 * address, and the next one gets as many words as registers take. None of these calls has a sixth
 * argument. */
long hooks_syscall(long number, unsigned long a, unsigned long b, unsigned long c,
                   unsigned long d, unsigned long e, unsigned long f)
{
	prepares(number, a, b);
	if (splits(number))
		return ((syscall_fn)next_of(NEXT_SYSCALL))(number, a, b, c, d, e);
	return syscall_once(number, a, b, c, d, e, f);
}

static void ends(void)
{
	map_end();
	run_end(false);
}

/* These functions run no destructors. */
EXPORT void _exit(int status)
{
	ends();
	((exit_fn)next_of(NEXT_EXIT_AT_ONCE))(status);
	__builtin_unreachable();
}

EXPORT void _Exit(int status)
{
	ends();
	((exit_fn)next_of(NEXT_EXIT_AT_ONCE_C))(status);
	__builtin_unreachable();
}

EXPORT void quick_exit(int status)
{
	ends();
	((exit_fn)next_of(NEXT_QUICK_EXIT))(status);
	__builtin_unreachable();
}
