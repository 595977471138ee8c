/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The descriptors that the shim of `lodic run` itself has in the program: the socket to the service
 * and the event that wakes it. The client half of liblodic is compiled once more for the shim, and
 * asks here before it uses one (own_calls.c).
 *
 * - The descriptors lie high, because a program counts on getting low numbers. The program cannot
 *   close them: it has not opened them. Its close() of such a number gives EBADF.
 * - A bare system call may close one, and the number then is another file's. So each use looks
 *   first whether the number still leads to what the shim has opened.
 * - A forked child closes its copies, so that the service sees when the parent ends.
 */
#ifndef LODIC_PRELOAD_OWN_H
#define LODIC_PRELOAD_OWN_H

#include <stdbool.h>

#include "host/host.h"

/* A duplicate of fd, high up, which is the shim's from now on. Or as port_dup_above(). */
int own_copy(int fd);
/* May the shim use it? false: it is not the shim's, or leads to another file by now. */
bool own_usable(int fd);
/* The shim closes it. false: it is the program's by now, and stays open. */
bool own_ends(int fd);
/* Moves what the shim has received away from the numbers of the standard files. Returns its
 * number. */
int own_rise(int fd);

/* Is fd the shim's? */
bool own_is(int fd);
/* The lowest number in [first, last] that is the shim's; above last: none. */
u64 own_next(u64 first, u64 last);
/* The program has taken this number for another file. The shim's descriptor is lost. */
void own_lost(int fd);
/* In a forked child. */
void own_forked(void);
/* Keeps a descriptor that is not the service's: a forked child has it, too. Returns its new number,
 * high up; -1: it has none. fd itself goes. */
int own_keep(int fd);
/* A thread that waits for an answer of the service waits no longer: nobody will answer. */
void own_hang_up(void);

#endif
