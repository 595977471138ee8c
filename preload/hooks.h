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
#include "preload/next.h"

#define EXPORT __attribute__((visibility("default")))
/* A simulated machine has functions of its own by these names (host/whole/guest_names.h). */
#ifndef HOOKS_PREFIX
#define HOOKS_PREFIX ""
#endif
#define HOOKS_AS(name) __asm__(HOOKS_PREFIX name)

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
