/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): what this process is asked by signals, as input of a descriptor.
 * No signal handler calls these.
 */
#ifndef LODIC_LIB_PORT_SIGNAL_H
#define LODIC_LIB_PORT_SIGNAL_H

#include "lib/port.h"

struct port_signals_before {
	uint64_t words[16];
};
/* From now on SIGTERM, SIGINT and SIGHUP do not interrupt the calling thread, or those that it
 * starts. They wait for port_signals_take(). */
void port_signals_block(struct port_signals_before *ret_before);
/* As it was before. Those that have come meanwhile, and that nobody has taken, act now. */
void port_signals_as(const struct port_signals_before *before);

/* A descriptor that has input while one of the three waits for this process. -EMFILE -ENFILE
 * -ENOMEM -ENODEV. */
int port_signals(void);

struct port_signal {
	bool hang_up; /* SIGHUP; else it is to end */
	bool by_kernel; /* nobody has sent it: the terminal has gone, or a key was pressed */
};
/* Takes one. Several of a kind that came before the first was taken are one. -EAGAIN: none waits.
 * -EBADF. */
int port_signals_take(int signals, struct port_signal *ret);

#endif
