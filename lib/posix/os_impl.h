/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * How lib/posix/ call what a shim may stand in for: here libc's functions, without more
 * ado. The shim of `lodic run` has another os_impl.h, which the include path chooses
 * (preload/posix). The names and arguments are libc's.
 */
#ifndef LODIC_LIB_POSIX_OS_IMPL_H
#define LODIC_LIB_POSIX_OS_IMPL_H

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Of what runs in a process that shares this one's memory (port_spawn()). */
#ifdef __SANITIZE_THREAD__
#define NOT_FOR_TSAN __attribute__((no_sanitize_thread))
#else
#define NOT_FOR_TSAN
#endif

static inline void *os_calloc(size_t nr, size_t bytes)
{
	return calloc(nr, bytes);
}

static inline void os_free(void *p)
{
	free(p);
}

static inline void *os_mmap(void *at, size_t bytes, int protection, int flags, int fd,
                            off_t offset)
{
	return mmap(at, bytes, protection, flags, fd, offset);
}

static inline int os_munmap(void *at, size_t bytes)
{
	return munmap(at, bytes);
}

static inline int os_madvise(void *at, size_t bytes, int advice)
{
	return madvise(at, bytes, advice);
}

static inline int os_open(const char *path, int flags, mode_t rights)
{
	return open(path, flags, rights);
}

static inline int os_close(int fd)
{
	return close(fd);
}

static inline NOT_FOR_TSAN int os_fcntl(int fd, int command, int value)
{
	return fcntl(fd, command, value);
}

/* Of what os_open() has opened. */
static inline int os_shut(int fd)
{
	return close(fd);
}

static inline int os_mkdir(const char *path, mode_t rights)
{
	return mkdir(path, rights);
}

static inline int os_poll(struct pollfd *fds, nfds_t nr, int ms)
{
	return poll(fds, nr, ms);
}

static inline int os_nanosleep(const struct timespec *time, struct timespec *ret_left)
{
	return nanosleep(time, ret_left);
}

/* Closes on exec. */
static inline int os_dup(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static inline int os_dup3(int fd, int number, int flags)
{
	return dup3(fd, number, flags);
}

static inline ssize_t os_read(int fd, void *to, size_t bytes)
{
	return read(fd, to, bytes);
}

static inline ssize_t os_pread(int fd, void *to, size_t bytes, off_t offset)
{
	return pread(fd, to, bytes, offset);
}

static inline ssize_t os_write(int fd, const void *from, size_t bytes)
{
	return write(fd, from, bytes);
}

static inline int os_socket(int domain, int type, int protocol)
{
	return socket(domain, type, protocol);
}

static inline ssize_t os_sendmsg(int socket, const struct msghdr *message, int flags)
{
	return sendmsg(socket, message, flags);
}

static inline ssize_t os_recvmsg(int socket, struct msghdr *message, int flags)
{
	return recvmsg(socket, message, flags);
}

/* pthread_sigmask() would leave out the two signals that libc keeps for itself. */
static inline void os_block_signals(const sigset_t *set, sigset_t *ret_old)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, set, ret_old, NSIG / 8);
}

/* TSan takes clone() for a fork, and from then on misses what orders threads here. It does not
 * know this other name. */
#ifdef __SANITIZE_THREAD__
extern __typeof__(clone) __clone;
#define OS_CLONE_NAME __clone
#else
#define OS_CLONE_NAME clone
#endif

static inline NOT_FOR_TSAN pid_t os_clone(int (*run)(void *), void *stack, int flags,
                                          void *arg)
{
	return OS_CLONE_NAME(run, stack, flags, arg);
}

static inline NOT_FOR_TSAN int os_execve(const char *path, char **arguments,
                                         char **environment)
{
	return execve(path, arguments, environment);
}

/* ---- lib/posix/guest.c; of libc's own only in a test ---- */

static inline int os_dup_above(int fd, int lowest)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, lowest);
}

static inline int os_shutdown(int socket, int how)
{
	return shutdown(socket, how);
}

static inline int os_socket_for_now(int domain, int type)
{
	return socket(domain, type, 0);
}

static inline int os_connect(int socket, const void *address, socklen_t bytes)
{
	return connect(socket, address, bytes);
}

static inline ssize_t os_put(int fd, const void *from, size_t bytes)
{
	return write(fd, from, bytes);
}

static inline int os_ftruncate(int fd, off_t bytes)
{
	return ftruncate(fd, bytes);
}

static inline int os_ioctl(int fd, unsigned long command, void *arg)
{
	return ioctl(fd, command, arg);
}

static inline int os_lchown(const char *path, uid_t user, gid_t group)
{
	return lchown(path, user, group);
}

static inline int os_rmdir(const char *path)
{
	return rmdir(path);
}

#endif
