/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The shim behind `lodic map` runs inside a program that knows nothing of it. The shim
 * maps the files that the program reads again and again. The program's own process then
 * has a pte for each page that it reads. In these ptes a kernel with LODIC counts the
 * references of read(2). The program's bytes still come from its own read(2): nothing
 * ever touches the mapping.
 *
 *   hooks*.c       the functions of libc that the shim stands in for; shared with `lodic run`
 *   fds.c          what is known of descriptors, line.c how lines are written, memory.c tables of
 *                  the shim's own: shared as well
 *   map.c          which descriptor is which file; when a file is mapped and unmapped
 *   map_pages.c    a mapping's pages, what they may cost, which file goes first
 *   map_options.c  what `lodic map` says, through the environment
 *   map_report.c   what it cost
 *
 * The program must not notice the shim. Seven rules follow:
 *
 * M1 The shim makes no system call on a mapping unless this process made the mapping. A
 *    vfork() child shares this memory, but has descriptors of its own. A child of a bare
 *    clone() has a copy: there the mapping is missing, and its addresses may belong to
 *    something else.
 * M2 A mapping does not outlive the descriptor that it was made from. It holds the open
 *    file, and with it flock() locks, leases, a deleted file's space and a mount.
 *    (Opening the file a second time would be worse: that descriptor's close() drops
 *    the program's fcntl() locks.)
 * M3 No descriptor stays open. The shim opens one for a moment: in close() and at exit,
 *    to look at VmPTE, and for the report. Before an exec it looks at the program so.
 * M4 A thread that holds the lock has its signals blocked and cannot be cancelled. So
 *    close(), which a signal handler may call, can wait for the lock. read() does not
 *    wait for it: the next read() will do.
 * M5 The shim calls neither malloc nor stdio, and leaves errno as it was.
 * M6 The shim asks for a file's pages only just after the program has read them, so that
 *    it causes no I/O.
 * M7 Once a file is mapped, a read of it writes no line that another thread writes. A
 *    shared counter here would undo what LODIC is for.
 */
#ifndef LODIC_PRELOAD_MAP_H
#define LODIC_PRELOAD_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* n > 0 bytes were read from fd at offset, or where it stood (-1). Keeps errno. */
void map_note(int fd, int64_t n, int64_t offset);
/* The program is about to close fd, or to put another file in its place. Keeps errno. */
void map_closing(int fd);
void map_closing_from(unsigned int first, unsigned int last);
/* The program wants the file's pages out of memory, so that no mapping may hold them.
 * Keeps errno. */
void map_dropping(int fd);
/* Unmaps everything, for good. Keeps errno. */
void map_stop(void);
/* The program ends, in a way that the shim can see. Keeps errno. */
void map_end(void);
/* The program is about to close stderr. Keeps errno. */
void map_stderr_closing(void);

/* Only a constructor may call it. */
void map_start(void);

#endif
