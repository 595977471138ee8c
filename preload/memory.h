/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Memory of the shim's tables. Any thread may call these, in a signal handler, too. */
#ifndef LODIC_PRELOAD_MEMORY_H
#define LODIC_PRELOAD_MEMORY_H

#include <stdbool.h>

#include "host/host.h"

/* Zeros, for which the kernel has memory once they are touched. NULL: it gives none. */
void *memory_zeros(u64 bytes);
/* Is there memory behind these bytes of a file that is mapped to be shared? When its disk is full,
 * the first touch of a page would kill the program with a SIGBUS. Before Linux 5.14 nobody can
 * ask. */
bool memory_is_there(void *at, u64 bytes);

#endif
