/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Programs with the shim of `lodic run`: their libc, and what the shim has put before it.
 *
 *    hooked_pread()   preload/hooks_read.c, as in a real program
 *    next_find()      what stands behind it, where a real shim asks the loader (guest_next.c)
 *    port_...()       what the shim itself calls. Of its own descriptors it asks preload/own.c
 *                     first (guest_own.c), as preload/posix/os_impl.h does.
 *
 * The shim is a shared object of its own. A program has it from guest_start() on.
 */
#ifndef LODIC_HOST_WHOLE_GUEST_H
#define LODIC_HOST_WHOLE_GUEST_H

#include <sys/types.h>
#include <sys/uio.h>

#include "host/whole/machine.h"

/* The running process loads the shim. environment: as `lodic run` sets it; it must stay. */
void guest_start(const char *const *environment);
/* Has the shim opened fd? The scenario asks, nobody else. */
bool guest_owns(int fd);
/* The process gives up rights, and has as many as before: what an exec, a setuid() or the like
 * makes of the shim. */
void guest_changes_rights(void);

/* What the program calls. They are as those of libc without the prefix. */
int hooked_open(const char *path, int flags, mode_t mode);
int hooked_close(int fd);
int hooked_close_range(unsigned int first, unsigned int last, int flags);
int hooked_dup(int from);
int hooked_dup2(int from, int to);
int hooked_dup3(int from, int to, int flags);
int hooked_fcntl(int fd, int command, unsigned long more);
ssize_t hooked_read(int fd, void *to, size_t n);
ssize_t hooked_pread(int fd, void *to, size_t n, off_t offset);
ssize_t hooked_preadv(int fd, const struct iovec *to, int nr, off_t offset);

/* The same past the shim: a bare system call. */
int guest_next_close(int fd);
/* lseek(2), which the shim leaves alone. */
off_t guest_next_lseek(int fd, off_t offset, int whence);

#endif
