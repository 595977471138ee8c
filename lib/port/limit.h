/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The door to the system (port.h): what this process may have at most. Another process may change
 * its limits at any moment.
 */
#ifndef LODIC_LIB_PORT_LIMIT_H
#define LODIC_LIB_PORT_LIMIT_H

#include "lib/port.h"

enum port_limit {
	PORT_LIMIT_DESCRIPTORS,   /* the number of a new one is below */
	PORT_LIMIT_PROCESSES,     /* of its user, threads included; not of root */
	PORT_LIMIT_FILE_BYTES,    /* of each file that it writes, in memory too */
	PORT_LIMIT_ADDRESS_BYTES, /* of all its mappings */
};
/* UINT64_MAX: there is none. */
uint64_t port_limit(enum port_limit which);
/* It may have as many descriptors as it is allowed to allow itself. */
void port_limit_raise_descriptors(void);
/* Does a filter forbid it some calls of the kernel? */
bool port_is_filtered(void);

#endif
