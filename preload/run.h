/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The shim behind `lodic run` runs inside a program that knows nothing of it. It serves the
 * program's pread(2) and its relatives from the cache, where the cache has all of the bytes. In
 * every other case the program's own system call does the work, as if there were no shim.
 *
 *   hooks*.c       the functions of libc that the shim stands in for; shared with `lodic map`
 *   shim.h, fds.c, line.c, memory.c  shared as well
 *   run.c          the reads
 *   run_files.c    which descriptor is which file
 *   run_calls.c    which threads are in the shim, and the lock
 *   run_await.c    steps towards a file's being cached, and the one read that waits
 *   run_map.c      mmap(), if the user wants that
 *   run_place.c    mappings that get another memory later
 *   run_threads.c  what a thread reads by; how the shim steps aside
 *   own.c          the shim's own descriptors
 *   own_calls.c    the shim's own system calls, past the hooks
 *   next.c         libc's functions, behind the hooks
 *   start.c        begins when the loader says so, and ends with the program
 *   run_leave.c    how the program gives up rights, and how a service is started
 *   run_report.c   what was served, and what not; run_watched.c the files of that for the doctor
 *   run_print.c    the same, as lines for the user
 *   go.c           is there code in Go?
 *   loader.c       can a program that is run load the shim?
 *   run_record.c   what the program does to its files, if the user wants that written down
 *
 * `lodic doctor` uses the same shim, which then has no service: it serves nothing and only counts.
 *
 * The program must not notice the shim. These rules follow, beside M4 and M5 of map.h:
 *
 * U11 A slot that names a file is believed without a system call. So each function that ends a
 *    descriptor, or puts another file at its number, empties the slot, before and after. Each
 *    function that opens one empties it, too.
 * U12 The shim fills a slot only if nobody has emptied it since before it looked at what is open
 *    there. For that it first stores a number that is never used again, and replaces that.
 * U13 The process that shares its memory with another table of descriptors, or its table with
 *    another process, gets nothing served: run_stop().
 * U14 The shim waits for nobody: not for the service, and in a read not for another thread. There
 *    are three exceptions, for times that are bounded. One is mmap() (run_map.c). One is a read of
 *    a file that was read many times before the first answer (run_await.c). The third is a change
 *    of user, for the start of a service (U27). No mutant breaks this: a short wait changes no
 *    answer.
 * U15 The shim closes no descriptor of the program's files, its own duplicates neither. A close
 *    would drop the program's fcntl() locks.
 * U16 The shim serves no read that a signal handler does while it has interrupted one. A handler
 *    that jumps out of a read leaves that thread with the kernel.
 * U17 A file is not lent from when the program locks it by flock() or the like. Such a lock
 *    belongs to the open file, and the service's copy would keep it after the program's close.
 * U18 The child of vfork() gets no reader. It has descriptors of its own, but the slots are those
 *    of its parent, where other threads run on and fill them. So the thread gives its reader away
 *    before, and the lock refuses the child. What the child closes empties no slot.
 * U19 A thread that confines the process waits until no other thread is in a part of the shim that
 *    makes system calls. A thread that enters one says so first, and then looks whether it may.
 * U23 Before the program changes its rights, the shim leaves the service (hooks_rights.c). When
 *    the call begins, nothing of the arena is mapped, and no descriptor of the service's is open.
 *    Until the call is over, no thread connects for the shim. A read that is in the middle of a
 *    copy finds zeros, and its last look fails (LV1 in lib/client/segment.h).
 * U24 After a change of user or groups the shim looks for a service of the new user, at that user's
 *    own socket. The settings' `trust` counts for the user of `lodic run` only. If that user has
 *    named a socket, it stays with that one, if the kernel and the service let it in. A program
 *    that goes to and fro attaches once in 2 s.
 * U25 Some rights are lost where no service can see it, and then the shim stays away for good. So
 *    it is for a Landlock domain, another root folder, and another name space of mounts or users.
 *    So it is, too, for the right to pass by the modes of files, and for one thread's own ids.
 *    Forked children stay away as well.
 * U26 An open() starts a service if nobody listens, once in 2 s at first and once in a minute in
 *    the end. It waits for no answer. It takes two clone()s and an execve(), about a millisecond,
 *    and longer only where the disk does not give the program's first pages.
 * U27 A privileged program that becomes a user for good starts a service for that user before,
 *    which has CAP_LEASE and no other right. It waits for that one, 1 s at most.
 * U30 A ring of io_uring opens and closes past libc. So the shim steps aside before the process has
 *    one, and a child that inherits one does so, too: hooks_ring_comes().
 * U31 The shim does nothing in a process with code in Go, which calls the kernel by itself.
 * U32 A program with another loader does not get the shim. Before an exec the shim looks at the
 *    file. A process that has taken locks by fcntl() does not look: the look's close may drop them.
 */
#ifndef LODIC_PRELOAD_RUN_H
#define LODIC_PRELOAD_RUN_H

#include <stdbool.h>

#include "preload/run_files.h"
#include "preload/run_leave.h"
#include "preload/run_map.h"
#include "preload/run_place.h"
#include "preload/run_record.h"
#include "preload/run_report.h"
#include "preload/run_state.h"
#include "preload/run_threads.h"

/* Serves the read, or says why the kernel must. Keeps errno. *ret_n is set for RUN_SERVED. */
enum run_why run_read(int fd, const struct iovec *to, int nr, int64_t offset,
                      int64_t *ret_n);
/* The kernel has done it at offset (-1: where the descriptor stood), and n bytes came (-1: an
 * error); or the shim has. For the report. */
void run_note(int fd, int64_t n, int64_t offset, enum run_why why);

/* It is mapped, by the shim or by the kernel. For the report. */
void run_note_map(const struct run_mapping *m, enum run_why why);

/* fd is, or has been, closed or replaced, or is new (U11). Keeps errno. */
void run_changes(int fd);
void run_changes_from(unsigned int first, unsigned int last);

/* Only a constructor may call it. */
void run_start(void);

/* A read begins. */
static inline void run_reads(void)
{
	run_enters();
	if (shim.run.records)
		run_record_reads();
}

#endif
