/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How lib/port_posix_*.c call the system inside the shim: past its hooks. own.h looks at
 * what the program has done to the library's descriptors. See lib/posix/os_impl.h.
 */
#ifndef LODIC_PRELOAD_POSIX_OS_IMPL_H
#define LODIC_PRELOAD_POSIX_OS_IMPL_H

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/own.h"

#define NOT_FOR_TSAN /* programs have none, so the shim has none */

static inline void *os_calloc(size_t nr, size_t bytes)
{
	return own_calloc(nr, bytes);
}

static inline void os_free(void *p)
{
	own_free(p);
}

static inline void *os_mmap(void *at, size_t bytes, int protection, int flags, int fd,
                            off_t offset)
{
	return own_mmap(at, bytes, protection, flags, fd, offset);
}

static inline int os_munmap(void *at, size_t bytes)
{
	return own_munmap(at, bytes);
}

static inline int os_madvise(void *at, size_t bytes, int advice)
{
	return own_madvise(at, bytes, advice);
}

static inline int os_open(const char *path, int flags, mode_t rights)
{
	return (int)own_call(SYS_openat, AT_FDCWD, path, flags, rights);
}

static inline int os_close(int fd)
{
	return own_close(fd);
}

static inline int os_fcntl(int fd, int command, int value)
{
	return (int)own_call(SYS_fcntl, fd, command, value);
}

static inline int os_dup(int fd)
{
	return own_dup(fd);
}

static inline int os_dup3(int fd, int number, int flags)
{
	return own_dup3(fd, number, flags);
}

static inline ssize_t os_read(int fd, void *to, size_t bytes)
{
	return own_call(SYS_read, fd, to, bytes);
}

static inline ssize_t os_pread(int fd, void *to, size_t bytes, off_t offset)
{
	return own_call(SYS_pread64, fd, to, bytes, offset);
}

static inline ssize_t os_write(int fd, const void *from, size_t bytes)
{
	return own_write(fd, from, bytes);
}

static inline int os_socket(int domain, int type, int protocol)
{
	return own_socket(domain, type, protocol);
}

static inline ssize_t os_sendmsg(int socket, const struct msghdr *message, int flags)
{
	return own_sendmsg(socket, message, flags);
}

static inline ssize_t os_recvmsg(int socket, struct msghdr *message, int flags)
{
	return own_recvmsg(socket, message, flags);
}

static inline void os_block_signals(const sigset_t *set, sigset_t *ret_old)
{
	own_call(SYS_rt_sigprocmask, SIG_SETMASK, set, ret_old, NSIG / 8);
}

static inline pid_t os_clone(int (*run)(void *), void *stack, int flags, void *arg)
{
	return own_clone(run, stack, flags, arg);
}

static inline int os_execve(const char *path, char **arguments, char **environment)
{
	return (int)own_call(SYS_execve, path, arguments, environment);
}

#endif
