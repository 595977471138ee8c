/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the kernel says is mapped at an address of this process: /proc/self/maps. */
#ifndef LODIC_PRELOAD_SHOWN_H
#define LODIC_PRELOAD_SHOWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "host/host.h"

struct shown {
	u64 begin, end; /* addresses */
	u64 offset, dev, ino;
	bool reads_only; /* PROT_READ alone */
	bool shared;
};

/* A device number of fstat(), as it is in struct shown. */
u64 shown_dev(dev_t dev);
/* The mapping at this address. -ENOENT: there is none, or the kernel does not say. -EMFILE: no
 * descriptor is free to ask by, or no memory. Before Linux 6.11 it takes 1.3 us for each mapping at
 * a lower address, in a guest with 2 CPUs. The caller has the lock. */
int shown_find(u64 at, struct shown *ret);

#endif
