/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): leases on files, and the signals of those that break.
 *
 * A lease belongs to an open description of a file. It stands between the file and its writers:
 * programs that open it for writing, or change its length by truncate(2).
 *
 *   none --port_lease_take()--> held --a writer comes--> breaking --port_lease_give()--> none
 *                                                              `--fs.lease-break-time--> none
 *
 * - A break: the kernel makes the lease breaking, sends one signal, and lets the writer wait. With
 *   O_NONBLOCK the writer fails with -EWOULDBLOCK instead; the lease breaks all the same. More
 *   writers may come and wait. They cause no further signal.
 * - The writers go on when the lease is none. Either it was given back, or the last descriptor of
 *   its description was closed, or fs.lease-break-time is over, 45 s as a rule. A process that ends
 *   closes its descriptors after the marks of its threads (port/mark.h).
 * - A writer that waits counts as one that has the file open. So nobody gets a lease meanwhile.
 * - A read-only open breaks no lease, not even one with O_TRUNC, which cuts the file.
 * - A file that is open for writing gets no lease, so it cannot break one either. doc/proofs.md
 *   names what the kernel does not count as that.
 *
 * Signals. A break's signal goes to one thread of this process. It has the number of the descriptor
 * by which the lease was taken. It is sent after the lease has become breaking. It may be read
 * late: when the lease has been given back, the descriptor closed, and its number used again. The
 * queue of signals is bounded (RLIMIT_SIGPENDING), and all processes of the user share the bound.
 * When it is full, the kernel sends a plain signal instead, which names no descriptor. At most one
 * of these waits at a time, for all breaks that came while it waited. So a signal comes after every
 * break.
 *
 * A lease is safe to take, ask for and give back during a turn if its file is of a local file
 * system (port/inode.h). Others may ask a server.
 */
#ifndef LODIC_LIB_PORT_LEASE_H
#define LODIC_LIB_PORT_LEASE_H

#include "lib/port.h"

/* Signals of the lease that fd will have go to this thread of the process. Without it they go to
 * any thread, as the plain signal. -ESRCH: there is no such thread. -EBADF -ENOMEM. */
int port_lease_aim(int fd, int thread);
/* Takes a lease; fd only reads. -EACCES: the file is another user's, and this process has no
 * CAP_LEASE; or a security module refuses it. -EPERM: the latter. -EAGAIN: the file is open for
 * writing, or another lease on it is breaking. -EINVAL: its file system has no leases, it is no
 * regular file, or the machine grants none to anybody (fs.leases-enable). -ENOMEM -EBADF. */
int port_lease_take(int fd);
/* The lease is none from now on, and writers that wait for it go on. It may have been none. */
void port_lease_give(int fd);
/* Is there a lease, and does nobody wait for it? It is false from before the signal is sent. */
bool port_lease_holds(int fd);

/* Makes a descriptor that has input while a signal of a lease waits for the thread that asks. All
 * threads of the process must have signals of leases blocked. -EMFILE -ENFILE -ENOMEM -ENODEV. */
int port_breaks(void);
/* What port_breaks_next() finds where a signal names no descriptor. */
#define PORT_BREAK_ANY (-1)
#define PORT_BREAKS_AT_ONCE 64u
/* Takes the signals that wait for the calling thread, a bounded number of them. One that names no
 * descriptor comes first, the others in their order. Returns how many ret_fds has; 0: none. */
unsigned int port_breaks_next(int breaks, int ret_fds[PORT_BREAKS_AT_ONCE]);

#endif
