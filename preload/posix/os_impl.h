/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How lib/posix/ call the system inside the shim: past its hooks. own_calls.h looks at
 * what the program has done to the library's descriptors. See lib/posix/os_impl.h.
 */
#ifndef LODIC_PRELOAD_POSIX_OS_IMPL_H
#define LODIC_PRELOAD_POSIX_OS_IMPL_H

#include <fcntl.h>
#include <sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/own_calls.h"

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

static inline int os_shut(int fd)
{
	return own_shut(fd);
}

static inline int os_mkdir(const char *path, mode_t rights)
{
	return (int)own_call(SYS_mkdirat, AT_FDCWD, path, rights);
}

static inline int os_poll(struct pollfd *fds, nfds_t nr, int ms)
{
	return own_poll(fds, nr, ms);
}

static inline int os_nanosleep(const struct timespec *time, struct timespec *ret_left)
{
	return (int)own_call(SYS_nanosleep, time, ret_left);
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

/* ---- lib/posix/guest.c ---- */

static inline int os_dup_above(int fd, int lowest)
{
	return (int)own_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest);
}

static inline int os_shutdown(int socket, int how)
{
	return (int)own_call(SYS_shutdown, socket, how);
}

/* For os_shut(). The program does not see it long enough to close it. */
static inline int os_socket_for_now(int domain, int type)
{
	return (int)own_call(SYS_socket, domain, type, 0);
}

static inline int os_connect(int socket, const void *address, socklen_t bytes)
{
	return (int)own_call(SYS_connect, socket, address, bytes);
}

/* To what the program has opened, or os_open(). */
static inline ssize_t os_put(int fd, const void *from, size_t bytes)
{
	return own_call(SYS_write, fd, from, bytes);
}

static inline int os_ftruncate(int fd, off_t bytes)
{
	return (int)own_call(SYS_ftruncate, fd, bytes);
}

static inline int os_ioctl(int fd, unsigned long command, void *arg)
{
	return (int)own_call(SYS_ioctl, fd, command, arg);
}

static inline int os_lchown(const char *path, uid_t user, gid_t group)
{
	return (int)own_call(SYS_fchownat, AT_FDCWD, path, user, group,
	                     AT_SYMLINK_NOFOLLOW);
}

static inline int os_rmdir(const char *path)
{
	return (int)own_call(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
#endif
