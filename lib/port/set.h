/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): the set of descriptors that a loop waits for.
 *
 * What a descriptor leads to is in the set, and not its number. So it leaves the set with the last
 * descriptor that leads there, which another process may have. Where that may be, the caller takes
 * it out before it closes its own (port_set_remove()).
 */
#ifndef LODIC_LIB_PORT_SET_H
#define LODIC_LIB_PORT_SET_H

#include "lib/port.h"

/* Besides enum port_waiting: it is told once each time that input comes, and not as long as there
 * is some. So nobody must take it. */
#define PORT_NEW_INPUT 2u

/* An empty set. Its descriptor. -EMFILE -ENFILE -ENOMEM. */
int port_set(void);
/* From now on port_set_wait() tells of fd, as whose: of what (PORT_INPUT, PORT_NEW_INPUT, or
 * neither), and of a hang-up in any case. -EEXIST: it is there. -EPERM: such a file is never waited
 * for. -ENOMEM. -ENOSPC: this user has too many in sets. -EINVAL -ELOOP: it is a set itself.
 * -EBADF. */
int port_set_add(int set, int fd, unsigned int what, void *whose);
/* The same for fd, which is there. -ENOENT: it is not. -EPERM -ENOMEM -EINVAL -EBADF. */
int port_set_change(int set, int fd, unsigned int what, void *whose);
/* It is told of no more, if it was. */
void port_set_remove(int set, int fd);
/* Waits until there is something to tell, up to ms milliseconds; -1: for ever. Returns how many of
 * ret_whose it has filled, most of them at most, each descriptor once; 0: the time has gone by. It
 * tells of those that have waited longest first. -EINTR: a signal. -EBADF. It works however few
 * descriptors this process may have. */
PORT_WAITS int port_set_wait(int set, void **ret_whose, unsigned int most, int ms);

#endif
