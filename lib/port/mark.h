/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): a word in shared memory that tells other processes of a thread's
 * death.
 *
 * A thread ends by itself, or with its process: by a signal such as SIGKILL, or by exit(2). Exec
 * ends it, too. In each case the kernel looks for a mark that is set, and reads it and its word. If
 * the word's bits PORT_MARK_NUMBER hold the thread's number, it changes the word to PORT_MARK_DEAD,
 * in one atomic step. All other bits of it become 0, but the uppermost stays. Memory beside it
 * stays.
 *
 * The order: the last descriptor of a description is closed by a process's end after all its
 * threads have passed their marks. So what that close does, such as the end of a lease, comes after
 * the marks of all threads.
 *
 * The kernel reads plain memory at that moment. If it cannot (the page is not there any more, or no
 * disk gives it back), there is no mark, and nobody is told. The OOM killer takes private memory
 * away beforehand, and leaves shared mappings alone.
 */
#ifndef LODIC_LIB_PORT_MARK_H
#define LODIC_LIB_PORT_MARK_H

#include "lib/port.h"

#define PORT_MARK_NUMBER UINT32_C(0x3fffffff)
#define PORT_MARK_DEAD UINT32_C(0x40000000)

/* In a shared mapping; it must not go before the thread has ended, or cleared it. */
struct port_mark {
	uint64_t words[4];
};

/* The calling thread's death marks word from now on, which is in a shared mapping. A thread has one
 * mark. It must not use locks that outlive their owner. The thread's number is not written to word.
 * -ENOSYS, -EPERM: this process gets no marks. */
int port_mark_set(struct port_mark *mark, uint32_t *word);
/* Its end marks nothing any more. Only that thread may call it. */
void port_mark_clear(struct port_mark *mark);

#endif
