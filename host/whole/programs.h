/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the machine's programs are: the scenarios know (check/whole). */
#ifndef LODIC_HOST_WHOLE_PROGRAMS_H
#define LODIC_HOST_WHOLE_PROGRAMS_H

#include "host/whole/machine.h"
#include "lib/port.h"

/* Starts a process of the program, with the two descriptors that it names. 0, or -ENOENT.
 * -EAGAIN: the machine has no room for another one. */
int programs_start(const struct port_program *program);

#endif
