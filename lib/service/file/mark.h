/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The mark of death: what tells readers that the service has been killed, before a writer gets
 * through.
 *
 * L4 the end by SIGKILL: a task that exits goes through exit_mm before exit_files. In
 *    exit_mm the kernel walks the thread's robust list and marks the futex on it: the low
 *    half of header->alive. The kernel closes the descriptors, and drops the leases, when
 *    the last thread of the process has passed exit_files. That is later than the lease
 *    thread's exit_mm, in whatever order the threads die. Hence a writer that gets through
 *    because the service was killed comes after the mark. The same holds for exec.
 *    The main thread may still admit a file when the mark is there. No reader believes it.
 *    The kernel reads the list, which is plain memory, at that moment. The list lies in a
 *    shared mapping, because the OOM killer's reaper takes private memory away beforehand.
 *    The list and the marked word are locked in memory, so that no disk has to answer.
 */
#ifndef LODIC_LIB_SERVICE_FILE_MARK_H
#define LODIC_LIB_SERVICE_FILE_MARK_H

#include "lib/port/mark.h"
#include "lib/service/base/base.h"

struct arena_header;

/* Room for the mark of one thread, in an arena with that header. NULL: there is no memory. */
struct port_mark *mark_make(struct arena_header *header);
void mark_free(struct port_mark *mark);
/* The calling thread, tid, lives from now on, and the service with it. -ENOSYS, -EPERM: the kernel
 * would not mark its death, so the service must not live. */
int mark_set(struct port_mark *mark, struct arena_header *header, int tid);
/* The same thread: the service ends in order. */
void mark_clear(struct port_mark *mark, struct arena_header *header);

#endif
